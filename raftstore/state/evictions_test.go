package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	cases "berth/internal/dice" // dice is a type here
	"berth/raftstore/command"
)

// soft boots preemptible instances on a host in one entry, and has them run.
func (w *world) soft(res, host string, ids ...string) {
	w.softAs(res, host, "", ids...)
}

func (w *world) softAs(res, host string, do api.PreemptAction, ids ...string) {
	w.ok(w.softHold(res, host, do, true, ids...))
	w.ok(reports(w.stamp(), "a1", host, api.StatusActive, ids...))
}

// softHold orders preemptible instances and returns their hold.
func (w *world) softHold(res, host string, do api.PreemptAction, commit bool, ids ...string) command.Hold {
	boot := create(w.stamp(), res, len(ids), len(ids))
	boot.Request.Class, boot.Request.OnPreempt = api.Preemptible, do
	w.ok(boot)
	h := hold(w.stamp(), res+"-k", res, slots(host, ids...))
	h.Request, h.Commit = boot.Request, commit
	return h
}

// held returns what a hold on a host would get of some preemptible slots.
func (w *world) wouldHold(res, host string, n int) int {
	h := w.softHold(res, host, "", false, numbered(res+"-", n)...)
	r := w.ok(h)
	held := len(r.Hold.Slots)
	w.ok(command.BootRelease{Stamp: w.stamp(), Project: "p", Reservation: api.ReservationID(res)})
	return held
}

// lendLease makes the lease l with slots on h1 whose owner lends what he does not use.
func (w *world) lendLease(window api.Window, ids ...string) {
	order := leaseOrder("l", "l-o", window, ids...)
	order.Request.Groups[0].ShareIdle = true
	w.ok(command.LeaseCreate{
		Stamp: w.stamp(), Terms: leaseTerms("l", window, len(ids)), Events: leaseEvents(window), Digest: []byte{1}, Order: order,
	})
	h := hold(w.stamp(), "l-k", "l-o", slots("h1", ids...))
	h.Request, h.Commit = order.Request, true
	w.ok(h)
}

// bootWithin boots an instance of the owner of the lease l into one of its slots.
func (w *world) bootWithin(res, slot, id string) {
	boot := create(w.stamp(), res, 1, 1)
	boot.Request.Within = "l-r"
	w.ok(boot)
	h := hold(w.stamp(), res+"-k", res, slots(slot, id))
	h.Request, h.Commit = boot.Request, true
	w.ok(h)
}

func (w *world) eviction(id string) *api.Eviction {
	i, ok := w.s.Instance(api.InstanceID(id))
	require.True(w.tb, ok)
	return i.Eviction
}

func (w *world) gone(host string, ids ...string) {
	w.ok(reports(w.stamp(), "a1", host, api.StatusDeleted, ids...))
}

// From its closing a lease's room is closed, as many as needed leave by its start, and it starts
// when they are gone.
func TestPreemptiblesLeaveForALease(t *testing.T) {
	w := leaseWorld(t)
	w.soft("old", "h1", "p1")
	w.soft("new", "h1", "p2", "p3")
	w.soft("other", "h2", "p4")
	window := api.Window{Start: start + 10*minute, End: start + 20*minute}
	w.makeLease("l", "h1", window, "s1", "s2")
	assert.Equal(t, 1, w.wouldHold("a", "h1", 3), "there is room before the closing")
	i, _ := w.s.Instance("p2")
	assert.Equal(t, window.Start-minute, w.s.Clone().RoomUntil(i))
	i, _ = w.s.Instance("p4")
	assert.Equal(t, api.Forever, w.s.Clone().RoomUntil(i))

	w.tick(window.Start - minute - 1)
	assert.Nil(t, w.eviction("p2"))
	w.tick(window.Start - minute)
	evicted := 0
	for _, id := range []string{"p1", "p2", "p3"} {
		if e := w.eviction(id); e != nil {
			evicted++
			assert.Equal(t, &api.Eviction{For: "l-r", Lease: true, At: window.Start - minute, By: window.Start}, e)
			assert.Equal(t, api.StatusDeleting, w.status(id))
		}
	}
	assert.Equal(t, 1, evicted, "no more than needed")
	assert.Nil(t, w.eviction("p1"), "it has run longest, and the two others are one gang")
	assert.Nil(t, w.eviction("p4"))
	assert.Zero(t, w.wouldHold("b", "h1", 1), "the room is closed")
	assert.Equal(t, 2, w.wouldHold("c", "h2", 2))

	w.tick(window.Start)
	assert.Equal(t, api.LeaseStarting, w.lease("l").Status, "nothing is free before the agent says so")
	require.Equal(t, saved(t, w.s), saved(t, loaded(t, saved(t, w.s))))
	for _, id := range []string{"p2", "p3"} {
		if w.eviction(id) != nil {
			w.gone("h1", id)
		}
	}
	assert.Equal(t, api.LeaseActive, w.lease("l").Status)
	assert.Zero(t, w.wouldHold("d", "h1", 1))
	checkIndexes(t, w.s)
}

