package preempt

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"berth/api"
)

// Key names an amount: one resource class of one provider.
type Key struct {
	Provider api.HostID
	Class    api.ResourceClass
}

// Candidate is a preemptible instance that may leave.
type Candidate struct {
	ID    api.InstanceID // different from those of the others
	Gang  string         // key of the boot that it belongs to
	Start api.Instant    // since when it runs; an instant to come counts as now
	Uses  map[Key]int64  // what is free when it has left; below 0 counts as nothing
}

// Choose returns which of the candidates leave so that all that is missing is free, sorted, and
// whether they are enough. If they are not, they free as much of each key as all candidates
// together can. An amount missing of 0 or less is nothing. The order of the candidates does not matter.
func Choose(missing map[Key]int64, candidates []Candidate, now api.Instant) (leave []api.InstanceID, enough bool) {
	keys := make([]Key, 0, len(missing))
	for k, n := range missing {
		if n > 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(strings.Compare(string(a.Provider), string(b.Provider)), strings.Compare(string(a.Class), string(b.Class)))
	})
	need := make(amounts, len(keys))
	for i, k := range keys {
		need[i] = missing[k]
	}
	gangs := groupGangs(keys, candidates, now)
	enough = limitNeed(need, gangs)
	var victims []*unit
	for _, g := range dropUnneeded(need, pickGangs(need, gangs)) {
		victims = append(victims, g.members...)
	}
	for _, v := range dropUnneeded(need, victims) {
		leave = append(leave, api.InstanceID(v.name))
	}
	slices.Sort(leave)
	return leave, enough
}

// unit is a candidate, or a gang of them.
type unit struct {
	name    string // id of the candidate, or key of the gang
	frees   amounts
	lost    int64       // milliseconds of run time lost if it leaves
	start   api.Instant // of its youngest member
	members []*unit     // of a gang
	part    uint64      // of a gang: what it frees, when that was last computed
}

// compare orders units: those that leave rather than others come first.
func compare(a, b *unit) int {
	return cmp.Or(cmp.Compare(a.lost, b.lost), cmp.Compare(b.start, a.start), strings.Compare(a.name, b.name))
}

// sum returns the unit of several others.
func sum(name string, members []*unit, keys int) *unit {
	g := &unit{name: name, frees: make(amounts, keys), start: math.MinInt64, members: members}
	for _, m := range members {
		g.frees.add(m.frees)
		g.lost, g.start = addUp(g.lost, m.lost), max(g.start, m.start)
	}
	return g
}

// groupGangs returns the gangs of the candidates that free any of the keys, in no order that matters.
func groupGangs(keys []Key, candidates []Candidate, now api.Instant) []*unit {
	byGang := map[string][]*unit{}
	for i := range candidates {
		c, helps := &candidates[i], false
		frees := make(amounts, len(keys))
		for j, k := range keys {
			frees[j] = max(c.Uses[k], 0)
			helps = helps || frees[j] > 0
		}
		if helps {
			byGang[c.Gang] = append(byGang[c.Gang], &unit{name: string(c.ID), frees: frees, lost: runTime(c.Start, now), start: c.Start})
		}
	}
	gangs := make([]*unit, 0, len(byGang))
	for _, name := range slices.Sorted(maps.Keys(byGang)) {
		gangs = append(gangs, sum(name, byGang[name], len(keys)))
	}
	return gangs
}

// limitNeed lowers need to what all gangs can free, and reports whether it was not more.
func limitNeed(need amounts, gangs []*unit) (enough bool) {
	all := sum("", gangs, len(need))
	enough = all.frees.cover(need)
	for i := range need {
		need[i] = min(need[i], all.frees[i])
	}
	return enough
}

// dropUnneeded returns the units without which the others do not free what is needed. The last by
// compare are dropped first.
func dropUnneeded(need amounts, units []*unit) []*unit {
	units = slices.SortedFunc(slices.Values(units), func(a, b *unit) int { return compare(b, a) })
	rest := make([]amounts, len(units)+1) // what the units from i on free
	rest[len(units)] = make(amounts, len(need))
	for i, u := range slices.Backward(units) {
		rest[i] = slices.Clone(rest[i+1])
		rest[i].add(u.frees)
	}
	kept, frees := units[:0], make(amounts, len(need))
	for i, u := range units {
		if !frees.coverWith(rest[i+1], need) {
			kept = append(kept, u)
			frees.add(u.frees)
		}
	}
	return kept
}

// runTime returns the milliseconds from start to now, at least 0.
func runTime(start, now api.Instant) int64 {
	switch {
	case start >= now:
		return 0
	case start < 0 && now > math.MaxInt64+start:
		return math.MaxInt64
	}
	return int64(now - start)
}
