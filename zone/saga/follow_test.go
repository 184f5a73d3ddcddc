package saga_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// TestNewsComesAtOnce boots over two children again and again: the owner does not pause between the answer
// that an instance was made, which is no news to it, and the one that it runs.
func TestNewsComesAtOnce(t *testing.T) {
	const pause = 200 * time.Millisecond // after more answers without news
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		w.Zone("west", root, 20)
		w.Zone("east", root, 20)
		await.Sleep(time.Second) // both are followed, also one that did not lead when it was asked first
		for n := range 8 {
			began := time.Now()
			require.Equal(t, api.BootActive, root.Run(zonetest.Order("a"+strconv.Itoa(n), 4, 4)).State())
			assert.Less(t, time.Since(began), pause)
		}
	})
}

// TestNewsComesWithTheDecision: a single child that decides for all has news of an instance before the zones
// above it know that it decides. They have it as soon as they do, the owner of the boot and the zone between.
func TestNewsComesWithTheDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		mid := w.Zone("mid", root)
		w.Zone("leaf", mid, 1)
		await.Sleep(time.Second) // all are followed
		w.Delay(func(c zonetest.Call) time.Duration {
			if c.Op == "hold and commit" {
				return 30 * time.Millisecond
			}
			return 0
		})
		root.Boot(zonetest.Order("a", 1, 1))
		for _, m := range []*zonetest.Member{mid, root} {
			known := func(ok func(h *state.Hold, i *api.Instance) bool) time.Time {
				m.Until("it is known", func(v *state.State) bool {
					for _, h := range v.Holds() {
						for _, p := range h.Parts {
							i, _ := v.Instance(p.Instances[0].Spec.ID)
							return ok(h, i)
						}
					}
					return false
				})
				return time.Now()
			}
			decided := known(func(h *state.Hold, _ *api.Instance) bool { return h.Decision != api.DecisionPending })
			active := known(func(_ *state.Hold, i *api.Instance) bool { return i != nil && i.Status == api.StatusActive })
			assert.Equal(t, decided, active, "at %s", m.Name)
		}
		assert.Equal(t, 1, w.Made("hold and commit", "mid", "leaf"))
	})
}

// childLie is what a child answers instead of its changes.
type childLie struct {
	lie   func(mine, other *api.Instance, after uint64) *api.Changes
	calls int // if fewer
	fails bool
}

func childLies() map[string]childLie {
	item := func(id api.InstanceID, st api.Status, index uint64) api.InstanceChange {
		return api.InstanceChange{ID: id, Status: st, Index: index}
	}
	return map[string]childLie{
		"nothing": {lie: func(_, _ *api.Instance, after uint64) *api.Changes { return &api.Changes{Next: after} }},
		"fat": {calls: 20, lie: func(_, _ *api.Instance, after uint64) *api.Changes {
			ch := &api.Changes{Next: after + 1}
			for range 900 {
				i := item(api.InstanceID("no-"+strings.Repeat("x", 20)), api.StatusError, after+1)
				i.Fault = strings.Repeat("f", 3000)
				ch.Items = append(ch.Items, i)
			}
			return ch
		}},
		"known": {lie: func(mine, _ *api.Instance, after uint64) *api.Changes {
			return &api.Changes{Next: after + 1, Items: []api.InstanceChange{item(mine.ID, mine.Status, after+1)}}
		}},
		"another's": {lie: func(_, other *api.Instance, after uint64) *api.Changes {
			return &api.Changes{Next: after + 1, Items: []api.InstanceChange{item(other.ID, api.StatusDeleted, after+1)}}
		}},
		"no status": {lie: func(mine, _ *api.Instance, after uint64) *api.Changes {
			return &api.Changes{Next: after + 1, Items: []api.InstanceChange{item(mine.ID, "GONE", after+1)}}
		}},
		"a leap with items": {lie: func(mine, _ *api.Instance, after uint64) *api.Changes {
			return &api.Changes{Next: after + 1<<40, Items: []api.InstanceChange{item(mine.ID, mine.Status, after+1<<40)}}
		}},
		"no log": {lie: func(_, _ *api.Instance, _ uint64) *api.Changes { return &api.Changes{} }},
		"to and fro": {lie: func(mine, _ *api.Instance, after uint64) *api.Changes {
			if after > 0 {
				return &api.Changes{}
			}
			return &api.Changes{Next: followIndexMax, Items: []api.InstanceChange{item(mine.ID, mine.Status, followIndexMax)}}
		}},
		"a leap": {fails: true, lie: func(_, _ *api.Instance, after uint64) *api.Changes { return &api.Changes{Next: after + 1<<20} }},
		"back":   {fails: true, lie: func(_, _ *api.Instance, after uint64) *api.Changes { return &api.Changes{Next: after - 1} }},
		"old items": {fails: true, lie: func(mine, _ *api.Instance, after uint64) *api.Changes {
			return &api.Changes{Next: after, Items: []api.InstanceChange{item(mine.ID, api.StatusError, after)}}
		}},
		"disorder": {fails: true, lie: func(mine, _ *api.Instance, after uint64) *api.Changes {
			return &api.Changes{Next: after + 1, Items: []api.InstanceChange{item(mine.ID, api.StatusError, after+2), item(mine.ID, api.StatusError, after+1)}}
		}},
		"no end": {fails: true, lie: func(mine, _ *api.Instance, _ uint64) *api.Changes {
			return &api.Changes{Next: followIndexMax + 1, Items: []api.InstanceChange{item(mine.ID, api.StatusError, followIndexMax+1)}}
		}},
	}
}

