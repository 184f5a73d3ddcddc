package state

import (
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
