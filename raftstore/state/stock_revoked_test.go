package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// joins has an agent join with a token on some terms.
func joins(w *world, name string, terms *api.AgentTerms) {
	w.tb.Helper()
	id := api.TokenID("t-" + name + w.stamp().At.String())
	w.ok(command.JoinPut{Stamp: w.stamp(), Token: api.JoinToken{ID: id, Hash: []byte("h"), Kind: api.JoinAgent, Name: name, Expires: api.Forever, Terms: terms}})
	w.ok(command.JoinUse{Stamp: w.stamp(), ID: id, Hash: []byte("h"), Want: api.JoinAgent})
}

// TestARevokedAgentIsOver: its hosts are down and disabled, and it registers none.
func TestARevokedAgentIsOver(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	joins(w, "a1", nil)
	w.ok(hostsNamed(w, "a1", "h"))
	w.ok(hostsNamed(w, "a2", "other"))
	spare := api.JoinToken{ID: "spare", Hash: []byte("h"), Kind: api.JoinAgent, Name: "a1", Expires: api.Forever}
	w.ok(command.JoinPut{Stamp: w.stamp(), Token: spare})
	w.refused(api.CodeNotFound, command.AgentRevoke{Stamp: w.stamp(), ID: "nobody"})

	w.ok(command.AgentRevoke{Stamp: w.stamp(), ID: "a1"})
	h, _ := w.s.Host("id-h")
	assert.False(t, h.Enabled)
	assert.Equal(t, api.HostDown, h.State)
	w.ok(command.HostsState{Stamp: w.stamp(), State: api.HostUp, Hosts: []api.HostID{"id-h"}}) // of a leader that has heard it before
	h, _ = w.s.Host("id-h")
	assert.Equal(t, api.HostDown, h.State, "it stays down")
	other, _ := w.s.Host("id-other")
	assert.True(t, other.Enabled && other.State == api.HostUp, "hosts of others stay")
	w.refused(api.CodeForbidden, hostsNamed(w, "a1", "h"))
	w.refused(api.CodeUnauthenticated, command.JoinUse{Stamp: w.stamp(), ID: "spare", Hash: []byte("h"), Want: api.JoinAgent})

	first, _ := w.s.Agent("a1")
	w.now = w.now.Add(time.Hour)
	w.ok(command.AgentRevoke{Stamp: w.stamp(), ID: "a1"})
	again, _ := w.s.Agent("a1")
	assert.Equal(t, first, again, "a repeat changes nothing")

	joins(w, "a1", nil)
	a, _ := w.s.Agent("a1")
	assert.False(t, a.IsRevoked())
	assert.Equal(t, first.Revoked, a.Revoked, "older certificates stay refused")
	w.ok(hostsNamed(w, "a1", "h"))
	h, _ = w.s.Host("id-h")
	assert.Equal(t, api.HostUp, h.State)
	assert.False(t, h.Enabled, "an operator enables it")
}

// TestAnAgentOfAnEarlierReleaseIsRevoked: the zone knows it by its hosts alone.
func TestAnAgentOfAnEarlierReleaseIsRevoked(t *testing.T) {
	w := newWorld(t)
	joins(w, "a1", nil)
	w.ok(hostsNamed(w, "a1", "h"))
	assert.Empty(t, w.s.Agents(), "entries of earlier forms leave no record")
	w.form = api.FormFifth
	w.ok(command.AgentRevoke{Stamp: w.stamp(), ID: "a1"})
	w.refused(api.CodeForbidden, hostsNamed(w, "a1", "h"))
	s := loaded(t, saved(t, w.s))
	a, ok := s.Agent("a1")
	require.True(t, ok)
	assert.True(t, a.IsRevoked(), "a snapshot has it")
}

// TestNobodyJoinsInTheSecondOfItsRevocation: its certificate could not be told from the old one.
func TestNobodyJoinsInTheSecondOfItsRevocation(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.ok(hostsNamed(w, "a1", "h"))
	w.ok(command.AgentRevoke{Stamp: w.stamp(), ID: "a1"})
	revoked := w.s.Now()
	w.ok(command.JoinPut{Stamp: command.Stamp{At: revoked}, Token: api.JoinToken{ID: "t", Hash: []byte("h"), Kind: api.JoinAgent, Name: "a1", Expires: api.Forever}})
	use := command.JoinUse{Stamp: command.Stamp{At: revoked.Add(time.Second)}, ID: "t", Hash: []byte("h"), Want: api.JoinAgent}
	w.refused(api.CodeUnavailable, use)
	use.At = revoked.Add(time.Second + time.Millisecond)
	w.ok(use)
}

