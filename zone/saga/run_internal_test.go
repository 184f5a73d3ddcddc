package saga

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan"
	"berth/internal/await"
	"berth/internal/memstore"
	"berth/internal/turns"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/estimate"
)

// recorded returns a run of a boot that is recorded, for n instances.
func recorded(t *testing.T, s *Saga, store *memstore.Store, n int) *run {
	t.Helper()
	ids := specs("a", "b", "c", "d")[:n]
	store.Must(t, command.BootCreate{Stamp: s.zone.Stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "b", Request: plainBoot(n), Min: n, Instances: ids}})
	o := bootOwner{"p", "b", 0}
	w, ok := o.find(s.zone.View())
	require.True(t, ok)
	r := newRun(s, o, w)
	r.turn, ok = s.working.Take(t.Context(), turns.Queue{Party: "p"})
	require.True(t, ok)
	return r
}

// TestAttemptsAreLimited: nothing is tried beyond the attempts that a boot may have, with refused slots or with holds, and the two say
// why.
func TestAttemptsAreLimited(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*run)
		want cause
		held bool
	}{
		"refused too often":    {func(r *run) { r.vain = api.AttemptsMax }, cause{text: "no attempt was left"}, false},
		"one is left":          {func(r *run) { r.vain = api.AttemptsMax - 1 }, cause{}, true},
		"too many holds":       {func(r *run) { r.attempt = api.HoldsPerBootMax }, waitedInVain, false},
		"one hold is left":     {func(r *run) { r.attempt = api.HoldsPerBootMax - 1 }, cause{}, true},
		"both, for want of it": {func(r *run) { r.vain, r.attempt = api.AttemptsMax, api.HoldsPerBootMax }, cause{text: "no attempt was left"}, false},
	} {
		s, store := newSaga(t, same)
		r := recorded(t, s, store, 1)
		c.edit(r)
		why, err := r.makeAttempts(t.Context())
		require.NoError(t, err, name)
		assert.Equal(t, c.want, why, name)
		assert.Equal(t, c.held, len(store.View().Holds()) == 1, name)
	}
}

// TestAnOwnerThatIsGoneIsLeft: one that waits for others, or for a silent zone, and is released meanwhile, is decided; one that is not goes
// on.
func TestAnOwnerThatIsGoneIsLeft(t *testing.T) {
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, store := newSaga(t, same)
			r := recorded(t, s, store, 1)
			req := r.remainingRequest()
			if gone {
				store.Must(t, command.BootRelease{Stamp: s.zone.Stamp(), Project: "p", Reservation: "b"})
			}
			require.NoError(t, r.waitForOthers(t.Context(), &req, &estimate.Plan{}))
			assert.Equal(t, gone, r.decided)
			assert.Equal(t, 1, r.waits)
			r.decided = false
			again, why, err := r.awaitSilent(t.Context(), time.Millisecond)
			require.NoError(t, err)
			assert.Equal(t, []any{!gone, gone, cause{}}, []any{again, r.decided, why})
			r.decided = false
			r.attempt = 7
			again, _, err = r.awaitChoice(t.Context(), &req, &estimate.Plan{})
			require.NoError(t, err)
			assert.Equal(t, []any{!gone, gone, 6}, []any{again, r.decided, r.attempt})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			again, _, err = r.awaitSilent(ctx, time.Millisecond)
			assert.False(t, again)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, r.waitForOthers(ctx, &req, &estimate.Plan{}), context.Canceled)
		})
	}
}