// TestRoomThatEndsInTimeIsEnough: when the room of a lease is closed at the instant at which the window of a preemptible
// ends, that one is over and is evicted by nobody, so that it is not booted again; whoever must leave beside it does.
func TestRoomThatEndsInTimeIsEnough(t *testing.T) {
	for name, c := range map[string]struct {
		closed time.Duration // after the end of the window
		late   time.Duration // of the entry, after the closing
		need   int           // slots of the lease, on a host for four
		leave  string        // who is evicted
	}{
		"at one instant":         {0, 0, 3, ""},
		"at one instant, later":  {0, 30 * time.Second, 3, ""},
		"more is needed":         {0, 0, 4, "stays"},
		"more is needed, later":  {0, 30 * time.Second, 4, "stays"},
		"it ends later":          {-time.Millisecond, 0, 3, "ends"},
		"passed by a late entry": {-time.Millisecond, 30 * time.Second, 3, "ends"},
		"it ended before":        {30 * time.Second, 0, 4, "stays"},
		"all fits in any case":   {-time.Millisecond, 0, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := leaseWorld(t)
			w.softAs("c", "h1", api.PreemptRequeue, "stays")
			ends := w.softHold("b", "h1", api.PreemptRequeue, true, "ends")
			ends.Request.Lifetime = 20 * time.Minute
			w.ok(ends)
			w.ok(reports(w.stamp(), "a1", "h1", api.StatusActive, "ends")) // it has run less long, and would be chosen
			i, _ := w.s.Instance("ends")
			begin := i.Window.End.Add(c.closed) + minute // it is closed a minute before
			w.makeLease("l", "h1", api.Window{Start: begin, End: begin + 10*minute}, []string{"s1", "s2", "s3", "s4"}[:c.need]...)
			w.tick((begin - minute).Add(c.late))
			left := ""
			for _, id := range []string{"stays", "ends"} {
				if e := w.eviction(id); e != nil && e.Stays != api.RequeueEnded { // not one that only has less time to end
					left += id
				}
			}
			assert.Equal(t, c.leave, left)
			checkIndexes(t, w.s)
		})
	}
}

// A whole host is left by all, and a lease that starts at once leaves them the grace of the zone.
func TestPreemptiblesLeaveAWholeHost(t *testing.T) {
	w := leaseWorld(t)
	w.soft("b", "h1", "p1")
	w.soft("c", "h2", "p2")
	window := api.Window{Start: w.now, End: start + 20*minute}
	order := leaseOrder("l", "l-o", window, "s1")
	order.Request.Groups[0].Whole, order.Request.Groups[0].Resources = true, nil
	terms := leaseTerms("l", window, 1)
	w.ok(command.LeaseCreate{Stamp: w.stamp(), Terms: terms, Events: leaseEvents(window), Digest: []byte{1}, Order: order})
	h := hold(w.stamp(), "l-k", "l-o", slots("h1", "s1"))
	h.Request, h.Commit = order.Request, true
	w.ok(h)
	assert.Equal(t, api.LeaseStarting, w.lease("l").Status)
	assert.Equal(t, w.s.Now().Add(api.PreemptGraceDefault), w.eviction("p1").By)
	assert.Nil(t, w.eviction("p2"))
	w.gone("h1", "p1")
	assert.Equal(t, api.LeaseActive, w.lease("l").Status)
}

