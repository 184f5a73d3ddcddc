package state

import (
	"slices"

	"berth/api"
)

// dropUnpaired gives back, of the slots that a hold has just taken, those without the other one of their pair on the
// same host, the latest first: they are refused. It reports whether there were any.
func (s *sagaBook) dropUnpaired(h *Hold) (some bool) {
	if !h.Request.HasPairs() {
		return false
	}
	gone := unpairedSlots(h)
	for n := len(h.Slots) - 1; n >= 0; n-- {
		if !gone[n] {
			continue
		}
		some = true
		sl, shares := h.Slots[n], h.sharesOf(n)
		s.releaseAllocation(sl.Host, s.claimOfSlot(h, sl), shares)
		s.bumpDrawn(sl.Host, shares)
		s.countSlot(h, sl, -1)
		if sl.Within != "" {
			s.promiseWithin(sl.Within, h.Request.Class, -1)
		}
		h.Refused = append(h.Refused, sl.Instance.ID)
	}
	if some {
		h.Slots, h.Shares = keepOthers(h.Slots, gone), keepOthers(h.Shares, gone)
	}
	return some
}

// keepOthers returns a list without the items that are gone; nil if none is left.
func keepOthers[T any](list []T, gone []bool) []T {
	kept := list[:0]
	for n := range list {
		if !gone[n] {
			kept = append(kept, list[n])
		}
	}
	clear(list[len(kept):])
	if len(kept) == 0 {
		return nil // as in a state that was restored
	}
	return kept
}

// hostGroup is a group of a hold on one host.
type hostGroup struct {
	host  api.HostID
	group int
}

// unpairedSlots returns which slots of a hold are one too many on their host. It looks at each slot as often as rules
// follow from each other, at most once for each rule and once more.
func unpairedSlots(h *Hold) []bool {
	has := map[hostGroup]int{}
	for _, sl := range h.Slots {
		has[hostGroup{sl.Host, sl.Group}]++
	}
	gone := make([]bool, len(h.Slots))
	for some := true; some; {
		some = false
		for n, sl := range slices.Backward(h.Slots) {
			if mine := (hostGroup{sl.Host, sl.Group}); !gone[n] && has[mine] > pairsOn(h, has, mine) {
				gone[n], some = true, true
				has[mine]--
			}
		}
	}
	return gone
}

// pairsOn returns the number of slots that a group may have on a host: the fewest that a group paired with it has.
func pairsOn(h *Hold, has map[hostGroup]int, of hostGroup) int {
	fewest := has[of]
	for i := range h.Request.Rules {
		rule := &h.Request.Rules[i]
		if !rule.Pairs || !slices.Contains(rule.Groups, of.group) {
			continue
		}
		for _, g := range rule.Groups {
			fewest = min(fewest, has[hostGroup{of.host, g}])
		}
	}
	return fewest
}
