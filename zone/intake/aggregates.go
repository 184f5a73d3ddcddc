package intake

import (
	"context"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// CreateAggregate makes an aggregate and returns its id. Like the others it fails with CodeInUse for an availability
// zone that what stands on a host names, and from which it would take the host.
func CreateAggregate(ctx context.Context, z *zone.Zone, c rest.AggregateSpec) (api.AggregateID, error) {
	a, err := applyAggregate(z, api.Aggregate{ID: api.AggregateID(api.NewUUID())}, &c)
	if err != nil {
		return "", err
	}
	_, err = z.Change(ctx, command.AggregatePut{Stamp: z.Stamp(), Aggregate: a}, func(v *state.State) error { return checkAZs(v, azAfter(v, a.ID, &a)) })
	return a.ID, err
}

// ChangeAggregate changes an aggregate.
func ChangeAggregate(ctx context.Context, z *zone.Zone, old *api.Aggregate, spec rest.AggregateSpec) error {
	a, err := applyAggregate(z, *old, &spec)
	if err != nil {
		return err
	}
	c := command.AggregatePut{Stamp: z.Stamp(), Aggregate: a, Replace: true}
	_, err = z.Change(ctx, c, func(v *state.State) error { return checkAZs(v, azAfter(v, a.ID, &a)) })
	return err
}

// DeleteAggregate deletes an aggregate, by its name or id.
func DeleteAggregate(ctx context.Context, z *zone.Zone, ref string) error {
	a, err := Aggregate(z.View(), ref)
	if err != nil {
		return err
	}
	c := command.AggregateDelete{Stamp: z.Stamp(), ID: a.ID}
	_, err = z.Change(ctx, c, func(v *state.State) error { return checkAZs(v, azAfter(v, a.ID, nil)) })
	return err
}

// applyAggregate returns a as c changes it.
func applyAggregate(z *zone.Zone, a api.Aggregate, c *rest.AggregateSpec) (api.Aggregate, error) {
	if c.Name != nil {
		a.Name = *c.Name
	}
	if err := api.CheckName("aggregate name", a.Name); err != nil {
		return a, err
	}
	if c.Metadata != nil {
		a.Metadata = c.Metadata
	}
	if err := api.CheckPairs("metadata", a.Metadata, api.MetadataMax); err != nil {
		return a, err
	}
	if az, ok := a.Metadata[api.MetaAZ]; ok && !api.ValidName(az) {
		return a, api.CheckName("metadata."+api.MetaAZ, az)
	}
	if c.Hosts == nil {
		return a, nil
	}
	v := z.View()
	a.Hosts = nil
	for _, ref := range *c.Hosts {
		h, err := Host(v, ref)
		if err != nil {
			return a, api.Errorf(api.CodeInvalid, "hosts: there is no host %q in this zone", ref)
		}
		a.Hosts = append(a.Hosts, h.ID)
	}
	return a, nil
}
