package state

import (
	"encoding/binary"
	"slices"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// What may be pruned is listed in indexes by when it ended, so that a prune costs
// what it deletes. An index has a class for each cutoff that a prune may have.

// endClass is for whom something was made that has ended.
type endClass byte

const (
	endOwn        endClass = iota // this zone
	endAbroad                     // a parent
	endDead                       // a hold of this zone that never came
	endDeadAbroad                 // a hold of a parent that never came
)

func classOf(origin api.LinkID) endClass {
	if origin != "" {
		return endAbroad
	}
	return endOwn
}

func (h *Hold) endClass() endClass {
	switch {
	case !h.neverCame():
		return classOf(h.Origin)
	case h.Origin != "":
		return endDeadAbroad
	}
	return endDead
}

// prunableKey orders records by class, then by when they ended, then by key.
func prunableKey(c endClass, ended api.Instant, key string) string {
	k := make([]byte, 0, prunableKeyHead+len(key))
	k = binary.BigEndian.AppendUint64(append(k, byte(c)), sortableInstant(ended))
	return string(append(k, key...))
}

// sortableInstant returns a number that is ordered as an instant is.
func sortableInstant(t api.Instant) uint64 { return uint64(t) ^ 1<<63 } //nolint:gosec // the sign bit is what it is about

const prunableKeyHead = 9 // bytes before the key of the record

// cutoff is before when what is of a class must have ended.
type cutoff struct {
	class  endClass
	before api.Instant
}

// prunableKeys returns what an index lists before some cutoffs: the first keys of
// records, at most limit, in order.
func prunableKeys(index *table.Set, limit int, cutoffs ...cutoff) []string {
	if limit <= 0 {
		return nil
	}
	var first []string
	last := "" // there are limit keys up to this one; "" before there are so many
	for _, c := range cutoffs {
		end := prunableKey(c.class, c.before, "")
		index.Ascend(string([]byte{byte(c.class)}), func(k string) bool {
			if k >= end {
				return false
			}
			if k = k[prunableKeyHead:]; last == "" || k < last {
				first = append(first, k)
			}
			if len(first) >= 2*limit {
				slices.Sort(first)
				first = first[:limit]
				last = first[limit-1]
			}
			return true
		})
	}
	slices.Sort(first)
	return first[:min(len(first), limit)]
}

// indexEndedInstance keeps the index of DELETED instances in step: i replaces old,
// and either may be nil.
func (s *workBook) indexEndedInstance(old, i *api.Instance) {
	if old != nil && !old.Live() {
		s.endedInstances.Delete(prunableKey(classOf(old.Origin), old.Updated, string(old.ID)))
	}
	if i != nil && !i.Live() {
		s.endedInstances.Insert(prunableKey(classOf(i.Origin), i.Updated, string(i.ID)))
	}
}

// putHold stores the record of a hold.
func (s *sagaBook) putHold(h *Hold) {
	if old, ok := s.holds.Set(h.Key(), h); ok && old.Decision != api.DecisionPending {
		s.endedHolds.Delete(prunableKey(old.endClass(), old.Updated, old.Key()))
	}
	s.indexEndedHold(h)
}

// indexEndedHold lists a hold if it has ended: it is decided, its boot too, every child
// has confirmed, and no instance of it is left. What has ended stays so until the hold
// is stored again.
func (s *sagaBook) indexEndedHold(h *Hold) {
	if h.Decision == api.DecisionPending || !h.isSettled() {
		return
	}
	open := h.Origin == "" && s.undecided.Contains(joinKey(h.Request.Project, h.Request.Reservation))
	if !open && !s.anyLeft(h) {
		s.endedHolds.Insert(prunableKey(h.endClass(), h.Updated, h.Key()))
	}
}

// putBoot stores the record of a boot.
func (s *bootsBook) putBoot(b *Boot) {
	if old, ok := s.boots.Set(b.ID(), b); ok && old.Final() {
		s.endedBoots.Delete(prunableKey(endOwn, old.Updated, old.ID()))
	}
	s.touchTopic(BootTopic(b.Request.Project, b.Request.Reservation))
	s.indexEndedBoot(b)
}

// indexEndedBoot lists a boot if it has ended: nothing of it is left to be done, and no
// hold of it is left. What has ended stays so until the boot is stored again.
func (s *bootsBook) indexEndedBoot(b *Boot) {
	if b.Final() && !s.anyHold(b) {
		s.endedBoots.Insert(prunableKey(endOwn, b.Updated, b.ID()))
	}
}

// putPlan notes that a plan is used up.
func (s *sagaBook) putPlan(id string, u planUse) {
	if old, ok := s.plans.Set(id, u); ok {
		s.expiringPlans.Delete(prunableKey(endOwn, old.Expires, id))
	}
	s.expiringPlans.Insert(prunableKey(endOwn, u.Expires, id))
}

// indexEnded lists the holds and boots of a snapshot that have ended. Whether a hold
// has depends on its boot and its instances, and a boot on its holds.
func (s *State) indexEnded() {
	s.holds.Scan(func(_ string, h *Hold) bool {
		s.indexEndedHold(h)
		return true
	})
	s.boots.Scan(func(_ string, b *Boot) bool {
		s.indexEndedBoot(b)
		return true
	})
}

// pruneRecords deletes what ended before a time, at most c.Limit of each table.
func (s *State) pruneRecords(c command.Prune) {
	s.indexHolds(s.pruneInstances(c))
	s.indexBoots(s.pruneHolds(c))
	s.pruneBoots(c)
	s.prunePlans(c)
	s.pruneTokens(c)
	s.dropEvents()
	if s.upload != nil && s.upload.Last.Add(uploadIdleMax) < s.now {
		s.upload = nil
	}
}

// pruneTokens deletes join tokens and tokens that have expired. There are at most
// limits.tokens of each.
func (s *membersBook) pruneTokens(c command.Prune) {
	for _, k := range firstKeys(&s.joins, c.Limit, func(t *api.JoinToken) bool { return t.Expires < c.Before }) {
		s.joins.Delete(k)
	}
	for _, k := range firstKeys(&s.tokens, c.Limit, func(t *api.Token) bool { return t.Expires < c.Before }) {
		s.tokens.Delete(k)
	}
}

// pruneInstances deletes instances, and returns the keys of the holds that made them.
func (s *workBook) pruneInstances(c command.Prune) map[string]bool {
	bereft := map[string]bool{}
	for _, id := range prunableKeys(&s.endedInstances, c.Limit, cutoff{endOwn, c.Before}, cutoff{endAbroad, c.BeforeAbroad}) {
		i, _ := s.instances.Delete(id)
		s.indexEndedInstance(i, nil)
		s.byTenant.Delete(joinKey(tenantKey(i.Tenant()), i.ID))
		s.byRes.Delete(resKey(i.Tenant(), i.Reservation) + string(i.ID))
		if i.Origin != "" {
			s.changes.Delete(changeKey(i.Origin, i.ModIndex, i.ID))
			s.touchTopic(ChangesTopic(i.Origin))
		}
		bereft[joinKey(i.Origin, i.Hold)] = true
	}
	return bereft
}

// indexHolds lists those of some holds that have ended.
func (s *sagaBook) indexHolds(keys map[string]bool) {
	for k := range keys {
		if h, ok := s.holds.Get(k); ok {
			s.indexEndedHold(h)
		}
	}
}

// pruneHolds deletes holds, and returns whose they were.
func (s *sagaBook) pruneHolds(c command.Prune) (owners []Owner) {
	cutoffs := []cutoff{
		{endOwn, c.Before},
		{endAbroad, c.BeforeAbroad},
		{endDead, max(c.Before, c.BeforeDead)},
		{endDeadAbroad, max(c.BeforeAbroad, c.BeforeDead)},
	}
	for _, k := range prunableKeys(&s.endedHolds, c.Limit, cutoffs...) {
		h, _ := s.holds.Delete(k)
		s.endedHolds.Delete(prunableKey(h.endClass(), h.Updated, k))
		if h.neverCame() {
			addTally(&s.tombstones, string(h.Origin), -1)
		}
		owners = append(owners, h.Owner())
	}
	return owners
}

func (s *sagaBook) prunePlans(c command.Prune) {
	for _, k := range prunableKeys(&s.expiringPlans, c.Limit, cutoff{endOwn, c.Before}) {
		u, _ := s.plans.Delete(k)
		s.expiringPlans.Delete(prunableKey(endOwn, u.Expires, k))
	}
}

// indexBoots lists those of some owners that are boots which have ended.
func (s *bootsBook) indexBoots(owners []Owner) {
	for _, o := range owners {
		if b, ok := s.boots.Get(o.ID); ok && o.Kind == OwnerBoot {
			s.indexEndedBoot(b)
		}
	}
}

func (s *bootsBook) pruneBoots(c command.Prune) {
	for _, k := range prunableKeys(&s.endedBoots, c.Limit, cutoff{endOwn, c.Before}) {
		b, _ := s.boots.Delete(k)
		s.endedBoots.Delete(prunableKey(endOwn, b.Updated, k))
		s.touchTopic(BootTopic(b.Request.Project, b.Request.Reservation))
		if b.Key != "" {
			s.keys.Delete(joinKey(b.Request.Project, b.Key))
		}
	}
}

func (s *sagaBook) anyLeft(h *Hold) bool {
	for _, id := range h.Held() {
		if s.madeBy(h, id) != nil {
			return true
		}
	}
	return false
}

func (s *bootsBook) anyHold(b *Boot) bool {
	for _, id := range b.Holds {
		if _, ok := s.holds.Get(joinKey(api.LinkID(""), id)); ok {
			return true
		}
	}
	return false
}

func firstKeys[V any](t *table.Map[V], limit int, ok func(V) bool) []string {
	var out []string
	t.Scan(func(k string, v V) bool {
		if ok(v) && len(out) < limit {
			out = append(out, k)
		}
		return len(out) < limit
	})
	return out
}
