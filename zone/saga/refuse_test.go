package saga_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

// pauseLink sets the state of the link to a zone, or in it that to its parent.
func pauseLink(m *zonetest.Member, name string, st api.LinkState) {
	m.World.T.Helper()
	l, ok := m.View().LinkByName(name)
	require.True(m.World.T, ok)
	m.Propose(func(at command.Stamp) command.Command { return command.LinkSet{Stamp: at, ID: l.ID, State: &st} })
}

// TestABootNamesThePause: a boot that lacks room because a zone is paused says so by its code, also when it has no plan.
func TestABootNamesThePause(t *testing.T) {
	for _, by := range []string{"root", "kid"} {
		t.Run("by "+by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				kid := w.Zone("kid", root, 4)
				if by == "root" {
					pauseLink(root, "kid", api.LinkPaused)
				} else {
					pauseLink(kid, "parent", api.LinkPaused)
				}
				b := root.Run(zonetest.Order("b", 2, 2))
				assert.Equal(t, []any{api.BootFailed, api.CodePaused}, []any{b.State(), b.Code}, b.Reason)
				assert.Contains(t, b.Reason, "kid")
			})
		})
	}
}

// TestABootNamesAPauseBelow: a pause between zones further below is told too, whether the boot wants free room or that of
// a lease; the zone itself is not named.
func TestABootNamesAPauseBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		mid := w.Zone("mid", root)
		w.Zone("leaf", mid, 4)
		id, err := root.Lease(zonetest.LeaseOf("l", time.Minute, time.Hour, 2))
		require.NoError(t, err)
		l := root.UntilLease(id, api.LeaseActive)
		pauseLink(mid, "leaf", api.LinkPaused)
		within := zonetest.Order("b", 2, 2)
		within.Request.Within = l.Terms.Reservations[0].ID
		for _, o := range []*intake.BootOrder{within, zonetest.Order("c", 2, 2)} {
			b := root.Run(o)
			assert.Equal(t, []any{api.BootFailed, api.CodePaused}, []any{b.State(), b.Code}, b.Reason)
			assert.Contains(t, b.Reason, "paused: a zone below mid")
			assert.NotContains(t, b.Reason, "leaf")
		}
		pauseLink(mid, "leaf", api.LinkActive)
		again := zonetest.Order("d", 2, 2)
		again.Request.Within = l.Terms.Reservations[0].ID
		assert.Equal(t, api.BootActive, root.Run(again).State())
		w.Settle()
	})
}

// TestPausedLinkTakesNothingNew takes up a plan after the link to a zone that is in it
// was paused, above or below: the boot fails and says so. What is there goes on.
func TestPausedLinkTakesNothingNew(t *testing.T) {
	for _, c := range []struct {
		name string
		stop func(root, kid *zonetest.Member, st api.LinkState)
		own  int64 // processors of the root
	}{
		{"by the parent", func(root, _ *zonetest.Member, st api.LinkState) { pauseLink(root, "kid", st) }, 1},
		{"by the child", func(_, kid *zonetest.Member, st api.LinkState) { pauseLink(kid, "parent", st) }, 1},
		{"by the parent, the child alone", func(root, _ *zonetest.Member, st api.LinkState) { pauseLink(root, "kid", st) }, 0},
		{"by the child alone", func(_, kid *zonetest.Member, st api.LinkState) { pauseLink(kid, "parent", st) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				if c.own > 0 {
					root.Agent("", c.own)
				}
				kid := w.Zone("kid", root, 4)
				before := root.Run(zonetest.Order("before", int(c.own)+1, int(c.own)+1))
				require.Equal(t, api.BootActive, before.State())
				o := zonetest.Order("b", 2, 2)
				req := o.Request
				a, err := root.Lead().Select(t.Context(), "", &req)
				require.NoError(t, err)
				o.Blob = a.Blob
				c.stop(root, kid, api.LinkPaused)
				began := time.Now()
				b := root.Run(o)
				assert.Equal(t, api.BootFailed, b.State())
				assert.Equal(t, api.CodePaused, b.Code, b.Reason)
				assert.Contains(t, b.Reason, "select again")
				assert.Less(t, time.Since(began), time.Second, "nobody waits for a zone that is paused")
				assert.Equal(t, api.BootFailed, root.Run(zonetest.Order("c", 2, 2)).State(), "a boot that selects gets nothing there either")
				root.Release("before")
				assert.Equal(t, api.BootReleased, root.Outcome("before").State(), "what is there goes on")
				c.stop(root, kid, api.LinkActive)
				assert.Equal(t, api.BootActive, root.Run(zonetest.Order("d", 2, 2)).State())
				w.Settle()
			})
		})
	}
}

