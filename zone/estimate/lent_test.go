package estimate_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// lendShare sets how much of a zone its parent may have.
func lendShare(m *zonetest.Member, held, committed int) {
	m.World.T.Helper()
	up, _ := m.View().Parent()
	m.Propose(func(at command.Stamp) command.Command {
		return command.LinkSet{Stamp: at, ID: up.ID, ShareHeld: &held, ShareCommitted: &committed}
	})
}

// takeOffer has a zone hold what it has offered its parent, which decides nothing.
func takeOffer(m *zonetest.Member, res string, req api.Request, offered *api.SelectAnswer) *api.HoldAnswer {
	m.World.T.Helper()
	up, _ := m.View().Parent()
	ctx, cancel := m.Within(time.Minute)
	defer cancel()
	a, err := m.Lead().Hold(ctx, up, &api.HoldRequest{
		ID: api.HoldID(res), Attempt: 1, Request: req, Blob: offered.Blob, Instances: [][]api.InstanceSpec{zonetest.Specs(res, len(offered.Weights[0]))},
	})
	require.NoError(m.World.T, err)
	return a
}

// TestAParentThatTakesAll: a parent that takes what it is offered, again and again, and decides nothing,
// leaves the zone what it was not lent; and more, with plans that it has kept, it does not get.
func TestAParentThatTakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		z := w.Zone("low", w.Zone("root", nil), 2, 2, 2, 2, 2, 2)
		lendShare(z, 50, 75)
		up, _ := z.View().Parent()
		var kept []*api.SelectAnswer // all of these offer the same room
		req := func(n int) api.Request { return zonetest.Order(fmt.Sprint("r", n), 1, 4).Request }
		for n := range 6 {
			kept = append(kept, offerTo(z, up.Zone, req(n)))
		}
		held := 0
		for n, a := range kept {
			held += len(takeOffer(z, fmt.Sprint("r", n), req(n), a).Held)
		}
		assert.Equal(t, 6, held, "half of 12")
		assert.Empty(t, offerTo(z, up.Zone, req(9)).Weights[0])
		assert.Equal(t, api.BootActive, z.Run(zonetest.Order("own", 6, 6)).State(), "the zone has the rest")
	})
}

// TestAParentIsOfferedItsShare: a parent is offered what is left of its share, learns no number, and hears
// what its own undecided holds have of it.
func TestAParentIsOfferedItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		z := w.Zone("low", w.Zone("root", nil), 4, 4, 4)
		lendShare(z, 50, 75)
		up, _ := z.View().Parent()
		all := offerTo(z, up.Zone, zonetest.Order("all", 1, 12).Request)
		require.Len(t, all.Weights[0], 6)
		assert.Equal(t, []api.FilterCount{{Filter: "share", Hosts: 1, Tier: api.TierNotAllowed}}, all.Refusals[0].Limits)
		assert.Empty(t, all.Contended)
		assert.Len(t, z.Pick(12, time.Minute).Weights[0], 12, "the zone itself has all")

		a := takeOffer(z, "some", zonetest.Order("some", 1, 4).Request, offerTo(z, up.Zone, zonetest.Order("some", 1, 4).Request))
		require.Len(t, a.Held, 4)
		rest := offerTo(z, up.Zone, zonetest.Order("rest", 1, 12).Request)
		assert.Len(t, rest.Weights[0], 2)
		assert.Equal(t, 4, rest.Contended[0].All, "the hold of the parent has it")

		z.Propose(func(at command.Stamp) command.Command {
			return command.HoldDecide{Stamp: at, ID: "some", Origin: up.ID, Decision: api.DecisionCommit}
		})
		assert.Len(t, offerTo(z, up.Zone, zonetest.Order("more", 1, 12).Request).Weights[0], 5, "9 in all")
	})
}

// TestBootsWithinAShare: boots of a parent get the share of each child, and no boot fails that waits for
// another one.
func TestBootsWithinAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		a, b := w.Zone("a", root, 4, 4), w.Zone("b", root, 4, 4)
		lendShare(a, 50, 75)
		lendShare(b, 50, 75)
		failed := root.Run(zonetest.Order("big", 9, 9))
		assert.Equal(t, api.BootFailed, failed.State())
		assert.Equal(t, api.CodeNoCapacity, failed.Code)
		for _, res := range []string{"r1", "r2", "r3"} {
			root.Boot(zonetest.Order(res, 4, 4))
		}
		for _, res := range []string{"r1", "r2", "r3"} {
			assert.Equal(t, api.BootActive, root.Outcome(res).State(), "%s", root.Outcome(res).Reason)
		}
		assert.Equal(t, int64(12), a.Used()+b.Used())
		assert.Equal(t, api.BootFailed, root.Run(zonetest.Order("over", 1, 1)).State())
		assert.Equal(t, api.BootActive, a.Run(zonetest.Order("own", 2, 2)).State())
	})
}

// TestRoomOfAShare: what a zone says of its room over time ends with the share of its parent.
func TestRoomOfAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		z := w.Zone("low", w.Zone("root", nil), 4, 4)
		lendShare(z, 100, 50)
		up, _ := z.View().Parent()
		req := zonetest.Order("later", 1, 8).Request
		start := z.View().Now().Add(time.Hour)
		req.Reserves, req.Window = true, api.Window{Start: start, End: start.Add(time.Hour)}
		req.Groups[0].Name = "later"
		ctx, cancel := z.Within(time.Minute)
		defer cancel()
		a, err := z.Lead().Room(ctx, up.Zone, &api.RoomQuestion{Request: req, Until: start.Add(time.Hour)})
		require.NoError(t, err)
		require.NotEmpty(t, a.Steps)
		assert.Equal(t, []int{4}, a.Steps[0].Together)
	})
}
