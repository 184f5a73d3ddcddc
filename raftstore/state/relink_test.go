package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// relinked is a world whose child c1 has the instances i1 and i2 of boot r1, which it has confirmed.
func relinked(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.link("c1", api.LinkChild)
	w.ok(create(w.stamp(), "r1", 2, 2))
	w.ok(hold(w.stamp(), "k1", "r1", nil, part("c1", "i1", "i2")))
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Answers: []command.PartAnswer{answer("c1", "i1", "i2")}})
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
	w.ok(command.PartAck{Stamp: w.stamp(), ID: "k1", Link: "c1", Decision: api.DecisionCommit})
	require.Empty(t, w.s.UntoldHolds())
	return w
}

func (w *world) relink(n api.Incarnation) api.Instant {
	w.ok(command.LinkRelink{Stamp: w.stamp(), ID: "c1", Incarnation: n})
	l, _ := w.s.Link("c1")
	return l.Reconcile
}

// TestRelink: an incarnation is accepted once, and only a later one. What lives in a child is told again, and compared when that is
// confirmed; what it has forgotten is gone.
func TestRelink(t *testing.T) {
	w := relinked(t)
	w.refused(api.CodeNotFound, command.LinkRelink{Stamp: w.stamp(), ID: "c9", Incarnation: 5})
	w.refused(api.CodeInvalid, command.LinkRelink{Stamp: w.stamp(), ID: "c1", Incarnation: api.IncarnationMax + 1})
	w.refused(api.CodeInvalid, command.LinkRelink{Stamp: w.stamp(), ID: "c1", Incarnation: 5, Endpoints: []string{"no address"}})
	w.refused(api.CodeConflict, command.LinkReconciled{Stamp: w.stamp(), ID: "c1", Done: true})
	w.ok(command.LinkRelink{Stamp: w.stamp(), ID: "c1", Incarnation: 5, Endpoints: []string{"h:2"}})
	w.refused(api.CodeConflict, command.LinkRelink{Stamp: w.stamp(), ID: "c1", Incarnation: 5})
	w.refused(api.CodeConflict, command.LinkRelink{Stamp: w.stamp(), ID: "c1", Incarnation: 4})
	l, _ := w.s.Link("c1")
	assert.Equal(t, []string{"h:2"}, l.Endpoints)
	assert.Equal(t, api.Incarnation(5), l.Incarnation)
	assert.Zero(t, l.ChangesNext, "it is followed anew")
	assert.Len(t, w.s.Reconciling(), 1)
	assert.Len(t, w.s.UntoldHolds(), 1, "it is told again")
	assert.True(t, w.s.OwesDecisions(l))
	assert.Empty(t, w.s.ConfirmedAt("c1"))

	w.ok(command.PartAck{Stamp: w.stamp(), ID: "k1", Link: "c1", Decision: api.DecisionCommit})
	assert.False(t, w.s.OwesDecisions(l))
	assert.Equal(t, []api.InstanceID{"i1", "i2"}, w.s.ConfirmedAt("c1"))
	w.refused(api.CodeConflict, command.LinkReconciled{Stamp: w.stamp(), ID: "c1", Since: l.Reconcile + 1, Done: true})
	w.ok(command.LinkReconciled{Stamp: w.stamp(), ID: "c1", Since: l.Reconcile, Gone: []api.InstanceID{"i2", "nobody"}})
	i1, _ := w.s.Instance("i1")
	i2, _ := w.s.Instance("i2")
	assert.True(t, i1.Live())
	assert.Equal(t, api.StatusDeleted, i2.Status)
	assert.Equal(t, forgottenBelow, i2.Fault)
	assert.Len(t, w.s.Reconciling(), 1, "it is not done")
	w.ok(command.LinkReconciled{Stamp: w.stamp(), ID: "c1", Since: l.Reconcile, Done: true})
	assert.Empty(t, w.s.Reconciling())
	w.refused(api.CodeConflict, command.LinkReconciled{Stamp: w.stamp(), ID: "c1", Since: l.Reconcile, Done: true})
}

// TestLinkRestored: that a child went back to a backup is noted once for each backup, and then it is compared as one that was brought
// back. A return that was confirmed is none more.
func TestLinkRestored(t *testing.T) {
	w := relinked(t)
	w.link("up", api.LinkParent)
	w.refused(api.CodeNotFound, command.LinkRestored{Stamp: w.stamp(), ID: "c9", Restored: 5})
	w.refused(api.CodeInvalid, command.LinkRestored{Stamp: w.stamp(), ID: "up", Restored: 5})
	w.refused(api.CodeConflict, command.LinkRestored{Stamp: w.stamp(), ID: "c1"})
	w.ok(command.LinkRestored{Stamp: w.stamp(), ID: "c1", Restored: 5})
	w.refused(api.CodeConflict, command.LinkRestored{Stamp: w.stamp(), ID: "c1", Restored: 5})
	l, _ := w.s.Link("c1")
	assert.Equal(t, uint64(5), l.Restored)
	assert.Zero(t, l.ChangesNext, "it is followed anew")
	assert.True(t, w.s.OwesDecisions(l), "it is told again")
	w.ok(command.LinkRestored{Stamp: w.stamp(), ID: "c1", Restored: 6})
	w.refused(api.CodeConflict, command.LinkReconciled{Stamp: w.stamp(), ID: "c1", Since: l.Reconcile, Done: true})
	w.relink(7)
	begin, _ := api.Incarnation(7).Begin()
	w.refused(api.CodeConflict, command.LinkRestored{Stamp: w.stamp(), ID: "c1", Restored: begin})
	w.ok(command.LinkRestored{Stamp: w.stamp(), ID: "c1", Restored: begin + 1})
}

