package state

import (
	"slices"

	"berth/api"
)

// forgottenBelow is the fault of an instance that the zone which had it does not know any more.
const forgottenBelow = "its zone went back to a backup, and has forgotten it"

// tellAllAgain makes each decision due again that a child has confirmed and that may still be of use.
func (s *sagaBook) tellAllAgain(link api.LinkID) {
	for _, old := range s.holds.Values() {
		if old.Decision == api.DecisionCommit && s.hasLivePart(old, link) {
			s.tellAgain(old, link)
		}
	}
}

// hasLivePart reports whether a child has confirmed a hold of which an instance lives there.
func (s *sagaBook) hasLivePart(h *Hold, link api.LinkID) bool {
	return slices.ContainsFunc(h.Parts, func(p Part) bool {
		return p.Link == link && p.Acked && slices.ContainsFunc(p.Instances, func(pi PartInstance) bool {
			i := s.madeBy(h, pi.Spec.ID)
			return i != nil && i.Live() && i.Link == link
		})
	})
}

// tellAgain makes the decision of a hold due at a child that has confirmed it.
func (s *sagaBook) tellAgain(old *Hold, link api.LinkID) {
	h := *old
	h.Parts = slices.Clone(old.Parts)
	for i := range h.Parts {
		if p := &h.Parts[i]; p.Link == link {
			p.Acked = false
		}
	}
	s.putHold(&h)
	s.noteUntold(&h, +1)
}

// Reconciling returns the children with which this zone has to compare what both have.
func (s *sagaBook) Reconciling() []*api.Link {
	return slices.DeleteFunc(s.Children(), func(l *api.Link) bool { return l.Reconcile == 0 })
}

// OwesDecisions reports whether a child has yet to confirm a decision about a hold that was made before it had to be reconciled.
func (s *sagaBook) OwesDecisions(l *api.Link) bool {
	return slices.ContainsFunc(s.UntoldHolds(), func(h *Hold) bool { return h.Created <= l.Reconcile && !h.PartAcked(l.ID) })
}

// ConfirmedAt returns the live instances in a child that has confirmed the decision about them, by id.
func (s *sagaBook) ConfirmedAt(link api.LinkID) (ids []api.InstanceID) {
	for _, i := range s.instances.Values() {
		if i.Link != link || !i.Live() {
			continue
		}
		if h, ok := s.holds.Get(joinKey(i.Origin, i.Hold)); !ok || h.PartAcked(link) {
			ids = append(ids, i.ID)
		}
	}
	return ids
}