// A preemptible that was held before the closing and is decided after it leaves at once.
func TestLatePreemptibleLeaves(t *testing.T) {
	w := leaseWorld(t)
	window := api.Window{Start: start + 10*minute, End: start + 20*minute}
	w.makeLease("l", "h1", window, "s1", "s2")
	w.ok(w.softHold("b", "h1", "", false, "p1", "p2", "p3"))
	w.tick(window.Start)
	assert.Equal(t, api.LeaseStarting, w.lease("l").Status, "an undecided preemptible has the room")
	w.ok(bootDecide(w.stamp(), "b", api.DecisionCommit))
	n := 0
	for _, id := range []string{"p1", "p2", "p3"} {
		if w.eviction(id) != nil {
			n++
			w.gone("h1", id)
		}
	}
	assert.Equal(t, 1, n)
	assert.Equal(t, api.LeaseActive, w.lease("l").Status)
}

// An update that pulls the start forward, and a slot that moves, drain the same way.
func TestPreemptiblesLeaveForAnUpdateAndAMove(t *testing.T) {
	w := leaseWorld(t)
	w.soft("b", "h1", "p1", "p2", "p3")
	w.soft("c", "h2", "p4")
	window := api.Window{Start: start + 60*minute, End: start + 80*minute}
	w.makeLease("l", "h1", window, "s1", "s2")
	sooner := api.Window{Start: start + 1*minute/2, End: window.End}
	h := w.updateLease("l", sooner, "h1", []string{"s1", "s2"}, "n1", "n2")
	h.Commit = true
	w.ok(h)
	evicted := 0
	for _, id := range []string{"p1", "p2", "p3"} {
		if e := w.eviction(id); e != nil {
			evicted++
			assert.Equal(t, sooner.Start, e.By)
		}
	}
	assert.Equal(t, 1, evicted)
	w.soft("d", "h2", "p5", "p6")
	w.ok(command.InstanceMove{Stamp: w.stamp(), ID: "n1", From: "h1", To: "h2"})
	w.ok(command.InstanceMove{Stamp: w.stamp(), ID: "n2", From: "h1", To: "h2"})
	evicted = 0
	for _, id := range []string{"p4", "p5", "p6"} {
		if w.eviction(id) != nil {
			evicted++
		}
	}
	assert.Equal(t, 1, evicted)
}

// A firm boot that preempts evicts nothing before it is decided, and waits for its room then.
func TestFirmBootPreempts(t *testing.T) {
	w := leaseWorld(t)
	w.soft("b", "h1", "p1", "p2", "p3", "p4")
	boot := create(w.stamp(), "f", 2, 2)
	w.ok(boot)
	h := hold(w.stamp(), "f-k", "f", slots("h1", "f1", "f2"))
	h.Request = boot.Request
	assert.Empty(t, w.ok(h).Hold.Slots, "it did not ask for that")
	w.ok(command.BootRelease{Stamp: w.stamp(), Project: "p", Reservation: "f"})

	boot = create(w.stamp(), "g", 2, 2)
	boot.Request.Preempt = true
	w.ok(boot)
	h = hold(w.stamp(), "g-k", "g", slots("h1", "g1", "g2"))
	h.Request = boot.Request
	assert.Len(t, w.ok(h).Hold.Slots, 2)
	for _, id := range []string{"p1", "p2", "p3", "p4"} {
		assert.Nil(t, w.eviction(id), "nothing is decided")
	}
	w.ok(bootDecide(w.stamp(), "g", api.DecisionCommit))
	i, _ := w.s.Instance("g1")
	assert.True(t, i.Waits)
	w.refused(api.CodeConflict, command.InstanceMove{Stamp: w.stamp(), ID: "g1", From: "h1", To: "h2"})
	require.Equal(t, saved(t, w.s), saved(t, loaded(t, saved(t, w.s))))
	evicted := 0
	for _, id := range []string{"p1", "p2", "p3", "p4"} {
		if e := w.eviction(id); e != nil {
			evicted++
			assert.Equal(t, api.ReservationID("g"), e.For)
			assert.False(t, e.Lease)
			assert.Equal(t, e.At.Add(api.PreemptGraceDefault), e.By)
			w.gone("h1", id)
		}
	}
	assert.Equal(t, 2, evicted)
	i, _ = w.s.Instance("g1")
	assert.False(t, i.Waits)
	checkIndexes(t, w.s)
}

