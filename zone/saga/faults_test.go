package saga_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// wholeSaga is everything that the protocol does: a boot over three levels, the end of
// an instance at its far end, a boot that one child takes alone, a boot that is
// too large, and the end of all.
func wholeSaga(w *zonetest.World) {
	root := w.Zones[0]
	if b := root.Run(zonetest.Order("wide", 4, 6)); b.State() != api.BootFailed {
		for _, i := range root.Instances("wide") {
			if i.Link != "" {
				root.Delete(i.ID)
				break
			}
		}
	}
	w.Settle()
	root.Run(zonetest.Order("single", 1, 1))
	root.Run(zonetest.Order("large", 7, 7))
	assert.Equal(w.T, api.BootFailed, root.Outcome("large").State())
	w.Settle()
	for _, res := range []string{"wide", "single"} {
		if root.Outcome(res).State() != api.BootFailed {
			root.Release(res)
			assert.Equal(w.T, api.BootReleased, root.Outcome(res).State())
		}
	}
	w.Settle()
	for _, m := range w.Zones {
		for _, h := range m.View().AllHosts() {
			full, _ := m.View().Host(h.ID)
			assert.Empty(w.T, full.Used, "zone %s: host %s", m.Name, h.Name)
		}
	}
}

// TestEveryCallGoesWrongOnce runs the saga once for every call between zones and
// every way in which it can go wrong.
func TestEveryCallGoesWrongOnce(t *testing.T) {
	var made []zonetest.Call
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		zonetest.Three(w)
		wholeSaga(w)
		made = zonetest.Tries(w.AllMade())
	})
	require.Greater(t, len(made), 15, "the saga is too short: %v", made)
	for _, c := range dice.Part(t, zonetest.EachCall(made), 20) {
		t.Run(c.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				zonetest.Three(w)
				w.CallGoesWrong(c)
				wholeSaga(w)
			})
		})
	}
}

// TestEveryEntryGoesWrongOnce runs the saga once for every entry of the log of
// each zone that belongs to the protocol, and every way in which its proposal can
// go wrong; a new leader is among them.
func TestEveryEntryGoesWrongOnce(t *testing.T) {
	var counts []map[command.Kind]int
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		zonetest.Three(w)
		wholeSaga(w)
		for _, m := range w.Zones {
			counts = append(counts, m.Log.Counts())
		}
	})
	steps := []command.Kind{
		command.KindBootCreate, command.KindHold, command.KindHoldParts, command.KindHoldDecide, command.KindBootDecide,
		command.KindBootRelease, command.KindPartAck, command.KindInstanceDelete, command.KindInstanceChanges,
		command.KindInstanceTold,
	}
	for _, e := range dice.Part(t, zonetest.EachEntry(counts, steps, zonetest.CallsTried), 24) {
		t.Run(e.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				zonetest.Three(w)
				w.EntryGoesWrong(e)
				wholeSaga(w)
			})
		})
	}
}
