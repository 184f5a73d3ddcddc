package buildplan

import (
	"slices"

	"berth/api"
	"berth/capacity"
)

// Beside is where the volumes of a request within a lease go. The view of its instances has the slots of
// the lease for hosts; a volume takes room of the host that the slot of its instance is on.
type Beside struct {
	Inputs *Inputs // of the hosts
	HostOf func(slot api.HostID) api.HostID
}

// inputsOf returns the inputs on which a group is placed.
func (p *pairing) inputsOf(g int) *Inputs {
	if p.s.Beside != nil && p.req.Groups[g].Volume != "" {
		return &p.out
	}
	return &p.s
}

// planPair plans one slot of each of some groups, of which one wants one, on one host. Within a lease it takes the
// cheapest slot on a host that has room for the volumes beside it. A host that had none once is not tried again:
// there is only less.
func (p *pairing) planPair(one *api.Request, groups []int) Plan {
	if p.s.Beside == nil {
		return selectPlaced(&p.s, one)
	}
	servers, volumes := p.splitPair(one)
	if p.full[groups[0]] == nil {
		p.full[groups[0]] = map[api.HostID]bool{}
	}
	full := p.full[groups[0]]
	for {
		inside := p.s
		inside.View = p.slotsBut(full)
		plan := selectPlaced(&inside, servers)
		n := slices.IndexFunc(plan.Groups, func(g GroupPlan) bool { return len(g.Slots) > 0 })
		if n < 0 {
			return p.explainPair(servers, volumes, groups, full)
		}
		host := p.s.Beside.HostOf(plan.Groups[n].Slots[0].Host)
		beside := p.planBeside(volumes, host)
		missing := false
		for _, g := range groups {
			if p.req.Groups[g].Volume != "" {
				plan.Groups[g] = beside.Groups[g]
				missing = missing || len(beside.Groups[g].Slots) == 0
			}
		}
		if !missing {
			return plan
		}
		full[host] = true
	}
}

// splitPair returns the parts of a request for a pair: that of the instances, and that of the volumes, which are
// in no lease.
func (p *pairing) splitPair(one *api.Request) (servers, volumes *api.Request) {
	part := func(volume bool) *api.Request {
		out := *one
		out.Groups = slices.Clone(one.Groups)
		for g := range out.Groups {
			if (out.Groups[g].Volume != "") != volume {
				out.Groups[g].Count, out.Groups[g].Min = 0, 0
			}
		}
		return &out
	}
	servers, volumes = part(false), part(true)
	volumes.Within = ""
	return servers, volumes
}

// slotsBut returns the slots that are not on some hosts.
func (p *pairing) slotsBut(full map[api.HostID]bool) capacity.View {
	if len(full) == 0 {
		return p.s.View
	}
	rows := p.s.View.Hosts()
	rows.Keep(func(row int) bool { return !full[p.s.Beside.HostOf(p.s.View.ID(row))] })
	return p.s.View.Among(rows)
}

// planBeside plans volumes on some hosts alone.
func (p *pairing) planBeside(volumes *api.Request, hosts ...api.HostID) Plan {
	outside := p.out
	all, rows := outside.View.Hosts(), capacity.NewSet(outside.View.Rows())
	for _, id := range hosts {
		if row, known := outside.View.Row(id); known && all.Has(row) {
			rows.Add(row)
		}
	}
	outside.View = outside.View.Among(rows)
	return selectPlaced(&outside, volumes)
}

// explainPair returns a plan without slots of some groups that says why there is no pair of them: slots of the lease
// on hosts without room for the volumes count as such without room.
func (p *pairing) explainPair(servers, volumes *api.Request, groups []int, full map[api.HostID]bool) Plan {
	plan := selectPlaced(&p.s, servers)
	var hosts []api.HostID
	for row := range p.s.View.Hosts().All() {
		hosts = append(hosts, p.s.Beside.HostOf(p.s.View.ID(row)))
	}
	beside := p.planBeside(volumes, hosts...)
	for _, g := range groups {
		gp := &plan.Groups[g]
		if p.req.Groups[g].Volume != "" {
			*gp = beside.Groups[g]
		} else if len(full) > 0 {
			gp.Refusals.Limits = nil
			countRefused(&gp.Refusals, RefusedRoom, 0)
		}
		gp.Slots, gp.Alternates = nil, nil
	}
	return plan
}
