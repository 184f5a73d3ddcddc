package state

import (
	"encoding/binary"

	"berth/api"
	"berth/raftstore/state/table"
)

// eventsBook is what entries have done of late: the facts of all other books, for whoever
// watches.
type eventsBook struct {
	bootsBook

	events table.Map[*Event] // log index, number within the entry
}

func (s *eventsBook) tables() []table.Table { return append(s.bootsBook.tables(), &s.events) }

func (s *eventsBook) sections() []section {
	events := sectionOf("events", s.events.Values, s.loadEvent)
	events.form = api.FormThird
	return append(s.bootsBook.sections(), events)
}

// Event is one thing that an entry of the log has done, for whoever watches the zone. Fields
// that do not concern its kind are empty.
type Event struct {
	Index       uint64            `cbor:"1,keyasint"` // of the entry
	Number      int               `cbor:"2,keyasint"` // within the entry, from 0
	At          api.Instant       `cbor:"3,keyasint"`
	Kind        EventKind         `cbor:"4,keyasint"`
	Origin      api.LinkID        `cbor:"5,keyasint,omitempty"` // the parent whom it concerns
	Project     api.ProjectID     `cbor:"6,keyasint,omitempty"` // the project whom it concerns
	Reservation api.ReservationID `cbor:"7,keyasint,omitempty"`
	Hold        api.HoldID        `cbor:"8,keyasint,omitempty"`
	Instance    api.InstanceID    `cbor:"9,keyasint,omitempty"`
	Host        api.HostID        `cbor:"10,keyasint,omitempty"`
	Link        api.LinkID        `cbor:"11,keyasint,omitempty"` // the child
	Was         string            `cbor:"12,keyasint,omitempty"` // status before
	Is          string            `cbor:"13,keyasint,omitempty"` // status, decision, or "up" and "down"
	Code        api.Code          `cbor:"14,keyasint,omitempty"` // why a boot failed, or slots were refused
}

// EventKind says what an event is about.
type EventKind uint8

// The kinds. Append only.
const (
	EventInstance     EventKind = iota + 1 // an instance has another status
	EventHoldMade                          // a hold was made
	EventHoldDecided                       // a hold was decided
	EventBootCreated                       // a boot was asked for
	EventBootDecided                       // a boot was decided
	EventBootReleased                      // a boot's owner asked for its end
	EventHost                              // a host is up or down
	EventLink                              // a child is up or down
)

// note keeps what the books below have done as events.
func (s *eventsBook) note(f fact) {
	switch f := f.(type) {
	case instanceChanged:
		i := f.instance
		s.keepEvent(Event{
			Kind: EventInstance, Origin: i.Origin, Project: i.Project, Reservation: i.Reservation, Hold: i.Hold,
			Instance: i.ID, Host: i.Host, Link: i.Link, Was: string(f.was), Is: string(f.is),
		})
	case slotsTaken:
		s.keepEvent(holdEvent(EventHoldMade, f.hold, f.hold.Why))
	case holdDecided:
		s.keepEvent(holdEvent(EventHoldDecided, f.hold, ""))
	case bootChanged:
		b := f.boot
		s.keepEvent(Event{Kind: f.kind, Project: b.Request.Project, Reservation: b.Request.Reservation, Is: string(b.Decision), Code: b.Code})
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

// reachText says whether what is out of reach since a time, 0 for not at all, is up.
func reachText(since api.Instant) string {
	if since == 0 {
		return "up"
	}
	return "down"
}

// keepEvent keeps an event, and drops those that are too many or too old.
func (s *eventsBook) keepEvent(e Event) {
	if s.limits.events == 0 {
		return
	}
	e.Index, e.At = s.index, s.now
	if _, last, ok := s.events.Max(); ok && last.Index == e.Index {
		e.Number = last.Number + 1
	}
	s.loadEvent(&e)
	s.dropEvents()
}

func (s *eventsBook) loadEvent(e *Event) { s.events.Set(eventKey(e.Index, e.Number), e) }

// dropEvents deletes the events that are too many or too old, but not the newest.
func (s *eventsBook) dropEvents() {
	if s.limits.events == 0 {
		return
	}
	for s.events.Len() > 1 {
		k, oldest, _ := s.events.Min()
		if s.events.Len() <= s.limits.events && s.now < oldest.At.Add(s.limits.eventAge) {
			return
		}
		s.events.Delete(k)
	}
}

// eventKey orders events by entry, and within an entry as they happened.
func eventKey(index uint64, number int) string {
	return string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, index), uint32(number))) //nolint:gosec // at most limits.events
}

// Events returns what entries after an index have done, in order. It stops at the first
// index at which it has limit events or more. whole is false if some of it may have been
// dropped already: what was before the oldest event is not known.
func (s *eventsBook) Events(after uint64, limit int) (list []*Event, whole bool) {
	_, oldest, some := s.events.Min()
	whole = !some || oldest.Index <= after || oldest.Index == after+1 && oldest.Number == 0
	s.events.Ascend(eventKey(after+1, 0), func(_ string, e *Event) bool {
		if len(list) >= limit && list[len(list)-1].Index != e.Index {
			return false
		}
		list = append(list, e)
		return true
	})
	return list, whole
}
