package buildplan

import (
	"slices"

	"berth/api"
	"berth/capacity"
	"berth/costs"
)

// bundlesOf returns for each group the lowest group that it must share one host
// with, and none for a group that no rule of affinity binds. Rules that have a
// group in common make one bundle.
func bundlesOf(req *api.Request) []int {
	out := make([]int, len(req.Groups))
	for i := range out {
		out[i] = none
	}
	for i := range req.Rules {
		if r := &req.Rules[i]; r.Policy == api.Affinity && len(r.Groups) > 0 {
			joinBundles(out, r.Groups)
		}
	}
	return out
}

// joinBundles puts some groups, in ascending order, and all that they were bound to
// before into one bundle.
func joinBundles(bundles, groups []int) {
	lowest := groups[0]
	for _, g := range groups {
		if c := bundles[g]; c != none {
			lowest = min(lowest, c)
		}
	}
	for _, g := range groups {
		old := bundles[g]
		bundles[g] = lowest
		for j, c := range bundles {
			if c == old && old != none {
				bundles[j] = lowest
			}
		}
	}
}

// chooseBundleHost chooses the one host for a bundle of groups when its first group, t, is
// planned: the host with room for most of their slots, if each group in turn takes as many
// as it wants or as fit besides those before it; of these the cheapest for t; of these the
// lowest id. Other groups between them may take room of it later. If no slot fits on any
// host, none is chosen.
func (p *planner) chooseBundleHost(bundle int, t *task, prices *costs.Prices) {
	if _, ok := p.chosen[bundle]; ok {
		return
	}
	tasks := []*task{t}
	order := groupOrder(p.req)
	for _, i := range order[slices.Index(order, t.index)+1:] {
		if p.bundles[i] == bundle && p.req.Groups[i].Count > 0 {
			next, _ := p.findHosts(i)
			tasks = append(tasks, next)
		}
	}
	best := p.bestChoice(p.slotsApart(tasks), prices)
	if best.row == none {
		return
	}
	alone := capacity.NewSet(p.view.Rows())
	alone.Add(best.row)
	if p.slotsTogether(tasks, alone)[best.row] < best.slots {
		best = p.bestChoice(p.slotsTogether(tasks, p.rivalHosts(tasks, prices)), prices)
	}
	if best.row != none {
		p.chosen[bundle] = best.row
	}
}

// supposed is a host that may be chosen.
type supposed struct {
	row   int
	slots int64
	price int64
}

// isBetter reports whether a is a better choice than b.
func (p *planner) isBetter(a, b supposed) bool {
	if b.row == none || a.slots != b.slots {
		return b.row == none || a.slots > b.slots
	}
	if a.price != b.price {
		return a.price < b.price
	}
	return p.view.ID(a.row) < p.view.ID(b.row)
}

// bestChoice returns the choice if each row can have so many slots.
func (p *planner) bestChoice(slots []int64, prices *costs.Prices) supposed {
	best := supposed{row: none}
	for row, n := range slots {
		if n == 0 || n < best.slots {
			continue
		}
		if c := (supposed{row, n, prices.Of(row, 0)}); p.isBetter(c, best) {
			best = c
		}
	}
	return best
}

// slotsApart returns the number of slots on each row if each group had the host to itself and
// only the capacity of the view counted. A row never has more, so if the best row by this
// measure really has as many, it is the choice.
func (p *planner) slotsApart(tasks []*task) []int64 {
	sum := make([]int64, p.view.Rows())
	for _, t := range tasks {
		for row, n := range p.slotsAtMost(t, nil, sum) {
			sum[row] += n
		}
	}
	return sum
}

// slotsAtMost returns an upper bound of the slots of t on each row, by the capacity of the
// view alone, after the given number of slots of first are taken on each row.
func (p *planner) slotsAtMost(t, first *task, taken []int64) []int64 {
	most := make([]int64, len(taken))
	for row := range t.pass.All() {
		most[row] = int64(t.group.Count)
		if t.group.Whole {
			most[row] = min(most[row], 1)
		}
	}
	for _, a := range t.need {
		less := int64(0)
		if first != nil {
			less = first.group.Resources[a.class]
		}
		for row, n := range p.view.FreeColumn(a.class, p.window, p.req.ClaimClass()) {
			most[row] = min(most[row], max(n-taken[row]*less, 0)/a.n)
		}
	}
	return most
}

// rivalHosts returns the hosts one of which is the choice. A sharper bound than that of
// apart counts the first task exactly, and each other beside that alone. Whoever by
// this bound is no better than one host really is cannot be the choice.
func (p *planner) rivalHosts(tasks []*task, prices *costs.Prices) capacity.Set {
	bound := p.slotsTogether(tasks[:1], p.view.Hosts())
	first := slices.Clone(bound)
	for _, t := range tasks[1:] {
		for row, n := range p.slotsAtMost(t, tasks[0], first) {
			if n > 0 && p.drawing.Has(row) {
				n = p.draftRoom(t, row, n)
			}
			bound[row] += n
		}
	}
	out := capacity.NewSet(p.view.Rows())
	top := p.bestChoice(bound, prices)
	if top.row == none {
		return out
	}
	out.Add(top.row)
	top.slots = p.slotsTogether(tasks, out)[top.row]
	for row, n := range bound {
		if n > 0 && n >= top.slots && p.isBetter(supposed{row, n, prices.Of(row, 0)}, top) {
			out.Add(row)
		}
	}
	return out
}

// slotsTogether returns how many slots of all tasks, one after another, fit on each of some
// rows. Each row is tried as if it were the only one.
func (p *planner) slotsTogether(tasks []*task, rows capacity.Set) []int64 {
	sum := make([]int64, p.view.Rows())
	p.supposed = make([][]int64, len(p.req.Groups))
	for n, t := range tasks {
		pass := t.pass.Clone()
		pass.And(rows)
		t.look.Placed = p.placedMembers
		for i := range p.rooms {
			p.rooms[i].Apply(t.look, &pass)
		}
		slots := make([]int64, len(sum))
		for row := range pass.All() {
			slots[row] = min(p.roomFor(t, row), int64(t.group.Count))
			if p.drawing.Has(row) {
				slots[row] = p.roomBeside(tasks[:n], t, row, slots[row])
			}
			sum[row] += slots[row]
		}
		p.supposed[t.index] = slots
	}
	p.supposed = nil
	return sum
}
