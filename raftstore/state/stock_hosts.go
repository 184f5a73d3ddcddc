package state

import (
	"maps"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/capacity"
	"berth/raftstore/command"
)

// failuresMax is the highest count of failures of a host.
const failuresMax = 1000

// Host is one host, with the fields that only its own zone needs.
type Host struct {
	api.Host
	// Work is the log index of the last change to the list of what should run here.
	Work uint64 `cbor:"20,keyasint"`
	// Needs is what the driver needs of a flavor, as the agent reports it; nil if not reported.
	Needs *api.Needs `cbor:"25,keyasint,omitempty" form:"2"`
}

// takesWork reports whether new claims may be made on the host.
func (h *Host) takesWork() bool {
	return h.Enabled && h.State == api.HostUp && h.Maintenance == ""
}

// whyNoWork returns why the host takes no work.
func (h *Host) whyNoWork() string {
	switch {
	case !h.Enabled:
		return "disabled"
	case h.Maintenance != "":
		return "in maintenance"
	case h.Unserved:
		return "not served by its agent"
	}
	return string(h.State)
}

func (s *stockBook) hostsPut(c command.HostsPut) Result {
	if r := s.mayPut(&c); r.Err != nil {
		return r
	}
	ids := make([]api.HostID, 0, len(c.Hosts))
	s.idle = true // until a host differs
	for _, e := range c.Hosts {
		ids = append(ids, s.hostPut(c, e))
	}
	if c.Whole {
		s.takeDownUnserved(c, ids)
	}
	return Result{Hosts: ids}
}

// CheckHosts returns why an agent may not register hosts; nil if it may.
func (s *stockBook) CheckHosts(c *command.HostsPut) error { return s.mayPut(c).Err }

// mayPut refuses hosts that others have, and what is more than one agent may make the zone keep.
func (s *stockBook) mayPut(c *command.HostsPut) Result {
	if a, known := s.agents.Get(string(c.Agent)); known && a.IsRevoked() {
		return refuseWith(api.CodeForbidden, "the agent was revoked; it may join with a new token")
	}
	fresh, terms := 0, s.termsOf(c.Agent)
	for _, e := range c.Hosts {
		if id, known := s.byName.Get(e.Host.Name); known {
			h, host := s.hosts.Get(string(id))
			switch {
			case !host:
				return refuseWith(api.CodeConflict, "a provider that is no host has the name %q", e.Host.Name)
			case h.Agent != c.Agent:
				return refuseWith(api.CodeConflict, "host %q belongs to another agent", e.Host.Name)
			}
		} else if _, taken := s.providers.Get(string(e.ID)); taken {
			return refuseWith(api.CodeConflict, "a provider that is no host has the id %s", string(e.ID))
		} else {
			fresh++
		}
		if !strings.HasPrefix(e.Host.Name, terms.HostPrefix) {
			return refuseWith(api.CodeForbidden, "host %q: the agent joined for hosts whose names begin with %q", e.Host.Name, terms.HostPrefix)
		}
		if c, more := terms.ExceededBy(e.Host.Inventory); more {
			return refuseWith(api.CodeForbidden, "host %q: the agent joined for hosts that offer at most %d of %s, and it offers %d", e.Host.Name, terms.HostCapacity[c], string(c), e.Host.Inventory[c].Capacity())
		}
	}
	most := s.limits.agentHosts
	if terms.HostsMax > 0 {
		most = min(most, terms.HostsMax)
	}
	if fresh > 0 && most > 0 {
		if n := len(s.hostsOf(c.Agent, 0)); n+fresh > most {
			return refuseWith(api.CodeOverloaded, "the agent has %d hosts, and would have %d more; the limit is %d; delete those that it no longer serves", n, fresh, most)
		}
	}
	return s.mayLearn(c)
}

// takeDownUnserved marks the hosts that an agent no longer serves as down.
func (s *stockBook) takeDownUnserved(c command.HostsPut, served []api.HostID) {
	serves := make(map[api.HostID]bool, len(served))
	for _, id := range served {
		serves[id] = true
	}
	for _, old := range s.hostsOf(c.Agent, 0) {
		if serves[old.ID] || old.Unserved {
			continue
		}
		h := *old
		h.State, h.Unserved, h.Updated = api.HostDown, true, c.At
		s.idle = false
		s.storeHost(&h)
	}
}

// awaitAgent leaves the hosts of an agent that are down as not served: the agent has to register them
// before they are up, and learns then which of its hosts were written off.
func (s *stockBook) awaitAgent(agent api.AgentID) {
	for _, old := range s.hostsOf(agent, 0) {
		if old.State == api.HostDown && !old.Unserved {
			h := *old
			h.Unserved, h.Updated = true, s.now
			s.storeHost(&h)
		}
	}
}

