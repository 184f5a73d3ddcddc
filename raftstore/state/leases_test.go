package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// minute is one minute of instants.
const minute = api.Instant(60_000)

// leaseWorld is a zone of the newest form with two hosts of 4 CPUs.
func leaseWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.form = api.FormNewest
	w.host("h1", 4)
	w.host("h2", 4)
	return w
}

// tick moves the zone's time.
func (w *world) tick(to api.Instant) {
	w.now = to - 1
	w.ok(command.Tick{Stamp: w.stamp()})
}

func (w *world) lease(id string) *Lease {
	l, ok := w.s.Lease(api.LeaseID(id))
	require.True(w.tb, ok, "lease %s", id)
	return l
}

// leaseOrder returns the order of a lease: one reservation named like the lease with -r.
func leaseOrder(id, order string, window api.Window, ids ...string) *command.BootTerms {
	r := request(order, len(ids))
	r.Window, r.Reserves = window, true
	r.Groups[0].Name, r.Groups[0].Min = id+"-r", len(ids)
	return &command.BootTerms{Digest: []byte{1}, Request: r, Min: len(ids), Instances: specs(ids...)}
}

func leaseEvents(window api.Window) []api.LeaseEvent {
	return []api.LeaseEvent{
		{ID: "e1", Type: api.EventStartLease, Time: window.Start, Status: api.EventUndone},
		{ID: "e2", Type: api.EventEndLease, Time: window.End, Status: api.EventUndone},
	}
}

func leaseTerms(id string, window api.Window, n int) api.LeaseTerms {
	return api.LeaseTerms{
		ID: api.LeaseID(id), Name: id, Project: "p", User: "u", Window: window,
		Reservations: []api.Reservation{{ID: api.ReservationID(id + "-r"), Type: api.ReserveInstances, Min: n, Max: n, Resources: api.Resources{"VCPU": 1}}},
	}
}

// makeLease makes a lease with slots on a host, committed in one entry.
func (w *world) makeLease(id, host string, window api.Window, ids ...string) {
	order := leaseOrder(id, id+"-o", window, ids...)
	w.ok(command.LeaseCreate{Stamp: w.stamp(), Terms: leaseTerms(id, window, len(ids)), Events: leaseEvents(window), Digest: []byte{1}, Order: order})
	h := hold(w.stamp(), id+"-k", id+"-o", slots(host, ids...))
	h.Request, h.Commit = order.Request, true
	w.ok(h)
}

func TestLeaseLife(t *testing.T) {
	w := leaseWorld(t)
	window := api.Window{Start: start + 10*minute, End: start + 20*minute}
	w.makeLease("l", "h1", window, "s1", "s2")
	assert.Equal(t, api.LeasePending, w.lease("l").Status)
	assert.Equal(t, api.StatusBuild, w.status("s1"))
	assert.Equal(t, window.Start-minute, w.s.NextDue(), "its room is closed to preemptibles a minute before")
	assert.Zero(t, w.used("h1"))

	w.tick(window.Start)
	assert.Equal(t, api.LeaseActive, w.lease("l").Status)
	assert.Equal(t, api.EventDone, w.lease("l").Event(api.EventStartLease).Status)
	assert.Equal(t, api.StatusActive, w.status("s1"))
	assert.EqualValues(t, 2, w.used("h1"))
	assert.Empty(t, w.s.OnHost("h1"), "nothing runs")

	boot := create(w.stamp(), "b", 1, 1)
	boot.Request.Within = "l-r"
	w.ok(boot)
	h := hold(w.stamp(), "b-k", "b", slots("s1", "i1"))
	h.Request, h.Commit = boot.Request, true
	w.ok(h)
	i, _ := w.s.Instance("i1")
	assert.Equal(t, api.HostID("h1"), i.Host)
	assert.Equal(t, window.End, i.Window.End)
	assert.EqualValues(t, 2, w.used("h1"), "within adds nothing")
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusActive, "i1"))

	w.tick(window.End)
	assert.Equal(t, api.LeaseTerminating, w.lease("l").Status)
	assert.Equal(t, api.StatusDeleting, w.status("i1"))
	assert.Equal(t, api.StatusDeleted, w.status("s2"), "nothing was in it")
	assert.EqualValues(t, 1, w.used("h1"), "the room is not free before the agent says so")
	require.Equal(t, saved(t, w.s), saved(t, loaded(t, saved(t, w.s))))

	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "i1"))
	assert.Equal(t, api.LeaseTerminated, w.lease("l").Status)
	assert.Equal(t, api.EventDone, w.lease("l").Event(api.EventEndLease).Status)
	assert.Zero(t, w.used("h1"))
	assert.Equal(t, api.Forever, w.s.NextDue())
	checkIndexes(t, w.s)
}

