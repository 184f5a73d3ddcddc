package buildplan

import (
	"slices"

	"berth/api"
	"berth/capacity"
)

// pairing is the state of a plan with groups that share hosts pair by pair.
type pairing struct {
	req  *api.Request
	s    Inputs                      // with what is placed so far
	out  Inputs                      // the hosts beside s, if it has some
	full map[int]map[api.HostID]bool // by the first group of those that share hosts: hosts without room beside their slots
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
	p := &pairing{req: req, s: *s, last: make([]GroupPlan, len(req.Groups)), full: map[int]map[api.HostID]bool{}}
	p.s.startPairing(len(req.Groups))
	if s.Beside != nil {
		p.out = *s.Beside.Inputs
		p.out.startPairing(len(req.Groups))
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
		its := p.inputsOf(g)
		its.kept[g].addTo(&out.Groups[g], &req.Groups[g], its.View)
	}
	return out
}

// startPairing has a copy of inputs take note of the slots that are placed on them.
func (s *Inputs) startPairing(groups int) {
	s.kept, s.pairing = make([]slotsKept, groups), true
	for g := range s.kept {
		s.kept[g].on = map[int]int64{}
	}
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
		n := len(p.inputsOf(g).kept[g].slots)
		return n >= p.req.Groups[g].Count || most != nil && n >= most[g]
	}
	for !slices.ContainsFunc(groups, enough) {
		plan := p.planPair(&one, groups)
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
	claimIn := func(s *Inputs) capacity.View {
		return s.View.Without(func(t *capacity.Table) {
			for _, g := range groups {
				for _, sl := range plan.Groups[g].Slots {
					ok = ok && (p.inputsOf(g) != s || p.place(t, g, sl) == nil)
				}
			}
		})
	}
	inside, outside := claimIn(&p.s), p.out.View
	if p.s.Beside != nil {
		outside = claimIn(&p.out)
	}
	if !ok {
		return false
	}
	p.s.View, p.out.View = inside, outside
	for _, g := range groups {
		its := p.inputsOf(g)
		for _, sl := range plan.Groups[g].Slots {
			row, _ := its.View.Row(sl.Host) // it comes from the view
			its.kept[g].on[row]++
			its.kept[g].slots = append(its.kept[g].slots, sl)
		}
	}
	return true
}

// place claims one slot of a group in a table.
func (p *pairing) place(t *capacity.Table, g int, sl Slot) error {
	grp := &p.req.Groups[g]
	c := api.Claim{Resources: grp.Resources, Window: p.req.WindowAt(p.s.View.Now()), Class: p.req.ClaimClass(), Whole: grp.Whole}
	if grp.Whole {
		_, _, err := t.PlaceWhole(sl.Host, c)
		return err
	}
	_, err := t.Place(sl.Host, c)
	return err
}
