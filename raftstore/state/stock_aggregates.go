package state

import (
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/raftstore/command"
)

func (s *stockBook) aggregatePut(c command.AggregatePut) Result {
	a := c.Aggregate
	a.Hosts = slices.Compact(slices.Sorted(slices.Values(a.Hosts)))
	old, exists := s.aggregates.Get(string(a.ID))
	switch {
	case exists && sameAggregate(old, &a):
		return Result{} // a repeat, or nothing to change
	case exists && !c.Replace:
		return refuseWith(api.CodeConflict, "aggregate %s exists, as %q", string(a.ID), old.Name)
	case !exists && c.Replace:
		return refuseWith(api.CodeNotFound, "no such aggregate")
	case !exists && s.aggregates.Len() >= s.limits.aggregates:
		return refuseWith(api.CodeOverloaded, "the zone has %d aggregates, which is the limit", s.limits.aggregates)
	}
	if o, taken := s.AggregateByName(a.Name); taken && o.ID != a.ID {
		return refuseWith(api.CodeConflict, "an aggregate named %q exists", a.Name)
	}
	if r := s.checkAggregate(&a); r.Err != nil {
		return r
	}
	a.Created, a.Updated = c.At, c.At
	if exists {
		a.Created = old.Created
	}
	s.replaceAggregate(old, &a)
	return Result{}
}

// sameAggregate reports whether two aggregates are equal except for their times.
func sameAggregate(a, b *api.Aggregate) bool {
	return a.Name == b.Name && maps.Equal(a.Metadata, b.Metadata) && slices.Equal(a.Hosts, b.Hosts)
}

// checkAggregate refuses hosts that are unknown, or that another aggregate puts
// into another availability zone.
func (s *stockBook) checkAggregate(a *api.Aggregate) Result {
	az := a.Metadata[api.MetaAZ]
	for _, id := range a.Hosts {
		h, ok := s.hosts.Get(string(id))
		if !ok {
			return refuseWith(api.CodeNotFound, "no host %s", string(id))
		}
		for _, o := range s.aggregatesOf(id) {
			other := o.Metadata[api.MetaAZ]
			if o.ID != a.ID && az != "" && other != "" && other != az {
				return refuseWith(api.CodeConflict, "host %q is in aggregate %q, which puts it into availability zone %q", h.Name, o.Name, other)
			}
		}
	}
	return Result{}
}

func (s *stockBook) aggregateDelete(c command.AggregateDelete) Result {
	old, ok := s.aggregates.Get(string(c.ID))
	if !ok {
		return refuseWith(api.CodeNotFound, "no such aggregate")
	}
	s.replaceAggregate(old, nil)
	return Result{}
}

// replaceAggregate stores a in place of old, either of which may be nil. It raises the
// generation of the hosts for which something changes.
func (s *stockBook) replaceAggregate(old, a *api.Aggregate) {
	var all []api.HostID
	for _, one := range []*api.Aggregate{old, a} {
		if one != nil {
			all = append(all, one.Hosts...)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	before := make([]string, len(all))
	for i, id := range all {
		before[i] = s.standingOf(id)
	}
	if old != nil {
		s.aggregates.Delete(string(old.ID))
		for _, id := range old.Hosts {
			s.inAggregate.Delete(joinKey(id, old.ID))
		}
	}
	if a != nil {
		s.loadAggregate(a)
	}
	for i, id := range all {
		if s.standingOf(id) != before[i] {
			s.updateTable(id)
		}
	}
}

func (s *stockBook) loadAggregate(a *api.Aggregate) {
	s.aggregates.Set(string(a.ID), a)
	for _, id := range a.Hosts {
		s.inAggregate.Insert(joinKey(id, a.ID))
	}
}

// standingOf returns a host's aggregates and availability zone as one string to compare.
func (s *stockBook) standingOf(id api.HostID) string {
	return strings.Join(append(s.aggregateIDs(id), s.AZOf(id)), "\x00")
}

// leaveAggregates removes a host that is being deleted from all aggregates.
func (s *stockBook) leaveAggregates(id api.HostID) {
	for _, old := range s.aggregatesOf(id) {
		a := *old
		a.Hosts = slices.DeleteFunc(slices.Clone(a.Hosts), func(h api.HostID) bool { return h == id })
		a.Updated = s.now
		s.aggregates.Set(string(a.ID), &a)
		s.inAggregate.Delete(joinKey(id, a.ID))
	}
}

// aggregateIDs returns the aggregates that a host is in, by id.
func (s *stockBook) aggregateIDs(id api.HostID) []string {
	var out []string
	eachUnder(&s.inAggregate, string(id)+"\x00", func(a string) { out = append(out, a) })
	return out
}

func (s *stockBook) aggregatesOf(id api.HostID) []*api.Aggregate {
	var out []*api.Aggregate
	for _, a := range s.aggregateIDs(id) {
		if got, ok := s.aggregates.Get(a); ok {
			out = append(out, got)
		}
	}
	return out
}

// Aggregates returns all aggregates by id.
func (s *stockBook) Aggregates() []*api.Aggregate { return s.aggregates.Values() }

// Aggregate returns one aggregate.
func (s *stockBook) Aggregate(id api.AggregateID) (*api.Aggregate, bool) {
	return s.aggregates.Get(string(id))
}

// AggregateByName returns the aggregate with a name.
func (s *stockBook) AggregateByName(name string) (*api.Aggregate, bool) {
	var found *api.Aggregate
	s.aggregates.Scan(func(_ string, a *api.Aggregate) bool {
		if a.Name == name {
			found = a
		}
		return found == nil
	})
	return found, found != nil
}

// AZOf returns the availability zone of a host: that of an aggregate it is in, else
// the zone's default, else the zone's name.
func (s *stockBook) AZOf(id api.HostID) string {
	for _, a := range s.aggregatesOf(id) {
		if az := a.Metadata[api.MetaAZ]; az != "" {
			return az
		}
	}
	if s.Config.DefaultAZ != "" {
		return s.Config.DefaultAZ
	}
	return s.Name
}

// AZs returns, in order, the availability zones of the hosts that take work.
func (s *stockBook) AZs() []string {
	all := map[string]bool{}
	s.hosts.Scan(func(_ string, h *Host) bool {
		if h.takesWork() {
			all[s.AZOf(h.ID)] = true
		}
		return true
	})
	return slices.Sorted(maps.Keys(all))
}

// configSet replaces the configuration except for the scheduler's part. It raises the
// generation of hosts whose availability zone or cleaning time changes.
func (s *stockBook) configSet(c command.ConfigSet) {
	hosts := s.hosts.Values()
	before := make([]string, len(hosts))
	for i, h := range hosts {
		before[i] = s.AZOf(h.ID)
	}
	s.setConfig(c.Config)
	for i, h := range hosts {
		if s.AZOf(h.ID) != before[i] {
			s.updateTable(h.ID)
		}
		s.recheckCleaning(h.ID)
	}
}
