package lease

import (
	"slices"

	"berth/api"
)

// Current is a lease before an update.
type Current struct {
	Terms  api.LeaseTerms
	Status api.LeaseStatus
	Events []api.LeaseEvent
}

// Started reports whether the window of the lease has begun at now: its start, the order of
// its type and what it has are settled.
func (c *Current) Started(now api.Instant) bool {
	start, _ := EventOf(c.Events, api.EventStartLease)
	return c.Terms.Window.Start <= now || start.Status != api.EventUndone
}

// Ended reports whether the window of the lease is over at now.
func (c *Current) Ended(now api.Instant) bool {
	return c.Status == api.LeaseTerminated || c.Terms.Window.End <= now
}

// Need is what an update takes.
type Need uint8

// The needs.
const (
	NeedNothing Need = iota // nothing changes
	NeedRecord              // the record of the lease alone
	NeedRoom                // a new order must be held and decided; then the record
	NeedEnd                 // the record alone, and the end is due at once; the room goes as at any end
)

// Next is a lease after an update, if the update takes place.
type Next struct {
	Terms  api.LeaseTerms
	Events []api.LeaseEvent
	Need   Need
	// Shrinks is whether an update of NeedRoom only gives room back: it ends sooner, or has fewer of something.
	Shrinks bool
	// Fixed are the reservations of NeedRoom that must keep every slot that they have, where
	// it is: those of a lease that has started.
	Fixed []api.ReservationID
}

// Change returns what a lease becomes by an update at now, or why it may not. ids are for the
// events before the start and the end, if the update adds them. Nothing of cur and change is
// written.
//
//   - The name can change in every stable status, alone even after the end.
//   - In ERROR a lease can be renamed and ended, no more.
//   - Before the start everything but types can change. After it, the start, sizes, affinity
//     and conditions of instances cannot, and no number can fall.
//   - An end in this minute ends the lease now.
//   - before_end_lease keeps its distance to the end unless it is given.
//   - before_start_lease is due the grace of the zone, or what the lease asks for if that is
//     more, before the start: as they are when room is asked for.
//   - Whatever needs room is asked for from min to max again: a host reservation that got
//     fewer than max hosts fills up if it can, also if only dates change.
func Change(cur *Current, change *api.LeaseChange, limits Limits, now api.Instant, ids EventIDs) (*Next, error) {
	if !cur.Status.Stable() {
		return nil, api.Errorf(api.CodeConflict, "Invalid lease status: it is %s; try again when that is over", cur.Status)
	}
	next := &Next{Terms: cur.Terms, Events: cur.Events}
	next.Terms.Reservations = slices.Clone(cur.Terms.Reservations)
	d := draft{cur: cur, next: &next.Terms, now: now, limits: limits, started: cur.Started(now)}
	for _, step := range []func(*api.LeaseChange) error{d.rename, d.refuseLate, d.moveWindow, d.moveBeforeEnd, d.share, d.setGrace, d.changeReservations} {
		if err := step(change); err != nil {
			return nil, err
		}
	}
	if d.end && d.room {
		return nil, api.Errorf(api.CodeInvalid, "a lease that ends now takes no other room")
	}
	next.Need = d.need()
	if next.Need == NeedNothing {
		return next, nil
	}
	next.Events = Retime(cur.Events, &cur.Terms, &next.Terms, now, ids.BeforeEnd)
	if next.Need == NeedRoom && !d.started {
		next.Events = setGrace(next.Events, next.Terms.Window.Start, max(limits.Grace, next.Terms.Grace), now, ids.BeforeStart)
	}
	next.Shrinks = next.Need == NeedRoom && shrinks(&cur.Terms, &next.Terms)
	if next.Need == NeedRoom && d.started {
		for i := range next.Terms.Reservations {
			next.Fixed = append(next.Fixed, next.Terms.Reservations[i].ID)
		}
	}
	return next, nil
}

