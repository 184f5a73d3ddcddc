package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

// seriesOf returns a series of n leases of one slot each, an hour apart.
func (w *world) seriesOf(id string, n int) command.SeriesCreate {
	c := command.SeriesCreate{Stamp: w.stamp(), ID: api.SeriesID(id), Name: id, Project: "p", Repeat: api.Repeat{Rule: "FREQ=DAILY", TimeZone: "UTC"}, Digest: []byte{1}}
	for k := range n {
		window := api.Window{Start: start + api.Instant(60*(k+1))*minute}
		window.End = window.Start + 10*minute
		lease := fmt.Sprintf("%s-%d", id, k+1)
		terms := leaseTerms(lease, window, 1)
		terms.Series = c.ID
		c.Leases = append(c.Leases, command.LeaseCreate{
			Stamp: c.Stamp, Terms: terms, Events: leaseEvents(window), Digest: []byte{1}, Order: leaseOrder(lease, lease+"-o", window, lease+"-s"),
		})
	}
	return c
}

// holdOne holds the room of one lease of a series on a host, and commits its order.
func (w *world) holdOne(c *command.LeaseCreate, host string) Result {
	h := hold(w.stamp(), string(c.Terms.ID)+"-k", string(c.Order.Request.Reservation), slots(host, string(c.Order.Instances[0].ID)))
	h.Request, h.Commit = c.Order.Request, true
	return w.do(h)
}

func TestSeriesIsMadeInFull(t *testing.T) {
	w := leaseWorld(t)
	c := w.seriesOf("x", 3)
	w.ok(c)
	for i := range c.Leases {
		series, ok := w.s.OneSeries("x")
		require.True(t, ok)
		assert.Equal(t, api.SeriesCreating, series.Status)
		assert.Equal(t, 3-i, series.Waiting)
		for _, l := range w.s.SeriesLeases("x") {
			assert.Equal(t, api.LeaseCreating, l.Status, "none is there before all are")
		}
		w.holdOne(&c.Leases[i], "h1")
	}
	series, _ := w.s.OneSeries("x")
	assert.Equal(t, api.SeriesReady, series.Status)
	var names []string
	for _, l := range w.s.SeriesLeases("x") {
		assert.Equal(t, api.LeasePending, l.Status)
		assert.False(t, l.Held)
		names = append(names, string(l.Terms.ID))
	}
	assert.Equal(t, []string{"x-1", "x-2", "x-3"}, names, "by start")
	require.Equal(t, saved(t, w.s), saved(t, loaded(t, saved(t, w.s))))
	checkIndexes(t, w.s)

	assert.Equal(t, series, w.ok(c).Series, "a repeat changes nothing")
	w.ok(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: "x-2"})
	assert.Len(t, w.s.SeriesLeases("x"), 2, "each has its own life")
	w.ok(command.SeriesDelete{Stamp: w.stamp(), Project: "p", ID: "x"})
	assert.Empty(t, w.s.Leases(""))
	_, there := w.s.OneSeries("x")
	assert.False(t, there)
	checkIndexes(t, w.s)
}

// TestSeriesFailsInFull: if one lease cannot be had, or somebody ends one meanwhile, none is.
func TestSeriesFailsInFull(t *testing.T) {
	for name, fail := range map[string]func(*world, *command.SeriesCreate){
		"an order fails": func(w *world, c *command.SeriesCreate) {
			w.ok(command.BootDecide{
				Stamp: w.stamp(), Project: "p", Reservation: c.Leases[1].Order.Request.Reservation, Decision: api.DecisionAbort, Code: api.CodeNoCapacity, Reason: "full",
			})
		},
		"one is deleted": func(w *world, c *command.SeriesCreate) {
			w.ok(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: c.Leases[0].Terms.ID})
		},
		"it is deleted": func(w *world, c *command.SeriesCreate) {
			w.ok(command.SeriesDelete{Stamp: w.stamp(), Project: "p", ID: c.ID})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := leaseWorld(t)
			c := w.seriesOf("x", 3)
			c.Key = "key"
			w.ok(c)
			w.holdOne(&c.Leases[0], "h1")
			w.holdOne(&c.Leases[2], "h1")
			fail(w, &c)
			assert.Empty(t, w.s.Leases(""))
			_, there := w.s.OneSeries("x")
			assert.False(t, there)
			for i := range c.Leases {
				b, ok := w.s.Boot("p", c.Leases[i].Order.Request.Reservation)
				require.True(t, ok)
				assert.True(t, b.Final(), "nothing is held")
			}
			assert.Equal(t, api.Forever, w.s.NextDue())
			checkIndexes(t, w.s)
			again := w.seriesOf("y", 1)
			again.Key, again.Digest = "key", []byte{2}
			w.ok(again) // the key is free again
		})
	}
}

// TestSeriesWithoutRoom: leases without reservations wait for nothing.
func TestSeriesWithoutRoom(t *testing.T) {
	w := leaseWorld(t)
	c := w.seriesOf("x", 2)
	for i := range c.Leases {
		c.Leases[i].Order, c.Leases[i].Terms.Reservations = nil, nil
	}
	w.ok(c)
	series, _ := w.s.OneSeries("x")
	assert.Equal(t, api.SeriesReady, series.Status)
	w.ok(command.SeriesDelete{Stamp: w.stamp(), Project: "p", ID: "x"})
	_, there := w.s.OneSeries("x")
	assert.False(t, there)
}

func TestSeriesRefused(t *testing.T) {
	w := leaseWorld(t)
	c := w.seriesOf("x", 2)
	c.Key = "key"
	w.ok(c)
	other := w.seriesOf("y", 2)
	other.Key, other.Digest = "key", []byte{2}
	w.refused(api.CodeConflict, other)
	taken := w.seriesOf("y", 2)
	taken.Leases[1].Terms.Reservations[0].ID = "x-1-r"
	w.refused(api.CodeConflict, taken)
	w.refused(api.CodeNotFound, command.SeriesDelete{Stamp: w.stamp(), Project: "q", ID: "x"})
	w.ok(command.QuotaSet{Stamp: w.stamp(), Project: "p", Set: quota.Limits{"reserved": 0}})
	w.refused(api.CodeOverQuota, w.seriesOf("y", 2))
	assert.Len(t, w.s.Leases(""), 2, "a refusal changes nothing")
	checkIndexes(t, w.s)
}

func TestSeriesLimits(t *testing.T) {
	old := limitsOf
	t.Cleanup(func() { limitsOf = old })
	limitsOf = slices.Clone(old)
	last := &limitsOf[len(limitsOf)-1].limits
	last.leases, last.series = 4, 2
	w := leaseWorld(t)
	w.refused(api.CodeOverloaded, w.seriesOf("x", 5))
	assert.Empty(t, w.s.Leases(""))
	w.ok(w.seriesOf("x", 2))
	w.refused(api.CodeOverloaded, w.seriesOf("y", 3))
	w.ok(w.seriesOf("y", 1))
	w.refused(api.CodeOverloaded, w.seriesOf("z", 1))
}
