package leases

import (
	"context"
	"time"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Times of giving room back that a silent zone was not told of.
const (
	trimEvery = 15 * time.Second // between two looks for leases with too much room
	trimAfter = time.Minute      // since the last change of such a lease, or the last try
)

// needsSilent reports whether a child that is silent has room of a lease.
func needsSilent(v *state.State, l *state.Lease) bool {
	for _, i := range v.LeaseSlots(l) {
		if i.Host == "" && isSilent(v, i.Link) {
			return true
		}
	}
	return false
}

func isSilent(v *state.State, link api.LinkID) bool {
	l, ok := v.Child(string(link))
	return ok && l.SilentSince != 0
}

// hasSilentRest reports whether all that is left of a lease that ends is in children that are silent.
func hasSilentRest(v *state.State, l *state.Lease) bool {
	silent := false
	for _, child := range v.Children() {
		silent = silent || child.SilentSince != 0
	}
	if !silent {
		return false
	}
	for _, order := range l.Orders() {
		for _, i := range v.OfReservation(l.Terms.Project, order) {
			if i.Live() && (i.Host != "" || !isSilent(v, i.Link)) {
				return false
			}
		}
	}
	return true
}

// trimLeases asks for the room of leases anew that have more than their terms say, because a zone was
// silent when they shrank, once it is heard. It does not wait for what becomes of that: what fails is
// tried again later.
func (l *Leases) trimLeases(ctx context.Context, v *state.State) {
	for _, lease := range v.Leases("") {
		if !isDueToTrim(v, lease, l.zone.Instant()) {
			continue
		}
		order, err := orderOf(&lease.Terms, lease.Order)
		if err != nil {
			continue // limits have become lower: the room goes at the end
		}
		c := command.LeaseSet{Stamp: l.zone.Stamp(), ModIndex: lease.ModIndex, Terms: lease.Terms, Events: lease.Events, Order: order}
		if _, err := l.zone.Propose(ctx, c); err != nil {
			return // found again by the next look
		}
	}
}

// isDueToTrim reports whether a lease has more room than its terms say, and its zones are heard.
func isDueToTrim(v *state.State, l *state.Lease, now api.Instant) bool {
	if l.Order == "" || l.Status != api.LeasePending && l.Status != api.LeaseActive || l.Updated.Add(trimAfter) > now {
		return false
	}
	b, ok := v.Boot(l.Terms.Project, l.Order)
	return ok && isWide(b, &l.Terms) && !needsSilent(v, l)
}

// isWide reports whether an order is for more than the terms of its lease say.
func isWide(b *state.Boot, t *api.LeaseTerms) bool {
	if b.Request.Window.End > t.Window.End {
		return true
	}
	for n := range t.Reservations {
		if n < len(b.Request.Groups) && b.Request.Groups[n].Count > t.Reservations[n].Max {
			return true
		}
	}
	return false
}
