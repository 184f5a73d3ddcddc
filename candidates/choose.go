package candidates

import (
	"encoding/binary"
	"slices"

	"berth/api"
)

// descendFrom tries every option of the want at depth, and below each all remaining wants.
// It returns false if the search of this tree is over.
func (t *tree) descendFrom(depth int) bool {
	if depth == len(t.order) {
		return t.giveCandidate()
	}
	i := t.order[depth]
	met := t.met
	for _, place := range t.options[i] {
		if !t.countStep(1) {
			return false
		}
		if !t.isAllowed(i, place, depth) || !t.takePlace(i, place) {
			continue
		}
		more := t.descendFrom(depth + 1)
		t.dropPlace(i, place)
		t.met = met
		if !more {
			return false
		}
	}
	return true
}

// isAllowed reports whether place may be chosen for want i besides the places chosen so
// far, by the rules that depend on those alone.
func (t *tree) isAllowed(i, place, depth int) bool {
	w := &t.wants[i]
	for _, a := range w.amounts {
		if sum := t.taken[place*len(t.classes)+a.class] + a.n; sum > a.n && sum > t.roomAt(place, a.class) {
			return false
		}
	}
	switch {
	case t.again && t.tied == 0 && t.isSharing(place) && !t.tiedLater[depth+1]:
		return false
	case w.group == t.free && t.hasUnmet(t.met|t.shows[place], depth+1):
		return false
	case t.q.Flat && !t.isAlone(place):
		return false
	}
	t.chosen[i] = place
	ok := true
	for _, list := range t.subtrees {
		ok = ok && (!slices.Contains(list, i) || t.haveCommonAncestor(list))
	}
	t.chosen[i] = -1
	return ok
}

// isAlone reports whether no other provider of the tree of the one at place is
// chosen.
func (t *tree) isAlone(place int) bool {
	for _, other := range t.chosen {
		if other >= 0 && other != place && t.rootOf[t.rows[other]] == t.rootOf[t.rows[place]] {
			return false
		}
	}
	return true
}

// haveCommonAncestor reports whether one of the places for the wants in list can be above all
// of them: one that is chosen, or one that may be chosen yet.
func (t *tree) haveCommonAncestor(list []int) bool {
	top := -1
	for _, i := range list {
		if at := t.chosen[i]; at >= 0 && (top < 0 || t.isAncestor(at, top)) {
			top = at
		}
	}
	if t.aboveAll(top, list) {
		return true
	}
	for _, i := range list {
		if t.chosen[i] >= 0 {
			continue
		}
		for _, at := range t.options[i] {
			if t.aboveAll(at, list) {
				return true
			}
		}
	}
	return false
}

// aboveAll reports whether place is above all places that are chosen for list.
func (t *tree) aboveAll(place int, list []int) bool {
	for _, i := range list {
		t.spendWork(1)
		if t.chosen[i] >= 0 && !t.isAncestor(place, t.chosen[i]) {
			return false
		}
	}
	return true
}

// takePlace chooses place for want i, unless its rivals could then not all be served.
func (t *tree) takePlace(i, place int) bool {
	for k := range t.rivals {
		if !t.rivals[k].fixAt(i, place) {
			for k--; k >= 0; k-- {
				t.rivals[k].loosenWant(i)
			}
			return false
		}
	}
	t.countTaken(i, place, 1)
	t.chosen[i] = place
	if t.wants[i].group == t.free {
		t.met |= t.shows[place]
	}
	return true
}

// dropPlace undoes takePlace, except for the demands that are met.
func (t *tree) dropPlace(i, place int) {
	for k := range t.rivals {
		t.rivals[k].loosenWant(i)
	}
	t.countTaken(i, place, -1)
	t.chosen[i] = -1
}

// countTaken adds sign times want i to the amounts taken at place.
func (t *tree) countTaken(i, place, sign int) {
	w := &t.wants[i]
	for _, a := range w.amounts {
		t.taken[place*len(t.classes)+a.class] += int64(sign) * a.n
	}
	if !t.isSharing(place) {
		t.tied += sign
	}
}

// giveCandidate yields the chosen candidate, unless the units forbid a sum or it was yielded
// before. It returns false if the caller wants no more.
func (t *tree) giveCandidate() bool {
	for i := range t.wants {
		for _, a := range t.wants[i].amounts {
			sum := t.taken[t.chosen[i]*len(t.classes)+a.class]
			if sum > a.n && !t.inventory[t.chosen[i]][t.classes[a.class]].Admits(sum) {
				return true
			}
		}
	}
	if t.tied == 0 {
		t.key = t.key[:0]
		for _, place := range t.chosen {
			t.key = binary.AppendUvarint(t.key, uint64(t.rows[place]))
		}
		if !t.given.add(t.key) {
			return true
		}
	}
	return t.yieldCandidate(Candidate{Parts: t.parts()})
}

// parts returns the chosen parts, in order of groups and then of places.
func (t *tree) parts() []Part {
	out := make([]Part, 0, len(t.wants))
	for i := range t.wants {
		if t.wants[i].group != t.free {
			out = append(out, t.part(i, t.q.Groups[t.wants[i].group].Resources))
			continue
		}
		if i > 0 && t.wants[i-1].group == t.free {
			continue // its first want has dealt with the whole group
		}
		out = append(out, t.spreadParts(i)...)
	}
	return out
}

func (t *tree) part(i int, r api.Resources) Part {
	return Part{Group: t.wants[i].group, Row: int(t.rows[t.chosen[i]]), Resources: r}
}

// spreadParts returns the parts of the group without a suffix; its first want is
// first.
func (t *tree) spreadParts(first int) []Part {
	whole := t.q.Groups[t.free].Resources
	wants := make([]int, len(whole))
	for k := range wants {
		wants[k] = first + k
	}
	slices.SortStableFunc(wants, func(a, b int) int { return t.chosen[a] - t.chosen[b] })
	if t.chosen[wants[0]] == t.chosen[wants[len(wants)-1]] {
		return []Part{t.part(first, whole)}
	}
	var out []Part
	for k, i := range wants {
		if k == 0 || t.chosen[i] != t.chosen[wants[k-1]] {
			out = append(out, t.part(i, api.Resources{}))
		}
		a := t.wants[i].amounts[0]
		out[len(out)-1].Resources[t.classes[a.class]] = a.n
	}
	return out
}
