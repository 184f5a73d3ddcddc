package estimate_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/requestid"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/estimate"
	"berth/zone/zonetest"
)

// reserving asks for groups of slots of so many processors, for an hour that begins some time from now on.
func reserving(from time.Duration, groups ...kind) *api.Request {
	req := kindsOf("room", groups...).Request
	start := api.InstantOf(time.Now().Truncate(time.Minute).Add(from))
	req.Reserves, req.Window = true, api.Window{Start: start, End: start.Add(time.Hour)}
	return &req
}

// findRoom looks for starts of a request, and checks that this changes nothing.
func findRoom(m *zonetest.Member, req *api.Request, over time.Duration) *estimate.FreeRoom {
	m.World.T.Helper()
	ctx, cancel := m.Within(2 * api.SelectTimeout)
	defer cancel()
	var out *estimate.FreeRoom
	m.World.Unchanged(func() {
		var err error
		out, err = m.Lead().FindRoom(ctx, m.View(), req, req.Window.Start.Add(over), 50)
		require.NoError(m.World.T, err)
	})
	return out
}

// TestRoomOverTimeIsThatOfEachStart: whatever rules a request has, here and in zones below, a start is found if and only if a dry run of
// it fits; each zone says how far it has looked.
func TestRoomOverTimeIsThatOfEachStart(t *testing.T) {
	const over = 200 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 3, 2)
		east := w.Zone("east", root, 2, 2)
		w.Zone("leaf", east, 3)
		w.Zone("west", root, 4)
		for n, l := range []struct {
			from, long time.Duration
			slots      int
			in         string
		}{{70, 20, 3, "root"}, {100, 30, 2, "east"}, {100, 90, 4, "west"}, {130, 40, 4, "root"}, {180, 30, 2, "root"}} {
			terms := zonetest.LeaseOf(fmt.Sprint("busy", n), l.from*time.Minute, l.long*time.Minute, l.slots)
			terms.Zones.Allowed = []string{l.in}
			_, err := root.Lease(terms)
			require.NoError(t, err)
		}
		await.Sleep(7 * time.Second)
		synctest.Wait()
		for name, c := range map[string]struct {
			groups []kind
			edit   func(*api.Request)
			some   bool // some starts fit, and some do not
		}{
			"one group":         {[]kind{{1, 12, 12}}, func(*api.Request) {}, true},
			"at least":          {[]kind{{1, 11, 16}}, func(*api.Request) {}, true},
			"two groups":        {[]kind{{2, 4, 4}, {1, 3, 3}}, func(*api.Request) {}, true},
			"together":          {[]kind{{1, 3, 3}}, func(r *api.Request) { r.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{0}}} }, false},
			"four together":     {[]kind{{1, 4, 4}}, func(r *api.Request) { r.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{0}}} }, true},
			"each elsewhere":    {[]kind{{1, 6, 6}}, func(r *api.Request) { r.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}} }, true},
			"two together":      {[]kind{{1, 2, 2}, {2, 1, 1}}, func(r *api.Request) { r.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}}} }, true},
			"in one zone":       {[]kind{{1, 4, 4}, {1, 1, 1}}, func(r *api.Request) { r.Zones.Pack = true }, true},
			"in three zones":    {[]kind{{1, 3, 3}}, func(r *api.Request) { r.Zones.MinZones = 3 }, true},
			"even":              {[]kind{{1, 6, 6}}, func(r *api.Request) { r.Zones.MaxSkew = 1 }, true},
			"here":              {[]kind{{1, 4, 4}}, func(r *api.Request) { r.Zones.Allowed = []string{"root"} }, true},
			"not here":          {[]kind{{1, 9, 9}}, func(r *api.Request) { r.Zones.Excluded = []string{"root"} }, true},
			"a host":            {[]kind{{1, 3, 3}}, func(r *api.Request) { r.Groups[0].Hints.ForceHosts = []string{"root-host-1"} }, true},
			"a trait of nobody": {[]kind{{1, 1, 1}}, func(r *api.Request) { r.Groups[0].Traits.Required = []string{"CUSTOM_NONE"} }, false},
		} {
			req := reserving(time.Hour, c.groups...)
			c.edit(req)
			require.NoError(t, req.Validate(), name)
			f := findRoom(root, req, over)
			fit := 0
			for by := time.Duration(0); by < over; by += 5 * time.Minute {
				its := *req
				its.Window = api.Window{Start: req.Window.Start.Add(by), End: req.Window.End.Add(by)}
				ctx, cancel := root.Within(api.SelectTimeout)
				d, err := root.Lead().DryRun(ctx, root.View(), &its)
				cancel()
				require.NoError(t, err)
				found := false
				for _, win := range f.Windows {
					found = found || win.Contains(its.Window.Start)
				}
				require.Equal(t, d.Fits, found, "%s after %s: found %v", name, by, f.Windows)
				checkDryRun(t, root, &its, d)
				if d.Fits {
					fit++
				}
			}
			assert.Equal(t, c.some, fit > 0 && fit < 40, "%s: %d fit", name, fit)
			assert.Equal(t, req.Window.Start.Add(over), f.Until, name)
			assert.False(t, f.Silent, name)
			var zones []string
			for _, z := range f.Zones {
				zones = append(zones, z.Zone+" "+z.Outcome)
			}
			assert.Len(t, zones, 3, "%s: %v", name, zones)
			assert.Equal(t, "root answered", zones[0])
		}
	})
}