// TestLeaseWaitsForItsRoom: what is overdue keeps a lease from starting, and nothing else.
func TestLeaseWaitsForItsRoom(t *testing.T) {
	w := leaseWorld(t)
	first := api.Window{Start: start + 10*minute, End: start + 20*minute}
	second := api.Window{Start: start + 20*minute, End: start + 30*minute}
	w.makeLease("a", "h1", first, "a1", "a2", "a3", "a4")
	w.makeLease("b", "h1", second, "b1", "b2", "b3", "b4")
	w.tick(first.Start)
	boot := create(w.stamp(), "r", 1, 1)
	boot.Request.Within = "a-r"
	w.ok(boot)
	h := hold(w.stamp(), "k", "r", slots("a1", "i1"))
	h.Request, h.Commit = boot.Request, true
	w.ok(h)
	w.tick(second.Start + 5*minute) // nobody was there at the handover
	assert.Equal(t, api.LeaseTerminating, w.lease("a").Status)
	assert.Equal(t, api.LeaseStarting, w.lease("b").Status)
	assert.Equal(t, api.StatusBuild, w.status("b1"))
	assert.Equal(t, []api.InstanceID{"b1", "b2", "b3", "b4"}, idsOf(w.s.LateSlots(second.Start)), "one processor is missing, whosever it is")
	assert.Empty(t, w.s.LateSlots(second.Start-1))
	twin := loaded(t, saved(t, w.s))
	gone := reports(w.stamp(), "a1", "h1", api.StatusDeleted, "i1")
	w.ok(gone)
	twin.Apply(w.index, w.reread(gone))
	assert.Equal(t, api.LeaseTerminated, w.lease("a").Status)
	assert.Equal(t, api.LeaseActive, w.lease("b").Status)
	assert.Empty(t, w.s.LateSlots(api.Forever))
	assert.Equal(t, saved(t, w.s), saved(t, twin), "a restored zone does the same")
	checkIndexes(t, w.s)
}

// TestLeaseIsDeleted: at any time, and its room is free at once unless something runs in it.
func TestLeaseIsDeleted(t *testing.T) {
	w := leaseWorld(t)
	window := api.Window{Start: start + 10*minute, End: start + 20*minute}
	w.makeLease("l", "h1", window, "s1", "s2", "s3", "s4")
	w.ok(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: "l"})
	_, there := w.s.Lease("l")
	assert.False(t, there)
	w.refused(api.CodeNotFound, command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: "l"})
	w.makeLease("m", "h1", window, "t1", "t2", "t3", "t4")
	w.refused(api.CodeNotFound, command.LeaseDelete{Stamp: w.stamp(), Project: "q", ID: "m"})
	assert.Equal(t, api.LeasePending, w.lease("m").Status)
	checkIndexes(t, w.s)
}

// TestLeaseThatFailsIsNotThere: without room nothing is left but the order's record.
func TestLeaseThatFailsIsNotThere(t *testing.T) {
	w := leaseWorld(t)
	window := api.Window{Start: start + 10*minute, End: start + 20*minute}
	order := leaseOrder("l", "o", window, "s1")
	w.ok(command.LeaseCreate{Stamp: w.stamp(), Terms: leaseTerms("l", window, 1), Events: leaseEvents(window), Digest: []byte{1}, Order: order})
	assert.Equal(t, api.LeaseCreating, w.lease("l").Status)
	w.refused(api.CodeConflict, command.BootRelease{Stamp: w.stamp(), Project: "p", Reservation: "o"})
	w.ok(command.BootDecide{Stamp: w.stamp(), Project: "p", Reservation: "o", Decision: api.DecisionAbort, Code: api.CodeNoCapacity, Reason: "full"})
	_, there := w.s.Lease("l")
	assert.False(t, there)
	assert.Equal(t, api.Forever, w.s.NextDue())
	checkIndexes(t, w.s)
}

