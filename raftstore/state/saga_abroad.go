package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// checkAbroad refuses a hold for another zone that is no parent, holds too much, or asks
// for what no zone does for another.
func (s *sagaBook) checkAbroad(c command.Hold) Result {
	if l, ok := s.links.Get(string(c.Origin)); !ok || l.Role != api.LinkParent {
		return refuseWith(api.CodeForbidden, "only a parent may hold slots here")
	}
	if s.isPaused(c.Origin) {
		return refuseWith(api.CodePaused, "the link takes no new work")
	}
	if err := c.Request.ValidateAbroad(s.now); err != nil {
		return Result{Err: err}
	}
	if n := s.heldFor(c.Origin); n+c.Count() > s.limits.holdsPerLink {
		return refuseWith(api.CodeOverloaded, "the parent holds %d instances without a decision; the limit is %d", n, s.limits.holdsPerLink)
	}
	return Result{}
}
