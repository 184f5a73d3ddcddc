package fleet

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Times of the agent protocol.
const (
	AgentBeat        = 2 * time.Second  // maximum interval between calls of an agent
	HostGraceDefault = 10 * time.Second // silence after which an agent's hosts are down
	// FenceAfter is the silence of the zone after which an agent stops its fenced instances:
	// those that may be started elsewhere, and preemptible ones. EvacuateAfter is the silence of
	// the agent after which the zone counts on that. It is longer, because a deposed leader may
	// have answered the agent meanwhile, and a stop takes time.
	FenceAfter    = 20 * time.Second
	fenceMargin   = 15 * time.Second
	EvacuateAfter = FenceAfter + fenceMargin
)

// RegisterHosts records the hosts of an agent and returns their ids in order. Hosts
// that the agent no longer names are down from then on, and get no new instances.
func (f *Fleet) RegisterHosts(ctx context.Context, a api.AgentID, r *api.AgentRegister) (*api.AgentRegistered, error) {
	if len(r.Hosts) == 0 || len(r.Hosts) > api.HostsPerAgentMax {
		return nil, api.Errorf(api.CodeInvalid, "an agent must register 1 to %d hosts, got %d", api.HostsPerAgentMax, len(r.Hosts))
	}
	names := map[string]bool{}
	for i := range r.Hosts {
		if err := checkHost(&r.Hosts[i], names); err != nil {
			return nil, err
		}
	}
	f.beats.noteBeat(a, f.zone.Now())
	c := command.HostsPut{Stamp: f.zone.Stamp(), Agent: a, Whole: true}
	for _, h := range r.Hosts {
		h.Inventory = withUnits(h.Inventory)
		c.Hosts = append(c.Hosts, command.HostEntry{ID: api.HostID(api.NewUUID()), Host: h})
	}
	res, err := f.zone.Change(ctx, c, func(v *state.State) error { return v.CheckHosts(&c) })
	if err != nil {
		return nil, err
	}
	out := &api.AgentRegistered{Term: f.zone.Store().Term(), Hosts: res.Hosts, Beat: AgentBeat}
	v := f.zone.View()
	if known, ok := v.Agent(a); ok {
		out.Lost = known.Lost
	}
	f.warnMissing(ctx, v, res.Hosts)
	return out, nil
}

// warnMissing logs which traits some hosts have no more, though what stands on them was asked for with them: an
// agent cannot be refused.
func (f *Fleet) warnMissing(ctx context.Context, v *state.State, hosts []api.HostID) {
	for _, id := range hosts {
		h, known := v.Host(id)
		for _, d := range v.MissingTraits(id) {
			if known {
				f.zone.Log().WarnContext(ctx, "host no longer has a trait that was asked for", "host", h.Name, "trait", d.String(), "needed_by", len(d.Of))
			}
		}
	}
}

// withUnits returns an inventory whose min_unit, if the agent has not set it, is the
// step_size, as in the placement API.
func withUnits(all map[api.ResourceClass]api.Inventory) map[api.ResourceClass]api.Inventory {
	out := maps.Clone(all)
	for class, v := range all {
		if v.MinUnit == 0 && v.StepSize > 1 {
			v.MinUnit = v.StepSize
			out[class] = v
		}
	}
	return out
}

func checkHost(h *api.AgentHost, names map[string]bool) error {
	if err := api.CheckName("host name", h.Name); err != nil {
		return err
	}
	if names[h.Name] {
		return api.Errorf(api.CodeInvalid, "host %q is named twice", h.Name)
	}
	names[h.Name] = true
	if !h.Pool.Valid() {
		return api.Errorf(api.CodeInvalid, "pool of host %q must be %q, %q or %q", h.Name, api.PoolOnDemand, api.PoolReservable, api.PoolShared)
	}
	if len(h.Inventory) == 0 || len(h.Inventory) > api.ClassesMax {
		return api.Errorf(api.CodeInvalid, "host %q must have 1 to %d resource classes", h.Name, api.ClassesMax)
	}
	for _, c := range slices.Sorted(maps.Keys(h.Inventory)) {
		if !c.Valid() {
			return api.Errorf(api.CodeInvalid, "resource class %q must be a standard one, or CUSTOM_ and upper case letters, digits and _", string(c))
		}
		v := h.Inventory[c]
		if err := v.Validate(c); err != nil {
			return err
		}
		if v.AllocationRatio > api.AgentRatioMax {
			return api.Errorf(api.CodeInvalid, "an agent may report an allocation_ratio of at most %d, and host %q has more for %s; an administrator may set more", api.AgentRatioMax/api.RatioOne, h.Name, c)
		}
		if v.MaxUnit != 0 && v.MinUnit > v.MaxUnit {
			return api.Errorf(api.CodeInvalid, "min_unit of %s of host %q must not exceed max_unit", c, h.Name)
		}
	}
	if len(h.Driver) > api.NameMaxBytes {
		return api.Errorf(api.CodeInvalid, "the driver of host %q may have at most %d bytes", h.Name, api.NameMaxBytes)
	}
	if err := api.CheckPairs("attributes of host "+h.Name, h.Attributes, api.AttributesMax); err != nil {
		return err
	}
	if len(h.Traits) > api.TraitsMax {
		return api.Errorf(api.CodeInvalid, "host %q may have at most %d traits, got %d", h.Name, api.TraitsMax, len(h.Traits))
	}
	return nil
}

