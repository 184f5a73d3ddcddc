package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// eventsBook has the recent events of the zone, made from the facts of all other books.
type eventsBook struct {
	leasesBook

	events   table.Log[*Event]
	history  *eventHistory           // never changed in place; nil before api.FormFourth
	webhooks table.Map[*api.Webhook] // by project and name
}

func (s *eventsBook) tables(into []table.Table) []table.Table {
	return append(s.leasesBook.tables(into), &s.events, table.Of(&s.webhooks))
}

func (s *eventsBook) sections() []section {
	events := sectionOf("events", s.events.Values, func(e *Event) { s.events.Append(e) })
	events.form = api.FormThird
	history := sectionOf("event history", s.historyRecord, func(h *eventHistory) { s.history = h })
	webhooks := sectionOf("webhooks", s.webhooks.Values, func(w *api.Webhook) { s.webhooks.Set(joinKey(w.Project, w.Name), w) })
	history.form, webhooks.form = api.FormFourth, api.FormFourth
	return append(s.leasesBook.sections(), events, history, webhooks)
}

// apply applies a command that is for this book.
func (s *eventsBook) apply(c command.ForEvents) Result {
	switch c := c.(type) {
	case command.WebhookPut:
		return s.webhookPut(c)
	case command.WebhookDelete:
		return s.webhookDelete(c)
	case command.WebhookResume:
		return s.webhookResume(c)
	case command.WebhooksTold:
		return s.webhooksTold(c)
	}
	return Result{}
}

// Event is one change that a log entry made, for those who watch the zone. Fields that
// its kind does not use are empty.
type Event struct {
	Index       uint64            `cbor:"1,keyasint"` // of the entry
	Number      int               `cbor:"2,keyasint"` // within the entry, from 0
	At          api.Instant       `cbor:"3,keyasint"`
	Kind        EventKind         `cbor:"4,keyasint"`
	Origin      api.LinkID        `cbor:"5,keyasint,omitempty"` // the parent concerned
	Project     api.ProjectID     `cbor:"6,keyasint,omitempty"` // the project concerned
	Reservation api.ReservationID `cbor:"7,keyasint,omitempty"`
	Hold        api.HoldID        `cbor:"8,keyasint,omitempty"`
	Instance    api.InstanceID    `cbor:"9,keyasint,omitempty"`
	Host        api.HostID        `cbor:"10,keyasint,omitempty"`
	Link        api.LinkID        `cbor:"11,keyasint,omitempty"` // the child
	Was         string            `cbor:"12,keyasint,omitempty"` // status before
	Is          string            `cbor:"13,keyasint,omitempty"` // status, decision, or "up" and "down"
	Code        api.Code          `cbor:"14,keyasint,omitempty"` // why a boot failed, or slots were refused
	Lease       api.LeaseID       `cbor:"15,keyasint,omitempty" form:"4"`
	Slot        bool              `cbor:"16,keyasint,omitempty" form:"4"` // the instance is a slot of a lease
	Eviction    *api.Eviction     `cbor:"17,keyasint,omitempty" form:"4"` // why a preemptible instance must leave
	Volume      bool              `cbor:"18,keyasint,omitempty" form:"4"` // the instance is a volume
	Binding     api.BindingID     `cbor:"19,keyasint,omitempty" form:"4"`

	Reason api.RestartReason `cbor:"20,keyasint,omitempty" form:"5"` // why an instance was started anew
}

// EventKind is the kind of an event.
type EventKind uint8

// The kinds. Append only.
const (
	EventInstance          EventKind = iota + 1 // the status of an instance changed
	EventHoldMade                               // a hold was made
	EventHoldDecided                            // a hold was decided
	EventBootCreated                            // a boot was requested
	EventBootDecided                            // a boot was decided
	EventBootReleased                           // a boot's owner requested its end
	EventHost                                   // a host went up or down
	EventLink                                   // a child went up or down
	EventLeaseCreated                           // a lease was requested
	EventLeaseFailed                            // the room of a new lease could not be had: there is no lease
	EventLeaseStatus                            // the status of a lease changed
	EventLeaseUpdated                           // a lease has new terms
	EventLeaseUpdateFailed                      // the room for new terms could not be had: the lease is as it was
	EventLeaseStarted                           // start_lease has happened
	EventLeaseStartsSoon                        // before_start_lease has happened
	EventLeaseEndsSoon                          // before_end_lease has happened
	EventLeaseEnded                             // end_lease has happened
	EventLeaseDeleted                           // a lease is gone
	EventInstanceQueued                         // a preempted instance waits to be booted again
	EventBootRequeued                           // instances were ordered for the preempted ones of a boot
	EventEvicted                                // a preemptible instance must leave room that somebody else has
	EventBindingBegan                           // a project is bound to a child
	EventBindingEnded                           // a project is not bound to a child any more, which is still linked
	EventInstanceRestarted                      // the agent of an instance has started it anew unasked
)

