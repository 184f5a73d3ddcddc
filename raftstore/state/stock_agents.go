package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// agentRevoke revokes an agent and takes its hosts down until an operator enables them and the
// agent, with a new certificate, registers them. What runs there is treated as on any host that
// fell silent. A repeat changes nothing.
func (s *stockBook) agentRevoke(c command.AgentRevoke) Result {
	hosts := s.hostsOf(c.ID, 0)
	a, known := s.agents.Get(string(c.ID))
	switch {
	case !known && len(hosts) == 0:
		return refuseWith(api.CodeNotFound, "no agent %q", string(c.ID))
	case known && a.IsRevoked():
		return Result{}
	}
	if r := s.revokeAgent(c.ID); r.Err != nil {
		return r
	}
	for _, old := range hosts {
		h := *old
		h.Enabled, h.State, h.Unserved, h.Updated = false, api.HostDown, true, c.At
		s.storeHost(&h)
	}
	return Result{}
}

// HasHosts reports whether an agent has registered hosts that were not deleted.
func (s *stockBook) HasHosts(id api.AgentID) bool { return len(s.hostsOf(id, 0)) > 0 }
