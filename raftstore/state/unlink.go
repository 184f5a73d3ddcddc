package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// A link ends when nothing depends on it, or is written off: then what depends on it is given up,
// because the zone at its other end is gone for good and will confirm nothing any more.

// writtenOff is the fault of an instance whose zone was written off.
const writtenOff = "its zone was unlinked by force"

// Losses is what is given up with a link.
type Losses struct {
	Parts     int  // of holds, of which the zone has not confirmed the decision
	Instances int  // in the zone, and slots of leases there, that count as gone
	Holds     int  // of the zone, which it has not decided: aborted
	Ending    int  // instances and slots of the zone here, which must end first
	Unlinked  bool // nothing depends on the link any more, and it is deleted
}

// linkDelete deletes a link that nothing depends on.
func (s *State) linkDelete(c command.LinkDelete) Result {
	l, ok := s.links.Get(string(c.ID))
	if !ok {
		return refuseWith(api.CodeNotFound, "no such zone")
	}
	for _, i := range s.instances.Values() {
		if i.Live() && (i.Link == c.ID || i.Origin == c.ID) {
			return refuseWith(api.CodeConflict, "instances still depend on zone %q; delete them first", l.Name)
		}
	}
	for _, h := range s.holds.Values() {
		if h.dependsOn(c.ID) || s.limits.unlinked && h.isUndecidedAt(c.ID) {
			return refuseWith(api.CodeConflict, "reservations in flight still depend on zone %q; try again when they have ended", l.Name)
		}
	}
	s.endBindingsTo(c.ID)
	s.deleteLink(c.ID)
	return Result{Link: l}
}

// linkWriteOff gives up what depends on a link, and deletes the link if nothing depends on it then.
func (s *State) linkWriteOff(c command.LinkWriteOff) Result {
	l, ok := s.links.Get(string(c.ID))
	switch {
	case !ok:
		return refuseWith(api.CodeNotFound, "no such zone")
	case l.State != api.LinkPaused:
		return refuseWith(api.CodeConflict, "zone %q takes part in new work; pause it first", l.Name)
	}
	var lost Losses
	var r Result
	if l.Role == api.LinkChild {
		lost, r = s.writeOffChild(l)
	} else {
		lost, r = s.writeOffParent(l, c.EndWork)
	}
	if r.Err != nil {
		return r
	}
	if lost.Unlinked = lost.Ending == 0; lost.Unlinked {
		s.endBindingsTo(c.ID)
		s.deleteLink(c.ID)
	}
	return Result{Link: l, Losses: &lost}
}

// writeOffChild gives up what a child has, or has to confirm.
func (s *State) writeOffChild(l *api.Link) (lost Losses, r Result) {
	for _, h := range s.holds.Values() {
		if h.isUndecidedAt(l.ID) {
			return lost, refuseWith(api.CodeConflict, "reservations in flight still depend on zone %q; try again when they have ended", l.Name)
		}
	}
	for _, h := range s.UntoldHolds() {
		lost.Parts += s.writeOffParts(h, l.ID)
	}
	for _, i := range s.instances.Values() {
		if i.Link == l.ID && i.Live() {
			s.giveUpInstance(i.ID, writtenOff)
			lost.Instances++
		}
	}
	return lost, Result{}
}

// writeOffParts takes it as confirmed what a child has not confirmed of a hold, and returns in how
// many parts. What the child has made of them is written off by itself.
func (s *State) writeOffParts(old *Hold, link api.LinkID) (n int) {
	h := *old
	h.Parts = slices.Clone(old.Parts)
	for i := range h.Parts {
		if p := &h.Parts[i]; p.Link == link && !p.Acked {
			p.Acked = true
			n++
		}
	}
	if n > 0 {
		s.putHold(&h)
		s.noteUntold(&h, -1)
	}
	return n
}

// writeOffParent aborts what a parent has not decided. With endWork it requests the end of all that
// it has here, else that refuses the write-off.
func (s *State) writeOffParent(l *api.Link, endWork bool) (lost Losses, r Result) {
	if n := s.countOfOrigin(l.ID); n > 0 && !endWork {
		return lost, refuseWith(api.CodeConflict, "%d instances or slots of zone %q live here, and have to end as well: see end_work", n, l.Name)
	}
	for _, h := range s.PreparedHolds() {
		if h.Origin == l.ID {
			s.decideHold(h, api.DecisionAbort, true)
			lost.Holds++
		}
	}
	for _, i := range s.instances.Values() {
		if now, _ := s.instances.Get(string(i.ID)); now.Origin == l.ID && now.Live() && now.Status != api.StatusDeleting {
			s.requestEnd(now)
		}
	}
	lost.Ending = s.countOfOrigin(l.ID)
	return lost, Result{}
}

// countOfOrigin counts the live instances and slots of a parent.
func (s *State) countOfOrigin(origin api.LinkID) (n int) {
	for _, i := range s.instances.Values() {
		if i.Origin == origin && i.Live() {
			n++
		}
	}
	return n
}