// note turns the facts of the books below into events.
func (s *eventsBook) note(f fact) {
	if s.limits.events == 0 {
		return
	}
	switch f := f.(type) {
	case instanceChanged:
		i := f.instance
		s.keepEvent(Event{
			Kind: EventInstance, Origin: i.Origin, Project: i.Project, Reservation: i.Reservation, Hold: i.Hold,
			Instance: i.ID, Host: i.Host, Link: i.Link, Was: string(f.was), Is: string(f.is), Slot: i.Reserved, Volume: i.Volume != "",
		})
	case instanceEvicted:
		i := f.instance
		s.keepEvent(Event{
			Kind: EventEvicted, Origin: i.Origin, Project: i.Project, Reservation: i.Reservation, Hold: i.Hold,
			Instance: i.ID, Host: i.Host, Link: i.Link, Eviction: i.Eviction,
		})
	case slotsTaken:
		s.keepEvent(holdEvent(EventHoldMade, f.hold, f.hold.Why))
	case holdDecided:
		s.keepEvent(holdEvent(EventHoldDecided, f.hold, ""))
	case bootChanged:
		s.keepEvent(Event{Kind: f.kind, Project: f.project, Reservation: f.reservation, Is: string(f.decision), Code: f.code})
	case instanceQueued:
		i := f.instance
		s.keepEvent(Event{Kind: EventInstanceQueued, Project: i.Project, Reservation: i.Reservation, Instance: i.ID, Link: i.Link})
	case instanceRestarted:
		i := f.instance
		s.keepEvent(Event{
			Kind: EventInstanceRestarted, Origin: i.Origin, Project: i.Project, Reservation: i.Reservation, Hold: i.Hold,
			Instance: i.ID, Host: i.Host, Link: i.Link, Reason: f.reason,
		})
	case bootRequeued:
		s.keepEvent(Event{Kind: EventBootRequeued, Project: f.queued.Project, Reservation: f.queued.Reservation})
	case bindingChanged:
		s.keepEvent(bindingEvent(f.binding))
	case leaseChanged:
		s.keepEvent(Event{
			Kind: f.kind, Project: f.lease.Terms.Project, Reservation: f.lease.Order, Lease: f.lease.Terms.ID,
			Was: string(f.was), Is: string(f.lease.Status),
		})
	case hostReached:
		s.keepEvent(Event{Kind: EventHost, Host: f.host, Is: reachText(f.since)})
	case childReached:
		s.keepEvent(Event{Kind: EventLink, Link: f.link, Is: reachText(f.since)})
	}
}

func holdEvent(kind EventKind, h *Hold, code api.Code) Event {
	return Event{
		Kind: kind, Origin: h.Origin, Project: h.Request.Project, Reservation: h.Request.Reservation, Hold: h.ID,
		Is: string(h.Decision), Code: code,
	}
}

// bindingEvent returns the event of a binding that began, or has ended; Is has the reason.
func bindingEvent(b *api.Binding) Event {
	e := Event{Kind: EventBindingBegan, Origin: b.Origin, Project: b.Project, Reservation: b.Reservation, Link: b.Link, Is: string(b.Why), Binding: b.ID}
	if !b.Active() {
		e.Kind, e.Reservation, e.Is = EventBindingEnded, "", string(b.Ended)
	}
	return e
}

// reachText returns "up" if since is 0, else "down".
func reachText(since api.Instant) string {
	if since == 0 {
		return "up"
	}
	return "down"
}

// keepEvent appends an event, and drops what exceeds the limits.
func (s *eventsBook) keepEvent(e Event) {
	s.beginHistory()
	e.Index, e.At = s.index, s.now
	if all := s.events.Values(); len(all) > 0 && all[len(all)-1].Index == e.Index {
		e.Number = all[len(all)-1].Number + 1
	}
	s.events.Append(&e)
	s.touchEvents("")
	if e.Project != "" && e.Origin == "" {
		s.touchEvents(e.Project)
	}
	s.dropEvents()
}

// repeatsSeen is how many of the last topics are searched for a repeat.
const repeatsSeen = 8

// touchEvents touches the topic of a project's events. Most entries with many events
// concern one project.
func (s *eventsBook) touchEvents(p api.ProjectID) {
	if t := EventsTopic(p); !slices.Contains(s.touched[max(0, len(s.touched)-repeatsSeen):], t) {
		s.touchTopic(t)
	}
}

// dropEvents drops the events beyond the limits of number and age, but never the newest.
func (s *eventsBook) dropEvents() {
	if s.limits.events == 0 {
		return
	}
	all, n := s.events.Values(), 0
	for n < len(all)-1 && (len(all)-n > s.limits.events || s.now >= all[n].At.Add(s.limits.eventAge)) {
		n++
	}
	if n == 0 {
		return
	}
	s.beginHistory()
	if s.history != nil {
		next := *s.history
		next.Whole = s.EventID(all[n-1])
		s.history = &next
	}
	s.events.DropFirst(n)
}
