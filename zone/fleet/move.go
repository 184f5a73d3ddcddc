package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/filters"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// dueExpiries returns the jobs that end instances on this zone's own hosts whose
// lifetime is over.
func (f *Fleet) dueExpiries(v *state.State) []zone.Job {
	return f.endJobs(v.Expired(f.zone.Instant()))
}

// dueDrains returns the jobs that end or move the instances of draining hosts, and that
// move instances off lost hosts where allowed.
func (f *Fleet) dueDrains(v *state.State) []zone.Job {
	var out []zone.Job
	hosts := v.Hosts()
	for row := range hosts.Maintenance().All() {
		h, ok := v.Host(hosts.ID(row))
		if !ok {
			continue
		}
		switch on := v.OnHost(h.ID); {
		case h.Drain == api.DrainEnd:
			out = append(out, f.endJobs(slices.DeleteFunc(on, isVolume))...)
		case h.Drain == api.DrainMove && h.State == api.HostUp:
			out = append(out, f.moveJobs(on, false)...)
		}
	}
	lost := hosts.Hosts()
	lost.AndNot(hosts.Up())
	for row := range lost.All() {
		if h, ok := v.Host(hosts.ID(row)); ok && f.isFenced(h) {
			out = append(out, f.moveJobs(v.OnHost(h.ID), true)...)
		}
	}
	return out
}

// isFenced reports whether the agent of a host has been silent for so long that it has
// stopped the instances that may be started elsewhere. A new leader counts from the
// start of its term.
func (f *Fleet) isFenced(h *state.Host) bool {
	return f.beats.silentFor(h.Agent, f.zone.Now()) >= EvacuateAfter
}

// endJobs returns the jobs that end instances. A volume ends once nothing has it.
func (f *Fleet) endJobs(all []*api.Instance) []zone.Job {
	var out []zone.Job
	for _, i := range all {
		if i.Status == api.StatusDeleting || !i.Live() || i.Attached != "" {
			continue
		}
		out = append(out, zone.Job{Key: string(i.ID), Run: func(ctx context.Context) error {
			_, err := f.zone.Propose(ctx, command.InstanceDelete{Stamp: f.zone.Stamp(), ID: i.ID})
			if api.CodeOf(err) == api.CodeNotFound { // it ended by itself
				return nil
			}
			return err
		}})
	}
	return out
}

// moveJobs returns the jobs that move instances to other hosts of the zone; with
// evacuate only those whose flavor allows evacuation.
func (f *Fleet) moveJobs(all []*api.Instance, evacuate bool) []zone.Job {
	var out []zone.Job
	for _, i := range all {
		if !isRunning(i) || isVolume(i) || i.Within != "" || i.Target != "" && !evacuate || !i.Movable && evacuate {
			continue
		}
		out = append(out, zone.Job{Key: string(i.ID), Run: func(ctx context.Context) error { return f.moveInstance(ctx, i, evacuate) }})
	}
	return out
}

// isVolume reports whether i is a volume, which only its owner ends, and which stays on its host.
func isVolume(i *api.Instance) bool { return i.Volume != "" }

// isRunning reports whether an instance runs or is being started, or was stopped by its owner, who may
// start it again. An instance that has ended by itself is not started again.
func isRunning(i *api.Instance) bool {
	return i.Status == api.StatusBuild || i.Status == api.StatusActive || i.Halted && i.Status == api.StatusShutoff
}

// moveInstance plans an instance as if it were booted now, and proposes the move to the
// cheapest host, or to an alternate if that is refused.
func (f *Fleet) moveInstance(ctx context.Context, i *api.Instance, evacuate bool) error {
	v := f.zone.View()
	if now, ok := v.Instance(i.ID); !ok || now.Host != i.Host || now.Target != i.Target {
		return nil
	}
	if from, ok := v.Host(i.Host); evacuate && ok && !f.isFenced(from) {
		return nil // its agent has called meanwhile
	}
	if i.Target != "" { // its host was lost before the move
		return f.moveTo(ctx, i, i.Target, evacuate)
	}
	return f.moveOff(v, i, nil, func(to api.HostID) error { return f.moveTo(ctx, i, to, evacuate) })
}

