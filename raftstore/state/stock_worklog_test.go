package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// askedFor is the number of entries for which the agents of a world keep their lists.
const askedFor = 20

// checkWorkLog gives agents the changes since the view before an entry, and since an earlier one:
// then they have the lists of the view after it, whichever list since then they had. Where the
// changes are not known they get the whole lists.
func (w *world) checkWorkLog(before, after *State) {
	w.tb.Helper()
	if w.asked == nil || after.Index() > w.asked.Index()+askedFor {
		w.asked = before
	}
	for _, c := range []struct{ from, had *State }{{before, before}, {w.asked, w.asked}, {w.asked, before}} {
		from := c.from
		for _, a := range agentsOf(after) {
			hosts := after.WorkAfter(a, from.Index())
			for n, changed := range after.WorkChanges(hosts, from.Index()) {
				if changed == nil {
					continue
				}
				list, now := shownOn(c.had, hosts[n].ID), shownOn(after, hosts[n].ID)
				for _, id := range changed {
					if one, is := now[id]; is {
						list[id] = one
					} else {
						delete(list, id)
					}
				}
				require.Equal(w.tb, now, list, "host %s, changes %v", hosts[n].ID, changed)
			}
		}
	}
}

func agentsOf(s *State) map[api.AgentID]api.AgentID {
	out := map[api.AgentID]api.AgentID{}
	for _, h := range s.AllHosts() {
		out[h.Agent] = h.Agent
	}
	return out
}

// shownOn returns what the agent of a host is shown of each instance on it.
func shownOn(s *State, host api.HostID) map[api.InstanceID]string {
	out := map[api.InstanceID]string{}
	for _, i := range s.OnHost(host) {
		if i.Window.Start <= s.Now() && !i.Waits {
			stops, notice := i.Status == api.StatusDeleting || i.Target != "", api.Eviction{}
			if stops && i.Eviction != nil {
				notice = *i.Eviction
				notice.At, notice.Stays = 0, ""
			}
			out[i.ID] = fmt.Sprint(i.Name, i.Flavor, i.Resources, i.Metadata, i.Project, stops, i.Stay(), i.Volume, s.VolumesOf(i), i.Fenced(), notice)
		}
	}
	return out
}

// known returns what has changed on the one host of an agent, and whether that is known.
func known(s *State, a api.AgentID, after uint64) ([]api.InstanceID, bool) {
	all := s.WorkChanges(s.WorkAfter(a, after), after)
	return all[0], all[0] != nil
}

func TestWorkChanges(t *testing.T) {
	w := newWorld(t)
	w.ok(hostPut(w.stamp(), "a1", "h1", 4))
	w.ok(hostPut(w.stamp(), "a2", "h2", 4))
	boot := func(name, host string, ids ...string) {
		t.Helper()
		w.ok(create(w.stamp(), name, len(ids), len(ids)))
		h := hold(w.stamp(), "k"+name, name, slots(host, ids...))
		h.Commit = true
		w.ok(h)
	}
	boot("r1", "h1", "i1")
	_, is := known(w.s, "a1", w.index-1)
	assert.False(t, is, "the log begins with the first change")
	seen := w.index
	boot("r2", "h1", "i3", "i2")
	boot("r3", "h2", "i4")
	got, is := known(w.s, "a1", seen)
	assert.True(t, is)
	assert.Equal(t, []api.InstanceID{"i2", "i3"}, got, "by id")
	_, is = known(w.s, "a1", seen-1)
	assert.False(t, is, "older than the log")

	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "i1"})
	w.ok(command.InstanceReport{Stamp: w.stamp(), Agent: "a1", Items: []api.InstanceReport{{Host: "h1", Instance: "i1", Status: api.StatusDeleted}}})
	got, _ = known(w.s, "a1", seen)
	assert.Equal(t, []api.InstanceID{"i1", "i2", "i3"}, got, "once, however often it changed")

	again := loaded(t, saved(t, w.s))
	_, is = known(again, "a1", seen)
	assert.False(t, is, "a snapshot has no log")

	view := w.s.Clone()
	w.ok(command.Restored{Stamp: w.stamp()})
	_, is = known(w.s, "a1", w.index-1)
	assert.False(t, is, "everything may have changed")
	restored := w.index
	boot("r4", "h1", "i5")
	boot("r5", "h1", "i6")
	_, is = known(w.s, "a1", restored-1)
	assert.False(t, is, "also when one more has changed since")
	got, is = known(w.s, "a1", w.index-1)
	assert.True(t, is, "the log has begun anew")
	assert.Equal(t, []api.InstanceID{"i6"}, got)
	got, is = known(view, "a1", seen)
	assert.True(t, is, "a view stays as it is")
	assert.Len(t, got, 3)
}

// TestWorkLogIsBounded: the oldest changes are dropped, and what was dropped is not known any more.
func TestWorkLogIsBounded(t *testing.T) {
	w := newWorld(t)
	w.ok(hostPut(w.stamp(), "a1", "h1", 4))
	hosts := w.s.AllHosts()
	for n := range workLogMax + 1 {
		w.s.index++
		w.s.logWork("h1", api.InstanceID(fmt.Sprint("i", n%7)))
	}
	assert.Len(t, w.s.workLog.Values(), workLogMax)
	from := w.s.workFrom
	assert.Nil(t, w.s.WorkChanges(hosts, w.s.index-workScanMax-1)[0], "too many to look at for one host")
	assert.Len(t, w.s.WorkChanges(hosts, w.s.index-workScanMax)[0], 7)

	w.s.index++
	w.s.logWork("h1", "i")
	assert.Len(t, w.s.workLog.Values(), workLogMax/2)
	assert.Greater(t, w.s.workFrom, from)
	assert.Equal(t, w.s.workFrom+1, w.s.workLog.Values()[0].index, "nothing is missing after it")
	many := make([]*Host, workLogMax)
	for n := range many {
		many[n] = hosts[0]
	}
	assert.NotNil(t, w.s.WorkChanges(many, w.s.workFrom)[workLogMax-1])
	assert.Nil(t, w.s.WorkChanges(many, w.s.workFrom-1)[workLogMax-1])
}

// TestWorkChangesOfOneEntry: entries that change many instances of a host are taken as a whole,
// also where the log is cut within one.
func TestWorkChangesOfOneEntry(t *testing.T) {
	w := newWorld(t)
	w.ok(hostPut(w.stamp(), "a1", "h1", 4))
	w.s.index++
	w.s.logWork("h1", "before")
	w.s.index++
	for n := range workLogMax + 1 {
		w.s.logWork("h1", api.InstanceID(fmt.Sprint("i", n)))
	}
	assert.Equal(t, w.s.index, w.s.workFrom)
	assert.Nil(t, w.s.WorkChanges(w.s.AllHosts(), w.s.index-1)[0])
}