// TestWaitsGrow: each is longer than the one before, up to a limit, and differs between owners; one that would go beyond the time of the
// boot gives it up, and records why.
func TestWaitsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newSaga(t, same)
		r := recorded(t, s, store, 1)
		for n := range 12 {
			base := min(contendPause<<n, contendPauseMax)
			d := r.nextWait()
			assert.InDelta(t, base, d, float64(base)/2+1, "wait %d", n)
		}
		assert.NotEqual(t, r.spread(time.Second, 1), r.spread(time.Second, 2))
		other := *r
		other.want = &want{request: plainBoot(1)}
		other.want.request.Reservation = "other"
		assert.NotEqual(t, r.spread(time.Second, 1), other.spread(time.Second, 1))

		req := r.remainingRequest()
		r.want.created = s.zone.Instant().Add(-BootTimeout)
		nothing := &estimate.Plan{Layer: buildplan.Layer{Groups: make([]buildplan.LayerGroup, 1)}}
		require.NoError(t, r.waitForOthers(t.Context(), &req, nothing))
		assert.True(t, r.decided)
		b, ok := store.View().Boot("p", "b")
		require.True(t, ok)
		code, text := b.Cause()
		assert.Equal(t, []any{api.DecisionAbort, waitedInVain.code}, []any{b.Decision, code})
		assert.Contains(t, text, waitedInVain.text)
		require.Len(t, b.Attempts, 1)
		assert.Equal(t, []any{1, 1, false}, []any{b.Attempts[0].Wanted, b.Attempts[0].Short, b.Attempts[0].Contended})
	})
}

// TestAChildIsNotComparedByADeposedLeader: it does not know what a majority has, and says so.
func TestAChildIsNotComparedByADeposedLeader(t *testing.T) {
	s, _ := newSaga(t, func(st zone.Store) zone.Store {
		m, is := st.(*memstore.Store)
		require.True(t, is)
		return memstore.NewPast(m, m.View(), true)
	})
	require.Error(t, s.reconcile(t.Context(), "l"))
	_, err := s.endStrangers(t.Context(), &api.Link{}, nil)
	require.Error(t, err)
	_, err = s.Decision(t.Context(), &api.Link{}, "h")
	require.Error(t, err)
	_, err = s.runOf(t.Context(), "i")
	require.Error(t, err)
}

