// Package fleet manages the hosts of a zone and their instances: agents register hosts,
// poll for work and report; silent hosts are marked down; instances on drained or lost
// hosts are moved, and instances end with their lifetime.
//
// It must never place a new instance, or start an instance elsewhere before its old
// agent must have stopped it.
package fleet

import (
	"context"
	"sync"
	"time"

	"berth/zone"
	"berth/zone/estimate"
)

// Maximum number of concurrent jobs of a kind.
const (
	movesAtOnce = 1  // each move is planned after the one before has taken its room
	endsAtOnce  = 32 // instances whose lifetime is over, and lost hosts
)

// sweepEvery is the time between two looks at what is to be moved, healed or ended.
const sweepEvery = time.Second

// Fleet manages the hosts of one zone on one node. Its methods may be called
// concurrently.
type Fleet struct {
	zone      *zone.Zone
	estimator *estimate.Estimator
	beats     heartbeats    // when each agent was last heard from
	whatIfs   chan struct{} // one value for each question what a drain would do; holds whatIfsMax
}

// New returns a fleet that plans moves with an estimator. Nothing runs until Lead is
// called.
func New(z *zone.Zone, e *estimate.Estimator) *Fleet {
	return &Fleet{zone: z, estimator: e, beats: newHeartbeats(), whatIfs: make(chan struct{}, whatIfsMax)}
}

// BeginTerm forgets what an earlier term has heard of agents. Until then this node must not answer as the leader: all agents would
// seem to be silent since long ago.
func (f *Fleet) BeginTerm() { f.beats.resetAll(f.zone.Now(), f.zone.Instant()) }

// Lead runs the loops that only a leader may run: silent hosts, drains, slots to heal,
// and ends of lifetimes. It returns when ctx ends and every loop has stopped. BeginTerm
// comes before it.
func (f *Fleet) Lead(ctx context.Context) {
	var wg sync.WaitGroup
	for _, l := range []zone.Loop{
		{AtOnce: movesAtOnce, All: f.dueDrains},
		{AtOnce: movesAtOnce, All: f.dueHeals},
		{AtOnce: endsAtOnce, All: f.dueSilences},
		{AtOnce: endsAtOnce, All: f.dueExpiries},
	} {
		l.Every = sweepEvery
		wg.Go(func() { f.zone.RunLoop(ctx, l) })
	}
	wg.Go(func() { f.watchHosts(ctx) })
	wg.Wait()
}