// TestPlanExpiresWithItsFirstPart has a child offer for less time than its parent: the
// parent says so, and a plan that comes too late is refused as one.
func TestPlanExpiresWithItsFirstPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 1)
		kid := w.Zone("kid", root, 4)
		kid.Do(command.ConfigSet{Config: api.ZoneConfig{PlanTTL: 10 * time.Second}})
		w.Delay(func(zonetest.Call) time.Duration { return 300 * time.Millisecond })
		selects := func(res string, n int) (*intake.BootOrder, time.Duration) {
			o := zonetest.Order(res, n, n)
			req := o.Request
			a, err := root.Lead().Select(t.Context(), "", &req)
			require.NoError(t, err)
			o.Blob = a.Blob
			return o, a.Expires
		}
		_, own := selects("own", 1)
		assert.Equal(t, api.PlanTTLDefault, own, "no slot of it is in the child")
		late, ttl := selects("late", 4)
		assert.Equal(t, 10*time.Second-600*time.Millisecond, ttl, "less the time in which the answer came")
		await.Sleep(ttl)
		_, err := root.Lead().Boot(t.Context(), late)
		assert.Equal(t, api.CodePlanRefused, api.CodeOf(err))
		good, ttl := selects("good", 4)
		await.Sleep(ttl - 500*time.Millisecond)
		assert.Equal(t, api.BootActive, root.Run(good).State())
	})
}

// TestRefusedPlanSaysSo has a child refuse its part of a plan that its parent still
// takes: the caller reads that it should select again.
func TestRefusedPlanSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 1)
		w.Zone("kid", root, 4)
		o := zonetest.Order("b", 4, 4)
		req := o.Request
		a, err := root.Lead().Select(t.Context(), "", &req)
		require.NoError(t, err)
		o.Blob = a.Blob
		w.Delay(func(c zonetest.Call) time.Duration {
			if c.Op == "hold" {
				return 59 * time.Second // it is on its way for so long that it expires
			}
			return 0
		})
		await.Sleep(2 * time.Second)
		b := root.Run(o)
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
	for _, how := range []zonetest.Fault{zonetest.Refused, zonetest.Vanished} {
		t.Run(string(how), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 9)
				kid := w.Zone("kid", root, 8)
				cheap := int64(-1 << 40)
				l, _ := root.View().LinkByName("kid")
				root.Do(command.LinkSet{ID: l.ID, Offset: &cheap})
				w.When(func(c zonetest.Call) zonetest.Fault {
					if c.Op == "hold" || c.Op == "hold and commit" {
						return how
					}
					return ""
				})
				for i, res := range []string{"a", "b", "c", "d"} {
					began := time.Now()
					b := root.Run(zonetest.Order(res, 1, 2))
					assert.Equal(t, api.BootActive, b.State(), b.Reason)
					assert.Equal(t, 2, b.Counts.Live(), "the parent has room for all")
					if took := time.Since(began); i == 0 {
						assert.Less(t, took, holdPatience+time.Second)
					} else {
						assert.Less(t, took, time.Second, "it is known not to hold what it offers")
					}
				}
				got, _ := zonetest.OutcomesOf(root.Pick(1, time.Second))
				assert.Equal(t, api.OutcomeSkipped, got["kid"], "that it answers selects is not enough")
				got, _ = zonetest.OutcomesOf(root.Pick(2, time.Second))
				assert.Equal(t, api.OutcomeAnswered, got["kid"], "who needs it asks it")
				w.When(nil)
				await.Sleep(probeEveryMax)
				b := root.Run(zonetest.Order("e", 2, 2))
				assert.Equal(t, api.BootActive, b.State(), b.Reason)
				assert.Equal(t, int64(2), kid.Used(), "it is tried again, and is well")
				w.Settle()
			})
		})
	}
}
