package state

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/command"
)

// TestDeletedLeaseWaitsForItsChildren: of a lease that a child may have made by itself
// something is left until the child has confirmed that it gave it up.
func TestDeletedLeaseWaitsForItsChildren(t *testing.T) {
	w := leaseWorld(t)
	w.link("c", api.LinkChild)
	window := api.Window{Start: start + 10*minute, End: start + 20*minute}
	order := leaseOrder("l", "o", window, "s1")
	w.ok(command.LeaseCreate{Stamp: w.stamp(), Terms: leaseTerms("l", window, 1), Events: leaseEvents(window), Digest: []byte{1}, Order: order})
	h := hold(w.stamp(), "k", "o", nil, part("c", "s1"))
	h.Request, h.Commit = order.Request, true
	w.ok(h)

	w.ok(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: "l"})
	assert.Equal(t, api.LeaseDeleting, w.lease("l").Status)
	w.ok(command.PartAck{Stamp: w.stamp(), ID: "k", Link: "c", Decision: api.DecisionAbort})
	_, there := w.s.Lease("l")
	assert.False(t, there)
	checkIndexes(t, w.s)
}

// TestReplacedOrderWaitsForItsChildren: the order before an update is released when every
// child has confirmed the update, and so has taken over what it keeps.
func TestReplacedOrderWaitsForItsChildren(t *testing.T) {
	w := leaseWorld(t)
	w.link("c", api.LinkChild)
	window := api.Window{Start: start + 10*minute, End: start + 20*minute}
	w.makeLease("l", "h1", window, "s1")
	h := w.updateLease("l", window, "h1", []string{"s1"}, "t1", "t2")
	h.Slots, h.Parts = h.Slots[:1], []command.Part{part("c", "t2")}
	w.ok(h)
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: h.ID, Answers: []command.PartAnswer{answer("c", "t2")}})
	w.ok(bootDecide(w.stamp(), "l-o2", api.DecisionCommit))
	assert.Equal(t, []api.ReservationID{"l-o"}, w.lease("l").Replaced)
	assert.False(t, w.boot("l-o").Ended)
	w.ok(command.PartAck{Stamp: w.stamp(), ID: h.ID, Link: "c", Decision: api.DecisionCommit})
	assert.Empty(t, w.lease("l").Replaced)
	assert.True(t, w.boot("l-o").Ended)
	checkIndexes(t, w.s)
}

// TestReplacedOrderIsKnownUntilItsChildrenConfirm: also what is left of it when all of its slots were
// taken over is known until every child that had a part in it has confirmed that it is released.
func TestReplacedOrderIsKnownUntilItsChildrenConfirm(t *testing.T) {
	w := leaseWorld(t)
	w.link("c", api.LinkChild)
	window := api.Window{Start: start + 10*minute, End: start + 20*minute}
	order := leaseOrder("l", "l-o", window, "s1")
	w.ok(command.LeaseCreate{Stamp: w.stamp(), Terms: leaseTerms("l", window, 1), Events: leaseEvents(window), Digest: []byte{1}, Order: order})
	first := hold(w.stamp(), "k1", "l-o", nil, part("c", "x1"))
	first.Request = order.Request
	w.ok(first)
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Answers: []command.PartAnswer{answer("c")}}) // it had no room
	second := hold(w.stamp(), "k2", "l-o", slots("h1", "s1"))
	second.Request = order.Request
	w.ok(second)
	w.ok(bootDecide(w.stamp(), "l-o", api.DecisionCommit))
	w.ok(command.PartAck{Stamp: w.stamp(), ID: "k1", Link: "c", Decision: api.DecisionCommit})

	h := w.updateLease("l", window, "h1", []string{"s1"}, "t1")
	h.Commit = true
	w.ok(h)
	assert.True(t, w.boot("l-o").Ended)
	assert.Equal(t, []api.ReservationID{"l-o"}, w.lease("l").Replaced, "the child does not know of its end")
	w.ok(command.PartAck{Stamp: w.stamp(), ID: "k1", Link: "c", Decision: api.DecisionAbort})
	assert.Empty(t, w.lease("l").Replaced)
	checkIndexes(t, w.s)
}

