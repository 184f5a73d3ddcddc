package intake

import (
	"context"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// manageAttempts bounds how often a change of a host is proposed that something else has
// changed since it was read.
const manageAttempts = 5

// ManageHost gives a host without instances to leases, and sets attributes of it: both or
// nothing. A host that leases may use already is refused with CodeExists.
func ManageHost(ctx context.Context, z *zone.Zone, id api.HostID, attributes map[string]string) error {
	pool := api.PoolReservable
	return setManaged(ctx, z, id, command.HostSet{Pool: &pool, Overrides: attributes}, func(v *state.State, h *state.Host) error {
		if h.Pool != api.PoolOnDemand {
			return api.Errorf(api.CodeExists, "leases may use the host %q already: its pool is %s", h.Name, h.Pool)
		}
		return checkVacant(v, h)
	})
}

// UnmanageHost takes a host without instances from leases.
func UnmanageHost(ctx context.Context, z *zone.Zone, id api.HostID) error {
	pool := api.PoolOnDemand
	return setManaged(ctx, z, id, command.HostSet{Pool: &pool}, checkVacant)
}

// SetCapabilities sets attributes of a host that leases may use; an empty value removes
// one.
func SetCapabilities(ctx context.Context, z *zone.Zone, id api.HostID, attributes map[string]string) error {
	return setManaged(ctx, z, id, command.HostSet{Overrides: attributes}, func(_ *state.State, h *state.Host) error {
		if h.Pool == api.PoolOnDemand {
			return api.Errorf(api.CodeNotFound, "leases may not use the host %q", h.Name)
		}
		return nil
	})
}

// checkVacant refuses a host that has instances or slots of leases.
func checkVacant(v *state.State, h *state.Host) error {
	switch {
	case len(v.SlotsOn(h.ID)) > 0:
		return api.Errorf(api.CodeInUse, "the host %q has reservations, now or later", h.Name)
	case len(v.OnHost(h.ID)) > 0:
		return api.Errorf(api.CodeInUse, "servers are on the host %q; move or delete them first", h.Name)
	}
	return nil
}

// setManaged proposes a change of a host for the generation that check has seen.
func setManaged(ctx context.Context, z *zone.Zone, id api.HostID, c command.HostSet, check func(*state.State, *state.Host) error) error {
	if err := api.CheckPairs("attributes", c.Overrides, api.AttributesMax); err != nil {
		return err
	}
	for range manageAttempts {
		v := z.View()
		h, ok := v.Host(id)
		if !ok {
			return api.Errorf(api.CodeNotFound, "no host %q", string(id))
		}
		if err := check(v, h); err != nil {
			return err
		}
		c.Stamp, c.ID, c.Generation = z.Stamp(), h.ID, h.Generation
		if _, err := z.Propose(ctx, c); api.CodeOf(err) != api.CodeStale {
			return err
		}
	}
	return api.Errorf(api.CodeStale, "the host changed while it was being changed; try again")
}

// SetProperty sets whether lists of the properties of hosts show one to others than
// operators who ask for all.
func SetProperty(ctx context.Context, z *zone.Zone, name string, private bool) error {
	_, err := z.Propose(ctx, command.PropertySet{Stamp: z.Stamp(), ID: api.NewUUID(), Name: name, Private: private})
	return err
}
