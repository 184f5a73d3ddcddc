package state

import "berth/api"

// forgetNodes forgets all nodes, with the tokens that have admitted them or would. They have the zone's keys.
func (s *membersBook) forgetNodes() {
	for _, n := range s.nodes.Values() {
		s.nodes.Delete(string(n.ID))
	}
	for _, k := range firstKeys(s.joins, s.joins.Len(), func(t *api.JoinToken) bool { return t.Kind == api.JoinNode }) {
		s.joins.Delete(k)
	}
	s.KEKDue, s.CADue = s.index, s.index
}

// beginIncarnation lets the zone go on without the nodes of before, with a new admin token if there is one.
func (s *membersBook) beginIncarnation(r Return) {
	s.Incarnation = r.Incarnation
	s.forgetNodes()
	if r.Admin.ID != "" {
		s.tokens.Set(string(r.Admin.ID), &r.Admin)
	}
}
