package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// A zone that was brought back from a backup has forgotten what happened since, and the zones that it is linked with have
// not. The parent of a link puts that right, whichever of the two was brought back: it tells the child its decisions again, and then
// compares the instances that both have. What the parent does not know ends in the child, and what the child does not know is
// gone.

// linkRelink accepts a later incarnation of a linked zone.
func (s *State) linkRelink(c command.LinkRelink) Result {
	old, ok := s.links.Get(string(c.ID))
	switch {
	case !ok:
		return refuseWith(api.CodeNotFound, "no such zone")
	case c.Incarnation > api.IncarnationMax:
		return refuseWith(api.CodeInvalid, "an incarnation is at most %d", api.IncarnationMax)
	case c.Incarnation <= old.Incarnation:
		return refuseWith(api.CodeConflict, "incarnation %d of zone %q was accepted already", old.Incarnation, old.Name)
	}
	if len(c.Endpoints) > 0 {
		if err := api.CheckGateways(c.Endpoints); err != nil {
			return Result{Err: err}
		}
	}
	l := *old
	l.Incarnation, l.Updated = c.Incarnation, s.now
	if len(c.Endpoints) > 0 {
		l.Endpoints = c.Endpoints
	}
	s.links.Set(string(l.ID), &l)
	if l.Role == api.LinkChild {
		s.beginReconcile(&l)
	}
	now, _ := s.links.Get(string(l.ID))
	return Result{Link: now}
}

// linkReconciled ends instances that a child has forgotten.
func (s *State) linkReconciled(c command.LinkReconciled) Result {
	l, ok := s.links.Get(string(c.ID))
	switch {
	case !ok:
		return refuseWith(api.CodeNotFound, "no such zone")
	case len(c.Gone) > command.ReconcileGoneMax:
		return refuseWith(api.CodeInvalid, "at most %d instances are ended at once, got %d", command.ReconcileGoneMax, len(c.Gone))
	case l.Reconcile == 0 || l.Reconcile != c.Since:
		return refuseWith(api.CodeConflict, "zone %q was reconciled, or brought back again", l.Name)
	}
	for _, id := range c.Gone {
		if i, ok := s.instances.Get(string(id)); ok && i.Link == c.ID && i.Live() {
			s.giveUpInstance(i.ID, forgottenBelow)
		}
	}
	if c.Done {
		cp := *l
		cp.Reconcile = 0
		s.links.Set(string(cp.ID), &cp)
		l = &cp
	}
	return Result{Link: l}
}