// TestARestoreThatNeverWas: that a child has not gone back to a backup where it said so is noted once, and what both have is compared again.
func TestARestoreThatNeverWas(t *testing.T) {
	const never = 1 << 62
	w := relinked(t)
	w.ok(command.LinkRestored{Stamp: w.stamp(), ID: "c1", Restored: never})
	w.refused(api.CodeConflict, command.LinkRestored{Stamp: w.stamp(), ID: "c1", Restored: 5}) // a node that is behind
	w.refused(api.CodeConflict, command.LinkRestored{Stamp: w.stamp(), ID: "c1", Restored: 5, Was: never - 1})
	w.refused(api.CodeConflict, command.LinkRestored{Stamp: w.stamp(), ID: "c1", Restored: never, Was: never})
	w.ok(command.PartAck{Stamp: w.stamp(), ID: "k1", Link: "c1", Decision: api.DecisionCommit})
	first, _ := w.s.Link("c1")
	w.ok(command.LinkRestored{Stamp: w.stamp(), ID: "c1", Restored: 5, Was: never})
	l, _ := w.s.Link("c1")
	assert.Equal(t, uint64(5), l.Restored)
	assert.Greater(t, l.Reconcile, first.Reconcile)
	assert.True(t, w.s.OwesDecisions(l), "it is told again")
	w.refused(api.CodeConflict, command.LinkRestored{Stamp: w.stamp(), ID: "c1", Restored: 4, Was: never})
	w.ok(command.LinkRestored{Stamp: w.stamp(), ID: "c1", Restored: 0, Was: 5})
	w.ok(command.LinkRestored{Stamp: w.stamp(), ID: "c1", Restored: 1})
}

// TestForgottenLater: a hold that a child forgot before it was compared, and that is decided after it, takes its instances with it, and
// one that was made since and that the child gave up is an error.
func TestForgottenLater(t *testing.T) {
	w := relinked(t)
	w.ok(create(w.stamp(), "r2", 1, 1))
	w.ok(hold(w.stamp(), "k2", "r2", nil, part("c1", "i3")))
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k2", Answers: []command.PartAnswer{answer("c1", "i3")}})
	w.ok(command.LinkRestored{Stamp: w.stamp(), ID: "c1", Restored: 5})
	w.ok(command.PartAck{Stamp: w.stamp(), ID: "k1", Link: "c1", Decision: api.DecisionCommit})
	l, _ := w.s.Link("c1")
	w.ok(command.LinkReconciled{Stamp: w.stamp(), ID: "c1", Since: l.Reconcile, Done: true})
	w.ok(create(w.stamp(), "r3", 1, 1))
	w.ok(hold(w.stamp(), "k3", "r3", nil, part("c1", "i4")))
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k3", Answers: []command.PartAnswer{answer("c1", "i4")}})
	for n, want := range []api.Status{api.StatusDeleted, api.StatusError} {
		w.ok(bootDecide(w.stamp(), fmt.Sprint("r", n+2), api.DecisionCommit))
		w.ok(command.PartAck{Stamp: w.stamp(), ID: api.HoldID(fmt.Sprint("k", n+2)), Link: "c1", Decision: api.DecisionCommit, Lost: true})
		i, _ := w.s.Instance(api.InstanceID(fmt.Sprint("i", n+3)))
		assert.Equal(t, want, i.Status)
	}
}

// TestForgottenHold: a hold that the child has forgotten altogether takes its instances with it.
func TestForgottenHold(t *testing.T) {
	w := relinked(t)
	since := w.relink(5)
	require.Positive(t, since)
	w.ok(command.PartAck{Stamp: w.stamp(), ID: "k1", Link: "c1", Decision: api.DecisionCommit, Lost: true})
	for _, id := range []api.InstanceID{"i1", "i2"} {
		i, _ := w.s.Instance(id)
		assert.Equal(t, api.StatusDeleted, i.Status)
		assert.Equal(t, forgottenBelow, i.Fault)
	}
	assert.Empty(t, w.s.UntoldHolds())
}

