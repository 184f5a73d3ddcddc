package lease

import (
	"cmp"
	"slices"
	"time"

	"berth/api"
)

// minute is the unit of dates in requests.
const minute = api.Instant(time.Minute / time.Millisecond)

// Minute returns the beginning of the minute that t is in. A start of "now" means it.
func Minute(t api.Instant) api.Instant {
	if past := t % minute; past >= 0 {
		return t - past
	}
	return t - t%minute - minute
}

// EventIDs are the ids of the events of a new lease.
type EventIDs struct{ BeforeStart, Start, BeforeEnd, End string }

// Events returns the events of a new lease, in the order in which they are due. There is a
// before_start_lease event if grace is not 0, and a before_end_lease event if t.BeforeEnd
// is not. The former is never clamped: for a lease that starts within the grace it is due
// at once, and it keeps its distance if the start moves.
func Events(t *api.LeaseTerms, grace time.Duration, now api.Instant, ids EventIDs) []api.LeaseEvent {
	var out []api.LeaseEvent
	add := func(typ api.LeaseEventType, at api.Instant, id string) {
		out = append(out, api.LeaseEvent{ID: id, Type: typ, Time: at, Status: api.EventUndone, Created: now})
	}
	if grace > 0 {
		add(api.EventBeforeStartLease, t.Window.Start.Add(-grace), ids.BeforeStart)
	}
	add(api.EventStartLease, t.Window.Start, ids.Start)
	if t.BeforeEnd != 0 {
		add(api.EventBeforeEndLease, t.BeforeEnd, ids.BeforeEnd)
	}
	add(api.EventEndLease, t.Window.End, ids.End)
	return out
}

// EventOf returns the event of a type, and whether there is one.
func EventOf(events []api.LeaseEvent, typ api.LeaseEventType) (api.LeaseEvent, bool) {
	i := slices.IndexFunc(events, func(e api.LeaseEvent) bool { return e.Type == typ })
	if i < 0 {
		return api.LeaseEvent{}, false
	}
	return events[i], true
}

// BeforeEndAt returns when the before_end_lease event of a lease over w is due, 0 for no
// such event. It is what was asked for, which must be strictly inside w and is 0 for no
// event; or else it is distance before the end but never before the start, and no event
// if distance is 0.
func BeforeEndAt(w api.Window, asked *api.Instant, distance time.Duration) (api.Instant, error) {
	switch {
	case asked == nil && distance <= 0, asked != nil && *asked == 0:
		return 0, nil
	case asked == nil:
		return max(w.Start, w.End.Add(-distance)), nil
	case *asked <= w.Start || *asked >= w.End:
		return 0, api.Errorf(api.CodeForbidden, "Datetime is invalid: before_end_date must be later than the start date and earlier than the end date")
	}
	return *asked, nil
}

// Retime returns a copy of the events of a lease whose terms become next: start and end
// events take the new dates, before_start_lease keeps its distance to the start, and
// before_end_lease is due at next.BeforeEnd. The latter is added with id if there was none,
// and removed if there is to be none.
//
// An event whose time has moved and that had happened, or had begun to, becomes UNDONE again
// if its new time is later than now; only those before the start and the end may. So whoever
// reports that an action is done compares the time of its event too.
func Retime(events []api.LeaseEvent, old, next *api.LeaseTerms, now api.Instant, id string) []api.LeaseEvent {
	out := make([]api.LeaseEvent, 0, len(events)+1)
	for _, e := range events {
		switch e.Type {
		case api.EventStartLease:
			e = moveEvent(e, next.Window.Start, now)
		case api.EventEndLease:
			e = moveEvent(e, next.Window.End, now)
		case api.EventBeforeStartLease:
			e = moveEvent(e, next.Window.Start-(old.Window.Start-e.Time), now)
		case api.EventBeforeEndLease:
			if next.BeforeEnd == 0 {
				continue
			}
			e = moveEvent(e, next.BeforeEnd, now)
		}
		out = append(out, e)
	}
	if _, found := EventOf(events, api.EventBeforeEndLease); !found && next.BeforeEnd != 0 {
		out = append(out, api.LeaseEvent{ID: id, Type: api.EventBeforeEndLease, Time: next.BeforeEnd, Status: api.EventUndone, Created: now})
	}
	sortEvents(out, next.Window.Start)
	return out
}

// sortEvents sorts the events of a lease that begins at start in the order in which they are
// due.
func sortEvents(events []api.LeaseEvent, start api.Instant) {
	slices.SortFunc(events, func(a, b api.LeaseEvent) int { return KeyOf("", start, &a).Compare(KeyOf("", start, &b)) })
}

// setGrace returns events with a before_start_lease event that is due grace before start, or
// with none if grace is 0. It is added with id if there was none.
func setGrace(events []api.LeaseEvent, start api.Instant, grace time.Duration, now api.Instant, id string) []api.LeaseEvent {
	out := slices.Clone(events)
	i := slices.IndexFunc(out, func(e api.LeaseEvent) bool { return e.Type == api.EventBeforeStartLease })
	at := start.Add(-grace)
	switch {
	case grace == 0 && i >= 0:
		return slices.Delete(out, i, i+1)
	case grace == 0:
		return out
	case i >= 0:
		out[i] = moveEvent(out[i], at, now)
	default:
		out = append(out, api.LeaseEvent{ID: id, Type: api.EventBeforeStartLease, Time: at, Status: api.EventUndone, Created: now})
	}
	sortEvents(out, start)
	return out
}

// moveEvent returns e due at another time.
func moveEvent(e api.LeaseEvent, at, now api.Instant) api.LeaseEvent {
	if e.Time == at {
		return e
	}
	e.Time, e.Updated = at, now
	if at > now && CanMoveEvent(e.Type, e.Status, api.EventUndone) {
		e.Status = api.EventUndone
	}
	return e
}

// Rank orders events of one instant: what is before an end, ends, what is before a start,
// starts. So a lease whose window begins where another one's ends finds its room. atStart
// says that the event is due at the start of its own lease: its before_end_lease comes last
// then, after that start.
func Rank(typ api.LeaseEventType, atStart bool) int {
	switch typ {
	case api.EventBeforeEndLease:
		if atStart {
			return 4
		}
		return 0
	case api.EventEndLease:
		return 1
	case api.EventBeforeStartLease:
		return 2
	case api.EventStartLease:
		return 3
	}
	return 5 // no event has another type
}

// Key is the place of an event among all events of a zone. What is due is processed in the
// order of keys: by time, then by rank, then by ids.
type Key struct {
	At    api.Instant
	Rank  int
	Lease api.LeaseID
	Event string
}

// KeyOf returns the place of an event of a lease whose window begins at start.
func KeyOf(lease api.LeaseID, start api.Instant, e *api.LeaseEvent) Key {
	return Key{At: e.Time, Rank: Rank(e.Type, e.Time == start), Lease: lease, Event: e.ID}
}

// Compare returns a number below, equal to or above 0 as k comes before, is or comes after o.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.At, o.At), cmp.Compare(k.Rank, o.Rank), cmp.Compare(k.Lease, o.Lease), cmp.Compare(k.Event, o.Event))
}
