package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// A server group that is deleted binds its members no more. The zone that had it knows so at once. The zones
// below learn of it with the decision on each hold, which is told again. What is made later for a boot under its rule, by another attempt or
// because it was preempted, is not bound by it either: the boot remembers.

// groupDelete deletes a server group and lifts its rule.
func (s *sagaBook) groupDelete(c command.GroupDelete) Result {
	if err := s.removeGroup(c); err != nil {
		return Result{Err: err}
	}
	t := api.Tenant{Project: c.Project}
	bound := s.boundBy(t, string(c.ID))
	if s.limits.rulesLifted {
		for _, h := range s.holdsUnder(t, c.ID, bound) {
			s.liftRules(h, []api.ServerGroupID{c.ID})
		}
		bound = s.boundBy(t, string(c.ID))
	}
	s.letGo(bound, []string{string(c.ID)})
	return Result{}
}

// holdsUnder returns the holds of a tenant of this zone under the rule of a server group that are undecided, or
// have made some of the instances in children, by key.
func (s *sagaBook) holdsUnder(t api.Tenant, group api.ServerGroupID, bound []*api.Instance) []*Hold {
	keys := s.open.Keys()
	for _, i := range bound {
		if i.Link != "" {
			keys = append(keys, joinKey(i.Origin, i.Hold))
		}
	}
	slices.Sort(keys)
	var out []*Hold
	for _, k := range slices.Compact(keys) {
		if h, ok := s.holds.Get(k); ok && h.Tenant() == t && h.Request.IsUnder(group) {
			out = append(out, h)
		}
	}
	return out
}

// liftRules ends that the rules of some server groups bind what a hold has made, or will make. Children that have
// some of it are told.
func (s *sagaBook) liftRules(old *Hold, groups []api.ServerGroupID) {
	h := *old
	h.Lifted = slices.Clip(h.Lifted)
	for _, id := range groups {
		if h.Request.IsUnder(id) && !slices.Contains(h.Lifted, id) {
			h.Lifted = append(h.Lifted, id)
		}
	}
	if len(h.Lifted) == len(old.Lifted) || h.Decision == api.DecisionAbort {
		return
	}
	if h.Decision == api.DecisionCommit {
		h.Parts = slices.Clone(h.Parts)
		s.carryOutLifts(&h)
	}
	s.putHold(&h)
	if h.Decision == api.DecisionCommit {
		s.noteUntold(&h, +1)
	}
}

// carryOutLifts lets go what a committed hold has made under rules that are lifted, and has the children that have
// some of it told. The caller stores the hold.
func (s *sagaBook) carryOutLifts(h *Hold) {
	if len(h.Lifted) == 0 {
		return
	}
	for i := range h.Parts {
		if s.hasLivePart(h, h.Parts[i].Link) {
			h.Parts[i].Acked = false
		}
	}
	rules := make([]string, len(h.Lifted))
	for n, id := range h.Lifted {
		rules[n] = string(id)
	}
	var bound []*api.Instance
	for _, id := range h.Held() {
		if i := s.madeBy(h, id); i != nil && i.Live() {
			bound = append(bound, i)
		}
	}
	s.letGo(bound, rules)
}
