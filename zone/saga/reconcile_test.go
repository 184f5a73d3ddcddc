package saga_test

import (
	"crypto/sha256"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/fleet"
	"berth/zone/zonetest"
)

// untilReconciled waits until a zone has compared a child.
func untilReconciled(m *zonetest.Member, link api.LinkID) {
	m.World.T.Helper()
	m.Until("the child is compared", func(v *state.State) bool {
		l, ok := v.Link(link)
		return ok && l.Reconcile == 0
	})
}

// statusesOf returns the live instances of a reservation in a zone, with their statuses.
func statusesOf(m *zonetest.Member, res string) map[api.InstanceID]api.Status {
	out := map[api.InstanceID]api.Status{}
	for _, i := range m.Instances(res) {
		out[i.ID] = i.Status
	}
	return out
}

const kidLink = api.LinkID("link-kid")

// afterABackup is what happened to root and kid between a backup of one of them and its return. Boot a, of
// before the backup, is to live on in both; boot b, of after it, in neither, and so boot e, which has ended since.
var afterABackup = []struct {
	name string
	b    bool // b was booted
	e    bool // e was there, and ended
	back string
}{
	{"the child is back, both have the same", false, false, "kid"},
	{"the parent is back, both have the same", false, false, "root"},
	{"the parent is back, the child has more", true, false, "root"},
	{"the child is back, the parent has more", true, false, "kid"},
	{"the child is back, with what has ended", false, true, "kid"},
	{"the parent is back, with what has ended", false, true, "root"},
}

// reconciling is what goes wrong once while a parent and a child are compared.
type reconciling struct {
	name string
	goes func(w *zonetest.World)
}

// eachMishapOfReconciling lists all of them, and that nothing goes wrong.
func eachMishapOfReconciling() []reconciling {
	out := []reconciling{{"nothing", func(*zonetest.World) {}}}
	for _, op := range []string{"changes", "end", string(api.DecisionCommit), "decisions"} {
		for _, f := range []zonetest.Fault{zonetest.Vanished, zonetest.CutOff, zonetest.Repeated} {
			out = append(out, reconciling{op + ": " + string(f), func(w *zonetest.World) {
				done := false
				w.When(func(c zonetest.Call) zonetest.Fault {
					if done || c.From != "root" || c.Op != op {
						return ""
					}
					done = true
					return f
				})
			}})
		}
	}
	for _, k := range []command.Kind{command.KindLinkReconciled, command.KindPartAck} {
		for _, what := range []zonetest.Mishap{zonetest.Unapplied, zonetest.Unconfirmed, zonetest.Doubled, zonetest.Deposed, zonetest.Delayed} {
			e := zonetest.EntryMishap{Kind: k, N: 1, Mishap: what}
			out = append(out, reconciling{e.String(), func(w *zonetest.World) { w.EntryGoesWrong(e) }})
		}
	}
	return out
}

// TestReconcile: a zone that was brought back from a backup, and the one at the other end of its link, agree
// again on what runs, whatever goes wrong once on the way.
func TestReconcile(t *testing.T) {
	type try struct {
		before int // in afterABackup
		wrong  reconciling
	}
	var calm, tries []try // each case when nothing goes wrong is always tried
	for i := range afterABackup {
		all := eachMishapOfReconciling()
		calm = append(calm, try{i, all[0]})
		for _, wrong := range all[1:] {
			tries = append(tries, try{i, wrong})
		}
	}
	for _, now := range append(calm, dice.Part(t, tries, 12)...) {
		c := afterABackup[now.before]
		t.Run(c.name+"/"+now.wrong.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				kid := w.Zone("kid", root, 6)
				require.Equal(t, api.BootActive, root.Run(zonetest.Order("a", 2, 2)).State())
				if c.e {
					require.Equal(t, api.BootActive, root.Run(zonetest.Order("e", 1, 1)).State())
				}
				await.Sleep(time.Minute)
				backup := map[string][]byte{"root": root.Saved(), "kid": kid.Saved()}[c.back]
				if c.e {
					root.Release("e")
				}
				await.Sleep(time.Minute)
				require.Empty(t, statusesOf(root, "e"))
				if c.b {
					require.Equal(t, api.BootActive, root.Run(zonetest.Order("b", 3, 3)).State())
				}
				before := statusesOf(root, "a")
				require.Len(t, before, 2)
				now.wrong.goes(w)
				if c.back == "kid" {
					kid.BringBack(backup, root, kidLink)
				} else {
					root.BringBack(backup, kid, kidLink)
				}
				untilReconciled(root, kidLink)
				kid.Until("what the parent does not know has ended", func(*state.State) bool { return len(kid.Instances("b"))+len(kid.Instances("e")) == 0 })
				await.Sleep(time.Minute)
				assert.Equal(t, before, statusesOf(root, "a"))
				assert.Equal(t, before, statusesOf(kid, "a"))
				assert.Empty(t, statusesOf(root, "b"))
				assert.Empty(t, statusesOf(root, "e"))
				require.Equal(t, api.BootActive, root.Run(zonetest.Order("c", 4, 4)).State(), "the room of b and e is free")
				w.Settle()
			})
		})
	}
}

