package state

import (
	"slices"
	"time"

	"berth/api"
	"berth/raftstore/command"
)

// agentJoins records an agent that joins with a token, on the token's terms. It is nothing for
// tokens of other kinds.
func (s *membersBook) agentJoins(t *api.JoinToken) Result {
	if t.Kind != api.JoinAgent || s.limits.agents == 0 {
		return Result{}
	}
	a := &api.Agent{ID: api.AgentID(t.Name), Joined: s.now}
	if t.Terms != nil {
		a.Terms = *t.Terms
	}
	old, known := s.agents.Get(t.Name)
	switch {
	case known && old.Revoked.Add(time.Second) >= s.now: // certificates have whole seconds
		return refuseWith(api.CodeUnavailable, "the agent was revoked a moment ago; try again")
	case known:
		a.Revoked, a.Lost = old.Revoked, old.Lost
	case s.agents.Len() >= s.limits.agents:
		return refuseWith(api.CodeOverloaded, "the zone keeps %d agents, which is the limit", s.limits.agents)
	}
	s.agents.Set(t.Name, a)
	return Result{}
}

// agentRenew records that an agent gets a new certificate. One that joined in an earlier release
// gets its record with that.
func (s *membersBook) agentRenew(c command.AgentRenew) Result {
	a := api.Agent{ID: c.ID, Joined: min(c.Issued, s.now)}
	old, known := s.agents.Get(string(c.ID))
	switch {
	case known && old.Refuses(c.Issued):
		return refuseWith(api.CodeForbidden, "agent %q was revoked; it may join with a new token", string(c.ID))
	case known:
		a = *old
	case s.agents.Len() >= s.limits.agents:
		return refuseWith(api.CodeOverloaded, "the zone keeps %d agents, which is the limit", s.limits.agents)
	}
	a.Renewed = s.now
	s.agents.Set(string(c.ID), &a)
	return Result{}
}

// revokeAgent records that an agent is revoked, and forgets the join tokens for its name.
func (s *membersBook) revokeAgent(id api.AgentID) Result {
	old, known := s.agents.Get(string(id))
	if !known {
		if s.agents.Len() >= s.limits.agents {
			return refuseWith(api.CodeOverloaded, "the zone keeps %d agents, which is the limit", s.limits.agents)
		}
		old = &api.Agent{ID: id, Joined: s.now}
	}
	a := *old
	a.Revoked = s.now
	s.agents.Set(string(id), &a)
	for _, k := range firstKeys(s.joins, s.joins.Len(), func(t *api.JoinToken) bool {
		return t.Kind == api.JoinAgent && t.Name == string(id)
	}) {
		s.joins.Delete(k)
	}
	return Result{}
}

// loseHost records that a host of an agent was written off: whatever the agent has of it has to end.
func (s *membersBook) loseHost(id api.AgentID, host api.HostID) Result {
	if s.limits.agents == 0 {
		return Result{}
	}
	a := api.Agent{ID: id, Joined: s.now}
	if old, known := s.agents.Get(string(id)); known {
		a = *old
	} else if s.agents.Len() >= s.limits.agents {
		return refuseWith(api.CodeOverloaded, "the zone keeps %d agents, which is the limit", s.limits.agents)
	}
	a.Lost = append(slices.Clone(a.Lost[max(0, len(a.Lost)-s.limits.lostHosts+1):]), host)
	s.agents.Set(string(id), &a)
	return Result{}
}

// Agent returns what the zone keeps of one agent. It keeps nothing of one that joined in an
// earlier release, unless it was revoked.
func (s *membersBook) Agent(id api.AgentID) (*api.Agent, bool) { return s.agents.Get(string(id)) }

// Agents returns the agents of the zone by id, as Agent does.
func (s *membersBook) Agents() []*api.Agent { return s.agents.Values() }

// termsOf returns the terms of an agent.
func (s *membersBook) termsOf(id api.AgentID) api.AgentTerms {
	if a, ok := s.agents.Get(string(id)); ok {
		return a.Terms
	}
	return api.AgentTerms{}
}