// TestUndecidedInABackupFails: what a backup has as undecided may have been placed since, elsewhere than it would be now: no instance
// is in two places because a zone went back. What was to be booted again waits for other instances; what was decided goes on.
func TestUndecidedInABackupFails(t *testing.T) {
	for name, goBack := range map[string]func(w *world){
		"restore": func(w *world) {
			backup := saved(t, w.s)
			parts := w.parts(backup, 2)
			for _, c := range parts {
				w.ok(w.part(c))
			}
			again := loaded(t, backup)
			again.Apply(w.index, command.Restored{Stamp: command.Stamp{At: w.now}})
			again.BeginNewHistory(parts[0].Sum)
			again.ContinueAudit(w.s)
			again.SettleBackup(w.form)
			require.True(t, saved(t, again) == saved(t, w.s), "step by step it is the same") //nolint:testifylint // nobody reads the difference
		},
		"return": func(w *world) {
			w.now++
			require.NoError(t, w.s.BringBack(Return{Incarnation: 9, At: w.now, Admin: api.Token{ID: "new"}}))
			w.index = w.s.Index()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := relinked(t)
			w.form = api.FormFifth
			w.host("h1", 4)
			preemptible(w, "again", 1, "h1", "a")
			evict(w, "a")
			leave(w, "h1", "a")
			w.ok(again(w, "again", "x"))
			w.ok(create(w.stamp(), "asked", 1, 1))
			w.ok(hold(w.stamp(), "k2", "asked", nil, part("c1", "i3")))
			w.ok(create(w.stamp(), "recorded", 1, 1))
			goBack(w)
			assert.Empty(t, w.s.UndecidedBoots())
			for _, id := range []string{"asked", "recorded"} {
				b := w.boot(id)
				assert.Equal(t, api.BootFailed, b.State(), id)
				assert.Equal(t, api.CodeUnavailable, b.Code, id)
				assert.Equal(t, undecidedThen, b.Reason, id)
			}
			assert.Equal(t, api.DecisionCommit, w.boot("r1").Decision)
			assert.Nil(t, pending(w, "again"))
			r, ok := w.s.Requeued("p", "again")
			require.True(t, ok, "it waits on")
			assert.Zero(t, r.Refill)
			h, ok := w.s.Hold("", "k2")
			require.True(t, ok)
			assert.Equal(t, api.DecisionAbort, h.Decision)
			assert.Contains(t, w.s.UntoldHolds(), h, "the child is told")
			checkIndexes(t, w.s)
		})
	}
}

func TestReconcileGoneLimit(t *testing.T) {
	w := relinked(t)
	c := command.LinkReconciled{Stamp: w.stamp(), ID: "c1", Since: w.relink(5)}
	for n := range command.ReconcileGoneMax {
		c.Gone = append(c.Gone, api.InstanceID(fmt.Sprint("x", n)))
	}
	c.Stamp = w.stamp()
	w.ok(c)
	c.Stamp, c.Gone = w.stamp(), append(c.Gone, "more")
	w.refused(api.CodeInvalid, c)
}

// TestBringBack: the log goes on behind all that others may have heard, nodes are forgotten and their keys due, and children have
// to be compared. A clock that is behind is refused.
func TestBringBack(t *testing.T) {
	w := relinked(t)
	w.ok(command.NodePut{Stamp: w.stamp(), Node: api.Node{ID: "n1"}})
	for n, kind := range []api.JoinKind{api.JoinNode, api.JoinAgent} {
		w.ok(command.JoinPut{Stamp: w.stamp(), Token: api.JoinToken{ID: api.TokenID(fmt.Sprint("t", n)), Hash: []byte{1}, Kind: kind, Name: "x", Expires: api.Forever}})
	}
	admin := api.Token{ID: "a", Hash: []byte{2}, Roles: []api.UserRole{api.RoleAdmin}, Expires: api.Forever}
	was := w.s.Now()
	const life = api.Incarnation(1_800_000_000)
	assert.Equal(t, api.CodeConflict, api.CodeOf(w.s.BringBack(Return{Incarnation: life, At: was - 1, Admin: admin})), "a clock that is behind")
	assert.Equal(t, api.CodeConflict, api.CodeOf(w.s.BringBack(Return{At: was, Admin: admin})), "no incarnation")
	assert.Equal(t, api.CodeInvalid, api.CodeOf(w.s.BringBack(Return{Incarnation: api.IncarnationMax + 1, At: was})))
	require.NoError(t, w.s.BringBack(Return{Incarnation: life, At: was, Admin: admin}))
	index, term := life.Begin()
	assert.Equal(t, index, w.s.Index())
	assert.Greater(t, index, uint64(1)<<32)
	assert.Less(t, index, uint64(1)<<62, "indices between zones")
	assert.Less(t, term, uint64(1)<<53, "a term is a number in JSON")
	assert.Empty(t, w.s.Nodes())
	assert.False(t, w.s.Admitted("x"))
	_, kept := w.s.Join("t1")
	assert.True(t, kept, "of an agent")
	_, kept = w.s.Join("t0")
	assert.False(t, kept, "of a node")
	assert.Equal(t, index, w.s.KEKDue)
	assert.Equal(t, index, w.s.CADue)
	_, known := w.s.Token("a")
	assert.True(t, known)
	assert.Len(t, w.s.Reconciling(), 1)
	assert.Len(t, w.s.UntoldHolds(), 1)
	assert.Equal(t, api.CodeConflict, api.CodeOf(w.s.BringBack(Return{Incarnation: life, At: was})), "the same again")
}
