package state

import (
	"encoding/binary"
	"slices"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// Records that may be pruned are indexed by the time they ended, so the cost of a prune is
// proportional to what it deletes. An index has a class for each cutoff of a prune.

// endClass is for whom an ended record was made.
type endClass byte

const (
	endOwn        endClass = iota // this zone
	endAbroad                     // a parent
	endDead                       // a hold of this zone that never arrived
	endDeadAbroad                 // a hold of a parent that never arrived
)

func classOf(origin api.LinkID) endClass {
	if origin != "" {
		return endAbroad
	}
	return endOwn
}

// prunableKey orders records by class, then by end time, then by key.
func prunableKey(c endClass, ended api.Instant, key string) string {
	k := make([]byte, 0, prunableKeyHead+len(key))
	k = binary.BigEndian.AppendUint64(append(k, byte(c)), sortableInstant(ended))
	return string(append(k, key...))
}

// sortableInstant maps instants to numbers of the same order.
func sortableInstant(t api.Instant) uint64 { return uint64(t) ^ 1<<63 } //nolint:gosec // the sign bit is what it is about

const prunableKeyHead = 9 // bytes before the key of the record

// cutoff selects the records of a class that ended before a time.
type cutoff struct {
	class  endClass
	before api.Instant
}

// prunableKeys returns the keys of the records that an index lists before the cutoffs: the
// first ones by key, at most limit, in order.
func prunableKeys(index *table.Set, limit int, cutoffs ...cutoff) []string {
	if limit <= 0 {
		return nil
	}
	var first []string
	last := "" // the limit-th key so far; "" while there are fewer
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

// indexEnded lists the ended holds and boots of a snapshot. Whether a hold has ended
// depends on its boot and its instances, and whether a boot has, on its holds.
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
	s.pruneLeases(c)
	s.prunePlans(c)
	s.pruneTokens(c)
	s.dropEvents()
	if s.upload != nil && s.upload.Last.Add(uploadIdleMax) < s.now {
		s.upload = nil
	}
}
