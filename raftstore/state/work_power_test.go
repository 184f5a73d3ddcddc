package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// order returns an order for an instance at its present run.
func (w *world) order(o api.PowerOrder, id string) command.InstancePower {
	c := command.InstancePower{Stamp: w.stamp(), ID: api.InstanceID(id), Order: o, Run: 1}
	if i, ok := w.s.Instance(c.ID); ok {
		c.Run = i.Run()
	}
	return c
}

func (w *world) instance(id string) *api.Instance {
	w.tb.Helper()
	i, ok := w.s.Instance(api.InstanceID(id))
	require.True(w.tb, ok)
	return i
}

// TestPower gives orders to an instance in each status.
func TestPower(t *testing.T) {
	for _, tt := range []struct {
		was    api.Status
		halted bool
		order  api.PowerOrder
		is     api.Status
		stays  bool // halted
		runs   uint64
	}{
		{api.StatusBuild, false, api.PowerStop, api.StatusBuild, true, 0},
		{api.StatusActive, false, api.PowerStop, api.StatusActive, true, 0},
		{api.StatusShutoff, false, api.PowerStop, api.StatusShutoff, true, 0},
		{api.StatusError, false, api.PowerStop, api.StatusError, true, 0},
		{api.StatusBuild, false, api.PowerStart, api.StatusBuild, false, 0},
		{api.StatusActive, false, api.PowerStart, api.StatusActive, false, 0},
		{api.StatusShutoff, false, api.PowerStart, api.StatusBuild, false, 1},
		{api.StatusError, false, api.PowerStart, api.StatusBuild, false, 1},
		{api.StatusActive, true, api.PowerStart, api.StatusBuild, false, 1},
		{api.StatusShutoff, true, api.PowerStart, api.StatusBuild, false, 1},
		{api.StatusError, true, api.PowerStart, api.StatusBuild, false, 1},
		{api.StatusBuild, false, api.PowerRestart, api.StatusBuild, false, 1},
		{api.StatusActive, false, api.PowerRestart, api.StatusBuild, false, 1},
		{api.StatusShutoff, true, api.PowerRestart, api.StatusBuild, false, 1},
		{api.StatusError, false, api.PowerRestart, api.StatusBuild, false, 1},
	} {
		w := newWorld(t)
		w.host("h1", 4)
		b := create(w.stamp(), "r", 1, 1)
		b.Instances = nil
		w.ok(b)
		c := hold(w.stamp(), "x", "r", slots("h1", "i"))
		c.Commit = true
		require.Empty(t, w.ok(c).Hold.Refused)
		if tt.was != api.StatusBuild {
			w.ok(reports(w.stamp(), "a1", "h1", tt.was, "i"))
		}
		if tt.halted {
			w.ok(w.order(api.PowerStop, "i"))
		}
		h, _ := w.s.Host("h1")
		order := w.order(tt.order, "i")
		w.ok(order)
		i := w.instance("i")
		assert.Equal(t, tt.is, i.Status, "%+v", tt)
		assert.Equal(t, tt.stays, i.Halted, "%+v", tt)
		assert.Equal(t, tt.runs, i.Runs, "%+v", tt)
		if tt.runs > 0 {
			assert.Empty(t, i.Fault)
		}
		now, _ := w.s.Host("h1")
		assert.Equal(t, h.Used, now.Used, "it keeps its room")
		assert.Equal(t, h.Generation, now.Generation)
		w.unchanged(order)
	}
}

// TestPowerRefused gives orders to what takes none.
func TestPowerRefused(t *testing.T) {
	w := storage(t)
	w.makes("h1", "", web, "s1")
	w.makes("h1", "", data, "v1")
	w.refused(api.CodeNotFound, w.order(api.PowerStop, "nobody"))
	w.refused(api.CodeConflict, w.order(api.PowerStop, "v1"))
	w.refused(api.CodeInvalid, w.order("sleep", "s1"))
	w.refused(api.CodeInvalid, w.order("", "s1"))
	late := w.order(api.PowerStop, "s1")
	late.Run++
	w.refused(api.CodeInvalid, late)
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "s1"})
	for _, o := range []api.PowerOrder{api.PowerStop, api.PowerStart, api.PowerRestart} {
		w.refused(api.CodeConflict, w.order(o, "s1"))
	}
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "s1"))
	w.refused(api.CodeNotFound, w.order(api.PowerStart, "s1"))
}

// TestPowerOfAnEarlierRun: an order that comes late is for a run that is over.
func TestPowerOfAnEarlierRun(t *testing.T) {
	w := storage(t)
	w.makes("h1", "", web, "s1")
	stop := w.order(api.PowerStop, "s1")
	w.ok(w.order(api.PowerRestart, "s1"))
	w.unchanged(stop)
	late := reports(w.stamp(), "a1", "h1", api.StatusActive, "s1")
	late.Items[0].Stay = 1
	w.unchanged(late) // of the run before
	late.Items[0].Stay = w.instance("s1").Stay()
	w.ok(late)
	assert.Equal(t, api.StatusActive, w.instance("s1").Status)
}

// TestStoppedInstanceMoves: it stays stopped, and its agents see that.
func TestStoppedInstanceMoves(t *testing.T) {
	w := storage(t)
	w.makes("h1", "", web, "s1")
	w.ok(w.order(api.PowerStop, "s1"))
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusShutoff, "s1"))
	w.ok(command.InstanceMove{Stamp: w.stamp(), ID: "s1", From: "h1", To: "h2"})
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "s1"))
	i := w.instance("s1")
	assert.Equal(t, api.HostID("h2"), i.Host)
	assert.True(t, i.Halted)
	w.ok(reports(w.stamp(), "a1", "h2", api.StatusShutoff, "s1"))
	assert.Equal(t, api.StatusShutoff, w.instance("s1").Status)
	again := loaded(t, saved(t, w.s))
	was, _ := again.Instance("s1")
	assert.Equal(t, w.instance("s1"), was, "a snapshot has it")
}
