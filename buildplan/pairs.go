package buildplan

import (
	"slices"

	"berth/api"
	"berth/capacity"
)

// pairing is the state of a plan with groups that share hosts pair by pair.
type pairing struct {
	req  *api.Request
	s    Inputs // with what is placed so far
	last []GroupPlan
}

// selectPairs is Select for a request in which some groups share hosts pair by pair: the n-th slots of both are on one
// host, and each pair goes to the cheapest host with room for it, beside those before. All pairs are placed
// first, and then the other groups. If the minima have no room in that way, only those of the pairs are placed
// first; and if not in that way either, the other groups are.
//
// It costs a scan for each pair.
func selectPairs(s *Inputs, req *api.Request) Plan {
	paired, least := pairedGroups(req), leastOf(req)
	first := selectInTurns(s, req, paired, nil)
	if first.hasSlots(least) {
		return first
	}
	for _, most := range [][]int{least, make([]int, len(req.Groups))} {
		if out := selectInTurns(s, req, paired, most); out.hasSlots(least) {
			return out
		}
	}
	return first
}

// pairedGroups returns the groups that share hosts slot by slot, by the lowest of them: those of rules that have a group
// in common belong together.
func pairedGroups(req *api.Request) [][]int {
	bundles := make([]int, len(req.Groups))
	for g := range bundles {
		bundles[g] = none
	}
	for n := range req.Rules {
		if req.Rules[n].Pairs && len(req.Rules[n].Groups) > 0 {
			joinBundles(bundles, req.Rules[n].Groups)
		}
	}
	var out [][]int
	for first, b := range bundles {
		if b != first {
			continue
		}
		var groups []int
		for g := range bundles {
			if bundles[g] == first {
				groups = append(groups, g)
			}
		}
		out = append(out, groups)
	}
	return out
}

// selectInTurns places pairs, at most so many of each group, then the other groups, and then the other pairs; nil for all
// pairs before the other groups.
func selectInTurns(s *Inputs, req *api.Request, paired [][]int, most []int) Plan {
	p := &pairing{req: req, s: *s, last: make([]GroupPlan, len(req.Groups))}
	p.s.kept, p.s.pairing = make([]slotsKept, len(req.Groups)), true
	for g := range p.s.kept {
		p.s.kept[g].on = map[int]int64{}
	}
	for _, groups := range paired {
		p.placePairs(groups, most)
	}
	p.placeOthers(paired)
	if most != nil {
		for _, groups := range paired {
			p.placePairs(groups, nil)
		}
	}
	out := Plan{Groups: p.last}
	for g := range out.Groups {
		out.Groups[g].Slots = nil
		p.s.kept[g].addTo(&out.Groups[g], &req.Groups[g], s.View)
	}
	return out
}

// placePairs places one slot of each of some groups on one host, again and again, until they have enough or
// there is no room.
func (p *pairing) placePairs(groups, most []int) {
	one := *p.req
	one.Groups = slices.Clone(p.req.Groups)
	for g := range one.Groups {
		one.Groups[g].Count, one.Groups[g].Min = 0, 0
	}
	for _, g := range groups {
		one.Groups[g].Count, one.Groups[g].Min = 1, 1
	}
	enough := func(g int) bool {
		n := len(p.s.kept[g].slots)
		return n >= p.req.Groups[g].Count || most != nil && n >= most[g]
	}
	for !slices.ContainsFunc(groups, enough) {
		plan := selectPlaced(&p.s, &one)
		for _, g := range groups {
			p.last[g] = plan.Groups[g]
		}
		if slices.ContainsFunc(groups, func(g int) bool { return len(plan.Groups[g].Slots) == 0 }) || !p.claim(plan, groups) {
			return
		}
	}
}

// placeOthers places all groups that are in no pair.
func (p *pairing) placeOthers(paired [][]int) {
	rest := *p.req
	rest.Groups = slices.Clone(p.req.Groups)
	for _, g := range slices.Concat(paired...) {
		rest.Groups[g].Count, rest.Groups[g].Min = 0, 0
	}
	plan := selectPlaced(&p.s, &rest)
	var groups []int
	for _, g := range groupOrder(&rest) {
		if rest.Groups[g].Count > 0 {
			p.last[g] = plan.Groups[g]
			groups = append(groups, g)
		}
	}
	p.claim(plan, groups)
}

// claim claims the slots of some groups in the view, as placed. It claims nothing and returns false if one does not fit
// after all: what several hosts draw from may be gone.
func (p *pairing) claim(plan Plan, groups []int) bool {
	ok := true
	view := p.s.View.Without(func(t *capacity.Table) {
		for _, g := range groups {
			grp := &p.req.Groups[g]
			c := api.Claim{Resources: grp.Resources, Window: p.req.WindowAt(p.s.View.Now()), Class: p.req.ClaimClass(), Whole: grp.Whole}
			for _, sl := range plan.Groups[g].Slots {
				var err error
				if grp.Whole {
					_, _, err = t.PlaceWhole(sl.Host, c)
				} else {
					_, err = t.Place(sl.Host, c)
				}
				ok = ok && err == nil
			}
		}
	})
	if !ok {
		return false
	}
	p.s.View = view
	for _, g := range groups {
		for _, sl := range plan.Groups[g].Slots {
			row, _ := view.Row(sl.Host) // it comes from the view
			p.s.kept[g].on[row]++
			p.s.kept[g].slots = append(p.s.kept[g].slots, sl)
		}
	}
	return true
}
