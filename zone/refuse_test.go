package zone_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/zone/intake"
)

// pause sets the state of the link to a zone, or in it that to its parent.
func (m *member) pause(name string, st api.LinkState) {
	m.w.t.Helper()
	l, ok := m.view().LinkByName(name)
	require.True(m.w.t, ok)
	m.propose(func(at command.Stamp) command.Command { return command.LinkSet{Stamp: at, ID: l.ID, State: &st} })
}

// TestPausedLinkTakesNothingNew takes up a plan after the link to a zone that is in it
// was paused, above or below: the boot fails and says so. What is there goes on.
func TestPausedLinkTakesNothingNew(t *testing.T) {
	for _, c := range []struct {
		name string
		stop func(root, kid *member, st api.LinkState)
		own  int64 // processors of the root
	}{
		{"by the parent", func(root, _ *member, st api.LinkState) { root.pause("kid", st) }, 1},
		{"by the child", func(_, kid *member, st api.LinkState) { kid.pause("parent", st) }, 1},
		{"by the parent, the child alone", func(root, _ *member, st api.LinkState) { root.pause("kid", st) }, 0},
		{"by the child alone", func(_, kid *member, st api.LinkState) { kid.pause("parent", st) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				root := w.zone("root", nil)
				if c.own > 0 {
					root.agent("", c.own)
				}
				kid := w.zone("kid", root, 4)
				before := root.run(order("before", int(c.own)+1, int(c.own)+1))
				require.Equal(t, api.BootActive, before.State())
				o := order("b", 2, 2)
				req := o.Request
				a, err := root.lead().Select(t.Context(), "", &req)
				require.NoError(t, err)
				o.Blob = a.Blob
				c.stop(root, kid, api.LinkPaused)
				began := time.Now()
				b := root.run(o)
				assert.Equal(t, api.BootFailed, b.State())
				assert.Equal(t, api.CodePaused, b.Code, b.Reason)
				assert.Contains(t, b.Reason, "select again")
				assert.Less(t, time.Since(began), time.Second, "nobody waits for a zone that is paused")
				assert.Equal(t, api.BootFailed, root.run(order("c", 2, 2)).State(), "a boot that selects gets nothing there either")
				root.release("before")
				assert.Equal(t, api.BootReleased, root.outcome("before").State(), "what is there goes on")
				c.stop(root, kid, api.LinkActive)
				assert.Equal(t, api.BootActive, root.run(order("d", 2, 2)).State())
				w.settle()
			})
		})
	}
}

// TestPlanExpiresWithItsFirstPart has a child offer for less time than its parent: the
// parent says so, and a plan that comes too late is refused as one.
func TestPlanExpiresWithItsFirstPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 1)
		kid := w.zone("kid", root, 4)
		kid.do(command.ConfigSet{Config: api.ZoneConfig{PlanTTL: 10 * time.Second}})
		w.delay(func(call) time.Duration { return 300 * time.Millisecond })
		selects := func(res string, n int) (*intake.BootOrder, time.Duration) {
			o := order(res, n, n)
			req := o.Request
			a, err := root.lead().Select(t.Context(), "", &req)
			require.NoError(t, err)
			o.Blob = a.Blob
			return o, a.Expires
		}
		_, own := selects("own", 1)
		assert.Equal(t, api.PlanTTLDefault, own, "no slot of it is in the child")
		late, ttl := selects("late", 4)
		assert.Equal(t, 10*time.Second-600*time.Millisecond, ttl, "less the time in which the answer came")
		time.Sleep(ttl)
		_, err := root.lead().Boot(t.Context(), late)
		assert.Equal(t, api.CodePlanRefused, api.CodeOf(err))
		good, ttl := selects("good", 4)
		time.Sleep(ttl - 500*time.Millisecond)
		assert.Equal(t, api.BootActive, root.run(good).State())
	})
}

// TestRefusedPlanSaysSo has a child refuse its part of a plan that its parent still
// takes: the caller reads that it should select again.
func TestRefusedPlanSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 1)
		w.zone("kid", root, 4)
		o := order("b", 4, 4)
		req := o.Request
		a, err := root.lead().Select(t.Context(), "", &req)
		require.NoError(t, err)
		o.Blob = a.Blob
		w.delay(func(c call) time.Duration {
			if c.op == "hold" {
				return 59 * time.Second // it is on its way for so long that it expires
			}
			return 0
		})
		time.Sleep(2 * time.Second)
		b := root.run(o)
		assert.Equal(t, api.BootFailed, b.State())
		assert.Equal(t, api.CodeUnreached, b.Code, b.Reason)
		assert.Contains(t, b.Reason, "select again")
		assert.Contains(t, b.Attempts[0].Zones[1].Reason, "did not answer in time")
	})
}

// TestOfferedAndNotHeld has a child that has lost its majority, or is up to no good,
// offer what is cheapest and hold nothing. Its parent has room: the boot is ACTIVE
// soon after the first hold is late, and later ones do not ask that child.
func TestOfferedAndNotHeld(t *testing.T) {
	for _, how := range []fault{refused, vanished} {
		t.Run(string(how), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				root := w.zone("root", nil, 9)
				kid := w.zone("kid", root, 8)
				cheap := int64(-1 << 40)
				l, _ := root.view().LinkByName("kid")
				root.do(command.LinkSet{ID: l.ID, Offset: &cheap})
				w.when(func(c call) fault {
					if c.op == "hold" || c.op == "hold and commit" {
						return how
					}
					return ""
				})
				for i, res := range []string{"a", "b", "c", "d"} {
					began := time.Now()
					b := root.run(order(res, 1, 2))
					assert.Equal(t, api.BootActive, b.State(), b.Reason)
					assert.Equal(t, 2, b.Counts.Live(), "the parent has room for all")
					if took := time.Since(began); i == 0 {
						assert.Less(t, took, holdPatience+time.Second)
					} else {
						assert.Less(t, took, time.Second, "it is known not to hold what it offers")
					}
				}
				got, _ := told(root.pick(1, time.Second))
				assert.Equal(t, api.OutcomeSkipped, got["kid"], "that it answers selects is not enough")
				got, _ = told(root.pick(2, time.Second))
				assert.Equal(t, api.OutcomeAnswered, got["kid"], "who needs it asks it")
				w.when(nil)
				time.Sleep(probeEveryMax)
				b := root.run(order("e", 2, 2))
				assert.Equal(t, api.BootActive, b.State(), b.Reason)
				assert.Equal(t, int64(2), kid.used(), "it is tried again, and is well")
				w.settle()
			})
		})
	}
}
