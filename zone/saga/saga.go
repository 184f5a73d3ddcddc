// Package saga takes slots in many zones for one owner, such as a boot, and brings that to
// one end: it selects, holds, decides, tells those below and finishes. It is also the
// other side: it holds for a parent and carries out what the parent has decided, and it
// follows what becomes of instances in the zones below.
//
// It must never keep a fact outside the log, decide anything for another zone, or tell a
// zone what is not logged here. The rules of what an entry does are in raftstore/state.
package saga

import (
	"context"
	"time"

	"berth/api"
	"berth/internal/turns"
	"berth/zone"
	"berth/zone/estimate"
)

// BootTimeout is how long a boot may take with all its attempts, on one leader.
const BootTimeout = 60 * time.Second

// Peers calls the zones at the other ends of links. Every method carries the
// caller's deadline along and returns *api.Error with the other zone's code.
type Peers interface {
	Hold(ctx context.Context, l *api.Link, r *api.HoldRequest) (*api.HoldAnswer, error)
	// SharesHolds reports whether holds may share a call to a zone.
	SharesHolds(l *api.Link) bool
	// HoldAll asks for at most api.HoldsMax holds, and returns the answer to each; nil for one that takes
	// a call of its own.
	HoldAll(ctx context.Context, l *api.Link, rs []api.HoldRequest) ([]*api.HoldAnswer, error)
	Decide(ctx context.Context, l *api.Link, id api.HoldID, d api.Decision) (*api.HoldAnswer, error)
	// DecideAll sends the decisions on at most api.DecisionsMax holds, and returns for each
	// why it was refused, or nil.
	DecideAll(ctx context.Context, l *api.Link, ds []api.HoldDecision) ([]error, error)
	Decision(ctx context.Context, l *api.Link, id api.HoldID) (api.Decision, error)
	Changes(ctx context.Context, l *api.Link, after uint64, wait time.Duration) (*api.Changes, error)
	// ConfirmedChanges returns at once, and none that the child's log had confirmed before is missing.
	ConfirmedChanges(ctx context.Context, l *api.Link, after uint64) (*api.Changes, error)
	EndInstance(ctx context.Context, l *api.Link, id api.InstanceID) error
	Attach(ctx context.Context, l *api.Link, q *api.VolumeCall) error
	Detach(ctx context.Context, l *api.Link, q *api.VolumeCall) error
	Power(ctx context.Context, l *api.Link, q *api.PowerCall) (*api.PowerAnswer, error)
}

// Config is what a saga is made of.
type Config struct {
	Zone      *zone.Zone
	Estimator *estimate.Estimator
	Peers     Peers
	Digests   zone.Digests
	// Share is how much of what may be done at once should be done now, from 0 to 1; nil for all.
	Share func() float64
}

// Saga conducts the holds of one zone on one node. Its methods may be called
// concurrently.
type Saga struct {
	zone      *zone.Zone
	estimator *estimate.Estimator
	peers     Peers
	digests   zone.Digests

	plans     plans        // sealed plans of boots in flight on this leader
	admission admission    // new boots on their way into the log
	tells     joint[*tell] // decisions that are due at the same time
	asks      joint[*ask]  // holds that are asked of a child at the same time

	working *turns.Turns // of boots that are worked on
	givenUp givenUp
}

// New returns a saga. Nothing runs until Lead is called.
func New(c Config) *Saga {
	return &Saga{
		zone: c.Zone, estimator: c.Estimator, peers: c.Peers, digests: c.Digests,
		plans: plans{of: map[string]*estimate.Plan{}},
		working: turns.New(turns.Config{
			AtOnce: bootsAtOnce, Least: bootsLeast, Most: bootsMost, Quick: bootQuick, Lasts: bootLasts, Keep: true, Share: c.Share, Now: c.Zone.Now,
		}),
	}
}
