package state

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// inForm returns a command as it is read from an entry of a form.
func inForm(tb testing.TB, c command.Command, form api.Form) command.Command {
	tb.Helper()
	b, err := command.Encode(c, form)
	require.NoError(tb, err)
	c, err = command.Decode(b, form)
	require.NoError(tb, err)
	return c
}

// audits applies an entry of one change that ada makes.
func audits(tb testing.TB, s *State, c command.Command) Result {
	tb.Helper()
	index := s.Index() + 1
	s.Apply(index, inForm(tb, command.Audit{
		Stamp: command.Stamp{At: c.Time()}, Count: 1, Request: "r", Call: "DELETE /operator/tokens/x",
		Actor: api.AuditActor{Kind: api.ActorToken, ID: "t", User: "ada", Project: "ops"},
	}, api.FormFifth))
	return s.Apply(index, inForm(tb, c, api.FormFifth))
}

func requireChained(tb testing.TB, s *State) {
	tb.Helper()
	all, before := s.Audit()
	for i, r := range all {
		require.Equal(tb, r.SumAfter(before), r.Sum)
		before = r.Sum
		require.Equal(tb, all[0].Number+uint64(i), r.Number)
	}
}

// TestAuditRecordsOutcomes: what was done and what was refused are recorded with their actor,
// and commands of others in the same entry are not.
func TestAuditRecordsOutcomes(t *testing.T) {
	s := newWorld(t).s
	require.NoError(t, audits(t, s, command.TokenPut{Token: api.Token{ID: "x", User: "eve", Project: "p", Expires: api.Forever}}).Err)
	s.Apply(s.Index(), inForm(t, command.TokenDelete{ID: "y"}, api.FormFifth)) // of the same entry, and nobody's
	require.Error(t, audits(t, s, command.TokenDelete{ID: "unknown"}).Err)
	s.Apply(s.Index()+1, inForm(t, command.Audit{Actor: api.AuditActor{Kind: api.ActorZone}, Target: "sealed backup"}, api.FormFifth))
	all, before := s.Audit()
	require.Len(t, all, 3)
	assert.Nil(t, before)
	ada := api.AuditActor{Kind: api.ActorToken, ID: "t", User: "ada", Project: "ops"}
	assert.Equal(t, []any{uint64(1), ada, "TokenPut", "x", api.Code("")}, []any{all[0].Number, all[0].Actor, all[0].Change, all[0].Target, all[0].Outcome})
	assert.Equal(t, []any{uint64(2), ada, "TokenDelete", api.CodeNotFound}, []any{all[1].Number, all[1].Actor, all[1].Change, all[1].Outcome})
	assert.Equal(t, []any{"", "sealed backup", api.Code("")}, []any{all[2].Change, all[2].Target, all[2].Outcome})
	requireChained(t, s)
	for i := range all { // every field counts
		bad := *all[i]
		bad.Target += "!"
		assert.NotEqual(t, bad.SumAfter(before), bad.Sum)
	}
}

// TestAuditIsBounded keeps the newest records, and their chain, also through a snapshot.
func TestAuditIsBounded(t *testing.T) {
	s := newWorld(t).s
	few := *limitsAt(api.FormFifth)
	few.audit = 3
	for i := range 5 {
		c := command.Audit{Target: strconv.Itoa(i)}
		s.limits = &few
		s.auditBook.apply(c)
	}
	s.form = api.FormFifth
	all, before := s.Audit()
	require.Len(t, all, 3)
	assert.Equal(t, []string{"2", "3", "4"}, []string{all[0].Target, all[1].Target, all[2].Target})
	assert.NotNil(t, before)
	requireChained(t, s)
	var b bytes.Buffer
	require.NoError(t, s.Save(&b))
	again, err := Load(&b, api.FormFifth)
	require.NoError(t, err)
	got, from := again.Audit()
	assert.Equal(t, all, got)
	assert.Equal(t, before, from)
	audits(t, again, command.TokenDelete{ID: "unknown"})
	requireChained(t, again)
}