// tryMove moves an instance or slot to a host, in the log or in a draft. If it returns
// CodeNoCapacity, the next host is tried.
type tryMove func(to api.HostID) error

// moveOff moves an instance or slot to the cheapest other host of the zone that takes it, planned
// on v by its own request as if that were made now, but to none of those with these names. It
// returns CodeNoCapacity, with what turned hosts away, if none takes it.
func (f *Fleet) moveOff(v *state.State, i *api.Instance, names []string, try tryMove) error {
	h, ok := v.Hold(i.Origin, i.Hold)
	if !ok {
		return api.Errorf(api.CodeInternal, "the hold of instance %s is gone", i.ID)
	}
	req := requestOf(h, i)
	req.Replaces = ""
	for g := range req.Groups {
		req.Groups[g].Hints.IgnoreHosts = append(slices.Clone(req.Groups[g].Hints.IgnoreHosts), names...)
	}
	move := try
	if len(i.Volumes) > 0 {
		try = func(to api.HostID) error {
			if !v.ReachesVolumes(to, i) {
				return api.Errorf(api.CodeNoCapacity, "no other host of the zone that takes it reaches the volumes that are attached to it; detach them first")
			}
			return move(to)
		}
	}
	err := f.moveAs(v, i, &req, nil, try)
	if i.Reserved || api.CodeOf(err) != api.CodeNoCapacity {
		return err
	}
	if pooled := pooledShares(v, i); len(pooled) > 0 {
		return f.moveAs(v, i, &req, pooled, try)
	}
	return err
}

// moveAs is moveOff for an instance that keeps its allocations from shared pools: only the rest
// needs room, on a host that can use these pools.
func (f *Fleet) moveAs(v *state.State, i *api.Instance, req *api.Request, pooled []api.Share, try tryMove) error {
	s := f.estimator.Inputs(v, req)
	s.World.Census = without{v, i}
	if len(pooled) > 0 {
		s.Spare = buildplan.SpareMax
		for g := range req.Groups {
			req.Groups[g].Resources = withoutShares(req.Groups[g].Resources, pooled)
		}
	}
	err := moveWithin(s, i, req, pooled, try)
	if req.Origin != "" && req.Within == "" && s.View.Len() < v.Hosts().Len() && api.CodeOf(err) == api.CodeNoCapacity {
		s.View = v.Hosts() // rather a host that the parent is not shown than none
		err = moveWithin(s, i, req, pooled, try)
	}
	return err
}

// moveWithin moves an instance or slot to the cheapest other host of the inputs that takes it.
func moveWithin(s *buildplan.Inputs, i *api.Instance, req *api.Request, pooled []api.Share, try tryMove) error {
	plan := buildplan.Select(s, req)
	var err error = api.Errorf(api.CodeNoCapacity, "no other host of the zone takes it%s", describeRefusals(req, &plan))
	for g := range plan.Groups {
		for _, sl := range append(plan.Groups[g].Slots, plan.Groups[g].Alternates...) {
			if sl.Host == i.Host || !reachesShares(s.View, sl.Host, pooled) {
				continue
			}
			err = try(sl.Host)
			if err == nil || api.CodeOf(err) != api.CodeNoCapacity {
				return err
			}
		}
	}
	return err
}

