package buildplan

import (
	"cmp"
	"math"
	"slices"

	"berth/api"
)

// SearchLooksMax bounds the work of one Select on a request whose minima do not fit
// as they come: how often it looks at one host for one group before it stops to
// look for other ways. The first way that it tries is always tried to its end.
const SearchLooksMax = 1 << 18

// search looks for hosts with room for the given number of slots of all groups at once. It
// goes depth first, starting with the groups with the least room and the hosts of least use
// to the others. It counts with the planner, so its results keep every filter, rule and
// pool. A search that ends within the limit has tried every way to put the slots on the
// hosts, except for exchanges of equal hosts.
type search struct {
	p     *planner
	tasks []*task // by group
	need  []int64 // by group
	items [][]int // groups, by what is placed together
	free  []api.ResourceClass
	looks int
	best  []map[int]int64 // by group: slots by row, of the latest way found
	homes map[int]int     // planner.chosen of best
}

// newSearch returns a search for slots of the groups of req that want some.
func newSearch(s *Inputs, req *api.Request) *search {
	p := newPlanner(s, req)
	out := &search{p: p, tasks: make([]*task, len(req.Groups)), need: make([]int64, len(req.Groups))}
	for g := range req.Groups {
		if req.Groups[g].Count < 1 {
			continue
		}
		out.tasks[g], _ = p.findHosts(g)
		for _, a := range out.tasks[g].need {
			if !slices.Contains(out.free, a.class) {
				out.free = append(out.free, a.class)
			}
		}
	}
	for _, t := range out.tasks {
		if t != nil {
			t.look.Placed = p.placedMembers
		}
	}
	return out
}

// findWay reports whether there is room for the given number of slots of each group, and
// keeps the way it found.
func (s *search) findWay(need []int) bool {
	s.items = s.items[:0]
	for g, n := range need {
		s.need[g] = int64(n)
		if n < 1 {
			continue
		}
		b := s.p.bundles[g]
		i := slices.IndexFunc(s.items, func(o []int) bool { return b != none && s.p.bundles[o[0]] == b })
		if i < 0 {
			s.items = append(s.items, nil)
			i = len(s.items) - 1
		}
		s.items[i] = append(s.items[i], g)
	}
	space := make(map[int]int64, len(s.items)) // by the first group
	for _, groups := range s.items {
		space[groups[0]] = s.spaceFor(groups)
	}
	slices.SortStableFunc(s.items, func(a, b []int) int { return cmp.Compare(space[a[0]], space[b[0]]) })
	return s.placeFrom(0)
}

// spaceFor returns the room for an item alone: slots, or hosts for groups that share one.
func (s *search) spaceFor(groups []int) int64 {
	var sum int64
	for row := range s.tasks[groups[0]].pass.All() {
		if s.p.bundles[groups[0]] == none {
			sum += s.roomFor(groups[0], row, api.CountMax)
		} else if s.fitTogether(groups, row) {
			sum++
		}
	}
	return sum
}

// roomFor returns how many slots of a group row has room for, at most most.
func (s *search) roomFor(g, row int, most int64) int64 {
	s.looks++
	t := s.tasks[g]
	if !t.pass.Has(row) {
		return 0
	}
	most = min(most, s.p.roomFor(t, row))
	if most > 0 && s.p.drawing.Has(row) {
		most = s.p.draftRoom(t, row, most)
	}
	return max(most, 0)
}

// fitTogether reports whether all slots of some groups have room on row together.
func (s *search) fitTogether(groups []int, row int) bool {
	if len(groups) == 0 {
		return true
	}
	mark, took := s.takeSlots(groups[0], row, s.need[groups[0]])
	ok := took == s.need[groups[0]] && s.fitTogether(groups[1:], row)
	s.giveBack(groups[0], row, took, mark)
	return ok
}

