// Package fleet looks after the hosts of a zone and what runs on them: agents register
// hosts, ask for work and report; a host that falls silent is down; what is on a host that
// is drained or lost is moved, and what has lived for its lifetime ends.
//
// It must never place what is new, or start an instance elsewhere before the agent that
// had it must have stopped it.
package fleet

import (
	"context"
	"sync"
	"time"

	"berth/api"
	"berth/zone"
	"berth/zone/estimate"
)

// How many jobs of a kind run at once.
const (
	movesAtOnce = 1  // each move is planned on what the one before has left
	endsAtOnce  = 32 // instances whose lifetime is over
)

// Fleet is the hosts of one zone, as one node sees them. Its methods may be called
// concurrently.
type Fleet struct {
	zone      *zone.Zone
	estimator *estimate.Estimator
	beats     heartbeats // when each agent was last heard
}

// New returns a fleet whose moves are planned by an estimator. Nothing runs until Lead is
// called.
func New(z *zone.Zone, e *estimate.Estimator) *Fleet {
	return &Fleet{zone: z, estimator: e, beats: heartbeats{last: map[api.AgentID]time.Time{}}}
}

// Lead runs the loops that only a leader may run: silent hosts, drains and ends of
// lifetimes. It returns when ctx ends and every loop has stopped.
func (f *Fleet) Lead(ctx context.Context) {
	f.beats.resetAll(f.zone.Now())
	var wg sync.WaitGroup
	wg.Go(func() { f.zone.RunDue(ctx, movesAtOnce, f.zone.NowAndThen(f.dueDrains)) })
	wg.Go(func() { f.zone.RunDue(ctx, endsAtOnce, f.zone.NowAndThen(f.dueExpiries)) })
	wg.Go(func() { f.watchHosts(ctx) })
	wg.Wait()
}
