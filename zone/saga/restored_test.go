package saga_test

import (
	"crypto/sha256"
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
	"berth/zone/zonetest"
)

// restore puts the state of a zone back to a backup while it runs.
func restore(m *zonetest.Member, backup []byte) {
	sum := sha256.Sum256(backup)
	m.Do(command.Restore{Sum: sum[:], Size: int64(len(backup)), Data: backup})
}

// keepBack lets no decision get from root to kid until the returned function is called.
func keepBack(w *zonetest.World) func() {
	kept := true
	w.When(func(c zonetest.Call) zonetest.Fault {
		if kept && c.From == "root" && (c.Op == string(api.DecisionCommit) || c.Op == "decisions") {
			return zonetest.Vanished
		}
		return ""
	})
	return func() { kept = false }
}

// inDoubt boots three in kid, which hears nothing of the decision until the returned function is called. The first of root's calls that
// decides is later than the hold.
func inDoubt(t *testing.T, w *zonetest.World, root *zonetest.Member) func() {
	t.Helper()
	// A zone alone below may decide by itself; two holds are needed for a call that decides. So root has a host too.
	pass := keepBack(w)
	root.Boot(zonetest.Order("b", 5, 5))
	require.Equal(t, api.BootActive, root.Outcome("b").State())
	return pass
}

// pastRestore is what happens to root and kid before and after a backup of kid, to which it is put back. a is two instances that run in kid
// before, and b is five, two of them in root.
type pastRestore struct {
	name   string
	before func(t *testing.T, w *zonetest.World, root *zonetest.Member) (then func())
	after  func(root *zonetest.Member)
	a, b   int // instances that live in kid in the end, of each
	lost   int // that root was told to be lost
}

func eachPastOfARestore() []pastRestore {
	nothing := func(*testing.T, *zonetest.World, *zonetest.Member) func() { return func() {} }
	return []pastRestore{
		{"nothing happened since", nothing, func(*zonetest.Member) {}, 2, 0, 0},
		{"a boot is lost", nothing, func(root *zonetest.Member) { root.Run(zonetest.Order("b", 5, 5)) }, 2, 0, 3},
		{"one that has ended is there again", nothing, func(root *zonetest.Member) { root.Delete(root.Instances("a")[0].ID) }, 1, 0, 0},
		{"a boot that was released is there again", nothing, func(root *zonetest.Member) { root.Release("a") }, 0, 0, 0},
		{"all at once", nothing, func(root *zonetest.Member) { root.Release("a"); root.Run(zonetest.Order("b", 5, 5)) }, 0, 0, 3},
		{"a boot was held, and is decided", func(t *testing.T, w *zonetest.World, root *zonetest.Member) func() { return inDoubt(t, w, root) }, func(*zonetest.Member) {}, 2, 3, 0},
		{"a boot was held, and has ended", func(t *testing.T, w *zonetest.World, root *zonetest.Member) func() { return inDoubt(t, w, root) }, func(root *zonetest.Member) {
			await.Sleep(time.Minute)
			root.Release("b")
		}, 2, 0, 0},
	}
}

