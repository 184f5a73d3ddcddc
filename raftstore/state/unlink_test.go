package state

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// newLossWorld returns a zone with a parent "up", a child "c1" and one host of ten processors.
func newLossWorld(t *testing.T) *world { return newLossWorldOf(t, api.FormNewest) }

func newLossWorldOf(t *testing.T, form api.Form) *world {
	t.Helper()
	w := newWorld(t)
	w.form = form
	w.link("up", api.LinkParent)
	w.link("c1", api.LinkChild)
	w.host("h1", 10)
	return w
}

func (w *world) pause(link string) {
	w.tb.Helper()
	w.ok(command.LinkSet{Stamp: w.stamp(), ID: api.LinkID(link), State: new(api.LinkPaused)})
}

func (w *world) writeOff(link string, endWork bool) command.LinkWriteOff {
	return command.LinkWriteOff{Stamp: w.stamp(), ID: api.LinkID(link), EndWork: endWork}
}

// bootBelow boots r1 with "a" here and "b" in the child, as far as upTo.
func (w *world) bootBelow(upTo string) {
	w.tb.Helper()
	w.ok(create(w.stamp(), "r1", 2, 1))
	w.ok(hold(w.stamp(), "k1", "r1", slots("h1", "a"), part("c1", "b")))
	if upTo == "asked" {
		return
	}
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Answers: []command.PartAnswer{answer("c1", "b")}})
	switch upTo {
	case "held":
		return
	case "aborted":
		w.ok(bootDecide(w.stamp(), "r1", api.DecisionAbort))
		return
	}
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusActive, "a"))
	if upTo == "committed" {
		return
	}
	w.ok(command.PartAck{Stamp: w.stamp(), ID: "k1", Link: "c1", Decision: api.DecisionCommit})
	if upTo == "released" {
		w.ok(command.BootRelease{Stamp: w.stamp(), Project: "p", Reservation: "r1"})
	}
}

// TestWriteOffOfAChild: what a child has not confirmed counts as confirmed, and what it has as gone;
// what is here stays as it is. What may still come to be there refuses it.
func TestWriteOffOfAChild(t *testing.T) {
	for _, c := range []struct {
		at      string
		want    Losses // none: refused
		here    api.Status
		unacked int
		there   api.Status
	}{
		{at: "asked"},
		{at: "held"},
		{at: "aborted", want: Losses{Parts: 1, Unlinked: true}},
		{at: "committed", want: Losses{Parts: 1, Instances: 1, Unlinked: true}, here: api.StatusActive, there: api.StatusDeleted},
		{at: "confirmed", want: Losses{Instances: 1, Unlinked: true}, here: api.StatusActive, there: api.StatusDeleted},
		{at: "released", want: Losses{Parts: 1, Instances: 1, Unlinked: true}, here: api.StatusDeleting, there: api.StatusDeleted},
	} {
		t.Run(c.at, func(t *testing.T) {
			w := newLossWorld(t)
			w.bootBelow(c.at)
			w.refused(api.CodeConflict, w.writeOff("c1", false)) // it is not paused
			w.pause("c1")
			if c.want == (Losses{}) {
				w.refused(api.CodeConflict, w.writeOff("c1", false))
				return
			}
			r := w.ok(w.writeOff("c1", false))
			assert.Equal(t, c.want, *r.Losses)
			_, linked := w.s.Link("c1")
			assert.False(t, linked)
			assert.Empty(t, w.s.UntoldHolds())
			assert.Empty(t, w.s.UnendedInstances())
			assert.Zero(t, w.boot("r1").Unacked)
			if c.there != "" {
				assert.Equal(t, c.here, w.status("a"))
				gone, _ := w.s.Instance("b")
				assert.Equal(t, c.there, gone.Status)
				assert.Equal(t, writtenOff, gone.Fault)
			}
			w.refused(api.CodeNotFound, w.writeOff("c1", false))
			w.finish()
		})
	}
}

// TestAwaitedBy: a boot names the child that has not confirmed what was decided, or the end of an instance.
func TestAwaitedBy(t *testing.T) {
	for at, want := range map[string][]api.LinkID{
		"asked": nil, "held": nil, "aborted": nil, "committed": {"c1"}, "confirmed": nil, "released": {"c1"},
	} {
		w := newLossWorld(t)
		w.bootBelow(at)
		assert.Equal(t, want, w.s.AwaitedBy(w.boot("r1")), at)
		if at == "released" {
			w.ok(command.PartAck{Stamp: w.stamp(), ID: "k1", Link: "c1", Decision: api.DecisionAbort})
			w.ok(command.InstanceTold{Stamp: w.stamp(), Gone: []api.InstanceID{"b"}})
			assert.Empty(t, w.s.AwaitedBy(w.boot("r1")))
		}
	}
}

