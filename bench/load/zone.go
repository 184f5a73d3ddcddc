package load

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// What leases and claims ask for.
const (
	leaseDays    = 30 // over which leases begin, from tomorrow on
	leaseLength  = time.Hour
	claimVCPUs   = 1
	claimMB      = 256
	claimGB      = 1
	claimType    = "BENCH"
	releaseWait  = time.Minute // for what a boot made to be gone
	providersMax = 10_000      // among which claims are spread
)

// claimed returns the amounts of one claim.
func claimed() api.Resources {
	return api.Resources{api.VCPU: claimVCPUs, api.MemoryMB: claimMB, api.DiskGB: claimGB}
}

// Zone has the operations of one zone.
type Zone struct {
	c         *client.Client
	plan      *Plan
	name      string // of everything that is made, so that it can be found
	now       func() time.Time
	providers []client.Provider
	decisions *decisions
	nth       atomic.Int64
}

// NewZone returns the operations of p at the zone of c, in the project of its token. An error
// has code not_found if the zone has no provider with room for a claim, or, to follow
// decisions, no such flavor. The caller calls Close.
func NewZone(ctx context.Context, c *client.Client, p *Plan, now func() time.Time) (*Zone, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	z := &Zone{c: c, plan: p, name: "bench-" + api.NewUUID()[:8], now: now}
	if p.Work == Claims || p.Work == Mixed {
		found, err := c.Providers(ctx, client.ProviderQuery{Resources: claimed()})
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, api.Errorf(api.CodeNotFound, "no resource provider of the zone has room for %s", claimed())
		}
		z.providers = found[:min(len(found), providersMax)]
	}
	if p.boots() && p.Until == UntilDecided {
		var err error
		if z.decisions, err = followDecisions(ctx, c, p.Flavor); err != nil {
			return nil, err
		}
	}
	return z, nil
}

// boots reports whether some operations boot.
func (p *Plan) boots() bool { return p.Work == Boots || p.Work == Federated || p.Work == Mixed }

// Name returns what the names of all that is made begin with.
func (z *Zone) Name() string { return z.name }

// Close ends what NewZone started.
func (z *Zone) Close() {
	if z.decisions != nil {
		z.decisions.close()
	}
}

// Do is an Operation.
func (z *Zone) Do(ctx context.Context, n int64) Outcome {
	switch w := z.plan.workOf(n); w {
	case Leases:
		return z.lease(ctx, n)
	case Claims:
		return z.claim(ctx, n)
	case Boots, Federated, Mixed: // workOf never returns Mixed
		return z.boot(ctx, w)
	}
	panic(fmt.Sprintf("load: no operation for %q", z.plan.Work))
}

// boot boots with a reservation id of its own, so that it can be undone even when the answer
// is lost.
func (z *Zone) boot(ctx context.Context, w Work) Outcome {
	id := api.NewReservationID()
	o := Outcome{Work: w, Size: z.plan.Count, Undo: func(ctx context.Context) error { return z.release(ctx, id) }}
	s := rest.ServerCreate{Name: z.name, FlavorRef: string(z.plan.Flavor), MaxCount: &z.plan.Count, Reservation: string(id)}
	if w == Federated {
		s.Zones = &rest.ZoneRule{MinZones: z.plan.MinZones}
	}
	switch z.plan.Until {
	case UntilRecorded:
		_, o.Err = z.c.Boot(ctx, s, string(id))
	case UntilDecided:
		o.Err = z.bootDecided(ctx, s, id)
	case UntilActive:
		var b rest.Boot
		if b, o.Err = z.c.BootAndWait(ctx, s, string(id), z.plan.Timeout); o.Err == nil {
			o.Err = bootError(&b)
		}
	}
	return o
}

func (z *Zone) bootDecided(ctx context.Context, s rest.ServerCreate, id api.ReservationID) error {
	decided, forget := z.decisions.expect(id)
	defer forget()
	if _, err := z.c.Boot(ctx, s, string(id)); err != nil {
		return err
	}
	select {
	case err := <-decided:
		return err
	case <-ctx.Done():
		return api.Wrap(api.CodeTimeout, "load.boot", "the boot was not decided in time", ctx.Err())
	}
}

// bootError returns the error of a boot that is not ACTIVE, nil for one that is.
func bootError(b *rest.Boot) error {
	switch {
	case b.State == api.BootActive:
		return nil
	case b.State.Outcome():
		return api.Errorf(cmp.Or(b.Code, api.CodeInternal), "the boot is %s: %s", b.State, b.Reason)
	}
	return api.Errorf(api.CodeTimeout, "the boot is still %s", b.State)
}

// release deletes a boot, if there is one, and waits until nothing is left of it.
func (z *Zone) release(ctx context.Context, id api.ReservationID) error {
	b, err := z.c.Release(ctx, id, releaseWait)
	switch {
	case api.CodeOf(err) == api.CodeNotFound:
		return nil
	case err != nil:
		return err
	case b.State != api.BootReleased && b.State != api.BootFailed:
		return api.Errorf(api.CodeTimeout, "reservation %s is still %s", id, b.State)
	}
	return nil
}

// lease creates a lease of one slot.
func (z *Zone) lease(ctx context.Context, n int64) Outcome {
	day := z.now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1+int(n%leaseDays))
	amount, vcpus, memory, disk := 1, int64(claimVCPUs), int64(claimMB), int64(claimGB)
	l, err := z.c.CreateLease(ctx, rest.LeaseCreate{
		Name:  fmt.Sprintf("%s-%d", z.name, z.nth.Add(1)),
		Start: rest.LeaseDateOf(api.InstantOf(day)), End: rest.LeaseDateOf(api.InstantOf(day.Add(leaseLength))),
		Reservations: []rest.ReservationSpec{{Type: api.ReserveInstances, Amount: &amount, VCPUs: &vcpus, Memory: &memory, Disk: &disk}},
	}, "")
	o := Outcome{Work: Leases, Err: err}
	if err == nil {
		o.Undo = func(ctx context.Context) error { return ignoreMissing(z.c.DeleteLease(ctx, l.ID)) }
	}
	return o
}

// claim allocates from one provider for a new consumer.
func (z *Zone) claim(ctx context.Context, n int64) Outcome {
	consumer := api.ConsumerID(api.NewUUID())
	of := z.providers[n%int64(len(z.providers))].ID
	err := z.c.PutAllocations(ctx, consumer, client.Allocations{
		Allocations: map[api.ProviderID]client.Allocated{of: {Resources: claimed()}},
		Project:     api.ProjectID(z.name), User: api.UserID(z.name), Type: claimType,
	})
	return Outcome{Work: Claims, Err: err, Undo: func(ctx context.Context) error {
		return ignoreMissing(z.c.DeleteAllocations(ctx, consumer))
	}}
}

// ignoreMissing returns err, but nil if what was to go is not there.
func ignoreMissing(err error) error {
	if err != nil && api.CodeOf(err) == api.CodeNotFound {
		return nil
	}
	return err
}
