package saga_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

var apart = api.ServerGroup{ID: "5e5e5e5e-0000-4000-8000-000000000000", Project: "p", Name: "g", Policy: api.AntiAffinity, Max: 2}

func bootApart(res string, n int) *intake.BootOrder {
	o := zonetest.Order(res, n, n)
	o.Request.Rules = []api.Rule{{ID: apart.ID, Policy: apart.Policy, Max: apart.Max, Groups: []int{0}}}
	return o
}

// boundAnywhere counts the live instances in all zones that some rule binds.
func boundAnywhere(w *zonetest.World) (n int) {
	for _, m := range w.Zones {
		for _, i := range zonetest.AllInstances(m.View()) {
			if i.Live() && len(i.Rules) > 0 {
				n++
			}
		}
	}
	return n
}

// liftGroup boots members of a server group over three levels, and deletes the group.
func liftGroup(w *zonetest.World) {
	root := w.Zones[0]
	root.Do(command.GroupPut{Group: apart})
	wide := root.Run(bootApart("wide", 5)).State()
	single := root.Run(bootApart("single", 1)).State()
	root.Do(command.GroupDelete{Project: "p", ID: apart.ID})
	w.Settle()
	assert.Zero(w.T, boundAnywhere(w), "of a group that is deleted")
	for res, st := range map[string]api.BootState{"wide": wide, "single": single} {
		assert.Equal(w.T, st, root.Outcome(res).State())
		if st != api.BootFailed {
			root.Release(res)
		}
	}
	w.Settle()
}

// TestDeletedGroupsAreLiftedEverywhere: the members of a server group in zones below are let go when it is deleted,
// whatever goes wrong once on the way.
func TestDeletedGroupsAreLiftedEverywhere(t *testing.T) {
	var made []zonetest.Call
	var counts []map[command.Kind]int
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		zonetest.Three(w)
		liftGroup(w)
		made = zonetest.Tries(w.AllMade())
		for _, m := range w.Zones {
			counts = append(counts, m.Log.Counts())
		}
	})
	try := func(name string, spoil func(*zonetest.World)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				zonetest.Three(w)
				spoil(w)
				liftGroup(w)
			})
		})
	}
	for _, c := range dice.Part(t, zonetest.EachCall(made), 12) {
		try(c.String(), func(w *zonetest.World) { w.CallGoesWrong(c) })
	}
	steps := []command.Kind{command.KindHold, command.KindHoldParts, command.KindHoldDecide, command.KindBootDecide, command.KindPartAck}
	for _, e := range dice.Part(t, zonetest.EachEntry(counts, steps, zonetest.CallsTried), 12) {
		try(e.String(), func(w *zonetest.World) { w.EntryGoesWrong(e) })
	}
}

// TestGroupIsDeletedWhileAZoneIsAway: a zone that is away when a server group is deleted learns of it when it is back.
func TestGroupIsDeletedWhileAZoneIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root, mid, leaf := zonetest.Three(w)
		root.Do(command.GroupPut{Group: apart})
		require.Equal(t, api.BootActive, root.Run(bootApart("wide", 6)).State())
		w.Settle()
		w.Sever("root", "mid", true)
		root.Do(command.GroupDelete{Project: "p", ID: apart.ID})
		await.Sleep(time.Minute)
		assert.NotZero(t, boundAnywhere(w))
		for _, i := range root.Instances("wide") {
			assert.Empty(t, i.Rules)
		}
		w.Sever("root", "mid", false)
		w.Sever("mid", "leaf", true)
		await.Sleep(time.Minute)
		for _, i := range zonetest.AllInstances(mid.View()) {
			assert.Empty(t, i.Rules)
		}
		mid.Elect()
		w.Sever("mid", "leaf", false)
		w.Settle()
		assert.Zero(t, boundAnywhere(w))
		assert.NotEmpty(t, zonetest.AllInstances(leaf.View()))
	})
}

// TestPreemptedInstancesOutliveTheirGroup: what was preempted of a boot is booted again where its server group, which was deleted meanwhile,
// would not have it: here, and in a zone below.
func TestPreemptedInstancesOutliveTheirGroup(t *testing.T) {
	for _, below := range []bool{false, true} {
		t.Run(fmt.Sprint(below), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				at := root
				if below {
					at = w.Zone("kid", root, 2, 2)
				} else {
					at = w.Zone("root2", nil, 2, 2)
					root = at
				}
				one := apart
				one.Max = 1
				root.Do(command.GroupPut{Group: one})
				soft := softOrder("soft", 2, 2)
				soft.Request.Rules = []api.Rule{{ID: one.ID, Policy: one.Policy, Max: one.Max, Groups: []int{0}}}
				require.Equal(t, api.BootActive, root.Run(soft).State())
				firm := zonetest.Order("firm", 4, 4)
				firm.Request.Preempt = true
				at.Run(firm)
				root.Until("both wait", func(v *state.State) bool { return v.CountRequeued() == 2 })
				first, _ := at.View().Host(at.Instances("firm")[0].Host)
				release(at, "firm")
				at.Run(on(first.Name, "cheap", 2))
				root.Do(command.GroupDelete{Project: "p", ID: one.ID})
				untilAgain(root, "soft", func(b *state.Boot) bool { return b.State() == api.BootActive })
				w.Settle()
				assert.Len(t, root.Instances("soft"), 2)
				assert.Zero(t, boundBy(w, string(one.ID)))
			})
		})
	}
}

// boundBy counts the live instances in all zones that a rule binds.
func boundBy(w *zonetest.World, rule string) (n int) {
	for _, m := range w.Zones {
		for _, i := range zonetest.AllInstances(m.View()) {
			if i.Live() && slices.Contains(i.Rules, rule) {
				n++
			}
		}
	}
	return n
}

// TestAttemptsOutliveTheirGroup: a boot that waits for a zone below is planned without its server group if that is deleted meanwhile.
func TestAttemptsOutliveTheirGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kid := w.Zone("kid", root, 6)
		await.Sleep(zone.LinkFresh + 1)
		w.Hear(kid, 0)
		root.Do(command.GroupPut{Group: apart})
		awayFor(w, "kid", 5*time.Second)
		root.Boot(bootApart("r", 4)) // two of them on a host at the most
		await.Sleep(time.Second)
		root.Do(command.GroupDelete{Project: "p", ID: apart.ID})
		assert.Equal(t, api.BootActive, root.Outcome("r").State())
		w.Settle()
		assert.Zero(t, boundBy(w, string(apart.ID)))
		assert.Len(t, kid.Instances("r"), 4)
	})
}