// Work answers an agent's long poll with the list of instances for each host whose list changed
// after a generation: the whole list, or the changes for an agent that reads them. It answers at once too when the addresses of the zone's
// nodes are not those that the agent was told last: it must know the new ones before the old ones are gone.
func (f *Fleet) Work(ctx context.Context, a api.AgentID, r *api.AgentWork) (*api.AgentWorkload, error) {
	ctx, cancel := context.WithTimeout(ctx, min(max(r.Wait, 0), api.WaitMax))
	defer cancel()
	term := f.zone.Store().Term()
	var serves bool
	var hosts []*state.Host
	f.beats.noteBeat(a, f.zone.Now())
	v, err := f.zone.Store().WaitFor(ctx, state.WorkTopic(a), func(v *state.State) bool {
		serves, hosts = v.Serves(a), v.WorkAfter(a, r.After)
		if mayBeLeft(v, hosts) {
			hosts = nil
		}
		if len(hosts) > 0 {
			f.beats.noteGiven(a, v.Now())
		}
		return !serves || len(hosts) > 0 || !f.beats.knowsAddresses(a, agentAddresses(v))
	})
	if serves {
		f.beats.noteAddresses(a, agentAddresses(v))
	}
	switch {
	case !serves: // also after a restore from a backup of earlier times
		return nil, api.Errorf(api.CodeNotFound, "the zone knows no host of this agent; register them")
	case err != nil, len(hosts) == 0: // no work in time, or addresses alone: the answer is an empty list
		w := workloadOf(v, f.zone.Instant(), term, r, nil)
		w.Generation = r.After
		return w, nil
	}
	return workloadOf(v, f.zone.Instant(), term, r, hosts), nil
}

// mayBeLeft reports whether instances of a host may be evacuated, or evicted ones counted as
// gone, at any moment, because the log has the host as down. An agent that calls again gets no
// list before the log has its host as up; from then on neither happens, so that it starts
// nothing that the zone has given up.
func mayBeLeft(v *state.State, hosts []*state.Host) bool {
	return slices.ContainsFunc(hosts, func(h *state.Host) bool {
		return h.State == api.HostDown && slices.ContainsFunc(v.OnHost(h.ID), func(i *api.Instance) bool { return i.Fenced() || i.Status == api.StatusBuild })
	})
}

// Report records an agent's report on its instances. What it says of others, or says twice, reaches no
// log.
func (f *Fleet) Report(ctx context.Context, a api.AgentID, r *api.AgentReport) (*api.AgentAck, error) {
	if len(r.Items) > api.ReportsMax {
		return nil, api.Errorf(api.CodeInvalid, "a report may have at most %d items, got %d", api.ReportsMax, len(r.Items))
	}
	f.beats.noteBeat(a, f.zone.Now())
	items := siftReports(f.zone.View(), a, r.Items)
	if len(items) < len(r.Items) { // rightly, or is this node behind?
		v, err := f.zone.Latest(ctx)
		if err != nil {
			return nil, err
		}
		items = siftReports(v, a, r.Items)
	}
	if len(items) > 0 {
		if _, err := f.zone.Propose(ctx, command.InstanceReport{Stamp: f.zone.Stamp(), Agent: a, Items: items}); err != nil {
			return nil, err
		}
	}
	return &api.AgentAck{Term: f.zone.Store().Term()}, nil
}

// siftReports returns the items of a report that count: of each instance on a host the last one, in order.
// The log grows by these alone, whatever an agent sends.
func siftReports(v *state.State, a api.AgentID, items []api.InstanceReport) []api.InstanceReport {
	type place struct {
		host     api.HostID
		instance api.InstanceID
	}
	last := map[place]int{}
	for n, r := range items {
		last[place{r.Host, r.Instance}] = n
	}
	var out []api.InstanceReport
	for n, r := range items {
		if last[place{r.Host, r.Instance}] == n && v.TakesReport(a, &r) {
			r.Fault = state.Clip(r.Fault)
			switch {
			case v.Form() < api.FormFifth || r.Restarted <= 0:
				r.Restarted, r.Reason = 0, ""
			case r.Reason != api.RestartFenced:
				r.Reason = api.RestartAgent
			}
			out = append(out, r)
		}
	}
	return out
}

// watchHosts marks hosts down when their agent is silent for too long, and up when it
// calls again.
func (f *Fleet) watchHosts(ctx context.Context) {
	var seen outages
	f.zone.Every(ctx, AgentBeat/2, func(ctx context.Context) error {
		v := f.zone.View()
		seen.logChanges(ctx, f, v)
		grace := graceOf(v)
		down := command.HostsState{Stamp: f.zone.Stamp(), State: api.HostDown}
		up := command.HostsState{Stamp: f.zone.Stamp(), State: api.HostUp}
		now := f.zone.Now()
		for _, h := range v.AllHosts() {
			silent := f.beats.silentFor(h.Agent, now)
			switch {
			case h.State == api.HostUp && silent > grace:
				down.Hosts = append(down.Hosts, h.ID)
			case h.Unserved: // it stays down until its agent registers it
			case h.State == api.HostDown && silent < grace/2 && f.beats.isKnown(h.Agent):
				up.Hosts = append(up.Hosts, h.ID)
			}
		}
		for _, c := range []command.HostsState{down, up} {
			if len(c.Hosts) == 0 {
				continue
			}
			if _, err := f.zone.Propose(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
}
