package state

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// checkTouched holds that a command touches the topic of whatever it changes that
// somebody may wait for. What that is follows from a scan of all records.
func checkTouched(tb require.TestingT, before, after *State, touched []Topic) {
	if slices.Contains(touched, Everything) {
		return
	}
	checkDue(tb, before, after, touched)
	for a, was := range workByScan(before) {
		if now := workByScan(after)[a]; now != was {
			require.Contains(tb, touched, WorkTopic(a), "was %s, is %s", was, now)
		}
	}
	for a, now := range workByScan(after) {
		if _, known := workByScan(before)[a]; !known {
			require.Contains(tb, touched, WorkTopic(a), "is %s", now)
		}
	}
	for _, l := range after.Links() {
		if now := before.Changes(l.ID, 0, math.MaxInt); !assert.ObjectsAreEqual(indexes(now), indexes(after.Changes(l.ID, 0, math.MaxInt))) {
			require.Contains(tb, touched, ChangesTopic(l.ID))
		}
	}
	list, _ := after.Events(before.EventsEnd(), math.MaxInt)
	for _, e := range list {
		require.Contains(tb, touched, EventsTopic(""))
		if e.Project != "" && e.Origin == "" {
			require.Contains(tb, touched, EventsTopic(e.Project))
		}
	}
	if !slices.Equal(before.Webhooks(), after.Webhooks()) {
		require.Contains(tb, touched, WebhooksTopic())
	}
	before.held.Scan(func(id, key string) bool {
		if now, _ := after.held.Get(id); now != key {
			require.Contains(tb, touched, HoldTopic(key), "of %s", id)
		}
		return true
	})
	for _, b := range slices.Concat(before.boots.Values(), after.boots.Values()) {
		was, _ := before.boots.Get(b.ID())
		if now, _ := after.boots.Get(b.ID()); now != was {
			require.Contains(tb, touched, BootTopic(b.Request.Project, b.Request.Reservation))
		}
	}
}

// checkDue holds that a command names each record that has work for the leader which it had
// not before.
func checkDue(tb require.TestingT, before, after *State, touched []Topic) {
	was := dueByScan(before)
	for work, t := range dueByScan(after) {
		if _, known := was[work]; !known {
			require.Contains(tb, touched, t, work)
		}
	}
}

// dueByScan returns what is due for a leader, with the topic that names it.
func dueByScan(s *State) map[string]Topic {
	out := map[string]Topic{}
	for _, b := range s.boots.Values() {
		if b.Decision == api.DecisionPending {
			out["decide "+b.ID()] = dueTopic(DueBoots, b.ID())
		}
	}
	for _, h := range s.holds.Values() {
		for _, p := range h.Parts {
			if h.Decision != api.DecisionPending && !p.Acked {
				out[fmt.Sprintf("tell %s of %s to %s", p.Link, h.Key(), h.Decision)] = dueTopic(DueTells, h.Key())
			}
		}
	}
	for _, id := range s.unended.Keys() {
		out["end "+id] = dueTopic(DueEnds, id)
	}
	for _, l := range s.Children() {
		out["follow "+string(l.ID)] = dueTopic(DueFollows, string(l.ID))
	}
	return out
}

// workByScan returns, by agent, what its poll may depend on.
func workByScan(s *State) map[api.AgentID]string {
	out := map[api.AgentID]string{}
	for _, h := range s.hosts.Values() {
		out[h.Agent] += fmt.Sprint(h.ID, h.Work, h.State, h.Unserved)
		for _, i := range s.OnHost(h.ID) {
			out[h.Agent] += fmt.Sprint(i.ID, i.Movable, i.Target != "", i.Status == api.StatusDeleting, i.Moves)
		}
	}
	return out
}

func indexes(c api.Changes) (out []string) {
	for _, i := range c.Items {
		out = append(out, fmt.Sprint(i.Index, i.ID))
	}
	return out
}

