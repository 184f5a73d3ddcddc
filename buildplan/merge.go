package buildplan

import (
	"math"
	"math/bits"
	"slices"

	"berth/api"
)

// Own is the source of a zone's own slots in an order; source i+1 is child i.
const Own = 0

// Merged is the merge of what several sources offer for one group.
type Merged struct {
	Order   []uint16 // source of each slot, best first
	Weights []int64  // weight of each slot, as sent to the parent
	Taken   []int    // by source: number of its slots
	Costs   []int64  // by source: the sum of their weights; it stops at the ends of int64
}

// Prefix returns how many slots of each source are among the first n of m.
func (m Merged) Prefix(n int) []int { return prefixOf(m.Order, n, len(m.Taken)) }

func prefixOf(order []uint16, n, sources int) []int {
	out := make([]int, sources)
	for _, s := range order[:min(max(n, 0), len(order))] {
		if int(s) < sources {
			out[s]++
		}
	}
	return out
}

// Merge takes, for each group of req, up to Count slots of what the sources offer:
// offers has the weights by group, by source and by slot, with Own first and then
// the children, as their links adjust them. already, if not nil, has by group and
// source the slots that the request holds from earlier attempts.
//
// It only ever takes heads: the cheapest of the first weights that are left, and
// of equal ones the lower source. The i-th weight of a source supposes that its
// slots 0 to i-1 are taken, so a later one that is lower must wait for them; and so
// what is taken of each source is a prefix of it, and a prefix of what is taken is
// a prefix of each too.
//
// Some sources have to wait or get nothing, by req.Zones and by rules:
//
//   - All groups of a pack, and all groups that rules of affinity bind together,
//     take slots of one source: one that has slots already, else the one that offers
//     most, of these the cheapest for them, of these the lowest.
//   - With MinZones, the sources that are not used yet get one slot each first, the
//     one with the cheapest head before others, until that many are used. A source
//     is passed over only if no group can spare it a slot. With more than one and no
//     MaxSkew, each further slot of a group is of the used source that has fewest of
//     it and offers more; others come when these have no more.
//   - With MaxSkew, a head is taken only if its source then has at most that many
//     slots of the group more than any source that offers some, in every prefix. A
//     group under affinity minds no skew.
//
// first, if not nil, has by group the source whose slots are taken before all others, or
// -1. It does not count for a group that a rule binds to one source, nor with MaxSkew.
//
// Source numbers are 16 bits: sources beyond math.MaxUint16 are not looked at (a
// zone has at most api.LinksMax children).
func Merge(req *api.Request, offers [][][]int64, already [][]int, first []int) []Merged {
	m := newMerging(req, offers, already)
	m.bindSources()
	m.noteUsed()
	m.seedZones()
	for g := range m.out {
		if first != nil && first[g] != none && req.Zones.MaxSkew == 0 {
			m.fillFrom(g, first[g])
		}
		m.fillGroup(g)
	}
	return m.out
}

// merging is the state of one Merge.
type merging struct {
	req     *api.Request
	sources int
	heads   [][][]int64 // by group and source: what is left
	held    [][]int     // by group and source: what is taken, also before
	bound   []bool      // by group: it has one source only
	used    []bool      // by source: see isUsed; kept up as slots are taken
	out     []Merged
}

func newMerging(req *api.Request, offers [][][]int64, already [][]int) *merging {
	m := &merging{req: req, bound: make([]bool, len(req.Groups)), out: make([]Merged, len(req.Groups))}
	for g := range req.Groups {
		heads := slices.Clone(offers[g][:min(len(offers[g]), math.MaxUint16)])
		m.sources = len(heads)
		held := make([]int, m.sources)
		if already != nil {
			copy(held, already[g])
		}
		size := 0
		for _, h := range heads {
			size = min(size+len(h), max(req.Groups[g].Count, 0))
		}
		m.heads, m.held = append(m.heads, heads), append(m.held, held)
		m.out[g] = Merged{
			Order: make([]uint16, 0, size), Weights: make([]int64, 0, size),
			Taken: make([]int, m.sources), Costs: make([]int64, m.sources),
		}
	}
	return m
}

