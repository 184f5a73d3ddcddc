package foreign

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// TestTwoGangsWantTheSame, report 5: two gangs of which each got a part held it and waited for the rest for ever.
func TestTwoGangsWantTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kids := []*zonetest.Member{w.Zone("a", root, 2), w.Zone("b", root, 2)}
		var slow atomic.Int64 // which child is slow
		w.Delay(func(c zonetest.Call) time.Duration {
			if slow := kids[slow.Load()].Name; c.From == slow || c.To == slow {
				return 300 * time.Millisecond
			}
			return 10 * time.Millisecond
		})
		for round := range 6 {
			slow.Store(int64(round % 2))
			names := []string{"left", "right"}
			for i := range names {
				names[i] += string(rune('a' + round))
				root.Boot(zonetest.Order(names[i], 3, 3))
				await.Sleep(time.Duration(round) * 100 * time.Millisecond)
			}
			began := time.Now()
			got := []api.BootState{root.Outcome(names[0]).State(), root.Outcome(names[1]).State()}
			assert.Less(t, time.Since(began), time.Minute)
			slices.Sort(got)
			require.Equal(t, []api.BootState{api.BootActive, api.BootFailed}, got, "one of them has all, the other nothing")
			w.Settle()
			assert.EqualValues(t, 3, kids[0].Used()+kids[1].Used())
			for _, n := range names {
				root.Release(n)
				root.Until(n+" is gone", func(v *state.State) bool {
					b, _ := v.Boot("p", api.ReservationID(n))
					return b.State() == api.BootReleased || b.State() == api.BootFailed
				})
			}
		}
	})
}

// TestRoomOfVictimsIsNotTakenBack, report 6: of several that had to leave one was quick, came back into the room that
// it had just left, had to leave again, and so on without an end.
func TestRoomOfVictimsIsNotTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 2)
		slow := m.Agent("slow", 2)
		require.Equal(t, api.BootActive, m.Run(soft("soft", 4)).State())
		slow.FallSilent()
		m.Boot(urgent("firm", 4))
		m.Until("two have left", func(v *state.State) bool { return v.CountByStatus()[api.StatusDeleted] == 2 })
		b, _ := m.View().Boot("p", "firm")
		require.Equal(t, api.BootBuilding, b.State())
		await.Sleep(2 * time.Second) // both of them wait, and there is room that nothing runs in yet
		slow.Speak()
		m.Until("all of it runs", func(v *state.State) bool {
			b, _ := v.Boot("p", "firm")
			return b.State() == api.BootActive
		})
		await.Sleep(20 * time.Minute)
		assert.Len(t, m.View().OfReservation("p", "soft"), 4, "none came back to be evicted again")
		assert.Equal(t, 4, m.View().CountRequeued())
		m.Release("firm")
		m.Until("they are back", func(v *state.State) bool { return v.CountRequeued() == 0 })
		m.Until("they run", func(v *state.State) bool { return v.CountByStatus()[api.StatusActive] == 4 })
		w.Settle()
	})
}

// TestNoMoreLeaveThanNeeded, report 7: of two hosts the one was emptied on which more, or more important, work ran.
func TestNoMoreLeaveThanNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 4, 4)
		hosts := []string{"root-host-1", "root-host-2"}
		boot := func(host, res string, n int, class api.Class) {
			o := zonetest.Order(res, n, n)
			o.Request.Class = class
			o.Request.Groups[0].Hints.ForceHosts = []string{host}
			require.Equal(t, api.BootActive, m.Run(o).State())
		}
		boot(hosts[0], "soft-1", 4, api.Preemptible)
		boot(hosts[1], "firm-2", 2, api.Firm)
		boot(hosts[1], "soft-2", 2, api.Preemptible)
		big := *zonetest.Flavor
		big.Resources = api.Resources{api.VCPU: 2, api.MemoryMB: 256}
		o := urgent("urgent", 1)
		o.Request.Groups[0] = zonetest.OfFlavor(o.Request.Groups[0], &big)
		require.Equal(t, api.BootActive, m.Run(o).State())
		w.Settle()
		assert.Equal(t, 2, m.View().CountByStatus()[api.StatusDeleted], "two processors are needed, so two leave")
		assert.Len(t, m.Instances("firm-2"), 2)
	})
}

