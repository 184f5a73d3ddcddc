package zonetest

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"berth/buildplan/seal"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/estimate"
	"berth/zone/fleet"
	"berth/zone/intake"
	"berth/zone/leases"
	"berth/zone/saga"
)

// Conduct is all that a zone does, on one node.
type Conduct struct {
	*zone.Zone
	*estimate.Estimator
	*saga.Saga
	*fleet.Fleet
	*leases.Leases
}

func newConduct(m *Member, s zone.Store) *Conduct {
	m.mu.Lock()
	skew := m.skew
	m.mu.Unlock()
	most := int64(0)
	if m.World.Full[m.Name] { // it is there before the zone is
		most = 1
	}
	now := func() time.Time { return time.Now().Add(skew) }
	z := zone.New(zone.Config{Store: s, Now: now, Log: slog.New(m.World.complaints), StateMaxBytes: most})
	e := estimate.New(estimate.Config{Zone: z, Peers: peers{m}, Digests: gossip{m.World}, Keys: Keys{m.Name}, Share: m.World.Share})
	return &Conduct{
		Zone: z, Estimator: e, Fleet: fleet.New(z, e), Leases: leases.New(z, e, fleet.New(z, e)),
		Saga: saga.New(saga.Config{Zone: z, Estimator: e, Peers: peers{m}, Digests: gossip{m.World}, Share: m.World.Share}),
	}
}

// Boot records a boot, as a door does.
func (c *Conduct) Boot(ctx context.Context, o *intake.BootOrder) (*state.Boot, error) {
	o.Digest, o.Fixed = append([]byte(o.Name), o.Blob...), o.Blob != nil
	return c.Saga.Boot(ctx, o.Command(c.Stamp()), o.Blob)
}

// Keys seals with a fixed key for each zone.
type Keys struct{ Zone string }

// Ring implements estimate.Keys.
func (k Keys) Ring(*state.State) (seal.Keyring, error) {
	var key seal.Key
	copy(key.Epoch[:], k.Zone)
	copy(key.Secret[:], fmt.Sprintf("%032s", k.Zone))
	return seal.Keyring{key}, nil
}