func (s *stockBook) hostPut(c command.HostsPut, e command.HostEntry) api.HostID {
	h := Host{Host: api.Host{ID: e.ID, Name: e.Host.Name, Enabled: true, Created: c.At}, Work: s.index}
	if id, known := s.byName.Get(e.Host.Name); known {
		old, _ := s.hosts.Get(string(id))
		h = *old
		if s.Form() >= api.FormFifth {
			h.OwnInventory, h.OwnFields = s.declarationsOfHost(old).narrowed(e.Host.Inventory)
		}
		s.idle = s.idle && old.isReported(c.Agent, &e.Host)
	} else {
		s.idle = false
		h.Pool, h.Enabled = e.Host.Pool, !s.termsOf(c.Agent).Disabled
		s.byName.Set(h.Name, h.ID)
	}
	h.Agent, h.Driver, h.State, h.Updated = c.Agent, e.Host.Driver, api.HostUp, c.At
	h.Unserved, h.Needs = false, e.Host.Needs
	h.Inventory, h.Traits, h.Attributes = e.Host.Inventory, e.Host.Traits, e.Host.Attributes
	s.shareHost(&h)
	s.learnNames(h.Inventory, h.Traits, c.At)
	s.storeHost(&h)
	return h.ID
}

// isReported reports whether an agent that serves h says of it what it has said before. Attributes
// may be measurements, so they do not count.
func (h *Host) isReported(by api.AgentID, r *api.AgentHost) bool {
	return h.Agent == by && !h.Unserved && h.Driver == r.Driver && maps.Equal(h.Inventory, r.Inventory) && slices.Equal(h.Traits, r.Traits)
}

// storeHost stores a host, updates the host table, and raises the generation.
func (s *stockBook) storeHost(h *Host) {
	switch {
	case h.State != api.HostDown:
		h.DownSince = 0
	case h.DownSince == 0:
		h.DownSince = s.now
	}
	old, known := s.hosts.Get(string(h.ID))
	s.hostTable.Put(s.specOf(h))
	s.recheckCleaning(h.ID)
	s.bumpGeneration(h.ID)
	s.putHost(h)
	if !known || old.DownSince != h.DownSince {
		s.addFact(hostReached{h.ID, h.DownSince})
	}
}

// cleaningOf returns the cleaning time that a host should have: that of the configuration,
// if leases may use the host. A host that something is claimed of keeps what it has, because its
// claims were admitted with that.
func (s *stockBook) cleaningOf(h *Host) time.Duration {
	switch {
	case s.isClaimed(h.ID):
		return h.Cleaning
	case h.Pool == api.PoolOnDemand:
		return 0
	}
	return s.Config.Leases.Cleaning
}

// recheckCleaning has refreshCleaning look at a host.
func (s *stockBook) recheckCleaning(id api.HostID) {
	if s.recheck == nil {
		s.recheck = map[api.HostID]bool{}
	}
	s.recheck[id] = true
}

// refreshCleaning gives each host that the command has changed or freed the cleaning time
// that it should have. It is the last step of a command: until then a claim may be released only
// to be made anew.
func (s *stockBook) refreshCleaning() {
	for _, id := range slices.Sorted(maps.Keys(s.recheck)) {
		if old, ok := s.hosts.Get(string(id)); ok && s.cleaningOf(old) != old.Cleaning {
			h := *old
			h.Cleaning = s.cleaningOf(old)
			s.storeHost(&h)
			s.hostTable.SetGap(id, h.Cleaning)
		}
	}
	clear(s.recheck)
}

// DriverNeeds returns what the host's driver needs of a flavor.
func (h *Host) DriverNeeds() api.Needs {
	if h.Needs != nil {
		return *h.Needs
	}
	return api.UnreportedNeeds(h.Driver)
}

func (s *stockBook) specOf(h *Host) capacity.Spec {
	attributes := h.Attributes
	if len(h.Overrides) > 0 {
		attributes = mergeMaps(h.Attributes, h.Overrides)
	}
	seen := s.declarationsOfHost(h).merged()
	return capacity.Spec{
		ID: h.ID, Name: h.Name, Inventory: seen.inventory, Traits: seen.traits, Pool: h.Pool,
		Up: h.State == api.HostUp, Enabled: h.Enabled, NeedsCommand: h.DriverNeeds().Command,
		Maintenance: h.Maintenance != "", Failures: h.Failures, Attributes: attributes,
		Aggregates: seen.aggregates, AZ: s.AZOf(h.ID), Gap: h.Cleaning,
	}
}

// updateTable updates the host table after a change outside the record of a host.
func (s *stockBook) updateTable(id api.HostID) {
	if h, ok := s.hosts.Get(string(id)); ok {
		s.hostTable.Put(s.specOf(h))
		s.bumpGeneration(id)
	}
}

// noteFailures counts the failed starts on a host since the last successful one. It is
// called before the report of i is applied.
func (s *stockBook) noteFailures(i *api.Instance, reported api.Status) {
	old, ok := s.hosts.Get(string(i.Host))
	if !ok {
		return
	}
	n := old.Failures
	switch {
	case i.Status == api.StatusBuild && reported == api.StatusError:
		n = min(n+1, failuresMax)
	case i.Status != api.StatusDeleting && i.Status != api.StatusActive && reported == api.StatusActive:
		n = 0
	}
	if n == old.Failures {
		return
	}
	h := *old
	h.Failures = n
	s.storeHost(&h)
}

