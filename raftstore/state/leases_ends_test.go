package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// askingConfig returns the command that gives a zone an external service for leases.
func askingConfig(w *world) command.ConfigSet {
	return command.ConfigSet{Stamp: w.stamp(), Config: api.ZoneConfig{Leases: api.LeaseRule{Check: api.LeaseCheck{URL: "https://example.org/"}}}}
}

// owed returns the ends that are to be told, as "lease outcome".
func (w *world) owed() (out []string) {
	for _, e := range w.s.LeaseEnds(api.LeaseEndName{}, api.LeaseEndsMax) {
		out = append(out, fmt.Sprint(e.Terms.ID, " ", e.Outcome))
	}
	return out
}

// TestEndsOfLeasesAreOwed: each end is noted once, with its outcome, if the zone has a service
// that wants to know, and until it was told.
func TestEndsOfLeasesAreOwed(t *testing.T) {
	w := leaseWorld(t)
	window := api.Window{Start: start + 10*minute, End: start + 20*minute}
	w.makeLease("before", "h1", window, "s0")
	w.ok(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: "before"})
	assert.Empty(t, w.owed(), "there was no service")

	w.ok(askingConfig(w))
	w.makeLease("pending", "h1", window, "s1")
	w.makeLease("active", "h1", window, "s2")
	w.makeLease("ended", "h2", window, "s3")
	order := leaseOrder("failed", "failed-o", window, "s4")
	w.ok(command.LeaseCreate{Stamp: w.stamp(), Terms: leaseTerms("failed", window, 1), Events: leaseEvents(window), Digest: []byte{1}, Order: order})
	w.ok(bootDecide(w.stamp(), "failed-o", api.DecisionAbort))
	host := leaseTerms("host", window, 1)
	host.Hosts, host.Reservations = []string{"h1"}, nil
	w.ok(command.LeaseCreate{Stamp: w.stamp(), Terms: host, Events: leaseEvents(window), Digest: []byte{1}})
	w.ok(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: "host"}) // maintenance
	w.ok(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: "pending"})
	want := []string{"failed failed", "pending deleted"}
	assert.Equal(t, want, w.owed())
	w.tick(window.Start)
	w.ok(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: "active"})
	w.tick(window.End)
	w.ok(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: "ended"}) // it has ended already
	want = append(want, "active deleted", "ended ended")
	assert.Equal(t, want, w.owed())
	n, first := w.s.CountLeaseEnds()
	ends := w.s.LeaseEnds(api.LeaseEndName{}, 10)
	assert.Equal(t, 4, n)
	assert.Equal(t, ends[0].At, first)
	assert.Equal(t, ends[2:3], w.s.LeaseEnds(ends[1].Name(), 1))
	require.Equal(t, saved(t, w.s), saved(t, loaded(t, saved(t, w.s))))

	told := command.LeaseEndsTold{Stamp: w.stamp(), Ends: []api.LeaseEndName{ends[0].Name(), ends[2].Name(), {Lease: "none"}}}
	for range 2 { // a repeat changes nothing
		w.ok(told)
		assert.Equal(t, []string{want[1], want[3]}, w.owed())
	}
	told.Ends = make([]api.LeaseEndName, api.LeaseEndsToldMax)
	w.ok(told)
	told.Ends = make([]api.LeaseEndName, api.LeaseEndsToldMax+1)
	w.refused(api.CodeTooLarge, told)
}

// TestEndsOfASeries: each of its leases has an end of its own.
func TestEndsOfASeries(t *testing.T) {
	w := leaseWorld(t)
	w.ok(askingConfig(w))
	c := w.seriesOf("x", 3)
	w.ok(c)
	w.holdOne(&c.Leases[0], "h1")
	w.ok(command.BootDecide{Stamp: w.stamp(), Project: "p", Reservation: c.Leases[1].Order.Request.Reservation, Decision: api.DecisionAbort, Code: api.CodeNoCapacity})
	assert.ElementsMatch(t, []string{"x-1 failed", "x-2 failed", "x-3 failed"}, w.owed())
}

// TestEndsOfLeasesAreLimited: the oldest goes when there are too many.
func TestEndsOfLeasesAreLimited(t *testing.T) {
	w := leaseWorld(t)
	w.ok(askingConfig(w))
	end := func(n int) {
		id := fmt.Sprintf("l%05d", n)
		window := api.Window{Start: w.now + 10*minute, End: w.now + 20*minute}
		terms := leaseTerms(id, window, 1)
		terms.Reservations = nil
		w.ok(command.LeaseCreate{Stamp: w.stamp(), Terms: terms, Events: leaseEvents(window), Digest: []byte{1}})
		w.ok(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: terms.ID})
	}
	for n := range api.LeaseEndsMax {
		end(n)
	}
	n, _ := w.s.CountLeaseEnds()
	require.Equal(t, api.LeaseEndsMax, n)
	assert.Equal(t, "l00000 deleted", w.owed()[0])
	end(api.LeaseEndsMax)
	n, _ = w.s.CountLeaseEnds()
	require.Equal(t, api.LeaseEndsMax, n)
	assert.Equal(t, "l00001 deleted", w.owed()[0])
}
