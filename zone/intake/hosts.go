package intake

import (
	"cmp"
	"context"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
	"berth/zone"
)

// ChangeHost changes a host, by its name or id.
func ChangeHost(ctx context.Context, z *zone.Zone, ref string, c rest.HostSpec) error {
	if c.Pool != nil {
		if err := CheckPool(*c.Pool); err != nil {
			return err
		}
	}
	if err := api.CheckPairs("attributes", c.Attributes, api.AttributesMax); err != nil {
		return err
	}
	if c.Maintenance != nil {
		if err := checkReason("maintenance", *c.Maintenance); err != nil {
			return err
		}
	}
	return setHost(ctx, z, ref, command.HostSet{
		Generation: c.Generation, Enabled: c.Enabled, Pool: c.Pool, Overrides: c.Attributes, Maintenance: c.Maintenance,
	})
}

// DrainHost takes a host out of use and says what becomes of its instances. Without a
// reason, one that the host has stays.
func DrainHost(ctx context.Context, z *zone.Zone, ref string, policy api.DrainPolicy, reason string) error {
	if !policy.Valid() {
		return api.Errorf(api.CodeInvalid, "policy must be %s, %s or %s, got %q", api.DrainWait, api.DrainEnd, api.DrainMove, string(policy))
	}
	if err := checkReason("reason", reason); err != nil {
		return err
	}
	if reason == "" {
		h, err := Host(z.View(), ref)
		if err != nil {
			return err
		}
		reason = cmp.Or(h.Maintenance, "drained")
	}
	return setHost(ctx, z, ref, command.HostSet{Maintenance: &reason, Drain: &policy})
}

// UndrainHost puts a host back into use.
func UndrainHost(ctx context.Context, z *zone.Zone, ref string) error {
	none := ""
	return setHost(ctx, z, ref, command.HostSet{Maintenance: &none})
}

// DeleteHost forgets a host.
func DeleteHost(ctx context.Context, z *zone.Zone, ref string) error {
	h, err := Host(z.View(), ref)
	if err != nil {
		return err
	}
	_, err = z.Propose(ctx, command.HostDelete{Stamp: z.Stamp(), ID: h.ID})
	return err
}

func setHost(ctx context.Context, z *zone.Zone, ref string, c command.HostSet) error {
	h, err := Host(z.View(), ref)
	if err != nil {
		return err
	}
	c.Stamp, c.ID = z.Stamp(), h.ID
	_, err = z.Propose(ctx, c)
	return err
}

// CheckPool refuses what is no pool of hosts.
func CheckPool(p api.Pool) error {
	if !p.Valid() {
		return api.Errorf(api.CodeInvalid, "pool must be %q, %q or %q", api.PoolOnDemand, api.PoolReservable, api.PoolShared)
	}
	return nil
}

func checkReason(field, text string) error {
	if len(text) > api.ExtraSpecMaxBytes {
		return api.Errorf(api.CodeInvalid, "%s may have at most %d bytes, got %d", field, api.ExtraSpecMaxBytes, len(text))
	}
	return nil
}