// checkWork compares the lists of agents' work with a scan of all hosts.
func checkWork(tb require.TestingT, s *State, after uint64) {
	for _, a := range []api.AgentID{"a", "a1", "a2", ""} {
		serves := false
		var want []*Host
		for _, h := range s.hosts.Values() {
			serves = serves || h.Agent == a && !h.Unserved
			if h.Agent == a && h.Work > after && !h.Unserved {
				want = append(want, h)
			}
		}
		require.Equal(tb, serves, s.Serves(a), "agent %q", a)
		require.ElementsMatch(tb, want, s.WorkAfter(a, after), "agent %q", a)
		require.True(tb, slices.IsSortedFunc(s.WorkAfter(a, after), func(a, b *Host) int { return cmp.Compare(a.ID, b.ID) }))
	}
}

func TestWorkOfAgents(t *testing.T) {
	w := newWorld(t)
	put := func(agent string, whole bool, hosts ...string) {
		t.Helper()
		c := hostPut(w.stamp(), agent, hosts[0], 4)
		for _, id := range hosts[1:] {
			c.Hosts = append(c.Hosts, hostPut(w.stamp(), agent, id, 4).Hosts...)
		}
		c.Whole = whole
		w.ok(c)
		assert.Equal(t, []Topic{WorkTopic(api.AgentID(agent))}, slices.Compact(w.s.Touched()))
	}
	put("a1", true, "h2", "h1")
	put("a2", true, "h3")
	assert.False(t, w.s.Serves("a3"))
	assert.False(t, w.s.Serves("a"), "a name that begins alike is another one")
	seen := w.index
	assert.Empty(t, w.s.WorkAfter("a2", seen))
	assert.Len(t, w.s.WorkAfter("a2", seen-1), 1)
	assert.Empty(t, w.s.WorkAfter("a2", math.MaxUint64))

	w.ok(create(w.stamp(), "r1", 1, 1))
	assert.Equal(t, []Topic{dueTopic(DueBoots, "p\x00r1"), BootTopic("p", "r1")}, w.s.Touched())
	h := hold(w.stamp(), "k1", "r1", slots("h1", "i1"))
	h.Commit = true
	w.ok(h)
	assert.Contains(t, w.s.Touched(), WorkTopic("a1"))
	assert.NotContains(t, w.s.Touched(), WorkTopic("a2"), "it has nothing to do with it")
	require.Len(t, w.s.WorkAfter("a1", seen), 1)
	assert.Equal(t, api.HostID("h1"), w.s.WorkAfter("a1", seen)[0].ID)

	put("a1", true, "h1") // h2 is not served any more
	assert.Len(t, w.s.WorkAfter("a1", 0), 1)
	w.ok(command.HostDelete{Stamp: w.stamp(), ID: "h3"})
	assert.Equal(t, []Topic{WorkTopic("a2")}, w.s.Touched())
	assert.False(t, w.s.Serves("a2"))
	put("a1", true, "h1", "h3") // the host has moved to another agent
	checkWork(t, w.s, 0)
	w.ok(command.ConfigSet{Stamp: w.stamp()})
	assert.Empty(t, w.s.Touched(), "it concerns nobody who waits")
}

// TestNeedsOfHosts has agents report what their drivers need, and one of an earlier
// build that does not.
func TestNeedsOfHosts(t *testing.T) {
	w := newWorld(t)
	for n, c := range []struct {
		driver string
		needs  *api.Needs
		want   bool // whether it runs only flavors with a command
	}{
		{"fake", nil, false},
		{"process", nil, true},
		{"process", &api.Needs{}, false},
		{"other", nil, false},
		{"other", &api.Needs{Command: true}, true},
		{"other", &api.Needs{Image: true}, false},
	} {
		id := fmt.Sprint("h", n)
		put := hostPut(w.stamp(), "a1", id, 1)
		put.Hosts[0].Host.Driver, put.Hosts[0].Host.Needs = c.driver, c.needs
		w.ok(put)
		assert.Equal(t, c.want, specIn(w.s, api.HostID(id)).NeedsCommand, "%s %v", c.driver, c.needs)
		h, _ := w.s.Host(api.HostID(id))
		assert.Equal(t, c.needs, h.Needs)
	}
	checkIndexes(t, w.s)

	again := hostPut(w.stamp(), "a1", "h4", 1) // the agent is one of an earlier build now
	again.Hosts[0].Host.Driver = "other"
	w.ok(again)
	assert.False(t, specIn(w.s, "h4").NeedsCommand)
}