// TestAParentHearsOfARestore: when a child was put back to a backup, its parent hears of it by what the two exchange anyway, and both have
// the same again: what the child lost is lost for the owner too, and what it has again is ended.
func TestAParentHearsOfARestore(t *testing.T) {
	type try struct {
		past  pastRestore
		wrong reconciling
		twice bool
	}
	var tries []try
	for _, past := range eachPastOfARestore() {
		for n, wrong := range eachMishapOfReconciling() {
			tries = append(tries, try{past, wrong, n%2 == 1})
		}
	}
	for _, now := range dice.Part(t, tries, 12) {
		t.Run(now.past.name+"/"+now.wrong.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 2)
				kid := w.Zone("kid", root, 6)
				a := zonetest.Order("a", 2, 2)
				a.Request.Zones.Allowed = []string{"kid"}
				require.Equal(t, api.BootActive, root.Run(a).State())
				await.Sleep(time.Minute)
				then := now.past.before(t, w, root)
				backup := kid.Saved()
				then()
				now.past.after(root)
				await.Sleep(time.Minute)
				now.wrong.goes(w)
				restore(kid, backup)
				if now.twice {
					await.Sleep(300 * time.Millisecond)
					restore(kid, backup)
				}
				root.Until("root has heard of it", func(v *state.State) bool {
					l, _ := v.Link(kidLink)
					return l.Restored == kid.View().Restored() && l.Reconcile == 0
				})
				await.Sleep(2 * time.Minute)
				for _, res := range []string{"a", "b"} {
					assert.Equal(t, statusesIn(root, res, kidLink), statusesOf(kid, res), res)
				}
				assert.Len(t, kid.Instances("a"), now.past.a)
				assert.Len(t, kid.Instances("b"), now.past.b)
				assert.Equal(t, now.past.lost, forgotten(root))
				w.Settle()
			})
		})
	}
}

// statusesIn returns the live instances of a reservation that a zone has in a child.
func statusesIn(m *zonetest.Member, res string, child api.LinkID) map[api.InstanceID]api.Status {
	out := map[api.InstanceID]api.Status{}
	for _, i := range m.Instances(res) {
		if i.Link == child {
			out[i.ID] = i.Status
		}
	}
	return out
}

// forgotten counts the instances that a zone was told to be lost with a restore below.
func forgotten(m *zonetest.Member) (n int) {
	for _, h := range m.View().Holds() {
		for _, id := range h.Held() {
			if i, ok := m.View().Instance(id); ok && i.Status == api.StatusDeleted && i.Fault != "" {
				n++
			}
		}
	}
	return n
}

// TestWhatAChildSaysOfRestores: what a node of a child says that is behind, and does not know of the restore yet, is not taken, and a child
// that names another restore with each answer is not compared each time.
func TestWhatAChildSaysOfRestores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kid := w.Zone("kid", root, 6)
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("a", 2, 2)).State())
		await.Sleep(time.Minute)
		restore(kid, kid.Saved())
		noted := func(v *state.State) bool {
			l, _ := v.Link(kidLink)
			return l.Restored == kid.View().Restored() && l.Reconcile == 0
		}
		root.Until("root has heard of it", noted)
		a := root.Instances("a")
		w.LieUnconfirmed(kidLink, func(after uint64) *api.Changes {
			return &api.Changes{Next: after + 1, Items: []api.InstanceChange{{ID: a[0].ID, Status: api.StatusDeleted, Index: after + 1}}}
		})
		await.Sleep(time.Minute)
		assert.Len(t, root.Instances("a"), 2, "a node that is behind is not believed")
		at := kid.View().Restored()
		w.Lie(kidLink, func(after uint64) *api.Changes { at++; return &api.Changes{Next: after, Restored: at, Index: at} })
		notes, last := 0, uint64(0)
		for range 600 {
			await.Sleep(time.Second)
			if l, _ := root.View().Link(kidLink); l.Restored != last {
				notes, last = notes+1, l.Restored
			}
		}
		assert.LessOrEqual(t, notes, 22, "one in half a minute")
		assert.Greater(t, notes, 15)
		w.Lie(kidLink, nil)
	})
}