// TestSlotWaitsForItsPool: a slot whose share of a pool is still in use begins when it is
// free, although nothing changes on its host.
func TestSlotWaitsForItsPool(t *testing.T) {
	w := leaseWorld(t)
	w.ok(w.aggregate(aggregate(uuid(1), "", "h1", "h2"), false))
	w.ok(providerCreate(w.stamp(), "p1", ""))
	w.ok(command.ProviderSet{Stamp: w.stamp(), ID: "p1", Inventory: &inventory{api.DiskGB: {Total: 2}}})
	w.ok(w.traits("p1", api.TraitShares))
	w.ok(w.aggregates("p1", uuid(1)))
	window := api.Window{Start: start + 10*minute, End: start + 20*minute}

	boot := create(w.stamp(), "b", 1, 1)
	boot.Request.Window.End = window.Start
	boot.Request.Groups[0].Resources = api.Resources{api.VCPU: 1, api.DiskGB: 2}
	w.ok(boot)
	h := hold(w.stamp(), "b-k", "b", slots("h2", "i1"))
	h.Request, h.Commit = boot.Request, true
	w.ok(h)
	w.ok(reports(w.stamp(), "a1", "h2", api.StatusActive, "i1"))

	order := leaseOrder("l", "o", window, "s1")
	order.Request.Groups[0].Resources = api.Resources{api.VCPU: 1, api.DiskGB: 1}
	w.ok(command.LeaseCreate{Stamp: w.stamp(), Terms: leaseTerms("l", window, 1), Events: leaseEvents(window), Digest: []byte{1}, Order: order})
	h = hold(w.stamp(), "k", "o", slots("h1", "s1"))
	h.Request, h.Commit = order.Request, true
	w.ok(h)

	w.tick(window.Start)
	assert.Equal(t, api.LeaseStarting, w.lease("l").Status, "the disk is still in use")
	checkIndexes(t, w.s)
	w.ok(reports(w.stamp(), "a1", "h2", api.StatusDeleted, "i1"))
	assert.Equal(t, api.LeaseActive, w.lease("l").Status)
	checkIndexes(t, w.s)
}

// TestSlotsOfAParentAreBounded: a parent may have as many slots of leases here as the limit, and
// not one more until some of them are gone.
func TestSlotsOfAParentAreBounded(t *testing.T) {
	old := limitsOf
	t.Cleanup(func() { limitsOf = old })
	limitsOf = slices.Clone(old)
	limitsOf[len(limitsOf)-1].limits.reserved = 3
	w := leaseWorld(t)
	w.link("up", api.LinkParent)
	window := api.Window{Start: start + 10*minute, End: start + 20*minute}
	ask := func(id string, slotIDs ...string) command.Hold {
		h := hold(w.stamp(), id, "o-"+id, slots("h1", slotIDs...))
		h.Origin, h.Request = "up", leaseOrder("", "o-"+id, window, slotIDs...).Request
		return h
	}
	first := ask("k1", "s1", "s2")
	w.ok(first)
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: "k1", Origin: "up", Decision: api.DecisionCommit})
	w.refused(api.CodeOverloaded, ask("k2", "s3", "s4"))
	w.ok(ask("k3", "s5")) // until it is decided, another limit bounds it
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: "k3", Origin: "up", Decision: api.DecisionCommit})
	w.refused(api.CodeOverloaded, ask("k4", "s6"))
	boot := ask("k5", "i1")
	boot.Request.Reserves, boot.Request.Window = false, api.Window{End: api.Forever}
	w.ok(boot) // it is no slot of a lease
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: "k1", Origin: "up", Decision: api.DecisionAbort})
	w.ok(ask("k6", "s7", "s8"))
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: "k6", Origin: "up", Decision: api.DecisionCommit})
	w.refused(api.CodeOverloaded, ask("k7", "s9"))
	checkIndexes(t, w.s)
}

// TestSlotsThatEndedAreNotForgotten: a lease whose slots were all deleted before its start never
// becomes ACTIVE, whether the record of its order is kept or not.
func TestSlotsThatEndedAreNotForgotten(t *testing.T) {
	for name, prune := range map[string]bool{"kept": false, "forgotten": true} {
		t.Run(name, func(t *testing.T) {
			w := leaseWorld(t)
			window := api.Window{Start: start + 10*minute, End: start + 20*minute}
			w.makeLease("l", "h1", window, "s1")
			w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "s1"})
			if prune {
				w.ok(command.Prune{Stamp: w.stamp(), Before: w.now + 1, Limit: 10})
			}
			_, kept := w.s.Boot("p", "l-o")
			assert.Equal(t, prune, !kept)
			w.now = window.Start + minute
			w.ok(command.Tick{Stamp: w.stamp()})
			assert.Equal(t, api.LeaseStarting, w.lease("l").Status)
			w.now = window.End
			w.ok(command.Tick{Stamp: w.stamp()})
			assert.Equal(t, api.LeaseTerminated, w.lease("l").Status)
			checkIndexes(t, w.s)
		})
	}
}
