package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

// TestRecordsAreLimited: of each kind the last one that is allowed is kept, and one more refused, which changes nothing. What is there
// already may be set again.
func TestRecordsAreLimited(t *testing.T) {
	const first, second = "one", "two"
	for name, c := range map[string]struct {
		limit func(l *limits, n int)
		count func(s *State) int
		make  func(w *world, id string) command.Command
	}{
		"tokens": {func(l *limits, n int) { l.tokens = n }, func(s *State) int { return s.tokens.Len() }, func(w *world, id string) command.Command {
			return command.TokenPut{Stamp: w.stamp(), Token: api.Token{ID: api.TokenID(id), Hash: []byte(id), User: "u", Project: "p", Expires: api.Forever}}
		}},
		"joins": {func(l *limits, n int) { l.tokens = n }, func(s *State) int { return s.joins.Len() }, func(w *world, id string) command.Command {
			return command.JoinPut{Stamp: w.stamp(), Token: api.JoinToken{ID: api.TokenID(id), Hash: []byte(id), Kind: api.JoinNode, Name: id, Expires: api.Forever}}
		}},
		"flavors": {func(l *limits, n int) { l.flavors = n }, func(s *State) int { return s.flavors.Len() }, func(w *world, id string) command.Command {
			return command.FlavorPut{Stamp: w.stamp(), Flavor: api.Flavor{ID: api.FlavorID(id), Name: id, Resources: api.Resources{api.VCPU: 1}}}
		}},
		"roles": {func(l *limits, n int) { l.roles = n }, func(s *State) int { return s.roles.Len() }, func(w *world, id string) command.Command {
			return command.RoleSet{Stamp: w.stamp(), Role: api.Role{Name: api.UserRole(id), Allow: []api.RouteGroup{"boots:write"}}}
		}},
		"webhooks": {func(l *limits, n int) { l.webhooks = n }, func(s *State) int { return s.webhooks.Len() }, func(w *world, id string) command.Command {
			return command.WebhookPut{Stamp: w.stamp(), Webhook: api.Webhook{ID: api.WebhookID(id), Project: api.ProjectID(id), Name: id, URL: "https://x"}}
		}},
		"webhooks of one project": {func(l *limits, n int) { l.webhooksProject = n }, func(s *State) int { return s.webhooks.Len() }, func(w *world, id string) command.Command {
			return command.WebhookPut{Stamp: w.stamp(), Webhook: api.Webhook{ID: api.WebhookID(id), Project: "p", Name: id, URL: "https://x"}}
		}},
		"quotas": {func(l *limits, n int) { l.quotas = n }, func(s *State) int { return s.countLimited() }, func(w *world, id string) command.Command {
			return command.QuotaSet{Stamp: w.stamp(), Project: api.ProjectID(id), Set: quota.Limits{quota.Hosts: 1}}
		}},
		"providers": {func(l *limits, n int) { l.providers = n }, func(s *State) int { return s.providers.Len() }, func(w *world, id string) command.Command {
			return command.ProviderCreate{Stamp: w.stamp(), ID: api.ProviderID(id), Name: id}
		}},
		"aggregates": {func(l *limits, n int) { l.aggregates = n }, func(s *State) int { return s.aggregates.Len() }, func(w *world, id string) command.Command {
			return command.AggregatePut{Stamp: w.stamp(), Aggregate: api.Aggregate{ID: api.AggregateID(id), Name: id}}
		}},
		"server groups": {func(l *limits, n int) { l.serverGroups = n }, func(s *State) int { return s.groups.Len() }, func(w *world, id string) command.Command {
			return command.GroupPut{Stamp: w.stamp(), Group: api.ServerGroup{ID: api.ServerGroupID(id), Project: "p", Name: id, Policy: api.Affinity}}
		}},
		"properties": {func(l *limits, n int) { l.properties = n }, func(s *State) int { return s.properties.Len() }, func(w *world, id string) command.Command {
			return command.PropertySet{Stamp: w.stamp(), ID: id, Name: id}
		}},
		"bindings": {func(l *limits, n int) { l.bindings = n }, func(s *State) int { return s.active.Len() }, func(w *world, id string) command.Command {
			return command.BindingSet{Stamp: w.stamp(), ID: api.BindingID(id), Project: api.ProjectID(id), Link: "kid"}
		}},
		"bindings of one project": {func(l *limits, n int) { l.bindingsProject = n }, func(s *State) int { return s.active.Len() }, func(w *world, id string) command.Command {
			return command.BindingSet{Stamp: w.stamp(), ID: api.BindingID(id), Project: "p", Key: api.BindingKey{AZ: id}, Link: "kid"}
		}},
	} {
		w := newWorld(t)
		w.form = api.FormNewest
		w.link("kid", api.LinkChild)
		apply := func(n int, id string) Result {
			w.s.index++
			own := *limitsAt(api.FormNewest)
			c.limit(&own, n)
			w.s.form, w.s.limits = api.FormNewest, &own
			return w.s.applyEntry(c.make(w, id))
		}
		before := c.count(w.s)
		require.Error(t, apply(before, first).Err, name)
		require.NoError(t, apply(before+1, first).Err, name)
		require.Equal(t, before+1, c.count(w.s), name)
		err := apply(before+1, second).Err
		assert.Equal(t, api.CodeOverloaded, api.CodeOf(err), "%s: %v", name, err)
		assert.Equal(t, before+1, c.count(w.s), name)
		if again := apply(before+1, first).Err; name != "tokens" && again != nil { // a token has an id of its own each time
			assert.NotEqual(t, api.CodeOverloaded, api.CodeOf(again), "%s: %v", name, again)
		}
		require.NoError(t, apply(before+2, second).Err, name)
	}
}

// TestAgentsHaveALimit: those that join, those that tell what they trust, and those that lose a host.
func TestAgentsHaveALimit(t *testing.T) {
	for name, call := range map[string]func(w *world, id string) Result{
		"joins": func(w *world, id string) Result { return w.s.agentJoins(&api.JoinToken{Kind: api.JoinAgent, Name: id}) },
		"trust": func(w *world, id string) Result {
			w.s.Change = &CAChange{}
			return w.s.agentTrust(command.AgentTrust{ID: api.AgentID(id), Trusts: "x"})
		},
		"loses": func(w *world, id string) Result { return w.s.loseHost(api.AgentID(id), "h") },
	} {
		w := newWorld(t)
		own := *limitsAt(api.FormNewest)
		own.agents = 2
		w.s.limits = &own
		for n, code := range []api.Code{"", "", api.CodeOverloaded} {
			assert.Equal(t, code, api.CodeOf(call(w, fmt.Sprint(n)).Err), "%s %d", name, n)
		}
		assert.Equal(t, 2, w.s.agents.Len(), name)
		if name != "joins" {
			assert.NoError(t, call(w, "1").Err, "%s: it is known", name)
		}
	}
	w := newWorld(t)
	own := *limitsAt(api.FormNewest)
	own.lostHosts = 2
	w.s.limits = &own
	for n := range 4 {
		require.NoError(t, w.s.loseHost("a", api.HostID(fmt.Sprint(n))).Err)
	}
	a, _ := w.s.Agent("a")
	assert.Equal(t, []api.HostID{"2", "3"}, a.Lost, "the last ones are kept")
}
