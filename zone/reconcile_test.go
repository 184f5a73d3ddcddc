package zone_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// saved returns a backup of a zone.
func (m *member) saved() []byte {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	var backup bytes.Buffer
	require.NoError(m.w.t, m.log.state.Save(&backup))
	return backup.Bytes()
}

// bringBack begins a new life of a zone with the state of a backup, which the zone at the other end of a
// link accepts.
func (m *member) bringBack(backup []byte, other *member, link api.LinkID) {
	m.w.t.Helper()
	m.depose()
	life := api.Incarnation(time.Now().Unix())
	s, err := state.Load(bytes.NewReader(backup), api.FormNewest)
	require.NoError(m.w.t, err)
	require.NoError(m.w.t, s.BringBack(state.Return{
		Incarnation: life, At: api.InstantOf(time.Now()),
		Admin: api.Token{ID: "a", Hash: []byte{1}, Roles: []api.UserRole{api.RoleAdmin}, Expires: api.Forever},
	}))
	l := m.log
	l.mu.Lock()
	l.state, l.view = s, s.Clone()
	close(l.next)
	l.next = make(chan struct{})
	l.mu.Unlock()
	m.elect()
	other.propose(func(at command.Stamp) command.Command {
		return command.LinkRelink{Stamp: at, ID: link, Incarnation: life}
	})
}

// reconciled waits until a zone has compared a child.
func (m *member) reconciled(link api.LinkID) {
	m.w.t.Helper()
	m.until("the child is compared", func(v *state.State) bool {
		l, ok := v.Link(link)
		return ok && l.Reconcile == 0
	})
}

// statuses returns the live instances of a reservation in a zone, with their statuses.
func (m *member) statuses(res string) map[api.InstanceID]api.Status {
	out := map[api.InstanceID]api.Status{}
	for _, i := range m.instances(res) {
		out[i.ID] = i.Status
	}
	return out
}

const kidLink = api.LinkID("link-kid")

// afterABackup is what happened to root and kid between a backup of one of them and its return. Boot a, of
// before the backup, is to live on in both; boot b, of after it, in neither.
var afterABackup = []struct {
	name string
	b    bool // b was booted
	back string
}{
	{"the child is back, both have the same", false, "kid"},
	{"the parent is back, both have the same", false, "root"},
	{"the parent is back, the child has more", true, "root"},
	{"the child is back, the parent has more", true, "kid"},
}

// mishapsOfReconciling are what goes wrong once while a parent and a child are compared.
func mishapsOfReconciling() map[string]func(w *world, root *member) {
	out := map[string]func(w *world, root *member){"nothing": func(*world, *member) {}}
	for _, op := range []string{"changes", "end", string(api.DecisionCommit), "decisions"} {
		for _, f := range []fault{vanished, cutOff, repeated} {
			out[op+": "+string(f)] = func(w *world, _ *member) {
				done := false
				w.when(func(c call) fault {
					if done || c.from != "root" || c.op != op {
						return ""
					}
					done = true
					return f
				})
			}
		}
	}
	for _, k := range []command.Kind{command.KindLinkReconciled, command.KindPartAck} {
		for _, what := range []mishap{unapplied, unconfirmed, doubled, deposed, delayed} {
			out[fmt.Sprintf("kind %d: %s", k, what)] = func(w *world, root *member) { w.entryGoesWrong(root, k, 1, what) }
		}
	}
	return out
}

// TestReconcile: a zone that was brought back from a backup, and the one at the other end of its link, agree
// again on what runs, whatever goes wrong once on the way.
func TestReconcile(t *testing.T) {
	for _, c := range afterABackup {
		for name, goWrong := range mishapsOfReconciling() {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					root := w.zone("root", nil)
					kid := w.zone("kid", root, 6)
					require.Equal(t, api.BootActive, root.run(order("a", 2, 2)).State())
					time.Sleep(time.Minute)
					backup := map[string][]byte{"root": root.saved(), "kid": kid.saved()}[c.back]
					time.Sleep(time.Minute)
					if c.b {
						require.Equal(t, api.BootActive, root.run(order("b", 3, 3)).State())
					}
					before := root.statuses("a")
					require.Len(t, before, 2)
					goWrong(w, root)
					if c.back == "kid" {
						kid.bringBack(backup, root, kidLink)
					} else {
						root.bringBack(backup, kid, kidLink)
					}
					root.reconciled(kidLink)
					kid.until("what the parent does not know has ended", func(*state.State) bool { return len(kid.instances("b")) == 0 })
					time.Sleep(time.Minute)
					assert.Equal(t, before, root.statuses("a"))
					assert.Equal(t, before, kid.statuses("a"))
					assert.Empty(t, root.statuses("b"))
					require.Equal(t, api.BootActive, root.run(order("c", 4, 4)).State(), "the room of b is free")
					w.settle()
				})
			})
		}
	}
}

// TestALeaderOfBeforeConfirmsNothing: a parent takes an instance that a child does not name for gone, so a leader of the child that is
// none any more, and may not know what its successor has confirmed, does not answer.
func TestALeaderOfBeforeConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil)
		kid := w.zone("kid", root, 6)
		require.Equal(t, api.BootActive, root.run(order("a", 2, 2)).State())
		back, _ := kid.view().Link(kidLink)
		first := kid.lead()
		ch, err := first.ConfirmedChanges(w.ctx, back, 0)
		require.NoError(t, err)
		require.Len(t, ch.Items, 2)
		kid.elect()
		_, err = first.ConfirmedChanges(w.ctx, back, 0)
		require.Error(t, err)
		again, err := kid.lead().ConfirmedChanges(w.ctx, back, 0)
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
				w := newWorld(t)
				root := w.zone("root", nil)
				kid := w.zone("kid", root, 6)
				require.Equal(t, api.BootActive, root.run(order("a", 2, 2)).State())
				time.Sleep(time.Minute)
				back, _ := kid.view().Link(kidLink)
				w.setLie(kidLink, func(after uint64) *api.Changes {
					now := kid.lead().Changes(w.ctx, back, after, 0)
					return c.lie(&now, after)
				})
				kid.bringBack(kid.saved(), root, kidLink)
				time.Sleep(10 * time.Minute)
				l, _ := root.view().Link(kidLink)
				assert.Equal(t, c.settles, l.Reconcile == 0)
				if !c.settles {
					assert.Len(t, root.instances("a"), c.stay, "nothing is settled")
				}
				w.setLie(kidLink, nil)
				root.reconciled(kidLink)
				assert.Len(t, root.instances("a"), c.stay)
				assert.Len(t, kid.instances("a"), 2, "a parent ends nothing there that it has")
			})
		})
	}
}
