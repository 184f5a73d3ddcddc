package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// putBoot stores the record of a boot. The caller has called unlistBoot for the record
// that it replaces.
func (s *bootsBook) putBoot(b *Boot) {
	s.boots.Set(b.ID(), b)
	s.touchTopic(BootTopic(b.Request.Project, b.Request.Reservation))
	s.indexEndedBoot(b)
}

// unlistBoot removes a boot that is about to change from the index of ended boots.
func (s *bootsBook) unlistBoot(b *Boot) {
	if b.Final() {
		s.endedBoots.Delete(prunableKey(endOwn, b.Updated, b.ID()))
	}
}

// indexEndedBoot lists a boot if it has ended: it is final, and none of its holds is left. It stays listed until its
// record is stored again. A refill ends with its decision.
func (s *bootsBook) indexEndedBoot(b *Boot) {
	if b.Final() && b.Refill == 0 && !s.anyHold(b) {
		s.endedBoots.Insert(prunableKey(endOwn, b.Updated, b.ID()))
	}
}

// indexBoots lists the boots among owners that have ended.
func (s *bootsBook) indexBoots(owners []owner) {
	for _, o := range owners {
		if b, ok := s.boots.Get(s.heirOf(o.ID)); ok && o.Kind == ownerBoot {
			s.indexEndedBoot(b)
		}
	}
}

func (s *bootsBook) pruneBoots(c command.Prune) {
	for _, k := range prunableKeys(&s.endedBoots, c.Limit, cutoff{endOwn, c.Before}) {
		b, _ := s.boots.Delete(k)
		s.countRecord(b, false)
		s.endedBoots.Delete(prunableKey(endOwn, b.Updated, k))
		s.touchTopic(BootTopic(b.Request.Project, b.Request.Reservation))
		if b.Key != "" {
			s.keys.Delete(joinKey(b.Request.Project, b.Key))
		}
	}
}

func (s *bootsBook) anyHold(b *Boot) bool {
	for _, id := range b.Holds {
		if _, ok := s.holds.Get(joinKey(api.LinkID(""), id)); ok {
			return true
		}
	}
	return false
}
