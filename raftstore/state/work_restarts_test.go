package state

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// TestRestartsAreCounted has an agent report that it started an instance anew: each restart counts once,
// changes the record and is an event, although the status is as before.
func TestRestartsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.host("h1", 4)
	b := create(w.stamp(), "r", 1, 1)
	b.Instances = nil
	w.ok(b)
	c := hold(w.stamp(), "x", "r", slots("h1", "i"))
	c.Commit = true
	w.ok(c)
	report := func(st api.Status, at api.Instant) {
		w.ok(command.InstanceReport{Stamp: w.stamp(), Agent: "a1", Items: []api.InstanceReport{
			{Host: "h1", Instance: "i", Status: st, Restarted: at, Reason: api.RestartFenced},
		}})
	}
	restarts := func() (n int) {
		for _, e := range w.s.events.Values() {
			if e.Kind == EventInstanceRestarted {
				assert.EqualValues(t, "i", e.Instance)
				assert.Equal(t, api.RestartFenced, e.Reason)
				n++
			}
		}
		return n
	}
	report(api.StatusActive, 0)
	for n, x := range []struct {
		status api.Status
		at     api.Instant
		counts uint64
	}{
		{api.StatusActive, 0, 0},
		{api.StatusActive, 1000, 1},
		{api.StatusActive, 1000, 1}, // the answer was lost
		{api.StatusActive, 0, 1},    // another agent
		{api.StatusActive, 2000, 2},
		{api.StatusError, 3000, 3}, // it could not be started
		{api.StatusError, 3000, 3},
	} {
		before := w.instance("i")
		report(x.status, x.at)
		i := w.instance("i")
		require.Equal(t, x.counts, i.Restarts, n)
		require.Equal(t, x.counts != before.Restarts, i.Updated != before.Updated, n)
		require.EqualValues(t, x.counts, restarts(), n)
	}
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "i"})
	report(api.StatusActive, 4000)
	assert.EqualValues(t, 3, w.instance("i").Restarts, "it is to end")
}

// TestRestartsBelow: what a child tells of restarts is counted, once each. If it has told too many, what it tells later counts, and is no event.
func TestRestartsBelow(t *testing.T) {
	w := relinked(t)
	w.form = api.FormFifth
	events := 0
	for n, x := range []struct{ told, counts uint64 }{{0, 0}, {1, 1}, {1, 1}, {0, 0}, {math.MaxUint64, math.MaxUint64}, {4, 4}, {5, 5}} {
		l, _ := w.s.Link("c1")
		before := w.instance("i1").Restarts
		w.ok(command.InstanceChanges{Stamp: w.stamp(), Link: "c1", After: l.ChangesNext, Next: l.ChangesNext + 1, Items: []api.InstanceChange{
			{ID: "i1", Status: api.StatusActive, Index: l.ChangesNext + 1, Restarts: x.told},
		}})
		require.Equal(t, x.counts, w.instance("i1").Restarts, n)
		if x.counts > before {
			events++
		}
		told := 0
		for _, e := range w.s.events.Values() {
			if e.Kind == EventInstanceRestarted {
				assert.EqualValues(t, "c1", e.Link)
				told++
			}
		}
		require.Equal(t, events, told, n)
	}
}
