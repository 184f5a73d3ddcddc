package leases

import (
	"context"
	"maps"
	"sync"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Limits of checks of a series, whose leases are checked one by one.
const (
	seriesCheckMax    = time.Minute // all of them
	seriesCheckAtOnce = 8
)

// Checker is the external service of a zone that may refuse leases.
type Checker interface {
	// Asks reports whether the zone has such a service now.
	Asks() bool
	// CheckCreate refuses a lease that a caller may not have. places has, for each of its
	// reservations, where that would be; nil if that was not planned.
	CheckCreate(ctx context.Context, who api.Caller, lease *api.LeaseTerms, places [][]rest.CheckedPlace) error
	// CheckUpdate refuses a change of a lease that a caller may not make.
	CheckUpdate(ctx context.Context, who api.Caller, now, next *api.LeaseTerms, places [][]rest.CheckedPlace) error
}

// WithCheck has leases checked before they are made or changed, and returns l. It must be
// called before l is used.
func (l *Leases) WithCheck(c Checker) *Leases {
	l.check = c
	return l
}

// asks reports whether a lease is to be checked. Maintenance is the operator's own.
func (l *Leases) asks(t *api.LeaseTerms) bool {
	return l.check != nil && l.check.Asks() && len(t.Hosts) == 0
}

// checkCreate asks whether a caller may have a new lease, unless the zone refuses it anyway.
func (l *Leases) checkCreate(ctx context.Context, who api.Caller, c *command.LeaseCreate) error {
	if !l.asks(&c.Terms) {
		return nil
	}
	v := l.zone.View()
	if err := l.mayMake(v, c); err != nil {
		return err
	}
	places, err := l.placesFor(ctx, v, &c.Terms, c.Order)
	if err != nil {
		return err
	}
	return l.check.CheckCreate(ctx, who, &c.Terms, places)
}

// checkUpdate asks whether a caller may change a lease, unless the zone refuses it anyway.
// Only the name of one that has ended changes, which is nobody else's business.
func (l *Leases) checkUpdate(ctx context.Context, who api.Caller, old *state.Lease, c *command.LeaseSet) error {
	if !l.asks(&old.Terms) || old.Status == api.LeaseTerminated {
		return nil
	}
	v := l.zone.View()
	if err := v.CheckLeaseQuota(&old.Terms, &c.Terms); err != nil {
		return err
	}
	places, err := l.placesFor(ctx, v, &c.Terms, c.Order)
	if err != nil {
		return err
	}
	return l.check.CheckUpdate(ctx, who, &old.Terms, &c.Terms, places)
}

// checkSeries asks for each lease of a series, in the order of time. Their room is not planned.
func (l *Leases) checkSeries(ctx context.Context, who api.Caller, c *command.SeriesCreate) error {
	ctx, cancel := context.WithTimeout(ctx, seriesCheckMax)
	defer cancel()
	for from := 0; from < len(c.Leases); from += seriesCheckAtOnce {
		some := c.Leases[from:min(from+seriesCheckAtOnce, len(c.Leases))]
		refused := make([]error, len(some))
		var wg sync.WaitGroup
		for i := range some {
			if l.asks(&some[i].Terms) {
				wg.Go(func() { refused[i] = l.check.CheckCreate(ctx, who, &some[i].Terms, nil) })
			}
		}
		wg.Wait()
		for i, err := range refused {
			if err != nil {
				return api.Errorf(api.CodeOf(err), "the lease of %s: %s", describeWindow(some[i].Terms.Window), api.MessageOf(err))
			}
		}
	}
	return nil
}

// placesFor plans where each reservation of an order would be: on which hosts of this zone,
// and how many in which zones below. Without an order nothing moves, and nothing is planned.
func (l *Leases) placesFor(ctx context.Context, v *state.State, t *api.LeaseTerms, order *command.BootTerms) ([][]rest.CheckedPlace, error) {
	if order == nil {
		return nil, nil
	}
	p, err := l.planOn(ctx, v, *t, &order.Request)
	if err != nil {
		return nil, err
	}
	out := make([][]rest.CheckedPlace, 0, len(p.Reservations))
	for i := range p.Reservations {
		out = append(out, checkedPlaces(v, &p.Reservations[i]))
	}
	return out, nil
}

// checkedPlaces returns where a reservation would be: each host of this zone, and then the
// zones below.
func checkedPlaces(v *state.State, r *PlannedReservation) []rest.CheckedPlace {
	var out []rest.CheckedPlace
	at := map[api.HostID]int{}
	for _, id := range r.Hosts {
		n, seen := at[id]
		if !seen {
			one := rest.CheckedPlace{ID: id, Zone: v.Name}
			if h, ok := v.Host(id); ok {
				one.Host, one.Extra = h.Name, maps.Clone(h.Attributes)
				if one.Extra == nil {
					one.Extra = map[string]string{}
				}
				maps.Copy(one.Extra, h.Overrides)
			}
			n, at[id] = len(out), len(out)
			out = append(out, one)
		}
		out[n].Amount++
	}
	below := r.Places
	if len(r.Hosts) > 0 {
		below = below[1:] // the first is this zone
	}
	for _, z := range below {
		out = append(out, rest.CheckedPlace{Zone: z.Zone, Amount: z.Slots})
	}
	return out
}