// isFull reports whether a group has all slots that it wants.
func (m *merging) isFull(g int) bool { return len(m.out[g].Order) >= m.req.Groups[g].Count }

// takeHead takes the head of a source for a group.
func (m *merging) takeHead(g, source int) {
	out, w := &m.out[g], m.heads[g][source][0]
	out.Order = append(out.Order, uint16(source))
	out.Weights = append(out.Weights, w)
	out.Taken[source]++
	out.Costs[source] = adjustCost(1, w, out.Costs[source])
	m.heads[g][source] = m.heads[g][source][1:]
	m.held[g][source]++
	m.used[source] = true
}

// fillFrom takes the heads of one source until a group has all slots that it wants.
func (m *merging) fillFrom(g, source int) {
	for source < m.sources && !m.isFull(g) && len(m.heads[g][source]) > 0 {
		m.takeHead(g, source)
	}
}

// fillGroup takes the cheapest heads that may be taken until a group has all slots that it
// wants.
func (m *merging) fillGroup(g int) {
	skew := m.req.Zones.MaxSkew // of a bound group one source is left, which is ahead of none
	offering := make([]bool, m.sources)
	for s, h := range m.heads[g] {
		offering[s] = len(h) > 0 || m.out[g].Taken[s] > 0
	}
	for !m.isFull(g) {
		most := math.MaxInt // slots that a source may have before it gives one more
		if skew > 0 {
			most = m.lowestCount(g, offering) + skew - 1
		}
		best := none
		for s, h := range m.heads[g] {
			if len(h) > 0 && (best == none || m.comesBefore(g, s, best)) && m.held[g][s] <= most {
				best = s
			}
		}
		if best == none {
			return
		}
		m.takeHead(g, best)
	}
}

// comesBefore reports whether the head of one source is taken for a group before that of another, which is lower:
// the cheaper one; in a request over several zones, that of the source that has fewer slots of the group, of those
// that are used.
func (m *merging) comesBefore(g, source, other int) bool {
	if m.req.Zones.MinZones > 1 && m.req.Zones.MaxSkew == 0 {
		if m.used[source] != m.used[other] {
			return m.used[source]
		}
		if m.held[g][source] != m.held[g][other] {
			return m.held[g][source] < m.held[g][other]
		}
	}
	return m.heads[g][source][0] < m.heads[g][other][0]
}

// lowestCount returns the number of slots of a group in its emptiest source with offers.
func (m *merging) lowestCount(g int, offering []bool) int {
	lowest := math.MaxInt - api.CountMax
	for s, n := range m.held[g] {
		if offering[s] {
			lowest = min(lowest, n)
		}
	}
	return lowest
}

// Adjust returns offset + scale*w of the link for each weight w of a child. Results outside
// int64 stop at its ends, so the order is kept as far as possible.
func Adjust(weights []int64, offset, scale int64) []int64 {
	out := slices.Clone(weights)
	for i, w := range out {
		out[i] = adjustCost(w, offset, scale)
	}
	return out
}

// adjustCost computes in 128 bits, so that only the result can stop at an end.
func adjustCost(w, offset, scale int64) int64 {
	hi, lo := bits.Mul64(uint64(w), uint64(scale))
	if w < 0 {
		hi -= uint64(scale)
	}
	if scale < 0 {
		hi -= uint64(w)
	}
	lo, carry := bits.Add64(lo, uint64(offset), 0)
	hi, _ = bits.Add64(hi, uint64(offset>>63), carry)
	switch top := int64(hi); {
	case top == 0 && lo <= math.MaxInt64, top == -1 && lo > math.MaxInt64:
		return int64(lo)
	case top < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}