// shrinks reports whether everything that a lease becomes is part of what it has.
func shrinks(was, next *api.LeaseTerms) bool {
	if next.Window.Start != was.Window.Start || next.Window.End > was.Window.End || next.Grace != was.Grace || !slices.Equal(next.Shared, was.Shared) {
		return false
	}
	return slices.EqualFunc(was.Reservations, next.Reservations, func(a, b api.Reservation) bool {
		return b.Min <= a.Min && b.Max <= a.Max && b.Resources.Equal(a.Resources) && sameBool(b.Affinity, a.Affinity) && b.ShareIdle == a.ShareIdle &&
			b.HypervisorProperties == a.HypervisorProperties && b.ResourceProperties == a.ResourceProperties && b.Query == a.Query
	})
}

// draft is an update while its steps are checked one by one.
type draft struct {
	cur     *Current
	next    *api.LeaseTerms
	now     api.Instant
	limits  Limits
	started bool

	record, room, end bool // what has changed so far: see Need
}

func (d *draft) need() Need {
	switch {
	case d.end:
		return NeedEnd
	case d.room && len(d.next.Reservations) > 0:
		return NeedRoom
	case d.room || d.record:
		return NeedRecord
	}
	return NeedNothing
}

func (d *draft) rename(c *api.LeaseChange) error {
	if c.Name == nil || *c.Name == d.next.Name {
		return nil
	}
	d.next.Name, d.record = *c.Name, true
	return checkName(*c.Name)
}

// refuseLate refuses what can no longer be changed in a lease that has ended or failed.
func (d *draft) refuseLate(c *api.LeaseChange) error {
	nameAndEnd := c.Start == nil && c.BeforeEnd == nil && c.Shared == nil && c.Grace == nil && c.ShareIdle == nil && len(c.Reservations) == 0
	endsNow := nameAndEnd && c.End != nil && d.endsNow(*c.End)
	switch {
	case nameAndEnd && c.End == nil:
		return nil
	case d.cur.Ended(d.now):
		return api.Errorf(api.CodeInvalid, "Terminated leases can only be renamed")
	case d.cur.Status == api.LeaseError && !endsNow:
		return api.Errorf(api.CodeConflict, "a lease in %s can only be renamed, ended now or deleted", api.LeaseError)
	}
	return nil
}

// endsNow reports whether an end that was asked for is in this minute.
func (d *draft) endsNow(end api.Instant) bool {
	return d.started && end >= Minute(d.now) && end <= d.now
}

func (d *draft) moveWindow(c *api.LeaseChange) error {
	if err := d.moveStart(c.Start); err != nil {
		return err
	}
	if c.End != nil {
		switch end := *c.End; {
		case end == d.next.Window.End:
		case end < Minute(d.now):
			return api.Errorf(api.CodeInvalid, "End date must be later than current and start date")
		case d.endsNow(end):
			// The beginning of this minute may be before the start.
			d.next.Window.End, d.end = max(d.now, d.next.Window.Start+1), true
		default:
			d.next.Window.End, d.room = end, true
		}
	}
	if d.next.Window == d.cur.Terms.Window { // limits may have become lower since it was made
		return nil
	}
	return checkEnd(d.next, d.limits)
}

func (d *draft) moveStart(start *api.Instant) error {
	switch {
	case start == nil || *start == d.next.Window.Start:
		return nil
	case d.started:
		return api.Errorf(api.CodeInvalid, "Cannot modify the start date of already started leases")
	}
	d.next.Window.Start, d.room = *start, true
	return checkStart(*start, d.now, d.limits)
}

// moveBeforeEnd sets when before_end_lease is due: as given, or as long before the end as
// it was, but not before the start.
func (d *draft) moveBeforeEnd(c *api.LeaseChange) error {
	was, w := d.cur.Terms.BeforeEnd, d.next.Window
	switch {
	case c.BeforeEnd == nil && was != 0:
		d.next.BeforeEnd = max(w.Start, w.End-(d.cur.Terms.Window.End-was))
	case c.BeforeEnd != nil && (*c.BeforeEnd != was || w != d.cur.Terms.Window):
		at, err := BeforeEndAt(w, c.BeforeEnd, 0)
		if err != nil {
			return err
		}
		d.next.BeforeEnd = at
	}
	d.record = d.record || d.next.BeforeEnd != was
	return nil
}

// share sets the projects that the lease is shared with. The zones that have its room
// learn of them by a new order.
func (d *draft) share(c *api.LeaseChange) error {
	if c.Shared == nil || slices.Equal(*c.Shared, d.next.Shared) {
		return nil
	}
	if len(d.next.Hosts) > 0 && len(*c.Shared) > 0 {
		return api.Errorf(api.CodeConflict, "a maintenance lease is not shared")
	}
	d.next.Shared, d.room = slices.Clone(*c.Shared), true
	return checkShared(d.next)
}