// What is deleted while it waits for its room is gone at once: it never began, and takes no room
// beside those that leave for it.
func TestDeletedWhileItWaits(t *testing.T) {
	w := leaseWorld(t)
	w.soft("b", "h1", "p1", "p2", "p3", "p4")
	boot := create(w.stamp(), "g", 2, 2)
	boot.Request.Preempt = true
	w.ok(boot)
	h := hold(w.stamp(), "g-k", "g", slots("h1", "g1", "g2"))
	h.Request = boot.Request
	w.ok(h)
	w.ok(bootDecide(w.stamp(), "g", api.DecisionCommit))
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "g1"})
	i, _ := w.s.Instance("g1")
	assert.Equal(t, api.StatusDeleted, i.Status)
	assert.EqualValues(t, 5, w.used("h1"), "those that leave, and one that waits")
	w.ok(command.BootRelease{Stamp: w.stamp(), Project: "p", Reservation: "g"})
	i, _ = w.s.Instance("g2")
	assert.Equal(t, api.StatusDeleted, i.Status)
	assert.EqualValues(t, 4, w.used("h1"))
	checkIndexes(t, w.s)
}

// A firm boot that preempts and is given up evicts nobody.
func TestAbortEvictsNobody(t *testing.T) {
	w := leaseWorld(t)
	w.soft("b", "h1", "p1", "p2", "p3", "p4")
	boot := create(w.stamp(), "g", 2, 2)
	boot.Request.Preempt = true
	w.ok(boot)
	h := hold(w.stamp(), "g-k", "g", slots("h1", "g1", "g2"))
	h.Request = boot.Request
	w.ok(h)
	assert.Zero(t, w.wouldHold("x", "h1", 1))
	w.ok(bootDecide(w.stamp(), "g", api.DecisionAbort))
	for _, id := range []string{"p1", "p2", "p3", "p4"} {
		assert.Nil(t, w.eviction(id))
	}
}

// What its owner does not use of a lease he may lend to preemptibles. They leave when he boots,
// and with the lease.
func TestIdleRoomIsLent(t *testing.T) {
	w := leaseWorld(t)
	window := api.Window{Start: w.now, End: start + 20*minute}
	w.lendLease(window, "s1", "s2")
	require.Equal(t, api.LeaseActive, w.lease("l").Status)

	w.soft("b", "s1", "p1")
	i, _ := w.s.Instance("p1")
	assert.Equal(t, api.InstanceID("s1"), i.Within)
	assert.Equal(t, window.End, i.Window.End)
	assert.Zero(t, w.wouldHold("x", "s1", 1), "the slot is full")
	assert.EqualValues(t, 2, w.used("h1"))
	require.Equal(t, saved(t, w.s), saved(t, loaded(t, saved(t, w.s))))
	assert.Len(t, w.s.FreeSlots("", "l-r", "p"), 2, "its owner may use it at any time")

	w.bootWithin("f", "s1", "i1")
	f, _ := w.s.Instance("i1")
	assert.True(t, f.Waits)
	assert.Equal(t, api.ReservationID("f"), w.eviction("p1").For)
	w.gone("h1", "p1")
	f, _ = w.s.Instance("i1")
	assert.False(t, f.Waits)

	w.soft("c", "s2", "p2")
	w.tick(window.End)
	assert.Equal(t, api.StatusDeleting, w.status("p2"))
	assert.Equal(t, api.LeaseTerminating, w.lease("l").Status)
	w.gone("h1", "p2", "i1")
	assert.Equal(t, api.LeaseTerminated, w.lease("l").Status)
	checkIndexes(t, w.s)
}

// What was held in a slot before an update ends with the new slot, or never begins in it.
func TestLentHoldsFollowAnUpdate(t *testing.T) {
	for _, lends := range []bool{true, false} {
		w := leaseWorld(t)
		w.lendLease(api.Window{Start: w.now, End: start + 20*minute}, "s1")
		w.ok(w.softHold("b", "s1", "", false, "p1"))

		shorter := api.Window{Start: w.lease("l").Terms.Window.Start, End: start + 15*minute}
		h := w.updateLease("l", shorter, "h1", []string{"s1"}, "t1")
		h.Request.Groups[0].ShareIdle, h.Commit = lends, true
		w.ok(h)
		require.Equal(t, saved(t, w.s), saved(t, loaded(t, saved(t, w.s))))
		w.ok(bootDecide(w.stamp(), "b", api.DecisionCommit))
		i, _ := w.s.Instance("p1")
		assert.Equal(t, api.InstanceID("t1"), i.Within)
		assert.Equal(t, shorter.End, i.Window.End)
		if lends {
			assert.Equal(t, api.StatusBuild, i.Status)
		} else {
			assert.Equal(t, api.StatusDeleting, i.Status)
			assert.True(t, i.Eviction.Lease)
		}
		checkIndexes(t, w.s)
	}
}