// TestRogueChildIsFollowed: whatever a child answers, at once and again and again, it
// costs this zone some calls and hardly an entry of the log; instances of others stay
// as they are; and what it says when it is honest again still arrives.
func TestRogueChildIsFollowed(t *testing.T) {
	const (
		lies    = 30 * time.Second
		entries = 6       // where to go on, each ten seconds, and what the zone does by itself
		calls   = 160 + 1 // one may come in the last instant
	)
	for name, c := range childLies() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				west := w.Zone("west", root, 2)
				w.Zone("east", root, 2)
				require.Equal(t, api.BootActive, root.Run(zonetest.Order("a", 4, 4)).State())
				l, _ := root.View().LinkByName("west")
				var mine, other *api.Instance
				for _, i := range root.Instances("a") {
					if i.Link == l.ID {
						mine = i
					} else {
						other = i
					}
				}
				await.Sleep(followNoteEvery)
				before := root.View().Index()
				var n atomic.Int64
				w.Lie(l.ID, func(after uint64) *api.Changes {
					n.Add(1)
					return c.lie(mine, other, after)
				})
				await.Sleep(lies + followWait)
				most := calls
				if c.calls > 0 {
					most = c.calls
				}
				assert.LessOrEqual(t, n.Load(), int64(most))
				assert.Positive(t, n.Load())
				assert.LessOrEqual(t, root.View().Index()-before, uint64(entries))
				for _, i := range root.Instances("a") {
					assert.Equal(t, api.StatusActive, i.Status)
				}
				assert.Equal(t, c.fails, w.Unusable() > 0, "what it says counts against it")

				w.Lie(l.ID, nil)
				west.Delete(mine.ID)
				root.Until("the honest news", func(v *state.State) bool {
					i, _ := v.Instance(mine.ID)
					return i.Status == api.StatusDeleted
				})
			})
		})
	}
}

// TestManyChangesOfOneMoment: what changed at one index of the child may be more than
// one entry of the log takes.
func TestManyChangesOfOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		w.Zone("west", root, 4)
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("a", 1, 1)).State())
		l, _ := root.View().LinkByName("west")
		i := root.Instances("a")[0]
		ch := &api.Changes{Next: l.ChangesNext + 1}
		for n := range 2*api.ChangesMax + 1 { // all of them news
			ch.Items = append(ch.Items, api.InstanceChange{ID: i.ID, Status: api.StatusActive, Fault: strconv.Itoa(n), Index: ch.Next})
		}
		w.Lie(l.ID, func(after uint64) *api.Changes {
			if after < ch.Next {
				return ch
			}
			return &api.Changes{Next: after}
		})
		root.Until("it has all of them", func(v *state.State) bool {
			now, _ := v.Instance(i.ID)
			l, _ = v.Link(l.ID)
			return now.Fault == strconv.Itoa(2*api.ChangesMax) && l.ChangesNext == ch.Next
		})
		assert.Equal(t, api.ChangesMax, root.Log.MostChanges())
		w.Lie(l.ID, nil)
	})
}

// TestRestartsAreHeardAbove: how often an agent has started an instance anew is known in all zones above it, and each of them
// has an event of it, once.
func TestRestartsAreHeardAbove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		mid := w.Zone("mid", root)
		edge := w.Zone("edge", mid, 4)
		w.HearAll()
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("a", 1, 1)).State())
		id := root.Instances("a")[0].ID
		i, _ := edge.View().Instance(id)
		h, _ := edge.View().Host(i.Host)
		events := func(m *zonetest.Member) (n int) {
			list, _ := m.View().Events(m.View().EventsBegin(), 1000)
			for _, e := range list {
				if e.Kind == state.EventInstanceRestarted {
					assert.Equal(t, id, e.Instance)
					n++
				}
			}
			return n
		}
		for n := uint64(1); n <= 2; n++ {
			edge.Do(command.InstanceReport{Stamp: edge.Lead().Stamp(), Agent: h.Agent, Items: []api.InstanceReport{
				{Host: h.ID, Instance: id, Status: api.StatusActive, Restarted: api.Instant(1000 * n), Reason: api.RestartFenced},
			}})
			for _, m := range []*zonetest.Member{edge, mid, root} {
				m.Until("it has heard of it", func(v *state.State) bool {
					i, ok := v.Instance(id)
					return ok && i.Restarts == n
				})
				assert.EqualValues(t, n, events(m), m.Name)
			}
		}
		w.Settle()
	})
}
