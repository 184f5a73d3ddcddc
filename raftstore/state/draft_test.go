package state

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/raftstore/command"
)

// TestDraftsAreWhatTheLogWouldDo plays random lives of leases. In between, moves and time are
// applied to a draft and, as entries, to a copy of the zone: both are the same afterwards, and
// the zone and its view are as before.
func TestDraftsAreWhatTheLogWouldDo(t *testing.T) {
	moved, refused, passed := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{tb: rt, s: New(), now: start, form: api.FormNewest}
		d := &leaseDice{dice: dice{rt: rt, w: w}, seen: map[string]int{}}
		for _, c := range d.first() {
			w.ok(c)
		}
		for range 60 {
			if c, ok := d.next(); ok {
				d.note(c, w.do(c))
			}
			if !d.chance(8) {
				continue
			}
			v, before := w.s.Clone(), saved(rt, w.s)
			draft, twin := NewDraft(v), loaded(rt, before)
			do := func(c command.Command) error { return twin.Apply(w.index, w.reread(c)).Err }
			if d.chance(2) {
				to := w.now + api.Instant(rapid.IntRange(0, 60).Draw(rt, "minutes"))*minute
				if v.NextDue() <= to {
					passed++
				}
				draft.PassTime(to)
				require.NoError(rt, do(command.Tick{Stamp: at(to)}))
			}
			hosts := v.AllHosts()
			for _, from := range hosts {
				for _, i := range v.allOn(from.ID) {
					to := hosts[rapid.IntRange(0, len(hosts)-1).Draw(rt, "to")].ID
					c := command.InstanceMove{ID: i.ID, From: from.ID, To: to}
					err := draft.Move(c)
					c.Stamp = at(draft.s.now)
					require.Equal(rt, do(c), err)
					if err != nil {
						refused++
					} else {
						moved++
					}
				}
			}
			require.Equal(rt, saved(rt, twin), saved(rt, draft.View()))
			checkIndexes(rt, draft.s)
			require.Equal(rt, before, saved(rt, v), "the view has changed")
			require.Equal(rt, before, saved(rt, w.s), "the zone has changed")
			checkIndexes(rt, w.s)
		}
	})
	t.Log(moved, refused, passed)
	if !testing.Short() {
		assert.Positive(t, moved)
		assert.Positive(t, refused)
		assert.Positive(t, passed)
	}
}

// TestDraftsOfOneView: any number of goroutines may make drafts of a view while the zone goes on.
func TestDraftsOfOneView(t *testing.T) {
	w := leaseWorld(t)
	window := api.Window{Start: start + 10*minute, End: start + 20*minute}
	w.makeLease("l", "h1", window, "s1", "s2")
	v := w.s.Clone()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			d := NewDraft(v)
			if err := d.Move(command.InstanceMove{ID: "s1", From: "h1", To: "h2"}); err != nil {
				t.Error(err)
				return
			}
			d.PassTime(window.Start)
			i, _ := d.View().Instance("s1")
			assert.Equal(t, api.HostID("h2"), i.Host)
			assert.Equal(t, api.StatusActive, i.Status)
			d.PassTime(window.End)
			assert.Empty(t, d.View().SlotsOn("h2"))
			assert.Equal(t, api.Forever, d.View().NextDue())
		})
	}
	w.tick(window.Start)
	wg.Wait()
	i, _ := v.Instance("s1")
	assert.Equal(t, api.HostID("h1"), i.Host)
	assert.Equal(t, api.StatusBuild, i.Status)
	assert.Equal(t, api.StatusActive, w.status("s1"))
}

// TestADraftBoots: a boot and its hold take in a draft what they take in the zone, and what is refused takes nothing.
func TestADraftBoots(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormNewest
	w.ok(hostPut(w.stamp(), "a1", "h1", 4))
	v := w.s.Clone()
	before := saved(t, v)
	draft, twin := NewDraft(v), loaded(t, before)
	for _, res := range []string{"r", "r", "other"} {
		c := create(at(v.Now()), res, 2, 2)
		h := hold(at(v.Now()), "h-"+res, res, slots("h1", numbered(res, 2)...))
		err := draft.Apply(w.reread(c), w.reread(h))
		want := twin.Apply(w.index, w.reread(c)).Err
		if want == nil {
			want = twin.Apply(w.index, w.reread(h)).Err
		}
		require.Equal(t, want, err, res)
	}
	require.Equal(t, saved(t, twin), saved(t, draft.View()))
	require.Equal(t, before, saved(t, v), "the view has changed")
}