// Nothing preemptible comes into a lease whose owner does not lend it.
func TestRoomThatIsNotLent(t *testing.T) {
	w := leaseWorld(t)
	w.makeLease("l", "h1", api.Window{Start: w.now, End: start + 20*minute}, "s1")
	require.Equal(t, api.LeaseActive, w.lease("l").Status)
	assert.Zero(t, w.wouldHold("x", "s1", 1))
	assert.Equal(t, 3, w.wouldHold("y", "h1", 4))
}

// A preemptible that its owner has ended has no more time than one that is evicted, and is not
// booted again.
func TestEndIsHastened(t *testing.T) {
	w := leaseWorld(t)
	w.softAs("b", "h1", api.PreemptRequeue, "p1", "p2", "p3")
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "p1"})
	w.makeLease("l", "h1", api.Window{Start: w.now, End: start + 20*minute}, "s1", "s2")
	i, _ := w.s.Instance("p1")
	assert.NotNil(t, i.Eviction)
	assert.Equal(t, api.RequeueEnded, i.Eviction.Stays)
	assert.Nil(t, w.eviction("p2"), "p1 is enough")
	assert.Nil(t, w.eviction("p3"))
}

// The grace is that of the zone, or what the lease asks for if that is more; without any the
// room closes at the start.
func TestGrace(t *testing.T) {
	for _, c := range []struct{ zone, asked, want time.Duration }{
		{0, 0, api.PreemptGraceDefault},
		{-1, 0, 0},
		{2 * time.Minute, 0, 2 * time.Minute},
		{2 * time.Minute, time.Minute, 2 * time.Minute},
		{-1, time.Minute, time.Minute},
		{0, 5 * time.Minute, 5 * time.Minute},
	} {
		w := leaseWorld(t)
		config := w.s.Config
		config.Preemptibles.Grace = c.zone
		w.ok(command.ConfigSet{Stamp: w.stamp(), Config: config})
		w.soft("b", "h1", "p1", "p2", "p3", "p4")
		window := api.Window{Start: start + 20*minute, End: start + 30*minute}
		order := leaseOrder("l", "l-o", window, "s1")
		order.Request.Grace = c.asked
		w.ok(command.LeaseCreate{Stamp: w.stamp(), Terms: leaseTerms("l", window, 1), Events: leaseEvents(window), Digest: []byte{1}, Order: order})
		h := hold(w.stamp(), "l-k", "l-o", slots("h1", "s1"))
		h.Request, h.Commit = order.Request, true
		w.ok(h)
		assert.Equal(t, window.Start.Add(-c.want), w.s.NextDue(), "%v", c)
		w.tick(window.Start.Add(-c.want))
		e := w.eviction("p1")
		for _, id := range []string{"p2", "p3", "p4"} {
			if e == nil {
				e = w.eviction(id)
			}
		}
		require.NotNil(t, e, "%v", c)
		assert.Equal(t, window.Start, e.By, "%v", c)
	}
}

// The use of room adds up: what owners do not use is idle, and part of that is lent.
func TestRoomUse(t *testing.T) {
	w := leaseWorld(t)
	w.soft("b", "h2", "p1")
	window := api.Window{Start: w.now, End: start + 20*minute}
	w.lendLease(window, "s1", "s2", "s3")
	w.soft("c", "s1", "p2")
	w.bootWithin("f", "s2", "i1")
	assert.Equal(t, RoomUse{Reserved: 3, Idle: 2, Lent: 1, Preemptible: 1}, w.s.RoomUse()[api.VCPU])
}

// A slot in which only preemptibles run moves when they have left: its first move evicts them.
func TestLentSlotMoves(t *testing.T) {
	w := leaseWorld(t)
	window := api.Window{Start: w.now, End: start + 20*minute}
	w.lendLease(window, "s1")
	w.soft("b", "s1", "p1")
	slot, _ := w.s.Instance("s1")
	assert.True(t, w.s.HasOnlyLent(slot))
	move := func() command.InstanceMove {
		return command.InstanceMove{Stamp: w.stamp(), ID: "s1", From: "h1", To: "h2"}
	}
	w.ok(move())
	slot, _ = w.s.Instance("s1")
	assert.Equal(t, api.HostID("h1"), slot.Host)
	assert.Equal(t, &api.Eviction{For: "l-r", Lease: true, At: w.s.Now(), By: w.s.Now().Add(api.PreemptGraceDefault)}, w.eviction("p1"))
	assert.False(t, w.s.HasOnlyLent(slot), "it has been asked to leave")
	w.ok(move()) // a repeat
	w.gone("h1", "p1")
	w.ok(move())
	slot, _ = w.s.Instance("s1")
	assert.Equal(t, api.HostID("h2"), slot.Host)
	checkIndexes(t, w.s)
}

