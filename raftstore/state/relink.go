package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// A zone that went back to a backup has forgotten what happened since, and the zones that it is linked with have
// not. The parent of a link puts that right, whichever of the two was brought back: it tells the child its decisions again, and then
// compares the instances that both have. What the parent does not know ends in the child, and what the child does not know is
// gone.

// linkRelink accepts a later incarnation of a linked zone.
func (s *State) linkRelink(c command.LinkRelink) Result {
	old, ok := s.links.Get(string(c.ID))
	switch {
	case !ok:
		return refuseWith(api.CodeNotFound, "no such zone")
	case c.Incarnation > s.limits.incarnation:
		return refuseWith(api.CodeInvalid, "an incarnation is at most %d", s.limits.incarnation)
	case c.Incarnation <= old.Incarnation:
		return refuseWith(api.CodeConflict, "incarnation %d of zone %q was accepted already", old.Incarnation, old.Name)
	}
	if len(c.Endpoints) > 0 {
		if err := api.CheckGateways(c.Endpoints); err != nil {
			return Result{Err: err}
		}
	}
	s.acceptIncarnation(old, c)
	if old.Role == api.LinkChild {
		s.beginReconcile(old.ID)
	}
	l, _ := s.Link(c.ID)
	return Result{Link: l}
}

// beginReconcile makes what this zone and a child have agreed due again: each decision that may still be of use is told anew, and
// the changes of the child are followed from their beginning. Instances are compared when that is done.
func (s *State) beginReconcile(id api.LinkID) {
	s.noteReconciling(id, max(s.now, 1))
	s.touchTopic(dueTopic(DueFollows, string(id)))
	s.tellAllAgain(id)
}

// undecidedThen is why a boot fails that was undecided in a backup.
const undecidedThen = "its zone went back to a backup of a moment at which it was not decided; what came of it since is given up"

// settleBackup deals with what this zone may have done since the backup that it went back to. Boots and orders that the backup has as
// undecided fail: they may have been placed since, so that their instances, which have ids, would be in two places if they were
// placed now. Children have what was done since, and are compared.
func (s *State) settleBackup() {
	for _, b := range s.UndecidedBoots() {
		s.decideBoot(b, api.DecisionAbort, api.CodeUnavailable, undecidedThen)
	}
	for _, l := range s.Children() {
		s.beginReconcile(l.ID)
	}
}

// linkRestored notes that a child went back to a backup, and has forgotten what was agreed with it since; or that it never did, where it
// said so: nobody knows what it has done meanwhile.
func (s *State) linkRestored(c command.LinkRestored) Result {
	old, ok := s.links.Get(string(c.ID))
	switch {
	case !ok:
		return refuseWith(api.CodeNotFound, "no such zone")
	case old.Role != api.LinkChild:
		return refuseWith(api.CodeInvalid, "a parent is not compared")
	case c.Was == 0 && c.Restored <= old.Restored:
		return refuseWith(api.CodeConflict, "it is noted already that zone %q went back to a backup", old.Name)
	case c.Was != 0 && (c.Was != old.Restored || c.Restored >= c.Was):
		return refuseWith(api.CodeConflict, "it is noted already which restore zone %q took back", old.Name)
	}
	s.noteRestored(old, c.Restored)
	s.beginReconcile(old.ID)
	l, _ := s.Link(c.ID)
	return Result{Link: l}
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
		s.noteReconciled(l)
		l, _ = s.Link(c.ID)
	}
	return Result{Link: l}
}
