package estimate

import (
	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/raftstore/state"
)

// refusedLayout is the name under which a refusal says that the zone does not show parents all of its
// hosts. It counts one host, however many are hidden, and is there even if none is.
const refusedLayout = "layout"

// hostsFor returns the host table that a request is planned on: all hosts for one of this zone, those
// that are shown for one of a parent, so that nothing which parents ask or hold depends on more.
func hostsFor(v *state.State, req *api.Request) capacity.View {
	if req.Origin == "" {
		return v.Hosts()
	}
	return v.Hosts().Shown()
}

// explainHidden says in the refusals of a plan for a parent that came out short that there may be hosts
// which it is not shown.
func explainHidden(v *state.State, req *api.Request, p *buildplan.Plan) {
	if req.Origin == "" || !v.Config.HidesLayout {
		return
	}
	for g := range p.Groups {
		if gp := &p.Groups[g]; len(gp.Slots) < req.Groups[g].Count && req.WithinOf(g) == "" {
			gp.Refusals.Filters = append(gp.Refusals.Filters, api.FilterCount{Filter: refusedLayout, Hosts: 1, Tier: api.TierNotAllowed})
			gp.Refusals.Considered++
		}
	}
}
