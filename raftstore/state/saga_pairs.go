package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// dropUnpaired gives back, of the slots that a hold has just taken, those without the other one of their pair on the
// same host, the latest first: they are refused. It reports whether there were any.
func (s *sagaBook) dropUnpaired(h *Hold) (some bool) {
	if !h.Request.HasPairs() {
		return false
	}
	for n := unpaired(h); n >= 0; n = unpaired(h) {
		some = true
		sl, shares := h.Slots[n], h.sharesOf(n)
		s.releaseAllocation(sl.Host, s.claimOfSlot(h, sl), shares)
		s.bumpDrawn(sl.Host, shares)
		s.countSlot(h, sl, -1)
		h.Refused = append(h.Refused, sl.Instance.ID)
		h.Slots = slices.Delete(h.Slots, n, n+1)
		if h.Shares != nil {
			h.Shares = slices.Delete(h.Shares, n, n+1)
		}
	}
	return some
}

// unpaired returns the index of the last slot of a hold that is one too many on its host, or -1.
func unpaired(h *Hold) int {
	for i := range h.Request.Rules {
		rule := &h.Request.Rules[i]
		if !rule.Pairs {
			continue
		}
		for n, sl := range slices.Backward(h.Slots) {
			if !slices.Contains(rule.Groups, sl.Group) {
				continue
			}
			mine := slotsOn(h.Slots, sl.Host, sl.Group)
			if slices.ContainsFunc(rule.Groups, func(g int) bool { return slotsOn(h.Slots, sl.Host, g) < mine }) {
				return n
			}
		}
	}
	return -1
}

// slotsOn counts the slots of a group on a host.
func slotsOn(slots []command.Slot, host api.HostID, group int) (n int) {
	for i := range slots {
		if slots[i].Host == host && slots[i].Group == group {
			n++
		}
	}
	return n
}