// TestARestoreThatNeverWas: a child that names a restore which its log has no room for changes nothing. One that names a log as long is
// believed, and followed again when it tells the truth, whether it really went back to a backup or not.
func TestARestoreThatNeverWas(t *testing.T) {
	for name, c := range map[string]struct {
		restored, index uint64
		really          bool // it had gone back to a backup before
		noted           bool
	}{
		"behind its log":                  {restored: 1 << 40, index: 1<<40 - 1},
		"without a log":                   {restored: 1 << 40},
		"behind all logs":                 {restored: 1<<62 + 1, index: 1<<62 + 1},
		"in a log that is not so long":    {restored: 1 << 40, index: 1 << 41, noted: true},
		"in the longest log":              {restored: 1 << 62, index: 1<<64 - 1, noted: true},
		"behind its log, after a restore": {restored: 1 << 40, index: 1 << 39, really: true},
		"in the longest, after a restore": {restored: 1 << 62, index: 1 << 62, really: true, noted: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				kid := w.Zone("kid", root, 6)
				require.Equal(t, api.BootActive, root.Run(zonetest.Order("a", 2, 2)).State())
				await.Sleep(time.Minute)
				if c.really {
					restore(kid, kid.Saved())
				}
				agree := func(v *state.State) bool {
					l, _ := v.Link(kidLink)
					return l.Restored == kid.View().Restored() && l.Reconcile == 0
				}
				root.Until("both know the same", agree)
				await.Sleep(time.Minute)
				before, _ := root.View().Link(kidLink)
				w.LieUnconfirmed(kidLink, func(after uint64) *api.Changes {
					return &api.Changes{Next: after, Restored: c.restored, Index: c.index}
				})
				await.Sleep(2 * time.Minute)
				l, _ := root.View().Link(kidLink)
				if c.noted {
					assert.Equal(t, c.restored, l.Restored)
				} else {
					assert.Equal(t, before.Restored, l.Restored)
					assert.Equal(t, before.Forgot, l.Forgot, "nothing is compared")
				}
				w.Lie(kidLink, nil)
				a := root.Instances("a")
				kid.Delete(a[0].ID)
				root.Until("the truth is heard", func(v *state.State) bool { return agree(v) && len(root.Instances("a")) == 1 })
				await.Sleep(time.Minute)
				assert.Equal(t, statusesIn(root, "a", kidLink), statusesOf(kid, "a"))
				assert.Zero(t, forgotten(root))
				w.Settle()
			})
		})
	}
}

// TestAChildThatConfirmsItsLies: a child that also confirms a restore that never was, and that it has nothing, loses what it had; what is
// booted there when it tells the truth is followed.
func TestAChildThatConfirmsItsLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kid := w.Zone("kid", root, 6)
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("a", 2, 2)).State())
		await.Sleep(time.Minute)
		w.Lie(kidLink, func(after uint64) *api.Changes { return &api.Changes{Next: after, Restored: 1 << 62, Index: 1 << 62} })
		await.Sleep(2 * time.Minute)
		assert.Empty(t, root.Instances("a"), "the child knows of none")
		w.Lie(kidLink, nil)
		root.Until("the truth is heard", func(v *state.State) bool {
			l, _ := v.Link(kidLink)
			return l.Restored == 0 && l.Reconcile == 0 && len(kid.Instances("a")) == 0
		})
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("b", 6, 6)).State())
		kid.Delete(root.Instances("b")[0].ID)
		root.Until("it is followed", func(*state.State) bool { return len(root.Instances("b")) == 5 })
		w.Settle()
	})
}

// TestAPollEndsWithARestore: a parent that waits for changes of a child hears of a restore at once, and also one that asks after it.
func TestAPollEndsWithARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kid := w.Zone("kid", root, 6)
		backup := kid.Saved()
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("a", 2, 2)).State())
		await.Sleep(time.Minute)
		back, _ := kid.View().Link(kidLink)
		for range 2 {
			began, known, end := time.Now(), kid.View().Restored(), kid.View().Index()
			got := make(chan api.Changes, 1)
			go func() { got <- kid.Lead().Changes(w.Ctx, back, end, known, time.Hour) }()
			await.Sleep(time.Second)
			restore(kid, backup)
			assert.Equal(t, kid.View().Restored(), (<-got).Restored)
			assert.Equal(t, time.Second, time.Since(began))
			assert.Greater(t, kid.Lead().Changes(w.Ctx, back, kid.View().Index(), known, time.Hour).Restored, known, "it asks after it")
			assert.Equal(t, time.Second, time.Since(began))
		}
	})
}
