package binding

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"berth/api"
)

// Child is a child zone as its parent sees it.
type Child struct {
	Link        api.LinkID
	Created     api.Instant
	AZs         []string // availability zones that it offers; nil while that is not known
	Tags        []string // affinity tags, as key=value
	Away        bool     // it is paused, or has been silent for too long
	Maintenance bool
	Usage       map[api.ResourceClass]api.ClassTotals // nil while it is not known
	Headroom    map[api.ResourceClass]int64           // percent of a class that stays free, in [0, 100]; none means 0
	Price       int64                                 // of the work there; lower is cheaper
}

// Work is what is to be placed.
type Work struct {
	AZ        string        // "" for any
	Tags      []string      // affinity tags that it asks for; none for general work
	Resources api.Resources // of all of it together
}

// Filter names a reason to drop a child.
type Filter string

// The filters, in their order.
const (
	FilterAll         Filter = "all"
	FilterAZ          Filter = "availability_zone"
	FilterTag         Filter = "affinity_tag"
	FilterMaintenance Filter = "maintenance"
	FilterHeadroom    Filter = "headroom"
)

// Weigher names a preference among children.
type Weigher string

// The weighers.
const (
	WeigherCreation Weigher = "creation_order"
	WeigherIdle     Weigher = "idle_capacity"
	WeigherPrice    Weigher = "price"
)

// Limits and units.
const (
	Unit = 1 << 20 // the highest value of a weigher

	wholeIdle = 1 << 62 // fine enough to tell large zones apart
)

// Rule says how children are chosen.
type Rule struct {
	// Multipliers are in [-api.BindingMultiplierMax, api.BindingMultiplierMax]. A weigher that is missing does not count.
	Multipliers map[Weigher]int64
	// GeneralOnTagged lets work that asks for no tag go to children that have some.
	GeneralOnTagged bool
}

// Drop is a child that a filter has dropped.
type Drop struct {
	Link api.LinkID
	By   Filter
}

// Rank returns the children that the work may go to, the best first, and those that were dropped, by
// link. The order of all does not matter.
func (r *Rule) Rank(w *Work, all []Child) (best []Child, dropped []Drop) {
	for i := range all {
		if by := r.Check(w, &all[i]); by != "" {
			dropped = append(dropped, Drop{all[i].Link, by})
			continue
		}
		best = append(best, all[i])
	}
	total := r.weigh(w, best)
	slices.SortFunc(best, func(a, b Child) int {
		return cmp.Or(cmp.Compare(total[b.Link], total[a.Link]), cmp.Compare(a.Created, b.Created), cmp.Compare(a.Link, b.Link))
	})
	slices.SortFunc(dropped, func(a, b Drop) int { return cmp.Compare(a.Link, b.Link) })
	return best, dropped
}

// Check returns the first filter that drops a child, "" for none. A project that is bound to the
// child must leave it for that reason.
func (r *Rule) Check(w *Work, c *Child) Filter {
	switch {
	case c.Away:
		return FilterAll
	case w.AZ != "" && c.AZs != nil && !slices.Contains(c.AZs, w.AZ):
		return FilterAZ
	case !r.tagsMatch(w, c):
		return FilterTag
	case c.Maintenance:
		return FilterMaintenance
	case !hasHeadroom(w, c):
		return FilterHeadroom
	}
	return ""
}

func (r *Rule) tagsMatch(w *Work, c *Child) bool {
	if len(w.Tags) == 0 {
		return len(c.Tags) == 0 || r.GeneralOnTagged
	}
	return !slices.ContainsFunc(w.Tags, func(t string) bool { return !slices.Contains(c.Tags, t) })
}

// hasHeadroom reports whether the headroom of the child is left beside the work, also of what the
// work does not ask for: a volume is soon followed by the instance that uses it.
func hasHeadroom(w *Work, c *Child) bool {
	if c.Usage == nil {
		return true
	}
	for class, n := range w.Resources {
		u := c.Usage[class]
		if n > 0 && (u.Free < n || u.Free-n < percent(u.Total, c.Headroom[class])) {
			return false
		}
	}
	for class, p := range c.Headroom { // in any order: all must be left
		if u := c.Usage[class]; w.Resources[class] == 0 && u.Free < percent(u.Total, p) {
			return false
		}
	}
	return true
}

// weigh returns the totals of children, by link.
func (r *Rule) weigh(w *Work, all []Child) map[api.LinkID]int64 {
	total := make(map[api.LinkID]int64, len(all))
	for name, multiplier := range r.Multipliers {
		values := make([]int64, len(all))
		for i := range all {
			values[i] = valueOf(name, w, &all[i])
		}
		spread(values)
		for i := range all {
			total[all[i].Link] += multiplier * values[i]
		}
	}
	return total
}

// valueOf returns what a weigher says of a child; higher is better.
func valueOf(name Weigher, w *Work, c *Child) int64 {
	switch name {
	case WeigherCreation:
		return -int64(c.Created)
	case WeigherPrice:
		return -max(c.Price, -math.MaxInt64)
	case WeigherIdle:
		return idle(w, c)
	}
	return 0
}

// idle returns the smallest free part of the classes that are asked for, in [0, wholeIdle].
func idle(w *Work, c *Child) int64 {
	least := int64(wholeIdle)
	if c.Usage == nil {
		return least
	}
	for class, n := range w.Resources {
		if u := c.Usage[class]; n > 0 {
			least = min(least, part(uint64(max(u.Free, 0)), uint64(max(u.Total, 0)), wholeIdle))
		}
	}
	return least
}

// spread maps values to [0, Unit], the lowest to 0 and the highest to Unit; equal ones to 0.
func spread(values []int64) {
	if len(values) == 0 {
		return
	}
	low, high := slices.Min(values), slices.Max(values)
	for i, v := range values {
		if low == high {
			values[i] = 0
			continue
		}
		values[i] = part(uint64(v)-uint64(low), uint64(high)-uint64(low), Unit)
	}
}

// part returns n divided by all in units of 1/unit, at most unit; 0 of nothing.
func part(n, all uint64, unit int64) int64 {
	if n >= all {
		return unit * int64(min(all, 1))
	}
	hi, lo := bits.Mul64(n, uint64(unit))
	q, _ := bits.Div64(hi, lo, all)
	return int64(q)
}

// percent returns p percent of n, rounded up.
func percent(n, p int64) int64 { return n/100*p + (n%100*p+99)/100 }
