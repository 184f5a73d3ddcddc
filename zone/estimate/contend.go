package estimate

import (
	"context"
	"slices"

	"berth/api"
	"berth/buildplan"
	"berth/internal/crash"
	"berth/raftstore/state"
)

// rivals is what a plan would have if others gave way that hold room and are not
// decided: for each group and source, the slots that are offered and those that
// would be. It is nil if that is nothing more.
type rivals struct {
	younger, all [][]int // without those that the request goes before; without all
}

// PlanFor plans for a boot of this zone. What would have worked is found out only if
// nobody is in the way: else the boot looks again soon.
func (e *Estimator) PlanFor(ctx context.Context, v *state.State, w *Want) *Plan {
	e.zone.Reach(crash.SelectPlanning)
	p, answers := e.layOut(ctx, v, w)
	e.findRivals(v, "", w.Request, p)
	if p.rivals == nil {
		e.addAdvice(ctx, v, w, p, answers)
	}
	e.zone.Reach(crash.SelectPlanned)
	return p
}

// findRivals looks at what undecided holds keep from a plan that came out short. Of a
// child it takes what the child says; here it plans again as if the holds were given
// back, each group alone, so that it never says too little. origin is who asks, "" for
// a boot of this zone.
func (e *Estimator) findRivals(v *state.State, origin api.LinkID, req *api.Request, p *Plan) {
	if p.Offered() == req.Count() && p.unmet == "" {
		return
	}
	younger, all := e.rivalOwn(v, origin, req)
	r, more, older := &rivals{}, false, false
	for g := range req.Groups {
		ys, as := slices.Clone(p.offers[g]), slices.Clone(p.offers[g])
		for s, n := range p.offers[g] {
			switch {
			case s != buildplan.Own:
				c := p.rivalsAt(p.heard[s-1], g)
				as[s] = max(n, min(n+c.All, req.Groups[g].Count))
				ys[s] = max(n, min(n+c.Younger, as[s]))
			case all != nil:
				as[s] = max(n, all[g])
				ys[s] = max(n, min(younger[g], as[s]))
			}
			more, older = more || as[s] > n, older || as[s] > ys[s]
		}
		r.younger, r.all = append(r.younger, ys), append(r.all, as)
	}
	if !more {
		return
	}
	for g := range req.Groups { // with room that is free again, groups may share all of it in another way
		if n := req.Groups[g].Count; len(req.Groups) > 1 {
			r.all[g][buildplan.Own] = n
			if !older {
				r.younger[g][buildplan.Own] = n
			}
		}
	}
	p.rivals = r
}

// Contended reports whether others that are not decided hold room which the plan could
// use.
func (p *Plan) Contended() bool { return p.rivals != nil }

// Room is how much of a request could be held: by group the slots, and the children,
// or "" for this zone, where they may lie. The zero Room has no slot.
type Room struct {
	Slots  []int
	Places map[api.LinkID]bool
}

// Room returns the room that the plan offers.
func (p *Plan) Room() Room {
	r := Room{Slots: make([]int, len(p.Layer.Groups)), Places: map[api.LinkID]bool{}}
	for g := range p.Layer.Groups {
		r.Slots[g] = len(p.Layer.Groups[g].Order)
		for _, s := range p.Layer.Groups[g].Order {
			p.addPlace(&r, int(s))
		}
	}
	return r
}

// RoomWithoutYounger returns the room that there would be if all that hold room, are not
// decided and came after the request gave way; RoomWithoutOthers if all others did. The
// plan must be contended.
func (p *Plan) RoomWithoutYounger(req *api.Request) Room {
	return p.roomFor(sumSlots(req, p.rivals.younger))
}

// RoomWithoutOthers is described at RoomWithoutYounger.
func (p *Plan) RoomWithoutOthers(req *api.Request) Room {
	return p.roomFor(sumSlots(req, p.rivals.all))
}

// roomFor returns so many slots of each group, wherever they would lie of what was
// offered or is held by others.
func (p *Plan) roomFor(slots []int) Room {
	r := Room{Slots: slots, Places: map[api.LinkID]bool{}}
	for g := range p.rivals.all {
		for s, n := range p.rivals.all[g] {
			if n > 0 {
				p.addPlace(&r, s)
			}
		}
	}
	return r
}

// addPlace adds to a room where a source of the plan's order lies. A plan that was dropped
// has no children any more.
func (p *Plan) addPlace(r *Room, source int) {
	switch {
	case source == buildplan.Own:
		r.Places[""] = true
	case source <= len(p.Layer.Children):
		r.Places[p.Layer.Children[source-1].Link] = true
	}
}

// rivalsAt returns what a child has said of one group when it was asked for all, or
// last.
func (p *Plan) rivalsAt(a childAnswer, group int) (out api.Contended) {
	for _, o := range append([]childAnswer{a}, p.first...) {
		if o.link.ID == a.link.ID && o.answer != nil && group < len(o.answer.Contended) {
			c := o.answer.Contended[group]
			out.All, out.Younger = max(out.All, c.All), max(out.Younger, c.Younger)
		}
	}
	return out
}

// rivalOwn returns how many slots of each group this zone's own hosts would have
// without the undecided holds of others; nil if there are none. Earlier attempts of
// the same reservation that do not count any more are others, and give way.
func (e *Estimator) rivalOwn(v *state.State, origin api.LinkID, req *api.Request) (younger, all []int) {
	var weak, every []*state.Hold
	for _, h := range v.OpenHolds() {
		mine := h.For(origin, req)
		if mine && h.Attempt >= req.Attempt {
			continue
		}
		every = append(every, h)
		if mine || !h.Request.Older(req) {
			weak = append(weak, h)
		}
	}
	if len(every) == 0 {
		return nil, nil
	}
	all = e.roomWithout(v, every, req)
	if len(weak) == len(every) {
		return all, all
	}
	return e.roomWithout(v, weak, req), all
}

func (e *Estimator) roomWithout(v *state.State, holds []*state.Hold, req *api.Request) []int {
	v = v.Without(holds)
	out := make([]int, len(req.Groups))
	for g := range req.Groups {
		alone := *req
		alone.Groups = slices.Clone(req.Groups)
		for o := range alone.Groups {
			if o != g {
				alone.Groups[o].Count = 0
			}
		}
		if alone.Count() > 0 {
			plan := e.planOwn(v, &alone, nil)
			out[g] = len(plan.Groups[g].Slots)
		}
	}
	return out
}

// sumSlots returns, by group, how many slots of all sources there would be at the most; of
// a pack, how many of the one source that has most.
func sumSlots(req *api.Request, bySource [][]int) []int {
	out := make([]int, len(bySource))
	if !req.Zones.Pack {
		for g, ns := range bySource {
			for _, n := range ns {
				out[g] = min(out[g]+n, req.Groups[g].Count)
			}
		}
		return out
	}
	most := -1
	for s := range bySource[0] {
		total := 0
		for g := range bySource {
			total += bySource[g][s]
		}
		if total > most {
			most = total
			for g := range bySource {
				out[g] = bySource[g][s]
			}
		}
	}
	return out
}

// contendedRoom returns what the asker is told of the room that others hold.
func (p *Plan) contendedRoom(req *api.Request) []api.Contended {
	if p.rivals == nil {
		return nil
	}
	out := make([]api.Contended, len(req.Groups))
	younger, all := sumSlots(req, p.rivals.younger), sumSlots(req, p.rivals.all)
	for g := range out {
		n := len(p.Layer.Groups[g].Order)
		out[g] = api.Contended{Younger: max(younger[g]-n, 0), All: max(all[g]-n, 0)}
	}
	return out
}
