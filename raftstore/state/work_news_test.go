package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/command"
)

// TestReachIsNews: that a host goes down or is back is a change, in that entry, of each
// instance on it that was made for a parent, and of nothing else.
func TestReachIsNews(t *testing.T) {
	w := newWorld(t)
	w.link("up", api.LinkParent)
	w.host("h1", 9)
	w.host("h2", 9)
	for _, c := range [][2]string{{"h1", "a"}, {"h1", "b"}, {"h1", "gone"}, {"h2", "c"}} {
		h := asked(w.stamp(), "k"+c[1], slots(c[0], c[1]))
		h.Commit = true
		w.ok(h)
		w.ok(reports(w.stamp(), "a1", c[0], api.StatusActive, c[1]))
	}
	w.ok(create(w.stamp(), "r1", 1, 1))
	own := hold(w.stamp(), "own", "r1", slots("h1", "own"))
	own.Commit = true
	w.ok(own)
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "gone"})
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "gone"))
	told := func(after uint64) map[api.InstanceID]api.Instant {
		out := map[api.InstanceID]api.Instant{}
		for _, ch := range w.s.Changes("up", after, 10).Items {
			assert.Equal(t, api.StatusActive, ch.Status)
			out[ch.ID] = ch.Unreachable
		}
		return out
	}
	mod := func(id api.InstanceID) uint64 {
		i, _ := w.s.Instance(id)
		return i.ModIndex
	}

	before, was := w.s.Index(), mod("own")
	down := command.HostsState{Stamp: w.stamp(), State: api.HostDown, Hosts: []api.HostID{"h1"}}
	w.ok(down)
	since := w.s.Now()
	assert.Equal(t, map[api.InstanceID]api.Instant{"a": since, "b": since}, told(before))
	assert.Equal(t, was, mod("own"), "its owner asks this zone")
	checkIndexes(t, w.s)

	seen := w.s.Index()
	w.unchanged(down)
	reason := "disk"
	w.ok(command.HostSet{Stamp: w.stamp(), ID: "h1", Maintenance: &reason})
	assert.Empty(t, told(seen), "it is down as before")
	w.ok(command.HostsState{Stamp: w.stamp(), State: api.HostUp, Hosts: []api.HostID{"h1"}})
	assert.Equal(t, map[api.InstanceID]api.Instant{"a": 0, "b": 0}, told(seen))

	w.ok(down)
	seen = w.s.Index()
	w.host("h1", 9)
	assert.Equal(t, map[api.InstanceID]api.Instant{"a": 0, "b": 0}, told(seen), "its agent is back")
}