// TestAnAgentRegistersWhatItsTokenAllows: names, number, what each offers, and whether an operator enables its hosts.
func TestAnAgentRegistersWhatItsTokenAllows(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	joins(w, "a1", &api.AgentTerms{HostPrefix: "r1-", HostsMax: 2, Disabled: true})
	w.refused(api.CodeForbidden, hostsNamed(w, "a1", "r1-a", "r2-a"))
	w.refused(api.CodeOverloaded, hostsNamed(w, "a1", "r1-a", "r1-b", "r1-c"))
	w.ok(hostsNamed(w, "a1", "r1-a", "r1-b"))
	w.refused(api.CodeOverloaded, hostsNamed(w, "a1", "r1-c"))
	h, _ := w.s.Host("id-r1-a")
	assert.False(t, h.Enabled)
	yes := true
	w.ok(command.HostSet{Stamp: w.stamp(), ID: "id-r1-a", Enabled: &yes})
	w.ok(hostsNamed(w, "a1", "r1-a", "r1-b"))
	h, _ = w.s.Host("id-r1-a")
	assert.True(t, h.Enabled, "a repeat leaves what the operator has set")
	w.ok(hostsNamed(w, "a2", "r1-x"))
	h, _ = w.s.Host("id-r1-x")
	assert.True(t, h.Enabled, "terms are of one agent")
	capped := func(n, reserved int64, ratio api.Ratio) command.HostsPut {
		c := hostsNamed(w, "a3", "r3-a")
		c.Hosts[0].Host.Inventory = map[api.ResourceClass]api.Inventory{api.VCPU: {Total: n, Reserved: reserved, AllocationRatio: ratio}, api.DiskGB: {Total: 1000}}
		return c
	}
	joins(w, "a3", &api.AgentTerms{HostCapacity: api.Resources{api.VCPU: 8}})
	w.refused(api.CodeForbidden, capped(9, 0, 0))
	w.refused(api.CodeForbidden, capped(8, 0, 2*api.RatioOne))
	w.ok(capped(8, 0, 0))
	w.ok(capped(9, 1, 0))
	w.ok(capped(4, 0, 2*api.RatioOne))
	for _, t := range []api.JoinToken{
		{ID: "c", Kind: api.JoinAgent, Name: "n", Expires: api.Forever, Terms: &api.AgentTerms{HostCapacity: api.Resources{api.VCPU: 0}}},
		{ID: "n", Kind: api.JoinNode, Name: "n", Expires: api.Forever, Terms: &api.AgentTerms{HostsMax: 1}},
		{ID: "m", Kind: api.JoinAgent, Name: "n", Expires: api.Forever, Terms: &api.AgentTerms{HostsMax: -1}},
	} {
		w.refused(api.CodeInvalid, command.JoinPut{Stamp: w.stamp(), Token: t})
	}
}

// TestAgentsAreForgotten when no certificate of theirs is valid, and are limited until then.
func TestAgentsAreForgotten(t *testing.T) {
	newest := &limitsOf[len(limitsOf)-1].limits
	require.Equal(t, api.AgentsMax, newest.agents)
	t.Cleanup(func() { newest.agents = api.AgentsMax })
	newest.agents = 1
	w := newWorld(t)
	w.form = api.FormFifth
	joins(w, "a1", nil)
	w.ok(hostsNamed(w, "a2", "h"))
	w.refused(api.CodeOverloaded, command.AgentRevoke{Stamp: w.stamp(), ID: "a2"})
	a, _ := w.s.Agent("a1")
	end := a.Joined.Add(newest.agentAge)
	w.ok(command.Prune{Stamp: w.stamp(), Before: end, Limit: 10})
	assert.Len(t, w.s.Agents(), 1)
	w.ok(command.Prune{Stamp: w.stamp(), Before: end + 1, Limit: 10})
	assert.Empty(t, w.s.Agents())
	w.ok(command.AgentRevoke{Stamp: w.stamp(), ID: "a2"})
}

// TestAnAgentIsRenewed: its record says since when its newest certificate is valid, and is kept as long as that.
// A certificate that was revoked renews nothing, nor does a renewal lift a revocation.
func TestAnAgentIsRenewed(t *testing.T) {
	newest := &limitsOf[len(limitsOf)-1].limits
	w := newWorld(t)
	w.form = api.FormFifth
	renew := func(id api.AgentID, issued api.Instant) command.AgentRenew {
		return command.AgentRenew{Stamp: w.stamp(), ID: id, Issued: issued}
	}
	joins(w, "a1", &api.AgentTerms{HostsMax: 2})
	was, _ := w.s.Agent("a1")
	w.now = w.now.Add(300 * 24 * time.Hour)
	c := renew("a1", was.Joined)
	w.ok(c)
	a, _ := w.s.Agent("a1")
	assert.Equal(t, &api.Agent{ID: "a1", Joined: was.Joined, Terms: was.Terms, Renewed: c.At}, a)
	assert.Equal(t, c.At, a.Issued())
	w.ok(command.Prune{Stamp: w.stamp(), Before: was.Joined.Add(newest.agentAge + time.Hour), Limit: 10})
	saved, ok := loaded(t, saved(t, w.s)).Agent("a1")
	require.True(t, ok, "its certificate is valid")
	assert.Equal(t, a, saved)

	w.ok(command.AgentRevoke{Stamp: w.stamp(), ID: "a1"})
	w.now = w.now.Add(time.Hour)
	for _, issued := range []api.Instant{was.Joined, a.Renewed} {
		w.refused(api.CodeForbidden, renew("a1", issued))
	}
	joins(w, "a1", nil)
	w.refused(api.CodeForbidden, renew("a1", a.Renewed))
	a, _ = w.s.Agent("a1")
	assert.Zero(t, a.Renewed, "it has another certificate now")
	w.ok(renew("a1", a.Joined))

	w.ok(renew("a2", was.Joined))
	a, _ = w.s.Agent("a2")
	assert.Equal(t, was.Joined, a.Joined, "one of an earlier release")
	newest.agents = 2
	t.Cleanup(func() { newest.agents = api.AgentsMax })
	w.refused(api.CodeOverloaded, renew("a3", was.Joined))
}
