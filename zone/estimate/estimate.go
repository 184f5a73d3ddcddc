// Package estimate determines where a request would land and at what weight: it plans
// on this zone's own hosts, asks the zones below concurrently, merges all offers, seals
// the plan and explains it. It also computes the zone's digest and capacity.
//
// It must never change anything, here or below, and needs no leader. It keeps only
// hints in memory: the outcomes of selects to children, the selects under way, and the
// explanations of the latest ones.
package estimate

import (
	"context"
	"time"

	"berth/api"
	"berth/buildplan/seal"
	"berth/internal/measure"
	"berth/internal/turns"
	"berth/raftstore/state"
	"berth/zone"
)

// Peers asks linked zones for their offers. It passes the caller's deadline on and
// returns *api.Error with the other zone's code.
type Peers interface {
	Select(ctx context.Context, l *api.Link, r *api.Request) (*api.SelectAnswer, error)
	Room(ctx context.Context, l *api.Link, q *api.RoomQuestion) (*api.RoomAnswer, error)
}

// Keys opens the sealing keys of a state.
type Keys interface {
	// Ring returns the keys, the active one first.
	Ring(v *state.State) (seal.Keyring, error)
}

// Config holds what an estimator needs.
type Config struct {
	Zone    *zone.Zone
	Peers   Peers
	Digests zone.Digests
	Keys    Keys
	// Phases measures the phases of estimates, by name: see the constants. Nil measures nothing.
	Phases *measure.Family[string]
	// Share is how much of what may be done at once should be done now, from 0 to 1; nil for all.
	Share func() float64
}

// The phases of an estimate that are measured.
const (
	PhaseOwn    = "own"    // planning on hosts of this zone
	PhasePlan   = "plan"   // that, and asking the children
	PhaseSeal   = "seal"   // making the blob
	PhaseSelect = "select" // all of one call
)

// measurePhase measures a phase from now until the returned function is called.
func (e *Estimator) measurePhase(phase string) (end func()) {
	began := e.zone.Now()
	return func() { e.phases.NoteTime(phase, e.zone.Now().Sub(began)) }
}

// Estimator makes the estimates of one zone on one node. Its methods may be called
// concurrently.
type Estimator struct {
	zone    *zone.Zone
	peers   Peers
	digests zone.Digests
	keys    Keys
	phases  *measure.Family[string]

	health       health        // outcomes of selects to children
	usual        usual         // times of selects to children
	holds        usual         // and of holds
	asking       underWay      // selects for other zones under way
	explanations explanations  // of the latest selects
	selects      *turns.Turns  // of selects for parents
	searches     chan struct{} // one value for each search for room under way; holds roomSearchesMax
	unknown      unknown       // what of the configuration was logged
}

// New returns an estimator.
func New(c Config) *Estimator {
	return &Estimator{
		zone: c.Zone, peers: c.Peers, digests: c.Digests, keys: c.Keys, phases: c.Phases,
		health: health{of: map[api.LinkID]*childHealth{}}, usual: usual{of: map[api.LinkID]time.Duration{}},
		holds: usual{of: map[api.LinkID]time.Duration{}}, asking: underWay{of: map[string]flight{}},
		selects: newSelects(&c), searches: make(chan struct{}, roomSearchesMax),
	}
}
