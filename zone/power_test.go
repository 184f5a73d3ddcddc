package zone_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/state"
)

// powered returns three zones below each other, of which the lower two have room for two servers each, and the
// n servers of a boot, as the highest knows them.
func powered(t *testing.T, n int) (w *world, all []*member, servers []*api.Instance) {
	t.Helper()
	w = newWorld(t)
	w.agents = api.FormNewest
	root := w.zone("root", nil)
	mid := w.zone("mid", root, 2)
	leaf := w.zone("leaf", mid, 2)
	require.Equal(t, api.BootActive, root.run(order("r", n, n)).State())
	return w, []*member{root, mid, leaf}, root.instances("r")
}

// owned returns an instance as the zone has it that owns its host.
func owned(all []*member, id api.InstanceID) *api.Instance {
	for _, m := range all {
		if i, ok := m.view().Instance(id); ok && i.Host != "" {
			return i
		}
	}
	return nil
}

// untilAll waits until all zones that know an instance show it with a status.
func untilAll(all []*member, id api.InstanceID, want api.Status) {
	for _, m := range all {
		m.until("it is "+string(want), func(v *state.State) bool {
			i, ok := v.Instance(id)
			return !ok || i.Status == want
		})
	}
}

// TestPowerOfTwoZones: whoever has a server stops and starts it where it was booted, whichever zone has it.
// It keeps its room.
func TestPowerOfTwoZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all, servers := powered(t, 4)
		root, owner := all[0], api.Tenant{Project: "p"}
		give := func(id api.InstanceID, o api.PowerOrder) {
			require.NoError(t, w.retry(func() error { return root.lead().OrderPower(w.ctx, owner, id, o) }))
		}
		used := []int64{all[1].used(), all[2].used()}
		for n, i := range servers {
			give(i.ID, api.PowerStop)
			all[1+n%2].elect() // the new leader finds it in the log
			untilAll(all, i.ID, api.StatusShutoff)
			give(i.ID, api.PowerStop)
			assert.Zero(t, owned(all, i.ID).Runs)
			give(i.ID, api.PowerStart)
			assert.NotEqual(t, api.StatusShutoff, root.instances("r")[n].Status, "the order has been heard of here")
			all[1+n%2].elect()
			untilAll(all, i.ID, api.StatusActive)
			give(i.ID, api.PowerStart)
			assert.Equal(t, uint64(1), owned(all, i.ID).Runs, "it ran already")
			give(i.ID, api.PowerRestart)
			untilAll(all, i.ID, api.StatusActive)
			assert.Equal(t, uint64(2), owned(all, i.ID).Runs)
		}
		assert.Equal(t, used, []int64{all[1].used(), all[2].used()})
		w.settle()
		w.check()
	})
}

// TestPowerIsForWhoHasIt: nobody orders what is of others, also no parent.
func TestPowerIsForWhoHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all, servers := powered(t, 3)
		mid, id := all[1], servers[0].ID
		for _, who := range []api.Tenant{{Project: "q"}, {Project: "p", Origin: "other"}} {
			assert.Equal(t, api.CodeNotFound, api.CodeOf(all[0].lead().OrderPower(w.ctx, who, id, api.PowerStop)))
		}
		assert.Equal(t, api.CodeNotFound, api.CodeOf(mid.lead().OrderPower(w.ctx, api.Tenant{Project: "p"}, id, api.PowerStop)), "a project of the same name")
		require.NoError(t, w.retry(func() error { return all[0].lead().OrderPower(w.ctx, api.Tenant{Project: "p"}, id, api.PowerStop) }))
		untilAll(all, id, api.StatusShutoff)
		parent, ok := mid.view().Parent()
		require.True(t, ok)
		require.Equal(t, api.BootActive, mid.run(order("own", 1, 1)).State())
		own := mid.instances("own")[0].ID
		for _, q := range []api.PowerCall{{Instance: "nobody", Order: api.PowerStop, Run: 1}, {Instance: own, Order: api.PowerStop, Run: 1}, {Instance: own}} {
			_, err := mid.lead().PowerAbroad(w.ctx, parent, &q)
			assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
		}
		_, err := mid.lead().PowerAbroad(w.ctx, parent, &api.PowerCall{Instance: id, Order: api.PowerStart, Run: 99})
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), "%v", err)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(all[0].lead().OrderPower(w.ctx, api.Tenant{Project: "p"}, id, "sleep")))
		w.settle()
		w.check()
	})
}

// TestPowerCallsGoWrong: an order is carried out once, or the caller hears that it may not be.
func TestPowerCallsGoWrong(t *testing.T) {
	for _, f := range []fault{refused, vanished, silenced, cutOff, repeated, ghost} {
		for n := 1; n <= 2; n++ { // the question for the run, and the order
			synctest.Test(t, func(t *testing.T) {
				w, all, servers := powered(t, 4)
				var id api.InstanceID
				for _, i := range servers {
					if o, ok := all[2].view().Instance(i.ID); ok {
						id = o.ID
					}
				}
				require.NotEmpty(t, id, "the leaf has one")
				calls := 0
				w.when(func(c call) fault {
					if c.op == "power" && c.to == "leaf" {
						if calls++; calls == n {
							return f
						}
					}
					return ""
				})
				err := all[0].lead().OrderPower(w.ctx, api.Tenant{Project: "p"}, id, api.PowerRestart)
				w.when(nil)
				w.settle()
				untilAll(all, id, api.StatusActive)
				runs := owned(all, id).Runs
				assert.LessOrEqual(t, runs, uint64(1), "%s %d", f, n)
				if err == nil {
					assert.Equal(t, uint64(1), runs, "%s %d", f, n)
				}
				if f == refused {
					assert.Equal(t, api.CodeUnavailable, api.CodeOf(err), "%v", err)
					assert.Zero(t, runs)
				}
				require.NoError(t, all[0].lead().OrderPower(w.ctx, api.Tenant{Project: "p"}, id, api.PowerRestart))
				untilAll(all, id, api.StatusActive)
				assert.Equal(t, runs+1, owned(all, id).Runs)
				w.check()
			})
		}
	}
}
