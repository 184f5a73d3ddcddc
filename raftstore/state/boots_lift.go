package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// deleteGroup deletes a server group, lifts its rule, and has the boots that may still make holds under it remember that.
func (s *bootsBook) deleteGroup(c command.GroupDelete) Result {
	r := s.groupDelete(c)
	if r.Err != nil || !s.limits.rulesLifted {
		return r
	}
	var under []string
	eachRecordUnder(s.boots, string(c.Project)+"\x00", func(k string, b *Boot) {
		if b.mayHold() && b.Request.IsUnder(c.ID) {
			under = append(under, k)
		}
	})
	for _, k := range under {
		s.editBoot(k, func(b *Boot) { b.Lifted = append(slices.Clip(b.Lifted), c.ID) })
	}
	return r
}

// mayHold reports whether holds may still be made for a boot: it is undecided, or what is preempted of it is booted again.
func (b *Boot) mayHold() bool {
	return b.Decision == api.DecisionPending || b.Decision == api.DecisionCommit && b.Request.OnPreempt == api.PreemptRequeue
}

// missingGroups returns the server groups of a request that were deleted while it was on its way here.
func (s *bootsBook) missingGroups(r *api.Request) (missing []api.ServerGroupID) {
	if !s.limits.rulesLifted {
		return nil
	}
	for i := range r.Rules {
		if id := r.Rules[i].ID; id != "" {
			if _, ok := s.groups.Get(joinKey(r.Project, id)); !ok {
				missing = append(missing, id)
			}
		}
	}
	return missing
}

// liftedOf returns the server groups of a hold of this zone that do not bind what it makes.
func (s *bootsBook) liftedOf(c command.Hold) (lifted []api.ServerGroupID) {
	b, ok := s.boots.Get(bootKey(c.Request.Project, c.Request.Reservation, c.Refill))
	if c.Origin != "" || !ok {
		return nil
	}
	for _, id := range b.Lifted {
		if c.Request.IsUnder(id) {
			lifted = append(lifted, id)
		}
	}
	return lifted
}

// RequestNow returns what a boot asks for, without the rules that are lifted.
func (b *Boot) RequestNow() api.Request { return b.Request.Lift(b.Lifted) }
