package fleet

import (
	"cmp"
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
			out = append(out, f.moveJobs(v, on, false)...)
		}
	}
	lost := hosts.Hosts()
	lost.AndNot(hosts.Up())
	for row := range lost.All() {
		if h, ok := v.Host(hosts.ID(row)); ok && f.isFenced(h) {
			out = append(out, f.moveJobs(v, v.OnHost(h.ID), true)...)
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
// evacuate only those whose flavor allows evacuation, and those that have not begun. A group under affinity leaves as a whole.
func (f *Fleet) moveJobs(v *state.State, all []*api.Instance, evacuate bool) []zone.Job {
	all = slices.DeleteFunc(slices.Clone(all), func(i *api.Instance) bool {
		return !isRunning(i) || isVolume(i) || i.Within != "" || evacuate && !i.Movable && !f.isUnstarted(v, i)
	})
	var out []zone.Job
	for _, group := range groupLeaving(v, all) {
		if !evacuate && !slices.ContainsFunc(group, func(i *api.Instance) bool { return i.Target == "" }) {
			continue // on its way
		}
		out = append(out, zone.Job{Key: string(group[0].ID), Run: func(ctx context.Context) error { return f.moveGroup(ctx, group, evacuate) }})
	}
	return out
}

// isUnstarted reports whether an instance has never been in a list that the agent of its host was given, so that it
// runs nowhere. Its host is down, so that its agent gets no list with it: see mayBeLeft.
func (f *Fleet) isUnstarted(v *state.State, i *api.Instance) bool {
	h, ok := v.Host(i.Host)
	return ok && i.Status == api.StatusBuild && i.Created > f.beats.lastGiven(h.Agent)
}

// isVolume reports whether i is a volume, which only its owner ends, and which stays on its host.
func isVolume(i *api.Instance) bool { return i.Volume != "" }

// isRunning reports whether an instance runs or is being started, or was stopped by its owner, who may
// start it again. An instance that has ended by itself is not started again.
func isRunning(i *api.Instance) bool {
	return i.Status == api.StatusBuild || i.Status == api.StatusActive || i.Halted && i.Status == api.StatusShutoff
}

// moveGroup plans an instance, or a group that leaves its host together, as if it were booted now, and
// proposes the move to the cheapest host, or to an alternate if that is refused.
func (f *Fleet) moveGroup(ctx context.Context, group []*api.Instance, evacuate bool) error {
	v := f.zone.View()
	var target api.HostID
	for _, i := range group {
		if now, ok := v.Instance(i.ID); !ok || now.Host != i.Host || now.Target != i.Target {
			return nil
		}
		target = cmp.Or(target, i.Target)
	}
	if from, ok := v.Host(group[0].Host); evacuate && ok && !f.isFenced(from) {
		return nil // its agent has called meanwhile
	}
	if evacuate && slices.ContainsFunc(group, func(i *api.Instance) bool { return !i.Movable && !f.isUnstarted(v, i) }) {
		return nil
	}
	if target != "" { // its host was lost before the move, or others are on their way
		return f.moveTo(ctx, group, target, evacuate)
	}
	return f.moveOff(v, group, nil, func(to api.HostID) error { return f.moveTo(ctx, group, to, evacuate) })
}

// tryMove moves a group of instances or slots to a host, in the log or in a draft. If it returns
// CodeNoCapacity, the next host is tried.
type tryMove func(to api.HostID) error

// moveOff moves a group, as together returns it, to the cheapest other host of the zone that takes it, planned
// on v by its own request as if that were made now, but to none of those with these names. It
// returns CodeNoCapacity, with what turned hosts away, if none takes it.
func (f *Fleet) moveOff(v *state.State, group []*api.Instance, names []string, try tryMove) error {
	req, err := requestOf(v, group)
	if err != nil {
		return err
	}
	if h, ok := v.Host(group[0].Host); ok && len(group) > 1 { // it may be up, and is named once
		names = append(slices.Clone(names), h.Name)
	}
	for g := range req.Groups {
		req.Groups[g].Hints.IgnoreHosts = append(slices.Clone(req.Groups[g].Hints.IgnoreHosts), names...)
	}
	move := try
	try = func(to api.HostID) error {
		for _, i := range group {
			if len(i.Volumes) > 0 && !v.ReachesVolumes(to, i) {
				return api.Errorf(api.CodeNoCapacity, "no other host of the zone that takes it reaches the volumes that are attached to it; detach them first")
			}
		}
		return move(to)
	}
	err = f.moveAs(v, group, &req, nil, try)
	if group[0].Reserved || api.CodeOf(err) != api.CodeNoCapacity {
		return err
	}
	var pooled []api.Share
	for _, i := range group {
		pooled = append(pooled, pooledShares(v, i)...)
	}
	if len(pooled) > 0 {
		return f.moveAs(v, group, &req, pooled, try)
	}
	return err
}

// moveAs is moveOff for instances that keep their allocations from shared pools: only the rest
// needs room, on a host that can use these pools.
func (f *Fleet) moveAs(v *state.State, group []*api.Instance, req *api.Request, pooled []api.Share, try tryMove) error {
	s := f.estimator.Inputs(v, req)
	s.World.Census = without{v, group}
	if len(pooled) > 0 {
		s.Spare = buildplan.SpareMax
		for g := range req.Groups {
			req.Groups[g].Resources = withoutShares(req.Groups[g].Resources, pooled)
		}
	}
	from := group[0].Host
	err := moveWithin(s, v, from, req, pooled, try)
	if req.Origin != "" && req.Within == "" && s.View.Len() < v.Hosts().Len() && api.CodeOf(err) == api.CodeNoCapacity {
		s.View = v.Hosts() // rather a host that the parent is not shown than none
		err = moveWithin(s, v, from, req, pooled, try)
	}
	return err
}

// moveWithin moves a group to the cheapest host of the inputs, but for the one that it leaves, that takes all of it.
func moveWithin(s *buildplan.Inputs, v *state.State, from api.HostID, req *api.Request, pooled []api.Share, try tryMove) error {
	plan := buildplan.Select(s, req)
	var err error = api.Errorf(api.CodeNoCapacity, "no other host of the zone takes it%s%s", describeRefusals(req, &plan), describeNowhere(v, req, from))
	if !hasAll(req, &plan) {
		return err
	}
	tried := []api.HostID{from}
	for g := range plan.Groups {
		for _, sl := range append(plan.Groups[g].Slots, plan.Groups[g].Alternates...) {
			if slices.Contains(tried, sl.Host) || !reachesShares(s.View, sl.Host, pooled) {
				continue
			}
			tried = append(tried, sl.Host)
			err = try(sl.Host)
			if err == nil || api.CodeOf(err) != api.CodeNoCapacity {
				return err
			}
		}
	}
	return err
}

// hasAll reports whether a plan has a slot for each of a group that moves together. For one that
// moves alone an alternate will do.
func hasAll(req *api.Request, p *buildplan.Plan) bool {
	want, has := 0, 0
	for g := range p.Groups {
		want += req.Groups[g].Count
		has += len(p.Groups[g].Slots)
	}
	return want == 1 || has == want
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

// describeNowhere returns the traits that a request demands and no other host of the zone has; "" for none.
func describeNowhere(v *state.State, req *api.Request, from api.HostID) string {
	var out []string
	for g := range req.Groups {
		if req.Groups[g].Count == 0 {
			continue
		}
		for _, d := range v.TraitsNowhere(&req.Groups[g], from) {
			if text := d.String(); !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ": none has the trait " + strings.Join(out, ", nor ")
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

func (f *Fleet) moveTo(ctx context.Context, group []*api.Instance, to api.HostID, evacuate bool) error {
	c := moveCommand(group, to)
	c.Stamp, c.Evacuate = f.zone.Stamp(), evacuate
	c.Unstarted = evacuate && slices.ContainsFunc(group, func(i *api.Instance) bool { return !i.Movable })
	_, err := f.zone.Propose(ctx, c)
	return err
}

// moveCommand returns the move of a group; the caller fills in when.
func moveCommand(group []*api.Instance, to api.HostID) command.InstanceMove {
	c := command.InstanceMove{ID: group[0].ID, From: group[0].Host, To: to}
	for _, i := range group[1:] {
		c.With = append(c.With, i.ID)
	}
	return c
}

// without is a census that leaves out instances that are about to move.
type without struct {
	filters.Census
	gone []*api.Instance
}

func (c without) Members(t api.Tenant, rule string) (map[api.HostID]int, map[api.LinkID]int) {
	here, elsewhere := c.Census.Members(t, rule)
	for _, i := range c.gone {
		if !slices.Contains(i.Rules, rule) || t != i.Tenant() {
			continue
		}
		if here[i.Host]--; here[i.Host] == 0 {
			delete(here, i.Host)
		}
	}
	return here, elsewhere
}

// Evacuation is the progress of evacuating a lost host.
type Evacuation struct {
	Movable int           // still to be moved
	Staying int           // they may run, and their flavor does not allow evacuation
	Wait    time.Duration // until the host's agent must have stopped them; 0 if that has passed
}

// ReportEvacuation reports what happens to the instances of a host that is down. Those that have not begun, and
// those whose flavor allows it, are started on other hosts automatically, once the agent of the host
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
		if isRunning(i) && (i.Movable || f.isUnstarted(v, i)) {
			out.Movable++
		} else {
			out.Staying++
		}
	}
	return out, nil
}