// updateLease asks for a new window, with an order whose slots take over those of before.
func (w *world) updateLease(id string, window api.Window, host string, keeps []string, ids ...string) command.Hold {
	l := w.lease(id)
	order := leaseOrder(id, id+"-o2", window, ids...)
	order.Request.Replaces = l.Order
	w.ok(command.LeaseSet{Stamp: w.stamp(), ModIndex: l.ModIndex, Terms: leaseTerms(id, window, len(ids)), Events: leaseEvents(window), Order: order})
	sl := slots(host, ids...)
	for n := range keeps {
		sl[n].Keeps = api.InstanceID(keeps[n])
	}
	h := hold(w.stamp(), id+"-k2", id+"-o2", sl)
	h.Request = order.Request
	return h
}

// TestLeaseIsUpdatedInPlace: the host is charged once for what is kept, until the update is
// decided and after it.
func TestLeaseIsUpdatedInPlace(t *testing.T) {
	for _, commit := range []bool{true, false} {
		w := leaseWorld(t)
		window := api.Window{Start: start + 10*minute, End: start + 20*minute}
		later := api.Window{Start: window.Start, End: start + 40*minute}
		w.makeLease("l", "h1", window, "s1", "s2", "s3", "s4")
		w.tick(window.Start)
		boot := create(w.stamp(), "b", 1, 1)
		boot.Request.Within = "l-r"
		w.ok(boot)
		h := hold(w.stamp(), "b-k", "b", slots("s1", "i1"))
		h.Request, h.Commit = boot.Request, true
		w.ok(h)
		w.ok(reports(w.stamp(), "a1", "h1", api.StatusActive, "i1"))

		w.ok(w.updateLease("l", later, "h1", []string{"s1", "s2", "s3", "s4"}, "t1", "t2", "t3", "t4"))
		assert.Equal(t, api.LeaseUpdating, w.lease("l").Status)
		assert.EqualValues(t, 4, w.used("h1"))
		checkIndexes(t, w.s)
		w.tick(window.End + minute)
		assert.Equal(t, api.StatusActive, w.status("i1"), "nothing ends while the update is not decided")

		d := api.DecisionAbort
		if commit {
			d = api.DecisionCommit
		}
		w.ok(bootDecide(w.stamp(), "l-o2", d))
		checkIndexes(t, w.s)
		if !commit {
			assert.Equal(t, api.LeaseTerminating, w.lease("l").Status)
			assert.Equal(t, api.StatusDeleting, w.status("i1"))
			continue
		}
		assert.Equal(t, api.LeaseActive, w.lease("l").Status)
		assert.Equal(t, later, w.lease("l").Terms.Window)
		assert.Empty(t, w.lease("l").Replaced)
		i, _ := w.s.Instance("i1")
		assert.Equal(t, api.InstanceID("t1"), i.Within)
		assert.Equal(t, later.End, i.Window.End)
		assert.Equal(t, api.StatusActive, i.Status)
		assert.Equal(t, api.StatusDeleted, w.status("s1"))
		assert.EqualValues(t, 4, w.used("h1"))
		w.tick(later.End)
		w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "i1"))
		assert.Equal(t, api.LeaseTerminated, w.lease("l").Status)
		assert.Zero(t, w.used("h1"))
		checkIndexes(t, w.s)
	}
}

