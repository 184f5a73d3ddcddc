package state

import "berth/api"

// forgetNodes forgets all nodes, with the tokens that have admitted them or would. They have the zone's keys.
func (s *membersBook) forgetNodes() {
	for _, n := range s.nodes.Values() {
		s.nodes.Delete(string(n.ID))
	}
	for _, k := range firstKeys(&s.joins, s.joins.Len(), func(t *api.JoinToken) bool { return t.Kind == api.JoinNode }) {
		s.joins.Delete(k)
	}
	s.KEKDue, s.CADue = s.index, s.index
}