// takeSlots takes at most n slots of a group on row, and returns their number.
func (s *search) takeSlots(g, row int, n int64) (mark int, took int64) {
	if s.p.draft != nil {
		mark = s.p.draft.Mark()
	}
	took = s.roomFor(g, row, n)
	if took > 0 && s.p.drawing.Has(row) {
		took = draftTake(s.p.draft, s.tasks[g].group, row, took)
	}
	s.p.putSlots(g, row, took)
	return mark, took
}

// giveBack undoes takeSlots, the latest first.
func (s *search) giveBack(g, row int, took int64, mark int) {
	if s.p.draft != nil {
		s.p.draft.Undo(mark)
	}
	s.p.putSlots(g, row, -took)
}

// placeFrom places the items from i on.
func (s *search) placeFrom(i int) bool {
	if i == len(s.items) {
		return s.acceptWay()
	}
	list, ok := s.hostsFor(i)
	if !ok {
		return false
	}
	if groups := s.items[i]; s.p.bundles[groups[0]] != none {
		return s.placeTogether(i, list)
	}
	rest := make([]int64, len(list)+1) // room of the hosts from each one on
	for j := len(list) - 1; j >= 0; j-- {
		rest[j] = rest[j+1] + list[j].room
	}
	return s.spreadSlots(i, list, rest, 0, s.need[s.items[i][0]], 0)
}

// acceptWay keeps the way found, if it can be carried out in the order of a plan.
func (s *search) acceptWay() bool {
	best := s.slotsByGroup()
	homes := map[int]int{}
	for g, b := range s.p.bundles {
		for row := range best[g] {
			if b != none {
				homes[b] = row
			}
		}
	}
	if s.p.draft != nil {
		least := make([]int, len(s.need))
		for g, n := range s.need {
			least[g] = int(n)
		}
		s.looks += len(s.need) * s.p.view.Len()
		again := newPlanner(s.p.inputs, s.p.req)
		again.quota, again.chosen = best, homes
		if _, ok := again.planMinima(least); !ok {
			return false
		}
	}
	s.best, s.homes = best, homes
	return true
}

// slotsByGroup returns the number of slots of each group on each row of the way.
func (s *search) slotsByGroup() []map[int]int64 {
	out := make([]map[int]int64, len(s.need))
	for i := range s.p.earlier {
		t := &s.p.earlier[i]
		for g, n := range t.Slots {
			if n > 0 && out[g] == nil {
				out[g] = map[int]int64{}
			}
			if n > 0 {
				out[g][t.Row] = n
			}
		}
	}
	return out
}

// candidate is a host that an item may use.
type candidate struct {
	row   int
	room  int64  // for the item alone; 1 for groups that share a host
	use   int64  // to the items after it
	state uint64 // equal for hosts that are alike for all that is still to be placed
}

// hostsFor returns the hosts that item i may use, those first that are the least use to
// the items after it; ok is false if one of these, or all together, cannot have
// what they need any more.
func (s *search) hostsFor(i int) (list []candidate, ok bool) {
	use := make([]int64, s.p.view.Rows())
	for _, groups := range s.items[i+1:] {
		if !s.addUses(groups, use) {
			return nil, false
		}
	}
	groups := s.items[i]
	var sum int64
	for row := range s.tasks[groups[0]].pass.All() {
		c := candidate{row: row, room: 1, use: use[row]}
		if s.p.bundles[groups[0]] == none {
			c.room = s.roomFor(groups[0], row, s.need[groups[0]])
		} else if !s.fitTogether(groups, row) {
			continue
		}
		if c.room > 0 {
			sum += c.room
			c.state = s.stateOf(i, row)
			list = append(list, c)
			use[row]++
		}
	}
	if len(list) == 0 || s.p.bundles[groups[0]] == none && sum < s.need[groups[0]] || !s.hasEnough(i, use) {
		return nil, false
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.use, b.use), cmp.Compare(a.room, b.room), cmp.Compare(a.state, b.state),
			cmp.Compare(s.p.view.ID(a.row), s.p.view.ID(b.row)))
	})
	return list, true
}

