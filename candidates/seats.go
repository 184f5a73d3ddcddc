package candidates

import (
	"math"
	"slices"
)

// seats looks ahead for wants that compete: for one class, or under isolation for
// providers. Each place has room for so many of them, whichever they are. It holds
// a full assignment that respects all that is chosen, so a choice after which
// some want would have no seat is refused at once. That is the matching of Kuhn
// (Naval Research Logistics Quarterly 2, 1955) with several seats at a place: one
// augmenting path for each choice.
type seats struct {
	t     *tree
	in    []bool  // by want: it competes
	room  []int64 // by place: seats
	at    []int   // by want: its place, or -1
	fixed []bool  // by want: it is chosen and may not move
	by    [][]int // by place: who sits there
	seen  []int   // by place: the last search that came by
	tour  int     // the number of the search
}

// rivalry is a list of two or more wants that compete.
type rivalry struct {
	wants []int
	class int   // for which they compete; -1 for providers that they may not share
	least int64 // the least amount that one of them wants
}

// findRivals lists all rivalries.
func (s *search) findRivals() {
	alone := rivalry{class: -1}
	for i := range s.wants {
		if s.q.Isolate && s.wants[i].group != s.free {
			alone.wants = append(alone.wants, i)
		}
	}
	s.rivalries = append(s.rivalries, alone)
	for class := range s.classes {
		r := rivalry{class: class, least: math.MaxInt64}
		for i := range s.wants {
			for _, a := range s.wants[i].amounts {
				if a.class == class {
					r.wants, r.least = append(r.wants, i), min(r.least, a.n)
				}
			}
		}
		s.rivalries = append(s.rivalries, r)
	}
	s.rivalries = slices.DeleteFunc(s.rivalries, func(r rivalry) bool { return len(r.wants) < 2 })
}

// seatRivals sets up a rivalry, and reports whether it can be resolved.
func (t *tree) seatRivals(r rivalry) bool {
	n := len(t.rows)
	s := seats{
		t: t, in: make([]bool, len(t.wants)), at: filled([]int(nil), len(t.wants), -1), fixed: make([]bool, len(t.wants)),
		room: filled([]int64(nil), n, unknown), by: make([][]int, n), seen: make([]int, n),
	}
	for _, i := range r.wants {
		s.in[i] = true
		for _, place := range t.options[i] {
			switch {
			case s.room[place] != unknown:
			case r.class < 0:
				s.room[place] = 1
			default:
				s.room[place] = t.roomAt(place, r.class) / r.least
			}
		}
	}
	for _, i := range r.wants {
		if s.tour++; !s.findSeat(i) {
			return false
		}
	}
	t.rivals = append(t.rivals, s)
	return true
}

// findSeat gives want i a place, moving others that are not fixed if it must. If it
// cannot, nothing has changed.
func (s *seats) findSeat(i int) bool {
	for _, place := range s.t.options[i] {
		s.t.spendWork(1)
		if s.seen[place] != s.tour && s.settleAt(i, place) {
			return true
		}
	}
	return false
}

// settleAt puts want i, which sits nowhere, at place, if there is room or somebody
// can move.
func (s *seats) settleAt(i, place int) bool {
	s.seen[place] = s.tour
	if int64(len(s.by[place])) < s.room[place] {
		s.sitAt(i, place)
		return true
	}
	for k, other := range s.by[place] {
		if s.fixed[other] {
			continue
		}
		if s.findSeat(other) { // it sits elsewhere now, and here too
			s.by[place][k] = i
			s.at[i] = place
			return true
		}
	}
	return false
}

func (s *seats) sitAt(i, place int) {
	s.by[place] = append(s.by[place], i)
	s.at[i] = place
}

// fixAt lets want i sit at place for good, and reports whether all others can still
// have a seat. If not, nothing has changed.
func (s *seats) fixAt(i, place int) bool {
	if !s.in[i] {
		return true
	}
	if old := s.at[i]; old != place {
		s.leavePlace(i, old)
		if s.tour++; !s.settleAt(i, place) {
			s.sitAt(i, old)
			return false
		}
	}
	s.fixed[i] = true
	return true
}

// leavePlace takes want i from its place.
func (s *seats) leavePlace(i, place int) {
	list := s.by[place]
	for k := range list {
		if list[k] == i {
			list[k] = list[len(list)-1]
			s.by[place] = list[:len(list)-1]
			return
		}
	}
}

// loosenWant lets want i move again.
func (s *seats) loosenWant(i int) { s.fixed[i] = false }