// checkDryRun checks that what a dry run says of its parts is what it says of the whole.
func checkDryRun(t *testing.T, m *zonetest.Member, req *api.Request, d *estimate.DryRun) {
	t.Helper()
	fits := d.Unmet == ""
	for g, one := range d.Groups {
		fits = fits && one.Offered >= req.Groups[g].Min
		sum := 0
		for n, p := range one.Places {
			assert.Positive(t, p.Slots)
			sum += p.Slots
			if p.Zone == m.Name {
				assert.Zero(t, n, "this zone is first")
				assert.Len(t, one.Hosts, p.Slots)
			}
		}
		assert.Equal(t, one.Offered, sum)
		for _, h := range one.Hosts {
			_, ok := m.View().Host(h)
			assert.True(t, ok)
		}
	}
	assert.Equal(t, fits, d.Fits)
	assert.False(t, d.Contended)
}

// TestChildrenThatDoNotSayWhatRoomTheyHave: each costs its own slots, and whether it may have some is said.
func TestChildrenThatDoNotSayWhatRoomTheyHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		kid := w.Zone("kid", root, 2)
		pause := func(m *zonetest.Member) {
			paused := api.LinkPaused
			m.Do(command.LinkSet{Stamp: m.Lead().Stamp(), ID: "link-kid", State: &paused})
		}
		two, four := reserving(time.Hour, kind{1, 2, 2}), reserving(time.Hour, kind{1, 4, 4})
		on := func(f zonetest.Fault) func() {
			return func() {
				w.When(func(c zonetest.Call) zonetest.Fault {
					if c.Op == "room" {
						return f
					}
					return ""
				})
			}
		}
		for _, c := range []struct {
			name    string
			make    func()
			outcome string
			reason  string
			silent  bool
			fits    bool
		}{
			{"nothing", func() {}, api.OutcomeAnswered, "", false, true},
			{"refused", on(zonetest.Refused), api.OutcomeFailed, "unavailable", true, false},
			{"lost", on(zonetest.Vanished), api.OutcomeLate, "no answer in time", true, false},
			{"cut off", on(zonetest.CutOff), api.OutcomeLate, "no answer in time", true, false},
			{"a lie", func() {
				w.When(nil)
				w.TellOfRoom("link-kid", func(a *api.RoomAnswer) { a.Steps[0].Together = []int{-1} })
			}, api.OutcomeFailed, "unusable answer", true, false},
			{"silent below", func() { w.TellOfRoom("link-kid", func(a *api.RoomAnswer) { a.Silent = true }) }, api.OutcomeAnswered, "", true, true},
			{"looks less far", func() {
				w.TellOfRoom("link-kid", func(a *api.RoomAnswer) { a.Until = four.Window.Start.Add(10 * time.Minute) })
			}, api.OutcomeAnswered, "", false, true},
			{"paused there", func() {
				w.TellOfRoom("link-none", nil)
				pause(kid)
			}, api.OutcomePaused, "paused by its own operator", false, false},
			{"paused here", func() { pause(root) }, api.OutcomePaused, "paused by an operator of this zone", false, false},
		} {
			c.make()
			f := findRoom(root, four, time.Hour)
			assert.Equal(t, []any{c.outcome, c.reason}, []any{f.Zones[1].Outcome, f.Zones[1].Reason}, c.name)
			assert.Equal(t, c.silent, f.Silent, c.name)
			assert.Equal(t, c.fits, len(f.Windows) > 0, c.name)
			assert.Equal(t, c.outcome == api.OutcomeAnswered, f.Estimate, c.name)
			until := four.Window.Start.Add(time.Hour)
			if c.name == "looks less far" {
				until = four.Window.Start.Add(10 * time.Minute)
			}
			assert.Equal(t, until, f.Until, c.name)
			if c.outcome == api.OutcomeAnswered {
				assert.Equal(t, until, f.Zones[1].Until, c.name)
			} else {
				assert.Zero(t, f.Zones[1].Until, c.name)
			}
			assert.Equal(t, four.Window.Start.Add(time.Hour), f.Zones[0].Until, c.name)
			assert.Equal(t, four.Window.Start, f.Best, c.name)
			assert.NotEmpty(t, findRoom(root, two, time.Hour).Windows, c.name)
		}
	})
}