// TestAnUpdateTakesWhatIsNotDecidedAlong: holds that have room in a slot have it in the slot that follows it, and what
// becomes of them is counted there.
func TestAnUpdateTakesWhatIsNotDecidedAlong(t *testing.T) {
	for _, d := range []api.Decision{api.DecisionCommit, api.DecisionAbort} {
		w := leaseWorld(t)
		window := api.Window{Start: start + 10*minute, End: start + 20*minute}
		w.lendLease(window, "s1", "s2")
		w.tick(window.Start)
		boot := create(w.stamp(), "firm", 1, 1)
		boot.Request.Within = "l-r"
		w.ok(boot)
		firm := hold(w.stamp(), "firm-k", "firm", slots("s1", "i1"))
		firm.Request = boot.Request
		require.Len(t, w.ok(firm).Hold.Slots, 1)
		soft := w.softHold("soft", "s2", "", false, "p1")
		require.Equal(t, api.InstanceID("s2"), w.ok(soft).Hold.Slots[0].Within)

		update := w.updateLease("l", window, "h1", []string{"s1", "s2"}, "t1", "t2")
		update.Commit = true
		w.ok(update)
		checkIndexes(t, w.s)
		for id, slot := range map[string]string{"firm-k": "t1", "soft-k": "t2"} {
			h, _ := w.s.Hold("", api.HoldID(id))
			assert.Equal(t, api.InstanceID(slot), h.Slots[0].Within)
			i, _ := w.s.Instance(api.InstanceID(slot))
			assert.False(t, w.s.IsEmpty(i), slot)
		}
		boot = create(w.stamp(), "late", 1, 1)
		boot.Request.Within = "l-r"
		w.ok(boot)
		late := hold(w.stamp(), "late-k", "late", slots("t1", "i2"))
		late.Request = boot.Request
		assert.Empty(t, w.ok(late).Hold.Slots, "it is taken")

		w.ok(bootDecide(w.stamp(), "firm", d))
		w.ok(bootDecide(w.stamp(), "soft", d))
		checkIndexes(t, w.s)
		w.tick(window.End)
		if d == api.DecisionCommit {
			w.gone("h1", "i1", "p1")
		}
		assert.Equal(t, api.StatusDeleted, w.status("t1"))
		assert.Equal(t, api.StatusDeleted, w.status("t2"))
		checkIndexes(t, w.s)
	}
}

// TestStartedSlotKeepsItsStart: whatever a parent says, a slot that has begun does not begin later.
func TestStartedSlotKeepsItsStart(t *testing.T) {
	w := leaseWorld(t)
	w.makeLease("l", "h1", api.Window{Start: w.now, End: start + 20*minute}, "s1")
	later := api.Window{Start: start + 10*minute, End: start + 20*minute}
	r := w.ok(w.updateLease("l", later, "h1", []string{"s1"}, "t1"))
	require.Len(t, r.Hold.Slots, 1)
	assert.Empty(t, r.Hold.Slots[0].Keeps, "it gets room of its own")
	assert.Equal(t, api.StatusActive, w.status("s1"))
	checkIndexes(t, w.s)
}

// TestLeaseShrinksInPlace: a shorter window frees the rest, also around what runs there.
func TestLeaseShrinksInPlace(t *testing.T) {
	w := leaseWorld(t)
	window := api.Window{Start: start + 10*minute, End: start + 40*minute}
	sooner := api.Window{Start: window.Start, End: start + 20*minute}
	w.makeLease("l", "h1", window, "s1", "s2", "s3", "s4")
	w.tick(window.Start)
	boot := create(w.stamp(), "b", 1, 1)
	boot.Request.Within = "l-r"
	w.ok(boot)
	h := hold(w.stamp(), "b-k", "b", slots("s1", "i1"))
	h.Request, h.Commit = boot.Request, true
	w.ok(h)
	w.ok(w.updateLease("l", sooner, "h1", []string{"s1", "s2", "s3", "s4"}, "t1", "t2", "t3", "t4"))
	w.ok(bootDecide(w.stamp(), "l-o2", api.DecisionCommit))
	assert.Equal(t, api.LeaseActive, w.lease("l").Status)
	i, _ := w.s.Instance("i1")
	assert.Equal(t, sooner.End, i.Window.End)
	checkIndexes(t, w.s)
	w.makeLease("m", "h1", api.Window{Start: sooner.End, End: window.End}, "m1", "m2", "m3", "m4")
	assert.Equal(t, api.LeasePending, w.lease("m").Status)
	checkIndexes(t, w.s)
}