// TestWhatAChildSaysOfReach: it is kept, is news above in turn, and lies in no future.
func TestWhatAChildSaysOfReach(t *testing.T) {
	w := newWorld(t)
	w.link("up", api.LinkParent)
	w.link("c1", api.LinkChild)
	h := asked(w.stamp(), "k1", nil, part("c1", "a"))
	w.ok(h)
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Origin: h.Origin, Answers: []command.PartAnswer{answer("c1", "a")}})
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: "k1", Origin: h.Origin, Decision: api.DecisionCommit})
	index := uint64(0)
	says := func(st api.Status, since api.Instant) command.InstanceChanges {
		index++
		return command.InstanceChanges{
			Stamp: w.stamp(), Link: "c1", After: index - 1, Next: index,
			Items: []api.InstanceChange{{ID: "a", Status: st, Index: index, Unreachable: since}},
		}
	}
	has := func(st api.Status, since api.Instant, news bool) {
		t.Helper()
		i, _ := w.s.Instance("a")
		assert.Equal(t, []any{st, since}, []any{i.Status, i.Unreachable})
		assert.Equal(t, since, w.s.UnreachableSince(i))
		assert.Equal(t, news, i.ModIndex == w.s.Index())
		if ch := w.s.Changes("up", w.s.Index()-1, 10).Items; news {
			assert.Equal(t, []api.InstanceChange{{ID: "a", Status: st, Updated: w.s.Now(), Index: w.s.Index(), Unreachable: since}}, ch)
		} else {
			assert.Empty(t, ch)
		}
		checkIndexes(t, w.s)
	}
	w.ok(says(api.StatusActive, 0))
	has(api.StatusActive, 0, true)
	early := w.s.Now()
	w.ok(says(api.StatusActive, early))
	has(api.StatusActive, early, true)
	w.ok(says(api.StatusActive, early))
	has(api.StatusActive, early, false)
	w.ok(says(api.StatusActive, w.s.Now().Add(time.Hour)))
	has(api.StatusActive, early, false) // it is known; when it began anew cannot be told
	w.ok(says(api.StatusActive, -1))
	has(api.StatusActive, 0, true)
	w.ok(says(api.StatusActive, w.s.Now().Add(time.Hour)))
	late := w.s.Now()
	has(api.StatusActive, late, true)
	w.ok(says("GONE", 0))
	has(api.StatusActive, late, false)
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "a"})
	w.ok(says(api.StatusActive, 0))
	has(api.StatusDeleting, 0, true)
	w.ok(says(api.StatusDeleting, early))
	has(api.StatusDeleting, early, true)
	w.ok(says(api.StatusDeleted, early))
	has(api.StatusDeleted, 0, true)
}

// TestSilenceIsNews: that a child fell silent is news for the parent of each live
// instance below it that was made for the parent, and that it is heard again.
func TestSilenceIsNews(t *testing.T) {
	w := newWorld(t)
	w.link("up", api.LinkParent)
	w.link("c1", api.LinkChild)
	w.link("c2", api.LinkChild)
	w.host("h1", 9)
	for _, id := range []string{"a", "gone"} {
		h := asked(w.stamp(), "k"+id, nil, part("c1", id))
		h.Commit = true
		w.ok(h)
		w.ok(command.HoldParts{Stamp: w.stamp(), ID: h.ID, Origin: "up", Answers: []command.PartAnswer{answer("c1", id)}})
	}
	h := asked(w.stamp(), "kb", slots("h1", "b"), part("c2", "c"))
	h.Commit = true
	w.ok(h)
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "kb", Origin: "up", Answers: []command.PartAnswer{answer("c2", "c")}})
	l, _ := w.s.Link("c1")
	w.ok(command.InstanceChanges{Stamp: w.stamp(), Link: "c1", After: l.ChangesNext, Next: l.ChangesNext + 1, Items: []api.InstanceChange{
		{ID: "gone", Status: api.StatusDeleted, Index: l.ChangesNext + 1},
	}})
	say := func(link api.LinkID, since api.Instant) map[api.InstanceID]api.Instant {
		before, out := w.s.Index(), map[api.InstanceID]api.Instant{}
		w.ok(command.LinkSet{Stamp: w.stamp(), ID: link, Silent: &since})
		for _, ch := range w.s.Changes("up", before, 10).Items {
			out[ch.ID] = ch.Unreachable
		}
		return out
	}
	since := w.s.Now()
	assert.Equal(t, map[api.InstanceID]api.Instant{"a": since}, say("c1", since))
	assert.Empty(t, say("c1", since), "it is known")
	again := loaded(t, saved(t, w.s))
	i, _ := again.Instance("a")
	assert.Equal(t, since, again.UnreachableSince(i))
	assert.Equal(t, map[api.InstanceID]api.Instant{"a": 0}, say("c1", 0))
	late := say("c2", api.Forever)
	assert.Equal(t, map[api.InstanceID]api.Instant{"c": w.s.Now()}, late, "not since a time to come")
	w.refused(api.CodeInvalid, command.LinkSet{Stamp: w.stamp(), ID: "up", Silent: &since})
	checkIndexes(t, w.s)
}
