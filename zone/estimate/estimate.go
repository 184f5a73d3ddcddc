// Package estimate finds out where a request would land and at what weight: it plans on
// this zone's own hosts, asks the zones below at the same time, merges what all offer,
// seals the plan and explains it. It also says what the zone has: its digest and its
// capacity.
//
// It must never change anything, here or below, and needs no leader. What it keeps in
// memory are hints: how selects to children went, which selects are under way, and what
// was found for the latest.
package estimate

import (
	"context"

	"berth/api"
	"berth/buildplan/seal"
	"berth/raftstore/state"
	"berth/zone"
)

// Peers asks the zones at the other ends of links what they offer. It carries the
// caller's deadline along and returns *api.Error with the other zone's code.
type Peers interface {
	Select(ctx context.Context, l *api.Link, r *api.Request) (*api.SelectAnswer, error)
}

// Keys opens the sealing keys of a state.
type Keys interface {
	// Ring returns the keys, the active one first.
	Ring(v *state.State) (seal.Keyring, error)
}

// Config is what an estimator is made of.
type Config struct {
	Zone    *zone.Zone
	Peers   Peers
	Digests zone.Digests
	Keys    Keys
}

// Estimator makes the estimates of one zone on one node. Its methods may be called
// concurrently.
type Estimator struct {
	zone    *zone.Zone
	peers   Peers
	digests zone.Digests
	keys    Keys

	health       health       // how selects to children went
	asking       underWay     // selects for other zones under way
	explanations explanations // of the latest selects
}

// New returns an estimator.
func New(c Config) *Estimator {
	return &Estimator{
		zone: c.Zone, peers: c.Peers, digests: c.Digests, keys: c.Keys,
		health: health{of: map[api.LinkID]*childHealth{}}, asking: underWay{of: map[string]flight{}},
	}
}
