package estimate

import (
	"context"

	"berth/api"
	"berth/buildplan"
	"berth/raftstore/state"
)

// PlanAlike plans requests of a zone without children that differ in their reservation, its
// time and their count alone, as if each came after those before it had taken their slots. One
// scan of the hosts serves all of them. A plan is nil for a request that does not get all
// of its slots: it is planned by itself, for the reasons.
func (e *Estimator) PlanAlike(ctx context.Context, v *state.State, reqs []*api.Request) []*Plan {
	if len(reqs) == 1 {
		p := e.PlanFor(ctx, v, &Want{Request: reqs[0]})
		return []*Plan{p.orNone(reqs[0])}
	}
	sum := *reqs[0]
	sum.Groups = []api.Group{reqs[0].Groups[0]}
	sum.Groups[0].Count, sum.Groups[0].Min = 0, 0
	for _, r := range reqs {
		sum.Groups[0].Count += r.Count()
	}
	all := e.planOwn(v, &sum, nil, &bounds{}).Groups[0]
	out := make([]*Plan, len(reqs))
	for i, r := range reqs {
		n := r.Count()
		if n > len(all.Slots) {
			continue // a smaller one behind it may still have enough
		}
		part := all
		part.Slots, all.Slots = all.Slots[:n:n], all.Slots[n:]
		out[i] = mergeOffers(v, &Want{Request: r}, buildplan.Plan{Groups: []buildplan.GroupPlan{part}}, nil).orNone(r)
	}
	return out
}

// orNone returns the plan if it has all that a request wants, else nil.
func (p *Plan) orNone(req *api.Request) *Plan {
	if p.Offered() < req.Count() || p.unmet != "" {
		return nil
	}
	return p
}