// TestReconcileGoesOnUntilAllIsDone: a child that does not answer, or refuses to end what it should not have, counts as
// compared only when it has done both.
func TestReconcileGoesOnUntilAllIsDone(t *testing.T) {
	for _, op := range []string{"changes", "end"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				kid := w.Zone("kid", root, 6)
				require.Equal(t, api.BootActive, root.Run(zonetest.Order("a", 2, 2)).State())
				await.Sleep(time.Minute)
				backup := root.Saved()
				require.Equal(t, api.BootActive, root.Run(zonetest.Order("b", 3, 3)).State())
				tried := false
				w.When(func(c zonetest.Call) zonetest.Fault {
					if c.From != "root" || c.Op != op {
						return ""
					}
					tried = true
					return zonetest.Refused
				})
				root.BringBack(backup, kid, kidLink)
				await.Sleep(10 * time.Minute)
				assert.True(t, tried)
				l, _ := root.View().Link(kidLink)
				assert.NotZero(t, l.Reconcile, "it is not done")
				assert.Len(t, kid.Instances("b"), 3)
				w.When(nil)
				untilReconciled(root, kidLink)
				kid.Until("what the parent does not know has ended", func(*state.State) bool { return len(kid.Instances("b")) == 0 })
				assert.Len(t, kid.Instances("a"), 2)
				w.Settle()
			})
		})
	}
}

// TestReconcileLeavesWhatIsNotDecided: what a child has made for a hold whose answer is on its way is no stranger there.
func TestReconcileLeavesWhatIsNotDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kid := w.Zone("kid", root, 6)
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("a", 2, 2)).State())
		await.Sleep(time.Minute)
		w.When(func(c zonetest.Call) zonetest.Fault {
			if c.Op == "hold and commit" && c.N == 2 { // the first was that of a
				return zonetest.Silenced
			}
			return ""
		})
		root.Boot(zonetest.Order("b", 3, 3))
		await.Sleep(time.Second)
		require.Len(t, kid.Instances("b"), 3)
		require.Empty(t, root.Instances("b"))
		kid.BringBack(kid.Saved(), root, kidLink)
		untilReconciled(root, kidLink)
		for _, i := range kid.Instances("b") {
			assert.NotEqual(t, api.StatusDeleting, i.Status)
		}
		b, _ := root.View().Boot("p", "b")
		assert.Equal(t, api.DecisionPending, b.Decision)
		assert.Equal(t, api.BootActive, root.Outcome("b").State())
		await.Sleep(time.Minute)
		assert.Len(t, root.Instances("b"), 3)
		assert.Equal(t, statusesOf(root, "b"), statusesOf(kid, "b"))
		w.Settle()
	})
}

// TestReconcileEndsWhatIsEnding: what a child had begun to end before it went back to a backup, and its parent counts as
// ending, ends again.
func TestReconcileEndsWhatIsEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kid := w.Zone("kid", root, 6)
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("e", 1, 1)).State())
		await.Sleep(time.Minute)
		backup := kid.Saved()
		kid.Silence(true)                // its agent confirms no end,
		await.Sleep(2 * fleet.AgentBeat) // once a poll that it may have made has ended
		root.Release("e")
		await.Sleep(2 * time.Second)
		deleting := func(m *zonetest.Member) bool {
			all := m.Instances("e")
			return len(all) == 1 && all[0].Status == api.StatusDeleting
		}
		require.True(t, deleting(root) && deleting(kid))
		kid.BringBack(backup, root, kidLink)
		kid.Silence(false)
		untilReconciled(root, kidLink)
		await.Sleep(time.Minute)
		assert.Empty(t, statusesOf(kid, "e"))
		assert.Empty(t, statusesOf(root, "e"))
		w.Settle()
	})
}

// TestReconcileWithAChildThatHasAnothers: what this zone has elsewhere is a stranger in a child that says it has it.
func TestReconcileWithAChildThatHasAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 1)
		kid := w.Zone("kid", root, 6)
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("own", 1, 1)).State())
		own := root.Instances("own")
		require.Len(t, own, 1)
		require.NotEmpty(t, own[0].Host)
		back, _ := kid.View().Link(kidLink)
		w.Lie(kidLink, func(after uint64) *api.Changes {
			now := kid.Lead().Changes(w.Ctx, back, after, 0, 0)
			if after == 0 {
				now.Items = slices.Insert(now.Items, 0, api.InstanceChange{ID: own[0].ID, Status: api.StatusActive, Index: 1})
			}
			now.Next, now.Restored = max(now.Next, 1), kid.View().Restored()
			return &now
		})
		kid.BringBack(kid.Saved(), root, kidLink)
		untilReconciled(root, kidLink)
		assert.Equal(t, 1, w.Made("end", "root", "kid"), "it is to end it")
		w.Lie(kidLink, nil)
		assert.Equal(t, own, root.Instances("own"))
		w.Settle()
	})
}