// hostsState marks hosts up or down. A host that its agent does not serve stays down.
func (s *stockBook) hostsState(c command.HostsState) Result {
	for _, id := range c.Hosts {
		if old, ok := s.hosts.Get(string(id)); ok && old.State != c.State && !old.Unserved {
			h := *old
			h.State, h.Updated = c.State, c.At
			s.storeHost(&h)
		}
	}
	return Result{}
}

func (s *stockBook) hostSet(c command.HostSet) Result {
	old, r := s.hostAt(c.ID, c.Generation)
	if old == nil {
		return r
	}
	h := *old
	assignIfSet(&h.Enabled, c.Enabled)
	assignIfSet(&h.Pool, c.Pool)
	assignIfSet(&h.Maintenance, c.Maintenance)
	assignIfSet(&h.Drain, c.Drain)
	if c.Maintenance != nil && *c.Maintenance == "" && c.Drain == nil {
		h.Drain = ""
	}
	h.Overrides = mergeMaps(h.Overrides, c.Overrides)
	if r := s.checkHost(&h); r.Err != nil {
		return r
	}
	if h.Enabled == old.Enabled && h.Pool == old.Pool && h.Maintenance == old.Maintenance && h.Drain == old.Drain &&
		maps.Equal(h.Overrides, old.Overrides) {
		return Result{} // nothing changes, so the generation does not
	}
	h.Updated = c.At
	s.storeHost(&h)
	return Result{}
}

// mergeMaps returns old with the pairs of set; an empty value removes a key.
func mergeMaps(old, set map[string]string) map[string]string {
	out := maps.Clone(old)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, set)
	maps.DeleteFunc(out, func(_, v string) bool { return v == "" })
	if len(out) == 0 {
		return nil
	}
	return out
}

// checkHost refuses invalid settings of a host.
func (s *stockBook) checkHost(h *Host) Result {
	switch {
	case len(h.Maintenance) > s.limits.faultBytes:
		return refuseWith(api.CodeInvalid, "the reason of maintenance may have at most %d bytes", s.limits.faultBytes)
	case h.Drain != "" && !h.Drain.Valid():
		return refuseWith(api.CodeInvalid, "drain must be %s, %s or %s", api.DrainWait, api.DrainEnd, api.DrainMove)
	case h.Drain != "" && h.Maintenance == "":
		return refuseWith(api.CodeInvalid, "only a host in maintenance is drained")
	}
	return Result{Err: api.CheckPairs("overrides", h.Overrides, s.limits.attributes)}
}

func (s *stockBook) hostDelete(c command.HostDelete) Result {
	h, r := s.hostAt(c.ID, c.Generation)
	if h == nil {
		return r
	}
	return s.forgetHost(h, api.CodeConflict)
}

// forgetHost deletes a host, or refuses with the code inUse if it is in use.
func (s *stockBook) forgetHost(h *Host, inUse api.Code) Result {
	if r := s.mayForget(h.ID, inUse); r.Err != nil {
		return r
	}
	s.leaveAggregates(h.ID)
	if old, ok := s.hosts.Delete(string(h.ID)); ok {
		s.hostTexts -= old.textsOf()
	}
	s.removeWork(h)
	s.byName.Delete(h.Name)
	s.hostTable.Remove(h.ID)
	return Result{}
}

// hostAt returns the host if generation is 0 or current, else nil and the refusal.
func (s *stockBook) hostAt(id api.HostID, generation uint64) (*Host, Result) {
	h, ok := s.hosts.Get(string(id))
	if !ok {
		return nil, refuseWith(api.CodeNotFound, "no such host")
	}
	if current := s.hostTable.Generation(id); generation != 0 && generation != current {
		return nil, refuseWith(api.CodeStale, "the host is at generation %d, not %d; read it again", current, generation)
	}
	return h, Result{}
}

// Draining returns the hosts that are being drained, by id.
func (s *stockBook) Draining() []*Host {
	var out []*Host
	s.hosts.Scan(func(_ string, h *Host) bool {
		if h.Drain != "" {
			out = append(out, h)
		}
		return true
	})
	return out
}

func (s *stockBook) loadHost(h *Host) {
	s.shareHost(h)
	s.hosts.Set(string(h.ID), h)
	s.hostTexts += h.textsOf()
	s.work.Insert(workKey(h))
	s.byName.Set(h.Name, h.ID)
	s.learnNames(h.Inventory, h.Traits, h.Created) // a snapshot of an earlier build has no such list
	s.hostTable.Put(s.specOf(h))
}

// savedHosts returns the hosts with their generations from the host table.
func (s *stockBook) savedHosts() []*Host {
	hosts := s.hosts.Values()
	for i, old := range hosts {
		cp := *old
		cp.Generation = s.generationOf(cp.ID)
		hosts[i] = &cp
	}
	return hosts
}

// AllHosts returns every host record by id, without its use.
func (s *stockBook) AllHosts() []*Host { return s.hosts.Values() }

// sharedHost returns an id with the text of the host's own record.
func (s *stockBook) sharedHost(id api.HostID) api.HostID {
	if h, ok := s.hosts.Get(string(id)); ok {
		return h.ID
	}
	return id
}
