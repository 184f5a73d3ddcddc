package saga_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// powered returns three zones below each other, of which the lower two have room for two servers each, and the
// n servers of a boot, as the highest knows them.
func powered(t *testing.T, n int) (w *zonetest.World, all []*zonetest.Member, servers []*api.Instance) {
	t.Helper()
	w = zonetest.NewWorld(t)
	w.AgentForm = api.FormNewest
	root := w.Zone("root", nil)
	mid := w.Zone("mid", root, 2)
	leaf := w.Zone("leaf", mid, 2)
	require.Equal(t, api.BootActive, root.Run(zonetest.Order("r", n, n)).State())
	return w, []*zonetest.Member{root, mid, leaf}, root.Instances("r")
}

// owned returns an instance as the zone has it that owns its host.
func owned(all []*zonetest.Member, id api.InstanceID) *api.Instance {
	for _, m := range all {
		if i, ok := m.View().Instance(id); ok && i.Host != "" {
			return i
		}
	}
	return nil
}

// untilAll waits until all zones that know an instance show it with a status.
func untilAll(all []*zonetest.Member, id api.InstanceID, want api.Status) {
	for _, m := range all {
		m.Until("it is "+string(want), func(v *state.State) bool {
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
			require.NoError(t, w.Retry(func() error { return root.Lead().OrderPower(w.Ctx, owner, id, o) }))
		}
		used := []int64{all[1].Used(), all[2].Used()}
		for n, i := range servers {
			give(i.ID, api.PowerStop)
			all[1+n%2].Elect() // the new leader finds it in the log
			untilAll(all, i.ID, api.StatusShutoff)
			give(i.ID, api.PowerStop)
			assert.Zero(t, owned(all, i.ID).Runs)
			give(i.ID, api.PowerStart)
			assert.NotEqual(t, api.StatusShutoff, root.Instances("r")[n].Status, "the order has been heard of here")
			all[1+n%2].Elect()
			untilAll(all, i.ID, api.StatusActive)
			give(i.ID, api.PowerStart)
			assert.Equal(t, uint64(1), owned(all, i.ID).Runs, "it ran already")
			give(i.ID, api.PowerRestart)
			untilAll(all, i.ID, api.StatusActive)
			assert.Equal(t, uint64(2), owned(all, i.ID).Runs)
		}
		assert.Equal(t, []int64{all[1].Used(), all[2].Used()}, used)
		w.Settle()
		w.Check()
	})
}

// TestPowerIsForWhoHasIt: nobody orders what is of others, also no parent.
func TestPowerIsForWhoHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all, servers := powered(t, 3)
		mid, id := all[1], servers[0].ID
		for _, who := range []api.Tenant{{Project: "q"}, {Project: "p", Origin: "other"}} {
			assert.Equal(t, api.CodeNotFound, api.CodeOf(all[0].Lead().OrderPower(w.Ctx, who, id, api.PowerStop)))
		}
		assert.Equal(t, api.CodeNotFound, api.CodeOf(mid.Lead().OrderPower(w.Ctx, api.Tenant{Project: "p"}, id, api.PowerStop)), "a project of the same name")
		require.NoError(t, w.Retry(func() error { return all[0].Lead().OrderPower(w.Ctx, api.Tenant{Project: "p"}, id, api.PowerStop) }))
		untilAll(all, id, api.StatusShutoff)
		parent, ok := mid.View().Parent()
		require.True(t, ok)
		require.Equal(t, api.BootActive, mid.Run(zonetest.Order("own", 1, 1)).State())
		own := mid.Instances("own")[0].ID
		for _, q := range []api.PowerCall{{Instance: "nobody", Order: api.PowerStop, Run: 1}, {Instance: own, Order: api.PowerStop, Run: 1}, {Instance: own}} {
			_, err := mid.Lead().PowerAbroad(w.Ctx, parent, &q)
			assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
		}
		_, err := mid.Lead().PowerAbroad(w.Ctx, parent, &api.PowerCall{Instance: id, Order: api.PowerStart, Run: 99})
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), "%v", err)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(all[0].Lead().OrderPower(w.Ctx, api.Tenant{Project: "p"}, id, "sleep")))
		w.Settle()
		w.Check()
	})
}

// TestPowerCallsGoWrong: an order is carried out once, or the caller hears that it may not be.
func TestPowerCallsGoWrong(t *testing.T) {
	for _, f := range []zonetest.Fault{zonetest.Refused, zonetest.Vanished, zonetest.Silenced, zonetest.CutOff, zonetest.Repeated, zonetest.Ghost} {
		for n := 1; n <= 2; n++ { // the question for the run, and the order
			synctest.Test(t, func(t *testing.T) {
				w, all, servers := powered(t, 4)
				var id api.InstanceID
				for _, i := range servers {
					if o, ok := all[2].View().Instance(i.ID); ok {
						id = o.ID
					}
				}
				require.NotEmpty(t, id, "the leaf has one")
				calls := 0
				w.When(func(c zonetest.Call) zonetest.Fault {
					if c.Op == "power" && c.To == "leaf" {
						if calls++; calls == n {
							return f
						}
					}
					return ""
				})
				err := all[0].Lead().OrderPower(w.Ctx, api.Tenant{Project: "p"}, id, api.PowerRestart)
				w.When(nil)
				w.Settle()
				untilAll(all, id, api.StatusActive)
				runs := owned(all, id).Runs
				assert.LessOrEqual(t, runs, uint64(1), "%s %d", f, n)
				if err == nil {
					assert.Equal(t, uint64(1), runs, "%s %d", f, n)
				}
				if f == zonetest.Refused {
					assert.Equal(t, api.CodeUnavailable, api.CodeOf(err), "%v", err)
					assert.Zero(t, runs)
				}
				require.NoError(t, all[0].Lead().OrderPower(w.Ctx, api.Tenant{Project: "p"}, id, api.PowerRestart))
				untilAll(all, id, api.StatusActive)
				assert.Equal(t, runs+1, owned(all, id).Runs)
				w.Check()
			})
		}
	}
}
