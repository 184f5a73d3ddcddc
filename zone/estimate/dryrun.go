package estimate

import (
	"context"

	"berth/api"
	"berth/buildplan"
	"berth/raftstore/state"
)

// DryRun is what a request would get if it were made now. Nothing is held for it.
type DryRun struct {
	Fits      bool              // every group has its minimum, and the zone rule is met
	Groups    []DryGroup        // as in the request
	Zones     []api.ZoneOutcome // this zone first, then its children
	Unmet     string            // the part of the zone rule that is in the way; "" for none
	Contended bool              // undecided requests of others hold room that it could use
}

// DryGroup is what one group would get.
type DryGroup struct {
	Offered  int          // slots in all zones
	Places   []ZoneCount  // those of them by zone, this one first; zones without slots are left out
	Hosts    []api.HostID // own hosts of the slots here, one for each
	Refusals api.Refusals // of this zone's own hosts; it names some of them if the group is short
}

// ZoneCount is a number of slots in one zone and all below it.
type ZoneCount struct {
	Zone  string // name of the link, or this zone's own name
	Slots int
}

// DryRun plans a request of this zone as PlanFor does for a boot. It changes nothing, here or
// below.
func (e *Estimator) DryRun(ctx context.Context, v *state.State, req *api.Request) (*DryRun, error) {
	if err := checkRequest(req); err != nil {
		return nil, err
	}
	p := e.PlanFor(ctx, v, &Want{Request: req})
	told := e.explainPlan(v, "", req, p)
	out := &DryRun{Fits: p.unmet == "", Zones: p.Zones, Unmet: p.unmet, Contended: p.Contended()}
	for g := range req.Groups {
		one := DryGroup{Offered: len(p.Layer.Groups[g].Order), Refusals: told.Groups[g].Refusals}
		out.Fits = out.Fits && one.Offered >= req.Groups[g].Min
		for source, n := range p.merged[g].Taken {
			if n == 0 {
				continue
			}
			name := v.Name
			if source != buildplan.Own {
				name = p.heard[source-1].link.Name
			}
			one.Places = append(one.Places, ZoneCount{name, n})
			if source == buildplan.Own {
				for _, s := range p.Layer.Groups[g].Slots[:n] {
					one.Hosts = append(one.Hosts, s.Host)
				}
			}
		}
		out.Groups = append(out.Groups, one)
	}
	return out, nil
}
