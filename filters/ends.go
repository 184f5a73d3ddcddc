package filters

import "sort"

// Limits of a search for an end.
const (
	sampleMax   = 256 // rows that stand for the others
	sampleSlack = 12  // an end is looked for with so many parts of a hundred more than is wanted, and less
)

// ends are two ends, in steps: for the low one all is there that is wanted, and for the high one it is not.
type ends struct{ low, high int }

// search looks for the last end until which rows have all that is wanted. No row has more for a later end.
//
// Each look at all rows costs much, so a sample of them says where the end may be. A look at both sides of that
// settles all rows that have the same for both: they are not looked at again. Whatever the sample is like, every
// second look halves what is between the ends.
type search struct {
	rows      []int
	low, high []int64 // what each has for the ends
	want      int64   // of these together
	at        ends
}

// lastEnd returns the last end for which the rows have all that is wanted. rooms returns what some rows have.
func (s *search) lastEnd(rooms func(rows []int, end int) []int64) int {
	s.settle()
	for guess := true; s.at.high-s.at.low > 1; guess = !guess {
		switch {
		case len(s.rows) <= sampleMax:
			return s.bisect(s.rows, s.want, rooms)
		case guess:
			sample, want := s.sample()
			most := sumOf(rooms(sample, s.at.low))
			s.look(s.bisect(sample, min(want+want*sampleSlack/100, most), rooms), rooms)
			if len(s.rows) > sampleMax {
				sample, want = s.sample()
				s.look(s.bisect(sample, want-want*sampleSlack/100, rooms)+1, rooms)
			}
		default:
			s.look(s.at.low+(s.at.high-s.at.low)/2, rooms)
		}
	}
	return s.at.low
}

// look makes an end between the two one of them, by what the rows have for it.
func (s *search) look(end int, rooms func(rows []int, end int) []int64) {
	if end <= s.at.low || end >= s.at.high {
		return
	}
	has := rooms(s.rows, end)
	if sumOf(has) >= s.want {
		s.at.low, s.low = end, has
	} else {
		s.at.high, s.high = end, has
	}
	s.settle()
}

// settle leaves out the rows that have the same for both ends.
func (s *search) settle() {
	open := 0
	for n := range s.rows {
		if s.low[n] != s.high[n] {
			open++
		}
	}
	rows, low, high := make([]int, 0, open), make([]int64, 0, open), make([]int64, 0, open)
	for n, row := range s.rows {
		if s.low[n] == s.high[n] {
			s.want -= s.low[n]
			continue
		}
		rows, low, high = append(rows, row), append(low, s.low[n]), append(high, s.high[n])
	}
	s.rows, s.low, s.high = rows, low, high
}

// sample returns some of the rows, evenly, and what they should have of what is wanted, rounded up.
func (s *search) sample() (some []int, want int64) {
	for n := range sampleMax {
		some = append(some, s.rows[n*len(s.rows)/sampleMax])
	}
	all := int64(len(s.rows))
	return some, (s.want*sampleMax + all - 1) / all
}

// bisect returns the last end, from the low one on and before the high one, for which some rows have so much.
func (s *search) bisect(rows []int, want int64, rooms func(rows []int, end int) []int64) int {
	return s.at.low + sort.Search(s.at.high-s.at.low-1, func(n int) bool { return sumOf(rooms(rows, s.at.low+n+1)) < want })
}

func sumOf(all []int64) (sum int64) {
	for _, n := range all {
		sum += n
	}
	return sum
}