// finish releases r1, which must end with what is here.
func (w *world) finish() {
	w.tb.Helper()
	w.ok(command.BootRelease{Stamp: w.stamp(), Project: "p", Reservation: "r1"})
	if i, ok := w.s.Instance("a"); ok && i.Live() {
		w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "a"))
	}
	assert.True(w.tb, w.boot("r1").Final(), "nobody has to confirm anything any more")
	assert.Zero(w.tb, w.used("h1"))
	w.ok(create(w.stamp(), "r2", 1, 1)) // it is a zone like any other
	checkIndexes(w.tb, w.s)
	w.same()
}

// same requires that the state is the same after it was saved and loaded.
func (w *world) same() {
	w.tb.Helper()
	var first, second bytes.Buffer
	require.NoError(w.tb, w.s.Save(&first))
	require.NoError(w.tb, loaded(w.tb, first.String()).Save(&second))
	require.True(w.tb, bytes.Equal(first.Bytes(), second.Bytes()), "it differs after it was loaded")
}

// TestWriteOffAfterAnEarlyCommit: a child that has made instances of an undecided hold, and said so,
// still takes part in it. Neither a write-off nor an unlink leaves such instances without a zone.
func TestWriteOffAfterAnEarlyCommit(t *testing.T) {
	for form, refused := range map[api.Form]bool{api.FormFourth: false, api.FormFifth: true} {
		w := newLossWorldOf(t, form)
		w.link("c2", api.LinkChild)
		w.ok(create(w.stamp(), "r1", 2, 1))
		w.ok(hold(w.stamp(), "k1", "r1", nil, part("c1", "a"), part("c2", "b")))
		early := answer("c1", "a")
		early.Committed = true
		w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Answers: []command.PartAnswer{early}})
		w.pause("c1")
		if !refused { // an entry of before that was known
			w.ok(command.LinkDelete{Stamp: w.stamp(), ID: "c1"})
			continue
		}
		w.refused(api.CodeConflict, command.LinkDelete{Stamp: w.stamp(), ID: "c1"})
		w.refused(api.CodeConflict, w.writeOff("c1", false))
	}
}

// TestReleaseAfterAnUnlink: a boot that had instances in a child ends although the child is linked no
// more and cannot be told.
func TestReleaseAfterAnUnlink(t *testing.T) {
	w := newLossWorld(t)
	w.bootBelow("confirmed")
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "b"})
	w.ok(command.InstanceTold{Stamp: w.stamp(), Gone: []api.InstanceID{"b"}})
	w.ok(command.LinkDelete{Stamp: w.stamp(), ID: "c1"})
	w.finish()
}

// TestWriteOffOfAnEvictedInstance: what its zone was to end for others is gone, and is not booted again.
func TestWriteOffOfAnEvictedInstance(t *testing.T) {
	w := newLossWorld(t)
	c := create(w.stamp(), "r1", 1, 1)
	c.Request.Class, c.Request.OnPreempt = api.Preemptible, api.PreemptRequeue
	w.ok(c)
	k := hold(w.stamp(), "k1", "r1", nil, part("c1", "b"))
	k.Request.Class, k.Request.OnPreempt = api.Preemptible, api.PreemptRequeue
	w.ok(k)
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Answers: []command.PartAnswer{answer("c1", "b")}})
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
	w.ok(command.PartAck{Stamp: w.stamp(), ID: "k1", Link: "c1", Decision: api.DecisionCommit})
	l, _ := w.s.Link("c1")
	w.ok(command.InstanceChanges{Stamp: w.stamp(), Link: "c1", After: l.ChangesNext, Next: l.ChangesNext + 1, Items: []api.InstanceChange{{
		ID: "b", Status: api.StatusDeleting, Index: l.ChangesNext + 1, Eviction: &api.Eviction{For: "lease", Lease: true, At: w.now, By: w.now + 1},
	}}})
	w.pause("c1")
	w.ok(w.writeOff("c1", false))
	i, _ := w.s.Instance("b")
	assert.Equal(t, api.StatusDeleted, i.Status)
	assert.Equal(t, api.RequeueEnded, i.Eviction.Stays)
	_, waits := w.s.Requeued("p", "r1")
	assert.False(t, waits)
	checkIndexes(t, w.s)
	w.same()
}

// TestWriteOffOfALeasesSlot: the slot is gone, and the lease ends with what is left of it.
func TestWriteOffOfALeasesSlot(t *testing.T) {
	w := newLossWorld(t)
	window := api.Window{Start: w.now + minute, End: w.now + 5*minute}
	w.ok(command.LeaseCreate{Stamp: w.stamp(), Terms: leaseTerms("l1", window, 2), Events: leaseEvents(window), Order: leaseOrder("l1", "o1", window, "s1", "s2")})
	k := hold(w.stamp(), "k1", "o1", slots("h1", "s1"), part("c1", "s2"))
	k.Request = leaseOrder("l1", "o1", window, "s1", "s2").Request
	w.ok(k)
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Answers: []command.PartAnswer{answer("c1", "s2")}})
	w.ok(bootDecide(w.stamp(), "o1", api.DecisionCommit))
	w.pause("c1")
	r := w.ok(w.writeOff("c1", false))
	assert.Equal(t, Losses{Parts: 1, Instances: 1, Unlinked: true}, *r.Losses)
	assert.Equal(t, api.StatusDeleted, w.status("s2"))
	assert.Equal(t, api.LeasePending, w.lease("l1").Status)
	checkIndexes(t, w.s)
	w.same()
	w.ok(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: "l1"})
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "s1"))
	_, there := w.s.Lease("l1")
	assert.False(t, there)
}