// TestAChildThatNeverFitsIsAskedForRoomLast: only if the others have nothing.
func TestAChildThatNeverFitsIsAskedForRoomLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		kid := w.Zone("kid", root, 2)
		w.Hear(kid, 0)
		kid.Resize(8) // nobody has heard of it yet
		assert.NotEmpty(t, findRoom(root, reserving(time.Hour, kind{2, 1, 1}), time.Hour).Windows)
		require.Equal(t, 1, w.Made("room", "root", "kid"), "it may have some")
		large := reserving(time.Hour, kind{8, 1, 1})
		f := findRoom(root, large, time.Hour)
		assert.NotEmpty(t, f.Windows)
		assert.True(t, f.Estimate)
		assert.Equal(t, 2, w.Made("room", "root", "kid"))
		w.Hear(kid, 0)
		root.Resize(9)
		kid.Resize(2)
		w.Hear(kid, 0)
		assert.NotEmpty(t, findRoom(root, large, time.Hour).Windows)
		assert.Equal(t, 2, w.Made("room", "root", "kid"), "there is room here")
	})
}

// TestQuestionsForRoomThatAreRefused: by a parent that is none, for hosts by name, for what is not reserved, and one that has gone in a
// circle.
func TestQuestionsForRoomThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kid := w.Zone("kid", root, 2)
		w.Zone("leaf", kid, 2)
		ask := func(ctx context.Context, peer api.ZoneID, edit func(*api.RoomQuestion)) (*api.RoomAnswer, error) {
			q := &api.RoomQuestion{Request: *reserving(time.Hour, kind{1, 2, 2})}
			q.Until = q.Request.Window.Start.Add(time.Hour)
			edit(q)
			return kid.Lead().Room(ctx, peer, q)
		}
		same := func(*api.RoomQuestion) {}
		for name, c := range map[string]struct {
			peer api.ZoneID
			edit func(*api.RoomQuestion)
			code api.Code
		}{
			"good":            {root.ID, same, ""},
			"not linked":      {"none", same, api.CodeForbidden},
			"hosts by name":   {root.ID, func(q *api.RoomQuestion) { q.Request.Groups[0].Hints.ForceHosts = []string{"h"} }, api.CodeForbidden},
			"nothing is kept": {root.ID, func(q *api.RoomQuestion) { q.Request.Reserves = false }, api.CodeInvalid},
			"no time":         {root.ID, func(q *api.RoomQuestion) { q.Until = q.Request.Window.Start }, api.CodeInvalid},
		} {
			a, err := ask(t.Context(), c.peer, c.edit)
			assert.Equal(t, c.code, api.CodeOf(err), "%s: %v", name, err)
			if c.code == "" {
				assert.Equal(t, []int{2}, a.Steps[0].Together)
			}
		}
		w.When(func(zonetest.Call) zonetest.Fault { return zonetest.Vanished })
		ctx, cancel := context.WithTimeout(requestid.With(w.Ctx, "call"), api.SelectTimeout)
		defer cancel()
		done := make(chan error, 2)
		for range 2 { // a repeat may come twice
			w.Go(func() {
				_, err := ask(zone.WithDepth(ctx, 1), root.ID, same)
				done <- err
			})
		}
		synctest.Wait()
		_, err := ask(zone.WithDepth(ctx, 2), root.ID, same)
		assert.Equal(t, api.CodeConflict, api.CodeOf(err), "%v", err)
		_, err = ask(zone.WithDepth(requestid.With(ctx, "another"), 2), root.ID, same)
		require.NoError(t, err)
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		_, err = ask(zone.WithDepth(ctx, 2), root.ID, same)
		require.NoError(t, err, "those before have ended")
	})
}