// TestARestoredZoneReconciles: a zone whose state was restored compares with its children by itself. What they were given since
// the backup ends there, and the rest goes on.
func TestARestoredZoneReconciles(t *testing.T) {
	for _, wrong := range dice.Part(t, eachMishapOfReconciling(), 2) {
		t.Run(wrong.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				kid := w.Zone("kid", root, 6)
				require.Equal(t, api.BootActive, root.Run(zonetest.Order("a", 2, 2)).State())
				await.Sleep(time.Minute)
				backup := root.Saved()
				sum := sha256.Sum256(backup)
				require.Equal(t, api.BootActive, root.Run(zonetest.Order("b", 3, 3)).State())
				before := statusesOf(root, "a")
				wrong.goes(w)
				root.Do(command.Restore{Sum: sum[:], Size: int64(len(backup)), Data: backup})
				untilReconciled(root, kidLink)
				kid.Until("what the backup does not have has ended", func(*state.State) bool { return len(kid.Instances("b")) == 0 })
				await.Sleep(time.Minute)
				assert.Equal(t, before, statusesOf(root, "a"))
				assert.Equal(t, before, statusesOf(kid, "a"))
				require.Equal(t, api.BootActive, root.Run(zonetest.Order("c", 4, 4)).State(), "the room of b is free")
				w.Settle()
			})
		})
	}
}

// TestALeaderOfBeforeConfirmsNothing: a parent takes an instance that a child does not name for gone, so a leader of the child that is
// none any more, and may not know what its successor has confirmed, does not answer.
func TestALeaderOfBeforeConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kid := w.Zone("kid", root, 6)
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("a", 2, 2)).State())
		back, _ := kid.View().Link(kidLink)
		first := kid.Lead()
		ch, err := first.ConfirmedChanges(w.Ctx, back, 0)
		require.NoError(t, err)
		require.Len(t, ch.Items, 2)
		kid.Elect()
		_, err = first.ConfirmedChanges(w.Ctx, back, 0)
		require.Error(t, err)
		again, err := kid.Lead().ConfirmedChanges(w.Ctx, back, 0)
		require.NoError(t, err)
		require.Equal(t, ch.Items, again.Items)
	})
}

// TestReconcileWithAChildThatLies: a parent believes what a child says of its own instances, and nothing
// else. A list that cannot be one of changes settles nothing.
func TestReconcileWithAChildThatLies(t *testing.T) {
	for name, c := range map[string]struct {
		lie     func(true *api.Changes, after uint64) *api.Changes
		settles bool // at once, and not when the lie has ended
		stay    int
	}{
		"it has forgotten all": {func(*api.Changes, uint64) *api.Changes { return &api.Changes{} }, true, 0},
		"it has one that nobody booted": {func(now *api.Changes, after uint64) *api.Changes {
			if after == 0 {
				now.Items = slices.Insert(now.Items, 0, api.InstanceChange{ID: "stranger", Status: api.StatusActive, Index: 1})
			}
			return now
		}, true, 2},
		"its list has no order": {func(now *api.Changes, _ uint64) *api.Changes {
			slices.Reverse(now.Items)
			now.Items = append(now.Items, api.InstanceChange{ID: "stranger", Status: api.StatusActive, Index: 1})
			return now
		}, false, 2},
		"its list ends elsewhere": {func(now *api.Changes, _ uint64) *api.Changes { now.Next++; return now }, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				kid := w.Zone("kid", root, 6)
				require.Equal(t, api.BootActive, root.Run(zonetest.Order("a", 2, 2)).State())
				await.Sleep(time.Minute)
				back, _ := kid.View().Link(kidLink)
				w.Lie(kidLink, func(after uint64) *api.Changes {
					now := kid.Lead().Changes(w.Ctx, back, after, 0, 0)
					lie := c.lie(&now, after)
					lie.Restored = kid.View().Restored()
					return lie
				})
				kid.BringBack(kid.Saved(), root, kidLink)
				await.Sleep(10 * time.Minute)
				l, _ := root.View().Link(kidLink)
				assert.Equal(t, c.settles, l.Reconcile == 0)
				if !c.settles {
					assert.Len(t, root.Instances("a"), c.stay, "nothing is settled")
				}
				w.Lie(kidLink, nil)
				untilReconciled(root, kidLink)
				assert.Len(t, root.Instances("a"), c.stay)
				assert.Len(t, kid.Instances("a"), 2, "a parent ends nothing there that it has")
			})
		})
	}
}
