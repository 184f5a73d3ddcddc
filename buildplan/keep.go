package buildplan

import (
	"slices"

	"berth/api"
	"berth/capacity"
	"berth/costs"
	"berth/filters"
)

// RefusedInPlace is the name under which a refusal counts the hosts of a group that offers
// nothing because a slot that must not move cannot be changed where it is.
const RefusedInPlace = "in_place"

// keptWeight is the weight of a slot that is kept: the least that there is, so that zones above
// take it first.
const keptWeight = -costs.TotalMax

// Keep is a slot of an earlier request that a plan may keep: its host is charged for the
// greater of the old and the new claim while it is held; see capacity.Table.ExtendSlot.
//
// A plan takes the slots to keep before all others, in their order, as long as a group wants
// slots, wherever the new claim fits in place of the old one beside all other claims, the
// rules of the request hold and the host passes the filters but for those of its state, of
// the number of its instances and of its room: to keep a slot is not to place one. So a host
// that is down or takes nothing new keeps what it has. Free amounts, for queries, are those
// without any of the slots to keep.
//
// What a slot takes that is not kept is free for nobody: it goes on until the new request is
// decided. If some group does not get its minimum beside the slots that are kept, all those
// that may move are given up together, and the plan is made again without them.
type Keep struct {
	Host   api.HostID
	Claim  api.Claim   // all that the slot takes, and Whole for a whole host
	Shares []api.Share // of the claim
	// Fixed says that the slot must not move: no filter but the rules of the request can turn
	// it away, and if it cannot be kept, the group offers nothing.
	Fixed bool
}

// slotsKept is the slots of one group that are kept.
type slotsKept struct {
	slots []Slot
	on    map[int]int64 // by row
	stuck bool          // one that is fixed cannot be kept
}

// selectKeeping is Select with slots to keep.
func selectKeeping(s *Inputs, req *api.Request) Plan {
	least := leastOf(req)
	out := planKeeping(s, req, func(Keep) bool { return true })
	if out.hasSlots(least) || !slices.ContainsFunc(slices.Concat(s.Keep...), func(k Keep) bool { return !k.Fixed }) {
		return out
	}
	if moved := planKeeping(s, req, func(k Keep) bool { return k.Fixed }); moved.hasSlots(least) {
		return moved
	}
	return out
}

// planKeeping plans a request that keeps what it may.
func planKeeping(s *Inputs, req *api.Request, may func(Keep) bool) Plan {
	inner := *s
	inner.Keep, inner.kept = nil, make([]slotsKept, len(req.Groups))
	inner.View = s.View.Without(func(t *capacity.Table) { inner.keepSlots(t, s, req, may) })
	rest := *req
	rest.Groups = slices.Clone(req.Groups)
	for g := range rest.Groups {
		grp, n := &rest.Groups[g], len(inner.kept[g].slots)
		grp.Count, grp.Min = grp.Count-n, max(grp.Min-n, 0)
		if inner.kept[g].stuck {
			grp.Count, grp.Min = 0, 0
		}
	}
	out := selectPlaced(&inner, &rest)
	for g := range out.Groups {
		inner.kept[g].addTo(&out.Groups[g], &req.Groups[g], s.View)
	}
	return out
}

// addTo puts the slots that are kept before those that were placed for the rest of a group.
func (k *slotsKept) addTo(out *GroupPlan, g *api.Group, v capacity.View) {
	if k.stuck {
		hosts := v.Len()
		out.Refusals = api.Refusals{Considered: hosts}
		if hosts > 0 {
			out.Refusals.Filters = []api.FilterCount{{Filter: RefusedInPlace, Hosts: hosts, Tier: api.TierNotNow}}
		}
		return
	}
	if len(k.slots) == 0 {
		return
	}
	out.Slots = slices.Concat(k.slots, out.Slots)
	out.Alternates = slices.DeleteFunc(out.Alternates, func(a Slot) bool {
		return slices.ContainsFunc(k.slots, func(o Slot) bool { return o.Host == a.Host })
	})
	if n := len(out.Slots); n < g.Count {
		out.Refusals.Advice = slices.DeleteFunc(out.Refusals.Advice, func(a api.Advice) bool { return a.Change == api.AdviceCount })
		out.Refusals.Advice = slices.Insert(out.Refusals.Advice, 0, api.Advice{Change: api.AdviceCount, Value: int64(n)})
		out.Refusals.Advice = out.Refusals.Advice[:min(len(out.Refusals.Advice), api.AdviceMax)]
	}
}

