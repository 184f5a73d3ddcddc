package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// windowWithin returns the window of a hold within a reservation: it ends with the
// reservation, if not before.
func (s *sagaBook) windowWithin(h *Hold) api.Window {
	w := h.Window
	for _, slot := range s.SlotsOf(h.Origin, h.Request.Within) {
		w.End = min(w.End, slot.Window.End)
	}
	return w
}

// takeWithin claims room for one instance within a slot of a lease. A slot for an instance
// takes one; a whole host takes what fits.
func (s *sagaBook) takeWithin(h *Hold, sl *command.Slot, id api.InstanceID) bool {
	slot, ok := s.instances.Get(string(id))
	switch {
	case !ok || !slot.Reserved || slot.Status != api.StatusActive || slot.Overdue:
		return false
	case slot.Origin != h.Origin || slot.Group != string(h.Request.Within) || !mayUse(slot, h.Request.Project):
		return false
	case !slot.Whole && s.isOccupied(id):
		return false
	case !s.rulesAllow(h, sl.Group, hostPlace(slot.Host), ""):
		return false
	}
	host, known := s.hosts.Get(string(slot.Host))
	if !known || !host.takesWork() {
		return false
	}
	sl.Host, sl.Within = slot.Host, id
	c := s.claimOfSlot(h, *sl)
	if s.hostTable.Claim(slot.Host, c) != nil {
		sl.Within = ""
		return false
	}
	s.noteDrawn(slot.Host, c, nil, +1)
	s.promiseWithin(id, +1)
	return true
}