// TestLeaseWhoseRoomIsNeverFree ends without having started, and says so.
func TestLeaseWhoseRoomIsNeverFree(t *testing.T) {
	w := leaseWorld(t)
	first := api.Window{Start: start + 10*minute, End: start + 20*minute}
	second := api.Window{Start: start + 20*minute, End: start + 30*minute}
	w.makeLease("a", "h1", first, "a1", "a2", "a3", "a4")
	w.makeLease("b", "h1", second, "b1", "b2", "b3", "b4")
	w.tick(first.Start)
	boot := create(w.stamp(), "r", 1, 1)
	boot.Request.Within = "a-r"
	w.ok(boot)
	h := hold(w.stamp(), "k", "r", slots("a1", "i1"))
	h.Request, h.Commit = boot.Request, true
	w.ok(h)
	w.tick(second.End + minute)
	assert.Equal(t, api.LeaseTerminating, w.lease("a").Status)
	b := w.lease("b")
	assert.Equal(t, api.LeaseTerminated, b.Status)
	assert.Equal(t, api.EventError, b.Event(api.EventStartLease).Status)
	assert.NotEmpty(t, b.Reason)
	checkIndexes(t, w.s)
}

// TestLeasesCatchUp: after a time without anybody everything due happens in order.
func TestLeasesCatchUp(t *testing.T) {
	w := leaseWorld(t)
	first := api.Window{Start: start + 10*minute, End: start + 20*minute}
	second := api.Window{Start: start + 20*minute, End: start + 30*minute}
	w.makeLease("a", "h1", first, "a1", "a2", "a3", "a4")
	w.makeLease("b", "h1", second, "b1", "b2", "b3", "b4")
	w.tick(second.Start + 5*minute)
	assert.Equal(t, api.LeaseTerminated, w.lease("a").Status)
	assert.Equal(t, api.LeaseActive, w.lease("b").Status)
	w.tick(second.End)
	assert.Equal(t, api.LeaseTerminated, w.lease("b").Status)
	checkIndexes(t, w.s)
}

// TestLeasesAreSharedWithProjects: a project finds its own leases and those that are shared
// with it, as long as they are.
func TestLeasesAreSharedWithProjects(t *testing.T) {
	w := leaseWorld(t)
	window := api.Window{Start: w.now + 60_000, End: w.now + 120_000}
	share := func(id string, p api.ProjectID, shared ...api.ProjectID) {
		terms := api.LeaseTerms{ID: api.LeaseID(id), Name: id, Project: p, User: "u", Window: window, Shared: shared}
		w.ok(command.LeaseCreate{Stamp: w.stamp(), Terms: terms, Events: leaseEvents(window), Digest: []byte{1}, Key: "k-" + id})
	}
	share("c", "p", "q", "r")
	share("a", "q")
	share("b", "p")
	share("d", "q", "p", "q") // and with its own project
	names := func(p api.ProjectID) (out string) {
		for _, l := range w.s.LeasesFor(p) {
			out += string(l.Terms.ID)
		}
		return out
	}
	assert.Equal(t, []string{"bcd", "acd", "c", ""}, []string{names("p"), names("q"), names("r"), names("s")})
	assert.Len(t, w.s.Leases("q"), 2, "those of its own")

	c := w.lease("c")
	assert.True(t, c.MayUse("p"))
	assert.True(t, c.MayUse("r"))
	assert.False(t, c.MayUse("s"))
	terms := c.Terms
	terms.Shared = []api.ProjectID{"s"}
	w.ok(command.LeaseSet{Stamp: w.stamp(), ModIndex: c.ModIndex, Terms: terms, Events: c.Events})
	assert.Equal(t, []string{"bcd", "ad", "", "c"}, []string{names("p"), names("q"), names("r"), names("s")})
	w.ok(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: "c"})
	assert.Empty(t, names("s"))

	first, ok := w.s.LeaseWithKey("q", "k-a")
	require.True(t, ok)
	assert.Equal(t, api.LeaseID("a"), first.Terms.ID)
	_, ok = w.s.LeaseWithKey("p", "k-a")
	assert.False(t, ok, "keys are of one project")
	_, ok = w.s.LeaseWithKey("p", "k-c")
	assert.False(t, ok, "its lease is gone")
}