// until boots one instance on a host that ends at a time.
func (w *world) until(end api.Instant, host, id string, preempt bool) {
	boot := create(w.stamp(), "r-"+id, 1, 1)
	boot.Request.Preempt, boot.Request.Window = preempt, api.Window{Start: w.now, End: end}
	w.ok(boot)
	h := hold(w.stamp(), "k-"+id, "r-"+id, slots(host, id))
	h.Request, h.Commit = boot.Request, true
	require.Len(w.tb, w.ok(h).Hold.Slots, 1)
}

// What is over has its room until it is gone, also while another one that ends at that instant,
// and before it, gives its own back.
func TestNothingBeginsBeforeAllIsEnded(t *testing.T) {
	for _, form := range []api.Form{api.FormFourth, api.FormNewest} {
		w := leaseWorld(t)
		w.form = form
		end := start + 10*minute
		w.soft("b", "h1", "p1", "p2", "p3")
		w.until(end, "h1", "i2", false)
		w.until(end, "h1", "i1", true)
		waits := func(id string) bool {
			i, ok := w.s.Instance(api.InstanceID(id))
			require.True(t, ok)
			return i.Waits
		}
		require.True(t, waits("i1") && !waits("i2"))
		w.makeLease("l", "h1", api.Window{Start: start + 5*minute, End: start + 30*minute}, "s1", "s2")
		w.tick(start + 5*minute)
		for _, id := range []string{"p1", "p2", "p3"} {
			require.NotNil(t, w.eviction(id))
		}
		w.gone("h1", "p3")
		require.EqualValues(t, 6, w.used("h1"), "two that leave, two that end, and the lease")
		require.True(t, waits("i1"))

		w.tick(end)
		assert.Equal(t, api.StatusDeleted, w.status("i1"))
		assert.Equal(t, api.StatusDeleting, w.status("i2"))
		if form < api.FormNewest { // as it was
			assert.Equal(t, api.StatusActive, w.status("s1"))
			continue
		}
		assert.Equal(t, api.StatusBuild, w.status("s1"))
		twin := loaded(t, saved(t, w.s))
		w.gone("h1", "i2")
		assert.Equal(t, api.StatusActive, w.status("s1"))
		assert.Equal(t, api.StatusActive, w.status("s2"))
		checkIndexes(t, w.s)
		twin.Apply(w.index, w.reread(reports(at(w.now), "a1", "h1", api.StatusDeleted, "i2")))
		assert.Equal(t, saved(t, w.s), saved(t, twin), "a restored zone does the same")
	}
}

// An entry ends so many windows and no more; what waits begins when the next has ended the rest.
func TestWaitsForTheEndsOfTheNextEntry(t *testing.T) {
	for _, more := range cases.Part(t, []int{0, 1}, 1) {
		w := newWorld(t)
		w.form, w.large = api.FormNewest, true
		ends := 2*stepsPerEntry - 1 + more // and the step of what waits
		end := start + 10*minute
		w.ok(hostPut(w.stamp(), "a1", "h1", int64(ends)+2))
		w.soft("b", "h1", "p1", "p2")
		boot := create(w.stamp(), "r", ends, ends)
		boot.Request.Window = api.Window{Start: w.now, End: end}
		w.ok(boot)
		h := hold(w.stamp(), "r-k", "r", slots("h1", numbered("r", ends)...))
		h.Request, h.Commit = boot.Request, true
		require.Len(t, w.ok(h).Hold.Slots, ends)
		w.until(end, "h1", "a1", true)
		w.until(api.Forever, "h1", "a2", true)
		w.gone("h1", "p1")
		waits := func() bool {
			i, _ := w.s.Instance("a2")
			return i.Waits
		}
		require.True(t, waits())
		tick := command.Tick{Stamp: at(end)}
		w.ok(tick)
		assert.Equal(t, more > 0, waits())
		w.ok(tick)
		assert.False(t, waits(), "nothing is left to end")
	}
}
