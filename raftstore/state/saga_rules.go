package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// rulesAllow reports whether the rules of a group of a hold allow one more member at a
// place.
func (s *sagaBook) rulesAllow(h *Hold, group int, at place) bool {
	for _, n := range h.Request.RulesOf(group) {
		if !s.ruleAllows(h, n, at, "", 0, 1) {
			return false
		}
	}
	return true
}

// ruleAllows reports whether one rule allows a number of members to come to a place, of which some
// leave another: they are not counted there. A child itself limits the members on each of its
// hosts. The soft policies refuse nothing.
func (s *sagaBook) ruleAllows(h *Hold, n int, at, leaves place, leaving, coming int) bool {
	rule, name, ok := &h.Request.Rules[n], h.Request.RuleKey(n), true
	switch rule.Policy {
	case api.Affinity:
		_, own := at.host()
		s.eachPlace(h.Tenant(), name, func(other place, members int) {
			if other == leaves {
				members -= leaving
			}
			_, here := other.host()
			ok = ok && (other == at || members == 0 || rule.Pairs && own && here) // of pairs see dropUnpaired
		})
	case api.AntiAffinity:
		members, _ := s.members.Get(memberKey(h.Tenant(), name, at))
		_, own := at.host()
		ok = !own || members+coming <= rule.Max
	case api.SoftAffinity, api.SoftAntiAffinity:
	}
	return ok
}

func (s *sagaBook) countSlot(h *Hold, sl command.Slot, n int) {
	s.countMembers(h.Tenant(), rulesOf(&h.Request, sl.Group), hostPlace(sl.Host), n)
}

func (s *sagaBook) countPart(h *Hold, link api.LinkID, i PartInstance, n int) {
	s.countMembers(h.Tenant(), rulesOf(&h.Request, i.Group), linkPlace(link), n)
}

// rulesOf returns the keys of the rules for a group of a request.
func rulesOf(r *api.Request, group int) []string {
	var out []string
	for _, n := range r.RulesOf(group) {
		out = append(out, r.RuleKey(n))
	}
	return out
}
