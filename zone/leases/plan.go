package leases

import (
	"cmp"
	"context"

	"berth/api"
	"berth/raftstore/state"
	"berth/zone/estimate"
)

// Planned is what would become of a new lease, or of an update of one, if it were asked for
// now. Nothing is held for it.
type Planned struct {
	Fits         bool
	Reason       string         // why it does not fit, as Create or Update would say; "" if it does
	Terms        api.LeaseTerms // of the lease; the ids of a new one are not used again
	Held         bool           // it needs no other room than the lease has: nothing was planned
	Reservations []PlannedReservation
	Zones        []api.ZoneOutcome // this zone first, then its children
	Contended    bool              // undecided requests of others hold room that it could use
	Unasked      bool              // the external service of the zone may refuse it: it is not asked about what is not done
}

// PlannedReservation is what one reservation would get.
type PlannedReservation struct {
	Offered  int                  // hosts or slots, up to Reservation.Max
	Places   []estimate.ZoneCount // those of them by zone
	Hosts    []api.HostID         // of this zone's own slots, one for each
	Refusals api.Refusals         // of this zone's own hosts; it names some of them if the reservation is short
}

// Plan is a dry run of Create: it makes the same checks, fails as Create does for terms that no
// lease may have, plans the room as Create does, and changes nothing, here or below.
func (l *Leases) Plan(ctx context.Context, who api.Caller, terms api.LeaseTerms) (*Planned, error) {
	c, err := l.composeCreate(who, terms)
	if err != nil {
		return nil, err
	}
	v, err := l.zone.Latest(ctx)
	if err != nil {
		return nil, err
	}
	if err = cmp.Or(v.CheckLease(c), v.CheckLeaseQuota(nil, &c.Terms)); err != nil {
		return nil, err
	}
	if c.Order == nil {
		return &Planned{Fits: true, Held: true, Terms: c.Terms, Unasked: l.asks(&c.Terms)}, nil
	}
	return l.planOn(ctx, v, c.Terms, &c.Order.Request)
}

// PlanUpdate is a dry run of Update, as Plan is of Create.
func (l *Leases) PlanUpdate(ctx context.Context, who api.Caller, id api.LeaseID, change api.LeaseChange) (*Planned, error) {
	old, err := l.find(ctx, who, id)
	if err != nil {
		return nil, err
	}
	c, err := l.composeUpdate(old, &change, !needsSilent(l.zone.View(), old))
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return &Planned{Fits: true, Held: true, Terms: old.Terms}, nil
	case old.Status != api.LeaseTerminated:
		err = l.zone.View().CheckLeaseQuota(&old.Terms, &c.Terms)
	}
	switch {
	case err != nil:
		return nil, err
	case c.Order == nil:
		return &Planned{Fits: true, Held: true, Terms: c.Terms, Unasked: l.asks(&c.Terms)}, nil
	}
	return l.planOn(ctx, l.zone.View(), c.Terms, &c.Order.Request)
}

// planOn plans the room of an order on v. What the real call moves off the hosts of a maintenance
// lease first has left them; if it cannot, there is no room.
func (l *Leases) planOn(ctx context.Context, v *state.State, terms api.LeaseTerms, req *api.Request) (*Planned, error) {
	if len(terms.Hosts) > 0 {
		var err error
		v, err = l.hosts.PlanVacate(v, &terms)
		switch code := api.CodeOf(err); {
		case code == api.CodeConflict || code == api.CodeNoCapacity:
			return &Planned{Terms: terms, Reason: api.MessageOf(err)}, nil
		case err != nil:
			return nil, err
		}
	}
	return l.planOrder(ctx, v, terms, req)
}

// planOrder plans the room of an order on v.
func (l *Leases) planOrder(ctx context.Context, v *state.State, terms api.LeaseTerms, req *api.Request) (*Planned, error) {
	ctx, cancel := context.WithTimeout(ctx, api.SelectTimeout)
	defer cancel()
	d, err := l.estimator.DryRun(ctx, v, req)
	if err != nil {
		return nil, err
	}
	out := &Planned{Fits: d.Fits, Terms: terms, Zones: d.Zones, Contended: d.Contended, Unasked: l.asks(&terms)}
	tried := &api.BootAttempt{Zones: d.Zones}
	for g, one := range d.Groups {
		out.Reservations = append(out.Reservations, PlannedReservation(one))
		tried.Offered = append(tried.Offered, api.Offer{Wanted: req.Groups[g].Count, Offered: one.Offered})
		tried.Refusals = append(tried.Refusals, one.Refusals)
	}
	if !out.Fits {
		out.Reason = "Not enough hosts available: " + cmp.Or(describeAttempt(v, req, tried), "the rule "+d.Unmet+" for zones is not met")
	}
	return out, nil
}
