package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// hostsNamed returns the hosts of an agent with some names.
func hostsNamed(w *world, a api.AgentID, names ...string) command.HostsPut {
	c := command.HostsPut{Stamp: w.stamp(), Agent: a, Whole: true}
	for _, n := range names {
		c.Hosts = append(c.Hosts, command.HostEntry{ID: api.HostID("id-" + n), Host: api.AgentHost{
			Name: n, Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 1}},
		}})
	}
	return c
}

// TestHostsOfOneAgentAreLimited over all calls: those that it no longer serves count until they are deleted.
func TestHostsOfOneAgentAreLimited(t *testing.T) {
	const most = 20
	newest := &limitsOf[len(limitsOf)-1].limits
	require.Equal(t, api.HostsPerAgentMax, newest.agentHosts)
	t.Cleanup(func() { newest.agentHosts = api.HostsPerAgentMax })
	newest.agentHosts = most
	w := newWorld(t)
	w.form = api.FormFifth
	all := numbered("h", most)
	w.apply(hostsNamed(w, "a1", all...))
	w.ok(hostsNamed(w, "a2", "other"))
	more := hostsNamed(w, "a1", "more")
	w.refused(api.CodeOverloaded, more)
	require.ErrorContains(t, w.s.CheckHosts(&more), "the agent has 20 hosts, and would have 1 more; the limit is 20")
	w.apply(command.HostDelete{Stamp: w.stamp(), ID: api.HostID("id-" + all[0])})
	w.ok(more)
	assert.Len(t, w.s.hostsOf("a1", 0), most)
	w.refused(api.CodeOverloaded, hostsNamed(w, "a1", "again"))

	w.form = api.FormFourth
	w.ok(hostsNamed(w, "a1", "again")) // the limit is not of that form
}

// TestNamesOfOneAgentAreLimited: classes and traits that an agent makes known, over all of its hosts.
func TestNamesOfOneAgentAreLimited(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	made := 0
	with := func(a api.AgentID, classes, traits int, host string) command.HostsPut {
		c := hostsNamed(w, a, host)
		h := &c.Hosts[0].Host
		for range classes {
			made++
			h.Inventory[api.ResourceClass(fmt.Sprint("CUSTOM_C", made))] = api.Inventory{Total: 1}
		}
		for range traits {
			made++
			h.Traits = append(h.Traits, fmt.Sprint("CUSTOM_T", made))
		}
		return c
	}
	first := with("a1", api.AgentClassesMax-1, api.AgentTraitsMax-1, "h1")
	w.ok(first)
	w.refused(api.CodeOverloaded, with("a1", 2, 0, "h2"))
	w.refused(api.CodeOverloaded, with("a1", 0, 2, "h2"))
	w.ok(with("a1", 1, 1, "h2"))
	w.refused(api.CodeOverloaded, with("a1", 1, 0, "h3"))
	w.refused(api.CodeOverloaded, with("a1", 0, 1, "h3"))
	w.ok(with("a2", api.AgentClassesMax, api.AgentTraitsMax, "h4"))
	w.ok(with("a1", api.AgentClassesMax-1, api.AgentTraitsMax-1, "h1")) // in place of what h1 had
	again := first
	again.Agent, again.Hosts = "a3", []command.HostEntry{{ID: "id-h9", Host: first.Hosts[0].Host}}
	again.Hosts[0].Host.Name = "h9"
	w.ok(again) // what is known already counts for nobody
}