// keepSlots keeps in t, a table of the view of outer, the slots of req that it may, and notes
// them in s.
func (s *Inputs) keepSlots(t *capacity.Table, outer *Inputs, req *api.Request, may func(Keep) bool) {
	before := *s
	before.View = outer.View.Without(func(t *capacity.Table) {
		for _, k := range slices.Concat(outer.Keep...) {
			k.release(t)
		}
	})
	p := newPlanner(&before, req)
	for _, g := range groupOrder(req) {
		if g < len(outer.Keep) && req.Groups[g].Count > 0 {
			p.keepGroup(t, g, outer.Keep[g], may)
		}
	}
}

// release releases the old slot in t.
func (k *Keep) release(t *capacity.Table) {
	t.Release(k.Host, capacity.OwnPart(k.Claim, k.Shares))
	for _, sh := range k.Shares {
		part := k.Claim
		part.Resources = sh.Resources
		t.Return(sh.Provider, part)
	}
}

// keepGroup keeps the slots of one group that it may.
func (p *planner) keepGroup(t *capacity.Table, g int, list []Keep, may func(Keep) bool) {
	kept := &p.inputs.kept[g]
	kept.on = map[int]int64{}
	look := p.filterView(g)
	look.Placed = nil // what is kept is looked at slot by slot
	rules := ruleFilters(p.inputs.Filters)
	pass, fixed := p.keptRows(list, look, filters.OfKept(p.inputs.Filters)), p.keptRows(list, look, rules)
	look.Placed = p.placedMembers
	_, settled := p.chosen[p.bundles[g]]
	var undo []func()
	for i := range list {
		k := &list[i]
		if !may(*k) {
			continue
		}
		row, known := p.view.Row(k.Host)
		ok := known && (pass.Has(row) || k.Fixed && fixed.Has(row)) && p.allowsKept(g, row, look, rules)
		if ok {
			undo, ok = p.extendSlot(t, g, k, undo)
		}
		switch {
		case ok:
			kept.on[row]++
			kept.slots = append(kept.slots, Slot{Host: k.Host, Generation: p.view.Generation(row), Weight: keptWeight, Keeps: k.Claim.Consumer})
			p.chosen[p.bundles[g]] = row // of none means nothing
		case k.Fixed:
			for _, f := range slices.Backward(undo) {
				f()
			}
			if !settled {
				delete(p.chosen, p.bundles[g])
			}
			*kept = slotsKept{stuck: true}
			return
		}
	}
}

// extendSlot charges t for a slot of a group in place of an old one, if there is room. It adds
// to undo how to take that back.
func (p *planner) extendSlot(t *capacity.Table, g int, k *Keep, undo []func()) ([]func(), bool) {
	grp := &p.req.Groups[g]
	to := api.Claim{Consumer: k.Claim.Consumer, Resources: grp.Resources, Window: p.window, Class: p.req.ClaimClass(), Whole: grp.Whole}
	shares, all, err := t.ExtendSlot(k.Host, k.Claim, k.Shares, to)
	if err != nil {
		return undo, false
	}
	to.Resources = all
	return append(undo, func() { t.ShrinkSlot(k.Host, to, shares, k.Claim, k.Shares) }), true
}

// keptRows returns the hosts of some slots that pass some filters.
func (p *planner) keptRows(list []Keep, look *filters.Look, fs []filters.Filter) capacity.Set {
	pass := capacity.NewSet(p.view.Rows())
	for i := range list {
		if row, known := p.view.Row(list[i].Host); known {
			pass.Add(row)
		}
	}
	for i := range fs {
		fs[i].Apply(look, &pass)
	}
	return pass
}

// ruleFilters returns those of fs that hold the rules of a request.
func ruleFilters(fs []filters.Filter) []filters.Filter {
	return slices.DeleteFunc(slices.Clone(fs), func(f filters.Filter) bool { return f.Name != filters.NameServerGroup })
}

// allowsKept reports whether one more slot of a group on row is wanted, and the rules allow it
// beside those that are kept.
func (p *planner) allowsKept(g, row int, look *filters.Look, rules []filters.Filter) bool {
	if home, chosen := p.chosen[p.bundles[g]]; p.bundles[g] != none && chosen && home != row || len(p.inputs.kept[g].slots) >= p.req.Groups[g].Count {
		return false
	}
	return !slices.ContainsFunc(rules, func(f filters.Filter) bool { return f.Room != nil && f.Room(look, row) < 1 })
}