// setGrace sets how long before the start the room is closed to preemptible instances.
func (d *draft) setGrace(c *api.LeaseChange) error {
	if c.Grace == nil || *c.Grace == d.next.Grace {
		return nil
	}
	if d.started {
		return api.Errorf(api.CodeInvalid, "Cannot modify the grace of already started leases")
	}
	d.next.Grace, d.room = *c.Grace, true
	return checkGrace(*c.Grace)
}

func (d *draft) changeReservations(c *api.LeaseChange) error {
	for i := range d.next.Reservations {
		was := d.next.Reservations[i].ShareIdle
		setTo(&d.next.Reservations[i].ShareIdle, c.ShareIdle)
		d.room = d.room || d.next.Reservations[i].ShareIdle != was
	}
	if len(d.next.Hosts) > 0 && c.ShareIdle != nil && *c.ShareIdle {
		return api.Errorf(api.CodeConflict, "a maintenance lease is not shared")
	}
	seen := map[api.ReservationID]bool{}
	for i := range c.Reservations {
		rc := &c.Reservations[i]
		at := slices.IndexFunc(d.next.Reservations, func(r api.Reservation) bool { return r.ID == rc.ID })
		switch {
		case rc.ID == "":
			return api.Errorf(api.CodeInvalid, "Missing parameter id of a reservation")
		case at < 0:
			return api.Errorf(api.CodeInvalid, "the lease has no reservation %q", string(rc.ID))
		case seen[rc.ID]:
			return api.Errorf(api.CodeInvalid, "reservation %q is there twice", string(rc.ID))
		}
		seen[rc.ID] = true
		if err := d.changeReservation(&d.next.Reservations[at], rc); err != nil {
			return err
		}
	}
	if len(c.Reservations) == 0 {
		return nil
	}
	if len(d.next.Hosts) > 0 {
		return api.Errorf(api.CodeConflict, "the hosts of a maintenance lease cannot be changed")
	}
	return checkReservations(d.next.Reservations)
}

// changeReservation applies c to r.
func (d *draft) changeReservation(r *api.Reservation, c *api.ReservationChange) error {
	if c.Type != nil && *c.Type != r.Type {
		return api.Errorf(api.CodeConflict, "the resource_type of a reservation cannot change")
	}
	was := *r
	setTo(&r.Min, c.Min)
	setTo(&r.Max, c.Max)
	setTo(&r.Resources, c.Resources)
	setTo(&r.Affinity, c.Affinity)
	setTo(&r.HypervisorProperties, c.HypervisorProperties)
	setTo(&r.ResourceProperties, c.ResourceProperties)
	setTo(&r.Query, c.Query)
	setTo(&r.BeforeEnd, c.BeforeEnd)
	setTo(&r.ShareIdle, c.ShareIdle)
	numbers := r.Min != was.Min || r.Max != was.Max
	sizes := !r.Resources.Equal(was.Resources)
	place := !sameBool(r.Affinity, was.Affinity) || r.HypervisorProperties != was.HypervisorProperties ||
		r.ResourceProperties != was.ResourceProperties || r.Query != was.Query
	d.record = d.record || r.BeforeEnd != was.BeforeEnd
	d.room = d.room || numbers || sizes || place || r.ShareIdle != was.ShareIdle
	switch {
	case r.Type == api.ReserveFlavor && sizes:
		return api.Errorf(api.CodeConflict, "the sizes of a reservation by flavor are those of its flavor")
	case !d.started:
		return nil
	case !r.Whole() && (sizes || place):
		return api.Errorf(api.CodeConflict, "an active reservation only accepts amount")
	case r.Min < was.Min || r.Max < was.Max:
		return api.Errorf(api.CodeConflict, "an active reservation cannot be reduced: it has %d to %d", was.Min, was.Max)
	}
	return nil
}

// setTo sets field to what was asked for, if anything was.
func setTo[T any](field, asked *T) {
	if asked != nil {
		*field = *asked
	}
}

func sameBool(a, b *bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