// addUses adds to use what each row is worth to groups that are placed later, and
// reports whether each of them, alone, could still have what it needs.
func (s *search) addUses(groups []int, use []int64) bool {
	for _, g := range groups {
		var sum int64
		for row := range s.tasks[g].pass.All() {
			if n := s.roomFor(g, row, s.need[g]); n > 0 {
				use[row] += 1 + n*1024/s.need[g]
				sum += n
			}
		}
		if sum < s.need[g] {
			return false
		}
	}
	return true
}

// hasEnough reports whether the rows that are of use have as much of each class as the
// items from i on need in all. It says so if a row draws from others.
func (s *search) hasEnough(i int, useful []int64) bool {
	for _, class := range s.free {
		var need, have int64
		for _, groups := range s.items[i:] {
			for _, g := range groups {
				need += s.need[g] * s.tasks[g].group.Resources[class]
			}
		}
		for row, n := range useful {
			if n == 0 || have >= need {
				continue
			}
			if s.p.drawing.Has(row) {
				have = need
				break
			}
			have += max(s.p.view.FreeOver(row, class, s.p.window, s.p.req.ClaimClass())-s.p.usedOf(row, class), 0)
		}
		if have < need {
			return false
		}
	}
	return true
}

// stateOf returns a number that is the same for two rows if they are alike for items i
// and later: they have the same room of each class, for the same groups. Rows that
// draw from others are like no other.
func (s *search) stateOf(i, row int) uint64 {
	const prime = 1<<40 + 0x1b3 // FNV-1a, over whole numbers
	h := uint64(0xcbf29ce484222325)
	add := func(n int64) { h = (h ^ uint64(n)) * prime; h ^= h >> 29 }
	if s.p.drawing.Has(row) {
		add(math.MinInt64)
		add(int64(row))
		return h
	}
	taken, whole := s.p.placedOn(row)
	add(whole)
	for _, class := range s.free {
		add(s.p.view.FreeOver(row, class, s.p.window, s.p.req.ClaimClass()) - s.p.usedOf(row, class))
	}
	for _, groups := range s.items[i:] {
		for _, g := range groups {
			n := int64(none)
			if t := s.tasks[g]; t.pass.Has(row) && (!t.group.Whole || taken == 0) {
				n = api.CountMax
				for f := range s.p.rooms {
					n = min(n, s.p.rooms[f].Room(t.look, row))
				}
			}
			add(n)
		}
	}
	return h
}

// spreadSlots places the slots of item i, one group, on the hosts from j on: on each as
// many as there is room for, or else fewer. before is how many the host before has.
func (s *search) spreadSlots(i int, list []candidate, rest []int64, j int, left, before int64) bool {
	if left == 0 {
		return s.placeFrom(i + 1)
	}
	if rest[j] < left {
		return false
	}
	c, g := &list[j], s.items[i][0]
	most := min(left, c.room)
	if j > 0 && list[j-1].state == c.state {
		most = min(most, before) // hosts that are alike change places for nothing
	}
	for n := most; n >= 0 && left-n <= rest[j+1]; n-- {
		mark, took := s.takeSlots(g, c.row, n)
		found := s.spreadSlots(i, list, rest, j+1, left-took, took)
		s.giveBack(g, c.row, took, mark)
		if found {
			return true
		}
		if s.looks > SearchLooksMax {
			return false
		}
		n = took
	}
	return false
}

// placeTogether places item i, groups that share a host, on one host after another.
func (s *search) placeTogether(i int, list []candidate) bool {
	for j := range list {
		if j > 0 && list[j-1].state == list[j].state {
			continue
		}
		if s.placeOn(i, s.items[i], list[j].row) {
			return true
		}
		if s.looks > SearchLooksMax {
			return false
		}
	}
	return false
}

// placeOn places some groups of item i on row, and then the items after it.
func (s *search) placeOn(i int, groups []int, row int) bool {
	if len(groups) == 0 {
		return s.placeFrom(i + 1)
	}
	mark, took := s.takeSlots(groups[0], row, s.need[groups[0]])
	found := took == s.need[groups[0]] && s.placeOn(i, groups[1:], row)
	s.giveBack(groups[0], row, took, mark)
	return found
}
