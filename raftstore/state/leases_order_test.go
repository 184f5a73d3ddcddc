package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/lease"
	"berth/raftstore/command"
)

// happened returns the kinds of all events about one lease, in order.
func (w *world) happened(id string) (kinds []EventKind) {
	all, _ := w.s.Events(w.s.EventsBegin(), 10_000)
	for _, e := range all {
		if string(e.Lease) == id {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// TestALeaseStartsBeforeItEndsSoon: even if both are due at once, because the lease is short.
func TestALeaseStartsBeforeItEndsSoon(t *testing.T) {
	w := leaseWorld(t)
	window := api.Window{Start: start + 10*minute, End: start + 20*minute}
	terms := leaseTerms("l", window, 0)
	terms.Reservations, terms.BeforeEnd = nil, window.Start
	ids := lease.EventIDs{Start: "a", BeforeEnd: "b", End: "c"}
	w.ok(command.LeaseCreate{Stamp: w.stamp(), Terms: terms, Events: lease.Events(&terms, 0, w.now, ids), Digest: []byte{1}})
	w.tick(window.End)
	var order []EventKind
	for _, k := range w.happened("l") {
		if k == EventLeaseStarted || k == EventLeaseEndsSoon || k == EventLeaseEnded {
			order = append(order, k)
		}
	}
	assert.Equal(t, []EventKind{EventLeaseStarted, EventLeaseEndsSoon, EventLeaseEnded}, order)
	checkIndexes(t, w.s)
}

// TestTheOrderOfOneInstant: whatever is due at one instant happens in the order that leases_due.go has, so that room
// which ends then is free for what begins then.
func TestTheOrderOfOneInstant(t *testing.T) {
	w := leaseWorld(t)
	first, now := start+10*minute, start+20*minute
	due := func(event api.LeaseEventType) []api.LeaseEvent {
		return []api.LeaseEvent{{ID: "e3", Type: event, Time: now, Status: api.EventUndone}}
	}
	for _, c := range []struct {
		id, host string
		window   api.Window
		more     []api.LeaseEvent
		slots    []string
	}{
		{"ends", "h1", api.Window{Start: first, End: now}, nil, numbered("e", 3)},
		{"ends-soon", "h2", api.Window{Start: first, End: now + 10*minute}, due(api.EventBeforeEndLease), numbered("s", 1)},
		{"short", "h2", api.Window{Start: now, End: now + 10*minute}, due(api.EventBeforeEndLease), numbered("x", 1)},
		{"starts", "h1", api.Window{Start: now, End: now + 10*minute}, nil, numbered("b", 2)},
		{"later", "h2", api.Window{Start: now + minute, End: now + 10*minute}, due(api.EventBeforeStartLease), numbered("l", 2)},
	} {
		order := leaseOrder(c.id, c.id+"-o", c.window, c.slots...)
		events := append(leaseEvents(c.window), c.more...)
		w.ok(command.LeaseCreate{Stamp: w.stamp(), Terms: leaseTerms(c.id, c.window, len(c.slots)), Events: events, Digest: []byte{1}, Order: order})
		h := hold(w.stamp(), c.id+"-k", c.id+"-o", slots(c.host, c.slots...))
		h.Request, h.Commit = order.Request, true
		w.ok(h)
	}
	w.soft("soft", "h2", "p1", "p2") // in the way of the slots of later
	w.tick(now - 1)
	from := w.index + 1
	w.tick(now)

	var order []string
	all, _ := w.s.Events(w.s.EventsBegin(), 10_000)
	for _, e := range all[slices.IndexFunc(all, func(e *Event) bool { return e.Index == from }):] {
		what := ""
		switch e.Kind {
		case EventLeaseEndsSoon, EventLeaseEnded, EventLeaseStartsSoon, EventLeaseStarted:
			what = fmt.Sprint(map[EventKind]string{
				EventLeaseEndsSoon: "ends soon: ", EventLeaseEnded: "ended: ", EventLeaseStartsSoon: "starts soon: ", EventLeaseStarted: "started: ",
			}[e.Kind], e.Lease)
		case EventInstance:
			what = map[string]string{"DELETED": "a slot ended", "ACTIVE": "a slot began", "DELETING": "evicted"}[e.Is]
			if e.Is == "DELETING" && e.Slot {
				continue // and DELETED at once
			}
		}
		if what != "" && !slices.Contains(order, what) {
			order = append(order, what)
		}
	}
	assert.Equal(t, []string{
		"ends soon: ends-soon", "a slot ended", "ended: ends", "evicted", "a slot began", "starts soon: later", "started: short", "started: starts", "ends soon: short",
	}, order)
	checkIndexes(t, w.s)
}