// TestAKeyIsForOneOrder, report 8: a key of a request that had failed gave the failure to another request, or
// a repeat of it made a second one.
func TestAKeyIsForOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 2)
		o := zonetest.Order("first", 3, 3)
		o.Key = "monday"
		require.Equal(t, api.BootFailed, m.Run(o).State())
		m.Agent("b", 4)
		again := zonetest.Order("second", 3, 3) // each call has an id of its own
		again.Key, again.Name = o.Key, o.Name
		b, err := m.Lead().Boot(w.Ctx, again)
		require.NoError(t, err)
		assert.Equal(t, api.ReservationID("first"), b.Request.Reservation, "the answer is that of the first call")
		assert.Equal(t, api.BootFailed, b.State())
		other := zonetest.Order("third", 1, 1)
		other.Key = o.Key
		requireRefused(t, m, other, api.CodeConflict)
		fresh := zonetest.Order("fourth", 3, 3)
		fresh.Key = "tuesday"
		require.Equal(t, api.BootActive, m.Run(fresh).State())
		m.Boot(fresh)
		w.Settle()
		assert.Len(t, zonetest.AllInstances(m.View()), 3)
	})
}

// TestApartAlthoughTheOutcomeIsUnknown, report 19: a place was taken, but whoever took it was told that it had failed;
// the next member of the group that must be apart was put beside it. In Berth an attempt that is given up keeps its
// place until its agent has ended it.
func TestApartAlthoughTheOutcomeIsUnknown(t *testing.T) {
	for _, mishap := range []zonetest.Mishap{zonetest.Unconfirmed, zonetest.Delayed, zonetest.Doubled} {
		t.Run(string(mishap), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				kid := w.Zone("kid", root, 4, 4, 4, 4, 4, 4, 4, 4, 4)
				root.Do(command.GroupPut{Group: api.ServerGroup{ID: "sg", Project: "p", Name: "g", Policy: api.AntiAffinity, Max: 1}})
				for _, m := range []*zonetest.Member{root, kid} {
					m.Log.When(func(k command.Kind, n int) zonetest.Mishap {
						if k == command.KindHold && (n == 1 || n == 3) {
							return mishap
						}
						return ""
					})
				}
				names := []string{"a", "b", "c"}
				for _, n := range names {
					o := zonetest.Order(n, 1, 1)
					o.Request.Rules = []api.Rule{{ID: "sg", Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
					root.Boot(o)
				}
				w.Calm()
				for _, n := range names {
					b := root.Outcome(n)
					require.Equal(t, api.BootActive, b.State(), b.Reason)
				}
				for _, h := range kid.View().AllHosts() {
					assert.LessOrEqual(t, usedOn(kid, h.ID), int64(1))
				}
				w.Settle()
				assert.EqualValues(t, 3, kid.Used())
			})
		})
	}
}

// TestAVictimThatDoesNotStop, report 20: who had made others leave waited for a host on which they never stopped,
// although another one had room by then. Berth waits too, as long as the agent there lives: what is promised a place
// keeps it. Its owner may ask again, and gets the other one.
func TestAVictimThatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil)
		deaf := m.Agent("deaf", 2)
		require.Equal(t, api.BootActive, m.Run(soft("soft", 2)).State())
		deaf.IgnoreStops()
		m.Boot(urgent("firm", 2))
		await.Sleep(time.Minute)
		m.Agent("b", 2)
		await.Sleep(10 * time.Minute)
		b, _ := m.View().Boot("p", "firm")
		assert.Equal(t, api.BootBuilding, b.State())
		assert.Equal(t, map[api.HostID]int{m.Host("root-host-deaf1"): 2}, m.OnHosts("firm"))
		assert.Len(t, w.AllRan(), 2, "nothing is started beside what does not stop")
		require.Equal(t, api.BootActive, m.Run(urgent("again", 2)).State())
		assert.Equal(t, map[api.HostID]int{m.Host("root-host-b1"): 2}, m.OnHosts("again"))
		m.Release("firm")
		untilReleased(m, "firm")
		assert.Len(t, w.AllRan(), 4)
	})
}
