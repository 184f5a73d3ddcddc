package costs

import (
	"iter"
	"slices"

	"berth/api"
	"berth/capacity"
)

// Look is the input of prices, for one group of a request.
type Look struct {
	View    capacity.View
	Pass    capacity.Set // the rows to price; prices of others are meaningless
	Req     *api.Request
	Index   int        // of the group
	Window  api.Window // of the claims
	Census  Census     // nil means no instances
	Earlier []Taken    // where earlier groups of the request have slots, each row once
}

// Census locates instances and held slots in the view that is priced.
type Census interface {
	// Members returns the number of a tenant's instances and held slots under a rule,
	// by host of this zone and by link elsewhere.
	Members(t api.Tenant, rule string) (here map[api.HostID]int, elsewhere map[api.LinkID]int)
	// Tenancy visits the hosts that a tenant has instances or held slots on, with
	// their number.
	Tenancy(t api.Tenant) iter.Seq2[api.HostID, int]
}

// Taken is the number of slots of each group of a request on one row.
type Taken struct {
	Row   int
	Slots []int64 // by group
}

// Of returns the amount of a class that the slots of req take.
func (t *Taken) Of(req *api.Request, class api.ResourceClass) int64 {
	var sum int64
	for g, n := range t.Slots {
		if n > 0 {
			sum += n * req.Groups[g].Resources[class]
		}
	}
	return sum
}

// Under returns how many of the slots the rule of req with that index binds; of
// all slots for an index below 0.
func (t *Taken) Under(req *api.Request, rule int) int64 {
	var sum int64
	for g, n := range t.Slots {
		if n > 0 && (rule < 0 || slices.Contains(req.Rules[rule].Groups, g)) {
			sum += n
		}
	}
	return sum
}

// line is one cost of every host: with n slots of the group on row, it is
// flat + unit * min(max(have(row)+n*step, 0), top), which is in [0, ScaleMax].
type line struct {
	flat      int64
	column    []int64       // of what rows have
	free      capacity.Free // in place of a column, if live
	live      bool
	step, top int64
	unit      int64
}

// priceAt returns the price of row with some slots, without flat.
func (n *line) priceAt(row int, slots int64) int64 {
	have := int64(0)
	if n.live {
		have = n.free.At(row)
	} else {
		have = n.column[row]
	}
	return n.unit * n.cut(have+slots*n.step)
}

// cut returns have, cut off at both ends.
func (n *line) cut(have int64) int64 { return min(max(have, 0), n.top) }

// addWord adds the price of each row of a word of rows to out.
func (n *line) addWord(word int, out *[capacity.WordRows]int64) {
	var room [capacity.WordRows]int64
	var have *[capacity.WordRows]int64
	if n.live {
		have = n.free.Word(word, &room)
	} else {
		have = (*[capacity.WordRows]int64)(n.column[word*capacity.WordRows:])
	}
	unit, top := n.unit, n.top
	for i, h := range have {
		out[i] += unit * min(max(h, 0), top)
	}
}

// bounds returns a lower and an upper bound of the prices of the rows of a word.
func (n *line) bounds(word int) (low, high int64) {
	if n.live {
		low, high = n.free.Bounds(word)
	} else {
		column := n.column[word*capacity.WordRows:][:capacity.WordRows]
		low, high = slices.Min(column), slices.Max(column)
	}
	low, high = n.unit*n.cut(low), n.unit*n.cut(high)
	return min(low, high), max(low, high)
}

// Prices are the prices of all hosts of a view for one group of a request.
type Prices struct {
	lines []line // units are times their weights
	flat  int64  // for every host
}

// For reads the hosts' columns once, and returns their prices. What the view has as it is
// needed is not read before it is asked for.
func (s Set) For(l *Look) Prices {
	var p Prices
	for _, t := range s.terms {
		n := t.line(l, t.options, t.weight)
		p.flat += t.weight * n.flat
		if n.live || n.column != nil {
			n.unit *= t.weight
			p.lines = append(p.lines, n)
		}
	}
	return p
}

// Of returns the price of another slot of the group on row, where it already has slots.
// It lies within ±ScaleMax * WeightMax for each cost in the set, so it never overflows.
func (p *Prices) Of(row int, slots int64) int64 {
	sum := p.flat
	for i := range p.lines {
		sum += p.lines[i].priceAt(row, slots)
	}
	return sum
}

// Word writes Of(row, 0) for the rows of a word of sets of the view to out.
func (p *Prices) Word(word int, out *[capacity.WordRows]int64) {
	for i := range out {
		out[i] = p.flat
	}
	for i := range p.lines {
		p.lines[i].addWord(word, out)
	}
}

// Bounds returns a lower and an upper bound of Of(row, 0) for the rows of a word. It looks at
// the rows only where the view does not keep bounds of its own.
func (p *Prices) Bounds(word int) (low, high int64) {
	low, high = p.flat, p.flat
	for i := range p.lines {
		l, h := p.lines[i].bounds(word)
		low, high = low+l, high+h
	}
	return low, high
}
