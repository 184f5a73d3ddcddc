package state

import "berth/api"

// Records returns how many records a snapshot of s has of each kind, by the names of its sections, without kinds of
// which there are none.
func (s *State) Records() map[string]int {
	out := map[string]int{}
	for _, one := range s.sections() {
		if n, _ := one.begin(); n > 0 {
			out[one.name] = n
		}
	}
	return out
}

// AgentIDs returns the agents that the zone knows: those with a record, and those that serve a host.
func (s *State) AgentIDs() map[api.AgentID]bool {
	out := map[api.AgentID]bool{}
	for _, a := range s.agents.Values() {
		out[a.ID] = true
	}
	for _, h := range s.hosts.Values() {
		if h.Agent != "" {
			out[h.Agent] = true
		}
	}
	return out
}