// TestWriteOffEndsBindings: projects that were bound to the zone are free to go elsewhere.
func TestWriteOffEndsBindings(t *testing.T) {
	w := newLossWorld(t)
	key := api.BindingKey{}
	w.ok(command.BindingSet{Stamp: w.stamp(), Project: "p", Key: key, Link: "c1", ID: "b1"})
	w.pause("c1")
	w.ok(w.writeOff("c1", false))
	b, _ := w.s.Binding("b1")
	assert.Equal(t, api.BindingUnlinked, b.Ended)
	w.same()
}

// TestWriteOffOfAParent: what a parent has not decided is aborted. What it has here ends if that is
// asked for, and keeps the link until it has ended.
func TestWriteOffOfAParent(t *testing.T) {
	w := newLossWorld(t)
	w.refused(api.CodeNotFound, w.writeOff("c9", false))
	w.refused(api.CodeConflict, w.writeOff("up", true)) // it is not paused
	w.ok(asked(w.stamp(), "k1", slots("h1", "a"), part("c1", "b")))
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Origin: "up", Answers: []command.PartAnswer{answer("c1", "b")}})
	w.decides("k1", api.DecisionCommit)
	w.ok(command.PartAck{Stamp: w.stamp(), ID: "k1", Origin: "up", Link: "c1", Decision: api.DecisionCommit})
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusActive, "a"))
	w.ok(asked(w.stamp(), "k2", slots("h1", "c"), part("c1", "d")))
	w.pause("up")
	w.refused(api.CodeConflict, w.writeOff("up", false)) // instances of it are here

	r := w.ok(w.writeOff("up", true))
	assert.Equal(t, Losses{Holds: 1, Ending: 2}, *r.Losses)
	h, _ := w.s.Hold("up", "k2")
	assert.Equal(t, api.DecisionAbort, h.Decision)
	assert.True(t, h.Forced)
	assert.Equal(t, []api.Status{api.StatusDeleting, api.StatusDeleting}, []api.Status{w.status("a"), w.status("b")})
	assert.Equal(t, []api.InstanceID{"b"}, idsOf(w.s.UnendedInstances()), "its zone is told")
	checkIndexes(t, w.s)
	r = w.ok(w.writeOff("up", true))
	assert.Equal(t, Losses{Ending: 2}, *r.Losses, "a repeat changes nothing")

	w.ok(command.InstanceTold{Stamp: w.stamp(), Gone: []api.InstanceID{"b"}})
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "a"))
	r = w.ok(w.writeOff("up", false))
	assert.Equal(t, Losses{Unlinked: true}, *r.Losses)
	_, linked := w.s.Link("up")
	assert.False(t, linked)
	assert.Zero(t, w.used("h1"))
	w.ok(command.PartAck{Stamp: w.stamp(), ID: "k2", Origin: "up", Link: "c1", Decision: api.DecisionAbort})
	assert.Empty(t, w.s.UntoldHolds())
	checkIndexes(t, w.s)
	w.same()
	w.refused(api.CodeForbidden, asked(w.stamp(), "k3", slots("h1", "e"))) // it is a stranger now
}

// TestWriteOffOfAnUndecidedParent: if it has not decided anything, the link ends at once.
func TestWriteOffOfAnUndecidedParent(t *testing.T) {
	w := newLossWorld(t)
	w.ok(asked(w.stamp(), "k1", slots("h1", "a")))
	w.pause("up")
	r := w.ok(w.writeOff("up", false))
	assert.Equal(t, Losses{Holds: 1, Unlinked: true}, *r.Losses)
	assert.Zero(t, w.used("h1"))
	checkIndexes(t, w.s)
	w.same()
}

// TestWriteOffTried: what a draft says would be lost is what is lost, and it changes nothing.
func TestWriteOffTried(t *testing.T) {
	w := newLossWorld(t)
	w.bootBelow("committed")
	w.pause("c1")
	before := facts(t, w.s)
	tried, err := NewDraft(w.s.Clone()).WriteOff(w.writeOff("c1", false))
	require.NoError(t, err)
	assert.Equal(t, before, facts(t, w.s))
	assert.Equal(t, *w.ok(w.writeOff("c1", false)).Losses, tried)
	_, err = NewDraft(w.s.Clone()).WriteOff(w.writeOff("c1", false))
	assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
}