// describeRefusals returns which filters turned how many hosts away, in parentheses; "" for none.
func describeRefusals(req *api.Request, p *buildplan.Plan) string {
	var out []string
	for g := range p.Groups {
		if req.Groups[g].Count == 0 {
			continue
		}
		r := &p.Groups[g].Refusals
		for _, f := range slices.Concat(r.Filters, r.Limits) {
			if f.Hosts > 0 {
				out = append(out, fmt.Sprintf("%s %d", f.Filter, f.Hosts))
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (hosts turned away: " + strings.Join(out, ", ") + ")"
}

// pooledShares returns an instance's allocations from sharing providers outside of its
// host's tree.
func pooledShares(v *state.State, i *api.Instance) []api.Share {
	hosts := v.Hosts()
	return slices.DeleteFunc(slices.Clone(i.Shares), func(sh api.Share) bool {
		row, ok := hosts.Row(sh.Provider)
		return !ok || hosts.ID(hosts.Root(row)) == i.Host
	})
}

// withoutShares returns amounts less those of shares.
func withoutShares(r api.Resources, shares []api.Share) api.Resources {
	out := maps.Clone(r)
	for _, sh := range shares {
		for class := range sh.Resources {
			delete(out, class)
		}
	}
	return out
}

// reachesShares reports whether a host can use the providers of all shares.
func reachesShares(v capacity.View, id api.HostID, shares []api.Share) bool {
	row, ok := v.Row(id)
	return ok && !slices.ContainsFunc(shares, func(sh api.Share) bool {
		at, known := v.Row(sh.Provider)
		return !known || !slices.Contains(v.Sharers(row), int32(at))
	})
}

func (f *Fleet) moveTo(ctx context.Context, i *api.Instance, to api.HostID, evacuate bool) error {
	_, err := f.zone.Propose(ctx, command.InstanceMove{Stamp: f.zone.Stamp(), ID: i.ID, From: i.Host, To: to, Evacuate: evacuate})
	return err
}

// requestOf returns the request that an instance was booted with, reduced to this
// instance: the other groups stay, with a count of zero, so that rules can name them. Rules that kept volumes beside
// it bind nothing any more: see api.Request.Attaches.
func requestOf(h *state.Hold, i *api.Instance) api.Request {
	req := h.Request
	req.Origin = h.Origin
	req.Groups = append([]api.Group(nil), req.Groups...)
	for g := range req.Groups {
		req.Groups[g].Count, req.Groups[g].Hints.ForceHosts = 0, nil
	}
	for _, sl := range h.Slots {
		if sl.Instance.ID == i.ID {
			req.Groups[sl.Group].Count = 1
		}
	}
	req.Rules = slices.Clone(req.Rules)
	for n := range req.Rules {
		if req.Attaches(n) {
			req.Rules[n].Groups = nil // the numbers of the others stay
		}
	}
	req.Window, req.Lifetime = i.Window, 0
	return req
}

// without is a census that leaves out one instance, which is about to move.
type without struct {
	filters.Census
	gone *api.Instance
}

func (c without) Members(t api.Tenant, rule string) (map[api.HostID]int, map[api.LinkID]int) {
	here, elsewhere := c.Census.Members(t, rule)
	for _, r := range c.gone.Rules {
		if r != rule || t != c.gone.Tenant() {
			continue
		}
		if here[c.gone.Host]--; here[c.gone.Host] == 0 {
			delete(here, c.gone.Host)
		}
	}
	return here, elsewhere
}

// Evacuation is the progress of evacuating a lost host.
type Evacuation struct {
	Movable int           // still to be moved
	Staying int           // their flavor does not allow evacuation
	Wait    time.Duration // until the host's agent must have stopped them; 0 if that has passed
}

// ReportEvacuation reports what happens to the instances of a host that is down. Those whose
// flavor allows it are started on other hosts automatically, once the agent of the host
// must have stopped them. Only the leader knows when that is.
func (f *Fleet) ReportEvacuation(id api.HostID) (*Evacuation, error) {
	v := f.zone.View()
	h, ok := v.Host(id)
	switch {
	case !ok:
		return nil, api.Errorf(api.CodeNotFound, "no such host")
	case h.State != api.HostDown:
		return nil, api.Errorf(api.CodeConflict, "host %s is up; drain it instead", h.Name)
	}
	out := &Evacuation{Wait: max(0, EvacuateAfter-f.beats.silentFor(h.Agent, f.zone.Now()))}
	for _, i := range v.OnHost(id) {
		if i.Movable && isRunning(i) {
			out.Movable++
		} else {
			out.Staying++
		}
	}
	return out, nil
}
