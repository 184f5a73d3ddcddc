package state

import (
	"slices"

	"berth/api"
	"berth/capacity"
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
	case !slot.Whole && s.isUsed(id), s.isKept(id):
		return false
	case !s.rulesAllow(h, sl.Group, hostPlace(slot.Host)):
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
	s.promiseWithin(id, h.Request.Class, +1)
	return true
}

// takeLent claims room for one preemptible instance within a slot of a lease whose owner lends
// what he does not use.
func (s *sagaBook) takeLent(h *Hold, sl *command.Slot, slot *api.Instance) bool {
	switch {
	case !slot.Reserved || !slot.ShareIdle || slot.Host == "" || slot.Status != api.StatusActive || slot.Overdue || s.isKept(slot.ID):
		return false
	case !s.rulesAllow(h, sl.Group, hostPlace(slot.Host)):
		return false
	}
	if host, known := s.hosts.Get(string(slot.Host)); !known || !host.takesWork() {
		return false
	}
	sl.Host, sl.Within, sl.Until = slot.Host, slot.ID, slot.Window.End
	c := s.claimOfSlot(h, *sl)
	if s.hostTable.Claim(slot.Host, c) != nil {
		sl.Within, sl.Until = "", 0
		return false
	}
	s.noteDrawn(slot.Host, c, nil, +1)
	s.promiseWithin(slot.ID, h.Request.Class, +1)
	return true
}

// keepSlot takes over a slot of the request that h replaces, in place: until h is decided the
// host is charged for the old slot and the new one together, but nothing twice.
func (s *sagaBook) keepSlot(h *Hold, sl *command.Slot, lends *lending) (shares []api.Share, ok bool) {
	old, known := s.instances.Get(string(sl.Keeps))
	switch g := &h.Request.Groups[sl.Group]; {
	case !known || !old.Reserved || !old.Live() || old.Status == api.StatusDeleting || old.Overdue || s.isKept(old.ID):
		return nil, false
	case old.Status == api.StatusActive && h.Window.Start > s.now: // what has begun does not begin later
		return nil, false
	case old.Tenant() != h.Tenant() || old.Reservation != h.Request.Replaces || old.Group != g.Name:
		return nil, false
	case old.Host != sl.Host || old.Whole != g.Whole || !s.rulesAllow(h, sl.Group, hostPlace(sl.Host)):
		return nil, false
	}
	c := s.claimOfSlot(h, *sl)
	c.Resources = s.takenBy(h, sl, sl.Host)
	if !s.mayExtend(lends, old, c) {
		return nil, false
	}
	sooner := min(old.Window.End, h.Window.End)
	s.refitWithin(old.ID, old.Window.End, sooner) // what runs there must fit the new slot as well
	shares, all, err := s.hostTable.ExtendSlot(sl.Host, s.claimOf(old), old.Shares, s.claimOfSlot(h, *sl))
	if err != nil {
		s.refitWithin(old.ID, sooner, old.Window.End)
		return nil, false
	}
	if old.Whole {
		sl.Whole = all
	}
	lends.extend(old, c)
	s.noteDrawn(sl.Host, s.claimOfSlot(h, *sl), shares, +1)
	s.noteKept(old.ID, true)
	return shares, true
}

// replaceSlot makes a kept slot the new one, i: the charge of the old one ends where the new one
// does not need it.
func (s *sagaBook) replaceSlot(h *Hold, n int, i *api.Instance) {
	sl, shares := h.Slots[n], h.sharesOf(n)
	old, _ := s.instances.Get(string(sl.Keeps))
	s.noteKept(old.ID, false)
	s.shortenHolds(old.ID, h.Window.End)
	s.hostTable.ShrinkSlot(sl.Host, s.claimOf(old), old.Shares, s.claimOfSlot(h, sl), shares)
	s.refitWithin(old.ID, min(old.Window.End, h.Window.End), old.Window.End)
	s.moveHolds(old.ID, i.ID)
	s.succeedSlot(old, i)
	s.beginAdded(i)
	s.evictLent(i)
	s.bumpDrawn(sl.Host, shares)
	s.bumpDrawn(sl.Host, old.Shares)
}

// unkeepSlot leaves a kept slot as it was before h.
func (s *sagaBook) unkeepSlot(h *Hold, n int) {
	sl := h.Slots[n]
	s.ungrow(s.hostTable, h, n)
	s.noteDrawn(sl.Host, s.claimOfSlot(h, sl), h.sharesOf(n), -1)
	s.noteKept(sl.Keeps, false)
	if old, ok := s.instances.Get(string(sl.Keeps)); ok {
		s.refitWithin(old.ID, min(old.Window.End, h.Window.End), old.Window.End)
	}
	s.bumpDrawn(sl.Host, h.sharesOf(n))
}

// ungrow takes back what a kept slot needs beyond the one that it takes over.
func (s *sagaBook) ungrow(t *capacity.Table, h *Hold, n int) {
	sl := h.Slots[n]
	if old, ok := s.instances.Get(string(sl.Keeps)); ok {
		t.ShrinkSlot(sl.Host, s.claimOfSlot(h, sl), h.sharesOf(n), s.claimOf(old), old.Shares)
	}
}

// loadKept charges the host for a kept slot of a snapshot, beyond the one that it takes over.
func (s *sagaBook) loadKept(h *Hold, n int) {
	sl := h.Slots[n]
	old, ok := s.instances.Get(string(sl.Keeps))
	if !ok {
		return
	}
	s.hostTable.RestoreSlotExtension(sl.Host, s.claimOf(old), old.Shares, s.claimOfSlot(h, sl), h.sharesOf(n))
	s.noteDrawn(sl.Host, s.claimOfSlot(h, sl), h.sharesOf(n), +1)
	s.noteKept(old.ID, true)
}

// shortenHolds ends what undecided holds of preemptibles have within a slot at end at the latest:
// the slot that follows ends then.
func (s *sagaBook) shortenHolds(slot api.InstanceID, end api.Instant) {
	if !s.isPromisedLent(slot) {
		return
	}
	for _, h := range s.OpenHolds() {
		ends := *h
		ends.Slots = slices.Clone(h.Slots)
		for n, was := range h.Slots {
			if was.Within != slot || was.Until <= end {
				continue
			}
			ends.Slots[n].Until = end
			s.releaseAllocation(was.Host, s.claimOfSlot(h, was), nil)
			s.allocate(was.Host, s.claimOfSlot(h, ends.Slots[n]), nil)
		}
		s.putHold(&ends)
	}
}

// moveHolds puts the slots that undecided holds have within a slot into the one that follows
// it.
func (s *sagaBook) moveHolds(old, now api.InstanceID) {
	for _, c := range []api.Class{api.Firm, api.Preemptible} {
		promised := s.promised
		if c == api.Preemptible {
			promised = s.lent
		}
		if n, ok := promised.Get(string(old)); ok {
			s.promiseWithin(now, c, n)
			s.promiseWithin(old, c, -n)
		}
	}
	for _, h := range s.OpenHolds() {
		if !slices.ContainsFunc(h.Slots, func(sl command.Slot) bool { return sl.Within == old }) {
			continue
		}
		moved := *h
		moved.Slots = slices.Clone(h.Slots)
		for n := range moved.Slots {
			if moved.Slots[n].Within == old {
				moved.Slots[n].Within = now
			}
		}
		s.putHold(&moved)
	}
}

// isReplaced reports whether an undecided hold takes over a slot that h made.
func (s *sagaBook) isReplaced(h *Hold) bool {
	return slices.ContainsFunc(h.Slots, func(sl command.Slot) bool { return s.isKept(sl.Instance.ID) })
}
