package buildplan

import (
	"cmp"
	"math/bits"
	"slices"
)

// bindSources leaves one source to each set of groups that must have one.
func (m *merging) bindSources() {
	of := bundlesOf(m.req)
	if m.req.Zones.Pack {
		clear(of)
	}
	for c := range of {
		var groups []int
		for g := range of {
			if of[g] == c {
				groups = append(groups, g)
			}
		}
		if len(groups) > 0 {
			m.leaveOneSource(groups, m.chooseSource(groups))
		}
	}
}

// leaveOneSource takes away what all sources but one offer for some groups.
func (m *merging) leaveOneSource(groups []int, source int) {
	for _, g := range groups {
		m.bound[g] = true
		for s := range m.heads[g] {
			if s != source {
				m.heads[g][s] = nil
			}
		}
	}
}

// chooseSource returns the source that some groups must share.
func (m *merging) chooseSource(groups []int) int {
	best, most, least := none, 0, wide{}
	for s := range m.sources {
		slots, sum := 0, wide{}
		for _, g := range groups {
			if m.held[g][s] > 0 {
				return s
			}
			h := m.heads[g][s]
			h = h[:min(len(h), max(m.req.Groups[g].Count, 0))]
			slots += len(h)
			for _, w := range h {
				sum = sum.plus(w)
			}
		}
		if best == none || slots > most || slots == most && sum.less(least) {
			best, most, least = s, slots, sum
		}
	}
	return best
}

// wide is a whole number of 128 bits: the sum of weights, exactly.
type wide struct {
	high int64
	low  uint64
}

func (a wide) plus(n int64) wide {
	low, carry := bits.Add64(a.low, uint64(n), 0)
	high, _ := bits.Add64(uint64(a.high), uint64(n>>63), carry)
	return wide{int64(high), low}
}

func (a wide) less(b wide) bool {
	return a.high < b.high || a.high == b.high && a.low < b.low
}

// seedZones takes one slot each of as many sources as MinZones lacks. Which group a
// source gives its slot to may change until enough sources have one: that is a
// matching of sources and groups, grown source by source.
func (m *merging) seedZones() {
	lack := m.req.Zones.MinZones
	var fresh []int
	for s := range m.sources {
		if m.used[s] {
			lack--
		} else {
			fresh = append(fresh, s)
		}
	}
	if lack <= 0 {
		return
	}
	slices.SortStableFunc(fresh, func(a, b int) int { return m.compareHeads(a, b) })
	seeds := make([][]int, len(m.heads)) // by group: sources
	for _, s := range fresh {
		if lack > 0 && m.matchSource(seeds, s, make([]bool, len(seeds))) {
			lack--
		}
	}
	for g := range seeds {
		slices.SortFunc(seeds[g], func(a, b int) int {
			return cmp.Or(cmp.Compare(m.heads[g][a][0], m.heads[g][b][0]), cmp.Compare(a, b))
		})
		for _, s := range seeds[g] {
			m.takeHead(g, s)
		}
	}
}

// noteUsed notes which sources are used before any slot is taken.
func (m *merging) noteUsed() {
	m.used = make([]bool, m.sources)
	for s := range m.used {
		m.used[s] = m.isUsed(s)
	}
}

// isUsed reports whether a source has a slot already, or is the one that bound
// groups have left.
func (m *merging) isUsed(source int) bool {
	for g := range m.heads {
		if m.held[g][source] > 0 || m.bound[g] && m.req.Groups[g].Count > 0 && len(m.heads[g][source]) > 0 {
			return true
		}
	}
	return false
}

// compareHeads orders sources by their cheapest head; those without one come last.
func (m *merging) compareHeads(a, b int) int {
	x, y := m.byHead(a), m.byHead(b)
	if len(x) == 0 || len(y) == 0 {
		return cmp.Compare(len(y), len(x))
	}
	return cmp.Compare(m.heads[x[0]][a][0], m.heads[y[0]][b][0])
}

// byHead returns the groups that a source offers slots for, cheapest head first.
func (m *merging) byHead(source int) []int {
	var out []int
	for g := range m.heads {
		if len(m.heads[g][source]) > 0 && m.req.Groups[g].Count > 0 {
			out = append(out, g)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		return cmp.Compare(m.heads[a][source][0], m.heads[b][source][0])
	})
	return out
}

// matchSource finds a group for a source, moving others if it must: one step of the
// matching of Kuhn (1955), with as many places in a group as it wants slots.
func (m *merging) matchSource(seeds [][]int, source int, tried []bool) bool {
	for _, g := range m.byHead(source) {
		if tried[g] {
			continue
		}
		tried[g] = true
		if len(seeds[g]) < m.req.Groups[g].Count {
			seeds[g] = append(seeds[g], source)
			return true
		}
		for i := range seeds[g] {
			if m.matchSource(seeds, seeds[g][i], tried) {
				seeds[g][i] = source
				return true
			}
		}
	}
	return false
}
