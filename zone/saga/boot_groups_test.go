package saga_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// TestRefusedSlotsOfGroupsAreWantedAgain lets a child shrink between select and
// hold: only what was refused is wanted again, of the right group.
func TestRefusedSlotsOfGroupsAreWantedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		kid := w.Zone("kid", root, 4)
		asked := 0
		w.When(func(now zonetest.Call) zonetest.Fault {
			switch now.Op {
			case "select":
				kid.Resize(4)
			case "hold":
				if asked++; asked == 1 {
					kid.Resize(1)
				}
			}
			return ""
		})
		b := root.Run(zonetest.Groups("b", zonetest.Group("web", 3, 3), zonetest.Group("db", 3, 3)))
		require.Equal(t, api.BootActive, b.State(), b.Reason)
		for _, g := range []string{"web", "db"} {
			n := 0
			for _, k := range root.Spread("b", g) {
				n += k
			}
			assert.Equal(t, 3, n, g)
		}
		assert.Len(t, b.Attempts, 2)
		w.Settle()
	})
}

// TestParallelBootsKeepARule boots into one anti-affinity group from two sides at
// once, many times: never two on one host.
func TestParallelBootsKeepARule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 8, 8, 8)
		m.Do(command.GroupPut{Group: api.ServerGroup{ID: "sg", Project: "p", Name: "sg", Policy: api.AntiAffinity, Max: 1}})
		for n := range zonetest.Few(1000, 150) {
			var made []string
			for side := range 2 {
				o := zonetest.Order(fmt.Sprintf("b-%d-%d", n, side), 2, 2)
				o.Request.Rules = []api.Rule{{ID: "sg", Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
				m.Boot(o)
				made = append(made, string(o.Request.Reservation))
			}
			on := map[api.HostID]int{}
			won := 0
			for _, res := range made {
				if m.Outcome(res).State() == api.BootActive {
					won++
				}
				for h, k := range m.OnHosts(res) {
					on[h] += k
				}
			}
			for h, k := range on {
				require.Equal(t, 1, k, "round %d: host %s", n, h)
			}
			require.Equal(t, 1, won, "round %d: three hosts have room for one of two pairs", n)
			for _, res := range made {
				m.Release(res)
				m.Outcome(res)
			}
		}
		w.Settle()
	})
}