// TestWhatAVolumeIsAttachedTo: a live server of the same tenant, that is no slot and no volume.
func TestWhatAVolumeIsAttachedTo(t *testing.T) {
	s, store := newSaga(t, same)
	store.Must(t, command.HostsPut{Agent: "a", Hosts: []command.HostEntry{{ID: "h", Host: api.AgentHost{
		Name: "h", Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 20}, api.DiskGB: {Total: 99}},
	}}}})
	boot := func(id string, edit func(*api.Request)) {
		req := plainBoot(1)
		req.Reservation = api.ReservationID(id)
		edit(&req)
		store.Must(t, command.BootCreate{Stamp: s.zone.Stamp(), BootTerms: command.BootTerms{Digest: []byte(id), Name: id, Request: req, Min: 1, Instances: specs(id)}},
			command.Hold{Stamp: s.zone.Stamp(), ID: api.HoldID(id), Attempt: 1, Request: req, Commit: true, Slots: []command.Slot{{Instance: specs(id)[0], Host: "h"}}})
	}
	disk := func(r *api.Request) {
		r.Groups[0] = api.Group{Name: "data", Count: 1, Min: 1, Volume: "standard", Resources: api.Resources{api.DiskGB: 1}}
	}
	plain := func(*api.Request) {}
	boot("volume", disk)
	boot("other-volume", disk)
	boot("server", plain)
	boot("foreign", func(r *api.Request) { r.Project = "q" })
	boot("slot", func(r *api.Request) {
		r.Reserves, r.Window = true, api.Window{Start: s.zone.Instant(), End: s.zone.Instant().Add(time.Hour)}
		r.Groups[0].Name = "res"
	})
	boot("gone", plain)
	i, ok := store.View().Instance("gone")
	require.True(t, ok)
	store.Must(t, command.InstanceDelete{Stamp: s.zone.Stamp(), ID: "gone"},
		command.InstanceReport{Stamp: s.zone.Stamp(), Agent: "a", Items: []api.InstanceReport{{Host: i.Host, Instance: "gone", Status: api.StatusDeleted}}})
	for _, id := range []api.InstanceID{"volume", "other-volume", "server", "foreign"} {
		store.Must(t, command.InstanceReport{Stamp: s.zone.Stamp(), Agent: "a", Items: []api.InstanceReport{{Host: "h", Instance: id, Status: api.StatusActive}}})
	}
	for to, code := range map[api.InstanceID]api.Code{
		"server": "", "none": api.CodeNotFound, "foreign": api.CodeNotFound, "slot": api.CodeNotFound, "gone": api.CodeNotFound, "other-volume": api.CodeNotFound,
	} {
		index := store.View().Index()
		err := s.Attach(t.Context(), api.Tenant{Project: "p"}, &api.VolumeCall{Volume: "volume", Instance: to})
		assert.Equal(t, code, api.CodeOf(err), "%s: %v", to, err)
		if code != "" {
			assert.Equal(t, index, store.View().Index(), "%s: nothing is logged", to)
			assert.Equal(t, code, api.CodeOf(s.OrderPower(t.Context(), api.Tenant{Project: "q"}, to+"x", api.PowerStop)))
		}
	}
	for _, volume := range []api.InstanceID{"none", "server"} {
		q := &api.VolumeCall{Volume: volume, Instance: "server"}
		assert.Equal(t, api.CodeNotFound, api.CodeOf(s.Attach(t.Context(), api.Tenant{Project: "p"}, q)))
		assert.Equal(t, api.CodeNotFound, api.CodeOf(s.Detach(t.Context(), api.Tenant{Project: "p"}, q)))
	}
	q := &api.VolumeCall{Volume: "volume", Instance: "server"}
	assert.Equal(t, api.CodeNotFound, api.CodeOf(s.Detach(t.Context(), api.Tenant{Project: "q"}, q)))
	require.NoError(t, s.Detach(t.Context(), api.Tenant{Project: "p"}, q))
	for id, code := range map[api.InstanceID]api.Code{"server": "", "none": api.CodeNotFound, "foreign": api.CodeNotFound, "slot": api.CodeNotFound, "gone": api.CodeNotFound, "volume": api.CodeConflict} {
		a, err := s.Power(t.Context(), api.Tenant{Project: "p"}, &api.PowerCall{Instance: id})
		assert.Equal(t, code, api.CodeOf(err), "%s: %v", id, err)
		if code == "" {
			assert.Equal(t, uint64(1), a.Run)
		}
	}
	assert.Equal(t, api.CodeInvalid, api.CodeOf(s.OrderPower(t.Context(), api.Tenant{Project: "p"}, "server", "dance")))
	require.NoError(t, s.OrderPower(t.Context(), api.Tenant{Project: "p"}, "server", api.PowerStop))
	server, _ := store.View().Instance("server")
	assert.True(t, server.Halted)
}

// TestWhenAParentIsAsked: about a hold that has been undecided for so long, and not before.
func TestWhenAParentIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newSaga(t, same)
		store.Must(t, command.LinkPut{Link: api.Link{ID: "up", Name: "parent", Role: api.LinkParent, Zone: "up", Scale: 1, State: api.LinkActive}},
			command.Hold{Stamp: s.zone.Stamp(), ID: "hold", Origin: "up", Attempt: 1, Request: plainBoot(1), Plan: "plan", Expires: api.Forever, Slots: []command.Slot{{Instance: specs("i")[0], Host: "h"}}})
		require.Len(t, store.View().PreparedHolds(), 1)
		due := func() int { return len(s.dueQuestions(store.View())) }
		assert.Zero(t, due())
		await.Sleep(holdAskAfter - time.Millisecond)
		assert.Zero(t, due())
		await.Sleep(time.Millisecond)
		assert.Equal(t, 1, due())
	})
}
