package zone_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// lends sets how much of a zone its parent may have.
func (m *member) lends(held, committed int) {
	m.w.t.Helper()
	up, _ := m.view().Parent()
	m.propose(func(at command.Stamp) command.Command {
		return command.LinkSet{Stamp: at, ID: up.ID, ShareHeld: &held, ShareCommitted: &committed}
	})
}

// takes has a zone hold what it has offered its parent, which decides nothing.
func (m *member) takes(res string, req api.Request, offered *api.SelectAnswer) *api.HoldAnswer {
	m.w.t.Helper()
	up, _ := m.view().Parent()
	ctx, cancel := m.within(time.Minute)
	defer cancel()
	a, err := m.lead().Hold(ctx, up, &api.HoldRequest{
		ID: api.HoldID(res), Attempt: 1, Request: req, Blob: offered.Blob, Instances: [][]api.InstanceSpec{specs(res, len(offered.Weights[0]))},
	})
	require.NoError(m.w.t, err)
	return a
}

// TestAParentThatTakesAll: a parent that takes what it is offered, again and again, and decides nothing,
// leaves the zone what it was not lent; and more, with plans that it has kept, it does not get.
func TestAParentThatTakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		z := w.zone("low", w.zone("root", nil), 2, 2, 2, 2, 2, 2)
		z.lends(50, 75)
		up, _ := z.view().Parent()
		var kept []*api.SelectAnswer // all of these offer the same room
		req := func(n int) api.Request { return order(fmt.Sprint("r", n), 1, 4).Request }
		for n := range 6 {
			kept = append(kept, z.offer(up.Zone, req(n)))
		}
		held := 0
		for n, a := range kept {
			held += len(z.takes(fmt.Sprint("r", n), req(n), a).Held)
		}
		assert.Equal(t, 6, held, "half of 12")
		assert.Empty(t, z.offer(up.Zone, req(9)).Weights[0])
		assert.Equal(t, api.BootActive, z.run(order("own", 6, 6)).State(), "the zone has the rest")
	})
}

// TestAParentIsOfferedItsShare: a parent is offered what is left of its share, learns no number, and hears
// what its own undecided holds have of it.
func TestAParentIsOfferedItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		z := w.zone("low", w.zone("root", nil), 4, 4, 4)
		z.lends(50, 75)
		up, _ := z.view().Parent()
		all := z.offer(up.Zone, order("all", 1, 12).Request)
		require.Len(t, all.Weights[0], 6)
		assert.Equal(t, []api.FilterCount{{Filter: "share", Hosts: 1, Tier: api.TierNotAllowed}}, all.Refusals[0].Limits)
		assert.Empty(t, all.Contended)
		assert.Len(t, z.pick(12, time.Minute).Weights[0], 12, "the zone itself has all")

		a := z.takes("some", order("some", 1, 4).Request, z.offer(up.Zone, order("some", 1, 4).Request))
		require.Len(t, a.Held, 4)
		rest := z.offer(up.Zone, order("rest", 1, 12).Request)
		assert.Len(t, rest.Weights[0], 2)
		assert.Equal(t, 4, rest.Contended[0].All, "the hold of the parent has it")

		z.propose(func(at command.Stamp) command.Command {
			return command.HoldDecide{Stamp: at, ID: "some", Origin: up.ID, Decision: api.DecisionCommit}
		})
		assert.Len(t, z.offer(up.Zone, order("more", 1, 12).Request).Weights[0], 5, "9 in all")
	})
}

// TestBootsWithinAShare: boots of a parent get the share of each child, and no boot fails that waits for
// another one.
func TestBootsWithinAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil)
		a, b := w.zone("a", root, 4, 4), w.zone("b", root, 4, 4)
		a.lends(50, 75)
		b.lends(50, 75)
		failed := root.run(order("big", 9, 9))
		assert.Equal(t, api.BootFailed, failed.State())
		assert.Equal(t, api.CodeNoCapacity, failed.Code)
		for _, res := range []string{"r1", "r2", "r3"} {
			root.boot(order(res, 4, 4))
		}
		for _, res := range []string{"r1", "r2", "r3"} {
			assert.Equal(t, api.BootActive, root.outcome(res).State(), "%s", root.outcome(res).Reason)
		}
		assert.Equal(t, int64(12), a.used()+b.used())
		assert.Equal(t, api.BootFailed, root.run(order("over", 1, 1)).State())
		assert.Equal(t, api.BootActive, a.run(order("own", 2, 2)).State())
	})
}

// TestRoomOfAShare: what a zone says of its room over time ends with the share of its parent.
func TestRoomOfAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		z := w.zone("low", w.zone("root", nil), 4, 4)
		z.lends(100, 50)
		up, _ := z.view().Parent()
		req := order("later", 1, 8).Request
		start := z.view().Now().Add(time.Hour)
		req.Reserves, req.Window = true, api.Window{Start: start, End: start.Add(time.Hour)}
		req.Groups[0].Name = "later"
		ctx, cancel := z.within(time.Minute)
		defer cancel()
		a, err := z.lead().Room(ctx, up.Zone, &api.RoomQuestion{Request: req, Until: start.Add(time.Hour)})
		require.NoError(t, err)
		require.NotEmpty(t, a.Steps)
		assert.Equal(t, []int{4}, a.Steps[0].Together)
	})
}
