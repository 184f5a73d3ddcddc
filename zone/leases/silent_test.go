package leases_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/zonetest"
)

// fallSilent has a child be out of reach, and waits until its parent counts it as silent.
func fallSilent(root, kid *zonetest.Member) {
	kid.Kill(true)
	kid.World.Hear(kid, zone.LinkFresh+time.Second)
	root.Until("the child is silent", func(v *state.State) bool { return v.Children()[0].SilentSince != 0 })
}

// speak ends fallSilent.
func speak(kid *zonetest.Member) {
	kid.Kill(false)
	kid.World.Hear(kid, 0)
}

// TestRoomIsGivenBackInSilence: what only gives room back needs no answer of a silent zone, and the room goes
// once that is heard; what needs room says which reservation has too little, and that a zone did not answer.
func TestRoomIsGivenBackInSilence(t *testing.T) {
	for name, c := range map[string]struct {
		from   time.Duration
		change func(l *state.Lease) api.LeaseChange
		left   int
		end    time.Duration // before the end that it had
	}{
		"active, ends sooner": {0, func(l *state.Lease) api.LeaseChange {
			end := l.Terms.Window.End.Add(-time.Hour)
			return api.LeaseChange{End: &end}
		}, 4, time.Hour},
		"pending, fewer": {time.Hour, func(l *state.Lease) api.LeaseChange {
			fewer := 1
			return api.LeaseChange{Reservations: []api.ReservationChange{{ID: l.Terms.Reservations[0].ID, Min: &fewer, Max: &fewer}}}
		}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 2)
				kid := w.Zone("kid", root, 2)
				id, err := root.Lease(zonetest.LeaseOf("l", c.from, 4*time.Hour, 4))
				require.NoError(t, err)
				w.Settle()
				l, _ := root.View().Lease(id)
				was := l.Terms.Window.End
				ctx, cancel := root.Within(10 * time.Minute)
				defer cancel()
				fallSilent(root, kid)

				later := was.Add(time.Hour)
				err = root.Lead().Update(ctx, zonetest.Caller, id, api.LeaseChange{End: &later})
				assert.Equal(t, api.CodeUnreached, api.CodeOf(err))
				assert.ErrorContains(t, err, "of reservation "+string(l.Terms.Reservations[0].ID)+" could be had")
				began := time.Now()
				planned, err := root.Lead().PlanUpdate(ctx, zonetest.Caller, id, c.change(l))
				require.NoError(t, err)
				assert.True(t, planned.Fits)
				require.NoError(t, root.Lead().Update(ctx, zonetest.Caller, id, c.change(l)))
				assert.Less(t, time.Since(began), time.Second)
				l, _ = root.View().Lease(id)
				assert.Equal(t, was.Add(-c.end), l.Terms.Window.End)
				assert.Len(t, root.View().LeaseSlots(l), 4, "it has more than it needs")

				speak(kid)
				root.Until("the room is given back", func(v *state.State) bool {
					l, ok := v.Lease(id)
					slots := v.LeaseSlots(l)
					return ok && l.Status.Stable() && len(l.Replaced) == 0 && len(slots) == c.left && slots[0].Window.End == l.Terms.Window.End
				})
				w.Settle()
				n := 0
				for _, m := range w.Zones {
					for _, h := range m.View().AllHosts() {
						for _, slot := range m.View().SlotsOn(h.ID) {
							assert.Equal(t, was.Add(-c.end), slot.Window.End, "in zone %s", m.Name)
							n++
						}
					}
				}
				assert.Equal(t, c.left, n)
			})
		})
	}
}

// TestDeleteWaitsForNoSilentZone: a lease is deleted at once although a zone of it is silent, which ends its
// part when it is heard.
func TestDeleteWaitsForNoSilentZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		kid := w.Zone("kid", root, 2)
		id, err := root.Lease(zonetest.LeaseOf("l", 0, 4*time.Hour, 4))
		require.NoError(t, err)
		w.Settle()
		ctx, cancel := root.Within(10 * time.Minute)
		defer cancel()
		fallSilent(root, kid)
		began := time.Now()
		require.NoError(t, root.Lead().Delete(ctx, zonetest.Caller, id))
		assert.Less(t, time.Since(began), 5*time.Second)
		l, there := root.View().Lease(id)
		require.True(t, there)
		assert.Equal(t, api.LeaseDeleting, l.Status)
		assert.Empty(t, root.View().SlotsOn(root.Host("root-host-1")), "its own room is free")
		speak(kid)
		root.Until("it is gone", func(v *state.State) bool {
			_, there := v.Lease(id)
			return !there
		})
		w.Settle()
	})
}

// TestRoomIsGivenBackToOneThatFellSilent: a zone that stopped answering a moment ago keeps no room either.
func TestRoomIsGivenBackToOneThatFellSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		kid := w.Zone("kid", root, 2)
		id, err := root.Lease(zonetest.LeaseOf("l", 0, 4*time.Hour, 4))
		require.NoError(t, err)
		w.Settle()
		l, _ := root.View().Lease(id)
		ctx, cancel := root.Within(10 * time.Minute)
		defer cancel()
		kid.Kill(true)
		end := l.Terms.Window.End.Add(-time.Hour)
		require.NoError(t, root.Lead().Update(ctx, zonetest.Caller, id, api.LeaseChange{End: &end}))
		l, _ = root.View().Lease(id)
		assert.Equal(t, end, l.Terms.Window.End)
		assert.Equal(t, api.LeaseActive, l.Status)
		assert.Len(t, root.View().LeaseSlots(l), 4)
		speak(kid)
		w.Settle()
	})
}