// TestARestoreTakesBackNoAudit: the records of after the backup stay.
func TestARestoreTakesBackNoAudit(t *testing.T) {
	s := newWorld(t).s
	audits(t, s, command.TokenDelete{ID: "before"})
	backup := s.Clone()
	audits(t, s, command.TokenDelete{ID: "after"})
	want, _ := s.Audit()
	old := *backup
	old.continueAudit(&s.auditBook)
	got, _ := old.Audit()
	assert.Equal(t, want, got)
	s.continueAudit(&backup.auditBook)
	got, _ = s.Audit()
	assert.Equal(t, want, got, "an older one takes nothing away")
}

// auditsOf applies an entry of one change that a party makes.
func auditsOf(tb testing.TB, s *State, by api.AuditActor, c command.Command) Result {
	tb.Helper()
	index := s.Index() + 1
	s.Apply(index, inForm(tb, command.Audit{Stamp: command.Stamp{At: c.Time()}, Count: 1, Actor: by}, api.FormFifth))
	return s.Apply(index, inForm(tb, c, api.FormFifth))
}

// TestAuditRecordsNoRepetition: a node and an agent that say again what the zone has of them leave no
// record; a change of it, and what an agent serves no longer, does.
func TestAuditRecordsNoRepetition(t *testing.T) {
	s := newWorld(t).s
	node := api.AuditActor{Kind: api.ActorNode, ID: "n"}
	agent := api.AuditActor{Kind: api.ActorAgent, ID: "ag"}
	put := command.NodePut{Node: api.Node{ID: "n", NodeAddr: "a:1", Form: api.FormFifth}}
	hosts := func(names ...string) command.HostsPut {
		c := command.HostsPut{Agent: "ag", Whole: true}
		for _, name := range names {
			c.Hosts = append(c.Hosts, command.HostEntry{ID: api.HostID("id-" + name), Host: api.AgentHost{
				Name: name, Pool: api.PoolOnDemand, Driver: "fake", Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
			}})
		}
		return c
	}
	larger := hosts("one")
	larger.Hosts[0].Host.Inventory = map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 8}}
	measured := hosts("one")
	measured.Hosts[0].Host.Inventory = larger.Hosts[0].Host.Inventory
	measured.Hosts[0].Host.Attributes = map[string]string{"load": "3"}
	for i, step := range []struct {
		by   api.AuditActor
		c    command.Command
		want string
	}{
		{node, put, "n"},
		{node, put, ""},
		{node, command.NodePut{Node: api.Node{ID: "n", NodeAddr: "a:2", Form: api.FormFifth}}, "n"},
		{agent, hosts("one", "two"), "one two"},
		{agent, hosts("one", "two"), ""},
		{agent, hosts("one"), "one"},
		{agent, hosts("one"), ""},
		{agent, larger, "one"},
		{agent, measured, ""},
	} {
		before, _ := s.Audit()
		n := len(before)
		require.NoError(t, auditsOf(t, s, step.by, step.c).Err)
		after, _ := s.Audit()
		if step.want == "" {
			require.Len(t, after, n, "step %d", i)
			continue
		}
		require.Len(t, after, n+1, "step %d", i)
		assert.Equal(t, step.by, after[n].Actor)
		assert.Equal(t, step.want, after[n].Target)
	}
	requireChained(t, s)
}

// TestAPartyHasItsShareOfTheAudit: an agent and a linked zone have at most so many records, at the limit
// and one beyond, and others go on.
func TestAPartyHasItsShareOfTheAudit(t *testing.T) {
	for _, kind := range []api.ActorKind{api.ActorAgent, api.ActorLink} {
		s := newWorld(t).s
		rogue := api.AuditActor{Kind: kind, ID: "rogue"}
		for range api.AuditPartyMax + 1 {
			auditsOf(t, s, rogue, command.TokenDelete{ID: "unknown"})
		}
		all, _ := s.Audit()
		require.Len(t, all, api.AuditPartyMax)
		auditsOf(t, s, api.AuditActor{Kind: kind, ID: "other"}, command.TokenDelete{ID: "unknown"})
		audits(t, s, command.TokenDelete{ID: "unknown"})
		all, _ = s.Audit()
		require.Len(t, all, api.AuditPartyMax+2)
		requireChained(t, s)
	}
}
