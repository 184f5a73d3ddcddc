package estimate

import (
	"context"
	"maps"
	"slices"

	"berth/api"
	"berth/buildplan"
	"berth/internal/crash"
	"berth/raftstore/state"
)

// rivals is what a plan would have if undecided holds of others gave way: for each
// group and source, the slots offered now and the slots offered then. It is nil if that
// adds nothing.
type rivals struct {
	younger, all [][]int // without the holds that the request precedes; without all
}

// PlanFor plans for a boot of this zone. It looks for advice only if no undecided hold
// is in the way: otherwise the boot tries again soon.
func (e *Estimator) PlanFor(ctx context.Context, v *state.State, w *Want) *Plan {
	ctx, end := e.zone.BeginSpan(ctx, planSpan)
	defer end(nil)
	e.zone.Reach(crash.SelectPlanning)
	p, answers := e.layOutBound(ctx, v, w)
	e.findRivals(v, "", w.Request, p)
	if p.rivals == nil {
		e.addAdvice(ctx, v, w, p, answers)
	}
	p.bindPlan()
	e.zone.Reach(crash.SelectPlanned)
	return p
}

// findRivals finds the room that undecided holds keep from a plan that came out short.
// It takes the figures that children report; for this zone it plans again as if the
// holds were released, each group by itself, so that it never reports too little.
// origin is the asking parent, "" for a boot of this zone.
func (e *Estimator) findRivals(v *state.State, origin api.LinkID, req *api.Request, p *Plan) {
	if p.Offered() == req.Count() && p.unmet == "" {
		return
	}
	younger, all := e.rivalOwn(v, origin, req, &p.bounds)
	r, more, older := &rivals{}, p.isChoosing(), p.isChoosing()
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
	if p.isChoosing() { // when that is decided, another child may be chosen
		for g := range req.Groups {
			r.all[g][buildplan.Own] = req.Groups[g].Count
		}
	}
	for g := range req.Groups { // with room that is free again, groups may share all of it differently
		if n := req.Groups[g].Count; len(req.Groups) > 1 {
			r.all[g][buildplan.Own] = n
			if !older {
				r.younger[g][buildplan.Own] = n
			}
		}
	}
	p.rivals = r
}

// Contended reports whether undecided holds of others keep room that the plan could
// use.
func (p *Plan) Contended() bool { return p.rivals != nil }

// Room is how much of a request could be held: for each group, the number of slots and
// the places where they may lie, children or "" for this zone. The zero Room has no
// slot.
type Room struct {
	Slots  []int
	Places map[api.LinkID]bool
}

// Beside returns a room with the places of instances that a boot has already, by group; nil for none.
func (r Room) Beside(those []map[api.LinkID]int) Room {
	if those == nil {
		return r
	}
	r.Places = maps.Clone(r.Places)
	if r.Places == nil {
		r.Places = map[api.LinkID]bool{}
	}
	for _, places := range those {
		for at, n := range places {
			r.Places[at] = r.Places[at] || n > 0
		}
	}
	return r
}

// Room returns the room of the plan's offer.
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

// RoomWithPreempt returns the room if the preemptible instances on this zone's own hosts made
// way for the request too. What they hold in zones below is not looked at. The answer is
// false if that adds nothing, because they make way for it anyhow or never do, and for a
// request that is packed or balanced over zones.
func (e *Estimator) RoomWithPreempt(v *state.State, req *api.Request, p *Plan) (Room, bool) {
	may := *req
	may.Preempt = true
	if req.Preempt || req.Zones.Pack || req.Zones.MaxSkew > 0 || checkPart(&may) != nil {
		return Room{}, false
	}
	own, r, more := e.planOwn(v, &may, nil, &p.bounds), p.Room(), false
	for g := range own.Groups {
		now := 0
		for _, s := range p.Layer.Groups[g].Order {
			if int(s) == buildplan.Own {
				now++
			}
		}
		if n := len(own.Groups[g].Slots) - now; n > 0 {
			r.Slots[g], r.Places[""], more = r.Slots[g]+n, true, true
		}
	}
	return r, more
}

// RoomWithoutYounger returns the room if all undecided holds that came after the
// request gave way; RoomWithoutOthers, if all undecided holds did. The plan must be
// contended.
func (p *Plan) RoomWithoutYounger(req *api.Request) Room {
	return p.roomFor(sumSlots(req, p.rivals.younger))
}

// RoomWithoutOthers is described at RoomWithoutYounger.
func (p *Plan) RoomWithoutOthers(req *api.Request) Room {
	return p.roomFor(sumSlots(req, p.rivals.all))
}

// roomFor returns a room with these numbers of slots, in all places that offer slots or
// where others hold them.
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

// addPlace adds the place of a source of the plan's order to a room. A dropped plan has
// no children.
func (p *Plan) addPlace(r *Room, source int) {
	switch {
	case source == buildplan.Own:
		r.Places[""] = true
	case source <= len(p.Layer.Children):
		r.Places[p.Layer.Children[source-1].Link] = true
	}
}

// rivalsAt returns a child's figures for one group from the question for all slots, or
// from the last one.
func (p *Plan) rivalsAt(a childAnswer, group int) (out api.Contended) {
	for _, o := range append([]childAnswer{a}, p.first...) {
		if o.link.ID == a.link.ID && o.answer != nil && group < len(o.answer.Contended) {
			c := o.answer.Contended[group]
			out.All, out.Younger = max(out.All, c.All), max(out.Younger, c.Younger)
		}
	}
	return out
}

// rivalOwn returns the number of slots of each group that this zone's own hosts would
// have without the undecided holds of others; nil if there are no such holds. Obsolete
// attempts of the same reservation count as others and give way.
func (e *Estimator) rivalOwn(v *state.State, origin api.LinkID, req *api.Request, b *bounds) (younger, all []int) {
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
	all = e.roomWithout(v, every, req, b)
	if len(weak) == len(every) {
		return all, all
	}
	return e.roomWithout(v, weak, req, b), all
}

func (e *Estimator) roomWithout(v *state.State, holds []*state.Hold, req *api.Request, b *bounds) []int {
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
			plan := e.planOwn(v, &alone, nil, b)
			out[g] = len(plan.Groups[g].Slots)
		}
	}
	return out
}

// sumSlots returns, by group, the maximum number of slots of all sources; for a pack,
// that of the source with the most.
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

// contendedRoom returns the room held by others, as the answer reports it.
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
