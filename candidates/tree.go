package candidates

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"berth/api"
)

// tree is the search at one anchor. What may be chosen there are places, numbers
// in rows; wants are numbered as in search.wants.
type tree struct {
	*search
	since   int      // steps since a candidate was found
	rows    []int32  // of the tree, root first, then the sharing ones that it reaches
	own     int      // how many of rows are of the tree
	options [][]int  // by want: places that may be chosen
	order   []int    // wants, those with the fewest options first
	shows   []uint64 // by place: which demands it meets
	up      []int    // by place: the nearest ancestor among rows, -1 for none; only if there are subtrees
	rivals  []seats

	rooms     []int64 // by place and class: the most that one claim may have, or unknown
	inventory []map[api.ResourceClass]api.Inventory

	later     []uint64 // by depth: which demands what is chosen there or deeper may meet
	tiedLater []bool   // by depth: there or deeper a provider may be chosen that does not share
	again     bool     // sharing providers offer nothing that they did not offer elsewhere

	chosen []int   // by want: place, or -1
	taken  []int64 // by place and class
	met    uint64  // demands that are met
	tied   int     // how many chosen providers do not share

	key []byte // room to write one
}

// keys is a set of keys, written as bytes.
type keys map[string]struct{}

// add reports whether key was not in k before.
func (k keys) add(key []byte) bool {
	if _, had := k[string(key)]; had {
		return false
	}
	k[string(key)] = struct{}{}
	return true
}

const unknown = math.MinInt64

// searchFrom searches the tree with root row at. alone is set if it reaches no sharers.
func (t *tree) searchFrom(s *search, at int, alone bool) {
	t.search, t.since, t.met, t.tied = s, 0, 0, 0
	t.rows = append(t.rows[:0], int32(at))
	if !alone {
		t.rows = append(t.rows[:0], s.v.Tree(at)...)
	}
	t.own = len(t.rows)
	if !alone && !s.sharing.Empty() {
		t.rows = append(t.rows, s.v.Sharers(at)...)
	}
	n := len(t.rows)
	if !t.countStep(n) {
		return
	}
	t.rooms = filled(t.rooms, n*len(t.classes), unknown)
	t.taken = filled(t.taken, n*len(t.classes), 0)
	t.inventory = filled(t.inventory, n, nil)
	t.chosen = filled(t.chosen, len(t.wants), -1)
	if t.findOptions() && t.prepareChoice() {
		t.descendFrom(0)
	}
}

// filled returns a slice of n times x, in the room of old if there is enough.
func filled[T any](old []T, n int, x T) []T {
	old = slices.Grow(old[:0], n)[:n]
	for i := range old {
		old[i] = x
	}
	return old
}

// findOptions finds the options of each want, and reports whether every want has one.
func (t *tree) findOptions() bool {
	for len(t.options) < len(t.wants) {
		t.options = append(t.options, nil)
	}
	for i := range t.wants {
		t.options[i] = t.options[i][:0]
		for place, row := range t.rows {
			if t.wants[i].rows.Has(int(row)) && t.mayChoose(i, place) {
				t.options[i] = append(t.options[i], place)
			}
		}
		if len(t.options[i]) == 0 {
			return false
		}
	}
	return true
}

// mayChoose reports whether one of the rows of a want may be chosen at this anchor.
func (t *tree) mayChoose(i, place int) bool {
	if t.wants[i].group != t.free || t.isMember == nil || t.isMember(int(t.rows[place])) {
		return true
	}
	return place < t.own && t.isMember(int(t.rows[0])) // the root is a member for its tree
}

// roomAt returns the largest claim of a class that a provider has room for.
func (t *tree) roomAt(place, class int) int64 {
	at := &t.rooms[place*len(t.classes)+class]
	if *at == unknown {
		row, name := int(t.rows[place]), t.classes[class]
		if t.inventory[place] == nil {
			t.inventory[place] = t.v.Spec(row).Inventory
		}
		*at = min(t.v.FreeNow(row, name), t.v.FreeFromNow(row, name), t.inventory[place][name].Normal().MaxUnit)
	}
	return *at
}

// prepareChoice prepares the choice, and reports whether there may be a candidate.
func (t *tree) prepareChoice() bool {
	t.order = t.order[:0]
	for i := range t.wants {
		t.order = append(t.order, i)
	}
	slices.SortStableFunc(t.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(t.options[a]), len(t.options[b])), cmp.Compare(t.wants[b].most, t.wants[a].most))
	})
	t.noteDemands()
	if t.hasUnmet(0, 0) {
		return false
	}
	if t.again = !t.sharing.Empty() && t.wasSearched(); t.again && !t.tiedLater[0] {
		return false
	}
	if len(t.subtrees) > 0 {
		t.findAncestors()
	}
	t.rivals = t.rivals[:0]
	for _, r := range t.rivalries {
		if !t.seatRivals(r) {
			return false
		}
	}
	return true
}

// noteDemands records which demands can be met at which depth, and where a provider that
// does not share can still be chosen.
func (t *tree) noteDemands() {
	t.shows = filled(t.shows, len(t.rows), 0)
	t.later = filled(t.later, len(t.wants)+1, 0)
	t.tiedLater = filled(t.tiedLater, len(t.wants)+1, false)
	for depth := len(t.order) - 1; depth >= 0; depth-- {
		i := t.order[depth]
		t.later[depth], t.tiedLater[depth] = t.later[depth+1], t.tiedLater[depth+1]
		for _, place := range t.options[i] {
			t.tiedLater[depth] = t.tiedLater[depth] || !t.isSharing(place)
			if t.wants[i].group == t.free && len(t.having) > 0 {
				t.shows[place] = t.demandsMetBy(place)
				t.later[depth] |= t.shows[place]
			}
		}
	}
}

// demandsMetBy returns which demands the traits of a provider meet.
func (t *tree) demandsMetBy(place int) uint64 {
	var out uint64
	for k := range t.having {
		if t.having[k].Has(int(t.rows[place])) {
			out |= 1 << k
		}
	}
	return out
}

// hasUnmet reports whether a demand can be met neither by met nor by a choice at depth or
// deeper.
func (t *tree) hasUnmet(met uint64, depth int) bool {
	return bits.OnesCount64(met|t.later[depth]) < len(t.having)
}

func (t *tree) isSharing(place int) bool { return t.sharing.Has(int(t.rows[place])) }

// wasSearched reports whether another tree was searched for which sharing providers
// offered the same. Candidates of sharing providers alone depend on nothing else,
// so they have been given then.
func (t *tree) wasSearched() bool {
	t.key = t.key[:0]
	for i := range t.wants {
		for _, place := range t.options[i] {
			if t.isSharing(place) {
				t.key = binary.AppendUvarint(t.key, uint64(t.rows[place])+1)
			}
		}
		t.key = append(t.key, 0)
	}
	return !t.offered.add(t.key)
}

// findAncestors finds the nearest ancestor of each place.
func (t *tree) findAncestors() {
	places := make(map[int32]int, len(t.rows))
	for place, row := range t.rows {
		places[row] = place
	}
	t.up = filled(t.up, len(t.rows), -1)
	for place, row := range t.rows {
		for at := t.v.Parent(int(row)); at >= 0 && t.up[place] < 0; at = t.v.Parent(at) {
			if above, found := places[int32(at)]; found {
				t.up[place] = above
			}
		}
	}
}

// isAncestor reports whether place a is b, or an ancestor of it.
func (t *tree) isAncestor(a, b int) bool {
	for ; b >= 0; b = t.up[b] {
		if a == b {
			return true
		}
	}
	return false
}
