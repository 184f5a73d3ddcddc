package capacity

import (
	"cmp"
	"slices"

	"berth/api"
)

// edge is a change of use at one instant: the sum of claims that start less the sum of those
// that end, so ends count before starts.
type edge struct {
	at                 api.Instant
	class              int   // interned
	firm, pre, closing int64 // amounts; negative where more ends than starts
}

// timeline is the known changes of use on one host after now, ordered by (at, class), at
// most one edge for each. Use at now is in the columns. Views share timelines: they are
// replaced, never written in place.
type timeline []edge

// withEdge returns a copy of t with e added to it.
func (t timeline) withEdge(e edge) timeline {
	i, found := slices.BinarySearchFunc(t, e, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.class, b.class))
	})
	if !found {
		return slices.Insert(slices.Clip(t), i, e)
	}
	e.firm += t[i].firm
	e.pre += t[i].pre
	e.closing += t[i].closing
	out := slices.Clone(t)
	if e.firm == 0 && e.pre == 0 && e.closing == 0 {
		return slices.Delete(out, i, i+1)
	}
	out[i] = e
	return out
}

// peakUse returns the highest firm use of class over [start, end), given the use
// now. Edges at end and later do not count; start is now or later.
func (t timeline) peakUse(class int, use int64, start, end api.Instant) int64 {
	high, begun := use, false
	for _, e := range t {
		if e.at >= end {
			break
		}
		if e.class != class {
			continue
		}
		if e.at > start && !begun {
			high, begun = use, true // the level that start finds
		}
		use += e.firm
		if begun {
			high = max(high, use)
		}
	}
	if !begun {
		return use
	}
	return high
}

// nextEdge returns the instant of the first edge, Forever if there is none.
func (t timeline) nextEdge() api.Instant {
	if len(t) == 0 {
		return api.Forever
	}
	return t[0].at
}
