package state

import (
	"berth/api"
	"berth/raftstore/command"
)

func (h *Hold) endClass() endClass {
	switch {
	case !h.neverArrived():
		return classOf(h.Origin)
	case h.Origin != "":
		return endDeadAbroad
	}
	return endDead
}

// putHold stores the record of a hold.
func (s *sagaBook) putHold(h *Hold) {
	old, ok := s.holds.Set(h.Key(), h)
	if !ok {
		s.holdTexts += h.textsOf()
	}
	if ok && old.Decision != api.DecisionPending {
		s.endedHolds.Delete(prunableKey(old.endClass(), old.Updated, old.Key()))
	}
	s.indexEndedHold(h)
}

// indexEndedHold lists a hold if it has ended: it and its boot are decided, every child has
// confirmed, and none of its instances is left. It stays listed until it is stored
// again.
func (s *sagaBook) indexEndedHold(h *Hold) {
	if h.Decision == api.DecisionPending || !h.isSettled() {
		return
	}
	open := h.Origin == "" && s.undecided.Contains(h.owner().ID)
	if !open && !s.anyLeft(h) {
		s.endedHolds.Insert(prunableKey(h.endClass(), h.Updated, h.Key()))
	}
}

// indexHolds lists the holds among keys that have ended.
func (s *sagaBook) indexHolds(keys map[string]bool) {
	for k := range keys {
		if h, ok := s.holds.Get(k); ok {
			s.indexEndedHold(h)
		}
	}
}

// pruneHolds deletes holds and returns their owners.
func (s *sagaBook) pruneHolds(c command.Prune) (owners []owner) {
	cutoffs := []cutoff{
		{endOwn, c.Before},
		{endAbroad, c.BeforeAbroad},
		{endDead, max(c.Before, c.BeforeDead)},
		{endDeadAbroad, max(c.BeforeAbroad, c.BeforeDead)},
	}
	for _, k := range prunableKeys(&s.endedHolds, c.Limit, cutoffs...) {
		h, _ := s.holds.Delete(k)
		s.holdTexts -= h.textsOf()
		s.endedHolds.Delete(prunableKey(h.endClass(), h.Updated, k))
		if h.neverArrived() {
			addTally(s.tombstones, string(h.Origin), -1)
		}
		owners = append(owners, h.owner())
	}
	return owners
}

func (s *sagaBook) anyLeft(h *Hold) bool {
	for _, id := range h.Held() {
		if s.madeBy(h, id) != nil {
			return true
		}
	}
	return false
}

func (s *sagaBook) prunePlans(c command.Prune) {
	for _, k := range prunableKeys(&s.expiringPlans, c.Limit, cutoff{endOwn, c.Before}) {
		u, _ := s.plans.Delete(k)
		s.expiringPlans.Delete(prunableKey(endOwn, u.Expires, k))
	}
}
