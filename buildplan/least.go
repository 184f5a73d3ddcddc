package buildplan

import (
	"slices"
	"sort"

	"berth/api"
	"berth/capacity"
)

// leastOf returns the minimum number of slots of each group of req.
func leastOf(req *api.Request) []int {
	out := make([]int, len(req.Groups))
	for g := range out {
		out[g] = min(max(req.Groups[g].Min, 0), max(req.Groups[g].Count, 0))
	}
	return out
}

// hasSlots reports whether each group of a plan has the given number of slots.
func (p *Plan) hasSlots(least []int) bool {
	for g, n := range least {
		if len(p.Groups[g].Slots) < n {
			return false
		}
	}
	return true
}

// selectLeast plans the minima of the groups of req first, and then further slots besides
// them. Minima for which there is no room together are reduced to what fits.
func selectLeast(s *Inputs, req *api.Request, least []int) Plan {
	p := newPlanner(s, req)
	out, ok := p.planMinima(least)
	if !ok {
		f := newSearch(s, req)
		least = f.findMost(least)
		p = newPlanner(s, req)
		if f.best != nil {
			p.quota, p.chosen = f.best, f.homes
		}
		out, _ = p.planMinima(least)
		p.quota = nil
	}
	floor := make([]int, len(least)) // what they really get
	for g := range floor {
		floor[g] = len(out.Groups[g].Slots)
	}
	for _, g := range groupOrder(req) {
		if req.Groups[g].Count > 0 {
			p.planBeyondMinimum(g, &out.Groups[g], floor[g] > 0 || least[g] > 0)
		}
	}
	p.cutToFeasible(&out, floor)
	for g := range out.Groups {
		p.recheckAlternates(g, &out.Groups[g])
	}
	return out
}

// planMinima plans the given number of slots of each group, and reports whether all fit.
func (p *planner) planMinima(least []int) (Plan, bool) {
	whole := p.req
	floor := *whole
	floor.Groups = slices.Clone(whole.Groups)
	for g := range floor.Groups {
		floor.Groups[g].Count = least[g]
	}
	p.req, p.again = &floor, true
	out := Plan{Groups: make([]GroupPlan, len(least))}
	for _, g := range groupOrder(whole) {
		if least[g] > 0 {
			out.Groups[g] = p.planGroup(g)
			out.Groups[g].Alternates = nil
		}
	}
	p.req = whole
	return out, out.hasSlots(least)
}

// planBeyondMinimum adds to what a group has, out of its minimum, slots up to its Count, and the
// alternates of all. counted says that the hosts that turned it away are counted.
func (p *planner) planBeyondMinimum(g int, out *GroupPlan, counted bool) {
	whole := p.req
	rest := *whole
	rest.Groups = slices.Clone(whole.Groups)
	rest.Groups[g].Count -= len(out.Slots)
	p.req = &rest
	mine := capacity.NewSet(p.view.Rows())
	for i := range out.Slots {
		row, _ := p.view.Row(out.Slots[i].Host) // it comes from the view
		mine.Add(row)
	}
	more := p.planGroup(g)
	p.req = whole
	out.Slots = append(out.Slots, more.Slots...)
	out.Alternates = slices.DeleteFunc(more.Alternates, func(s Slot) bool {
		row, _ := p.view.Row(s.Host)
		return p.bundles[g] != none || mine.Has(row)
	})
	if !counted {
		out.Refusals = more.Refusals
		return
	}
	out.Refusals.Advice, out.Refusals.Limits = nil, nil
	if n := len(out.Slots); n < whole.Groups[g].Count {
		t, why := p.findHosts(g)
		out.Refusals.Advice = p.adviseOn(t, n, why.Offering < out.Refusals.Offering)
	}
}

// cutToFeasible removes the slots beyond floor if the plan cannot be carried out in its
// order: where hosts draw from several others, the source of a slot depends on earlier ones.
func (p *planner) cutToFeasible(out *Plan, floor []int) {
	if p.draft == nil {
		return
	}
	d := p.view.Draft(p.window, p.req.ClaimClass())
	for _, g := range groupOrder(p.req) {
		for i := range out.Groups[g].Slots {
			row, _ := p.view.Row(out.Groups[g].Slots[i].Host)
			if !p.drawing.Has(row) || draftTake(d, &p.req.Groups[g], row, 1) > 0 {
				continue
			}
			for h := range out.Groups {
				out.Groups[h].Slots = out.Groups[h].Slots[:min(floor[h], len(out.Groups[h].Slots))]
			}
			return
		}
	}
}

// findMost finds room for the given number of slots of each group, or for as many as fit:
// first of the first group, then of the second besides, and so on. It returns the numbers.
func (s *search) findMost(least []int) []int {
	if s.findWay(least) {
		return least
	}
	out := make([]int, len(least))
	for g, n := range least { // the latest way that is found has just out
		out[g] = sort.Search(n, func(i int) bool {
			if s.looks > SearchLooksMax {
				return true
			}
			out[g] = i + 1
			return !s.findWay(out)
		})
	}
	return out
}
