package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/state/table"
)

// Host returns one host with its use at the zone's time, and with the merged inventory and
// traits of its agent and its operators. Its instances are those on it and those that will
// move there.
func (s *workBook) Host(id api.HostID) (*Host, bool) {
	h, ok := s.hosts.Get(string(id))
	if !ok {
		return nil, false
	}
	return s.fillHost(h), true
}

// HostByName returns one host by name.
func (s *workBook) HostByName(name string) (*Host, bool) {
	id, ok := s.byName.Get(name)
	if !ok {
		return nil, false
	}
	return s.Host(id)
}

func (s *workBook) fillHost(old *Host) *Host {
	h := *old
	h.Generation = s.generationOf(h.ID)
	seen := s.declarationsOfHost(old).merged()
	h.Inventory = make(map[api.ResourceClass]api.Inventory, len(seen.inventory))
	for c, inv := range seen.inventory {
		h.Inventory[c] = inv.Normal()
	}
	for c := range h.OwnInventory {
		if reported, has := old.Inventory[c]; has {
			if h.Reported == nil {
				h.Reported = map[api.ResourceClass]api.Inventory{}
			}
			h.Reported[c] = reported.Normal()
		}
	}
	h.Traits = seen.traits
	h.Used = s.Hosts().Usage(h.ID)
	h.Instances = 0
	h.AZ = s.AZOf(h.ID)
	for _, index := range []*table.Pairs{&s.byHost, &s.byTarget} {
		index.Ascend(string(h.ID), "", func(string) bool {
			h.Instances++
			return true
		})
	}
	return &h
}

// HostsPage returns hosts by name, with their use.
func (s *workBook) HostsPage(p Page) []*Host {
	var out []*Host
	s.byName.Ascend(p.Marker, func(name string, id api.HostID) bool {
		if name == p.Marker {
			return true
		}
		if h, ok := s.Host(id); ok {
			out = append(out, h)
		}
		return len(out) < p.Limit
	})
	return out
}

// OnHost returns the instances on a host that are not DELETED, by id, without slots.
func (s *workBook) OnHost(id api.HostID) []*api.Instance {
	return slices.DeleteFunc(s.allOn(id), func(i *api.Instance) bool { return i.Reserved })
}

// allOn returns the instances and slots on a host that are not DELETED, by id.
func (s *workBook) allOn(id api.HostID) []*api.Instance {
	var out []*api.Instance
	s.byHost.Ascend(string(id), "", func(id string) bool {
		if i, ok := s.instances.Get(id); ok {
			out = append(out, i)
		}
		return true
	})
	return out
}

// Instance returns one instance, own or abroad, even if it is DELETED.
func (s *workBook) Instance(id api.InstanceID) (*api.Instance, bool) {
	return s.instances.Get(string(id))
}

// InstanceQuery selects instances of one project of this zone, or of all projects if
// Project is "".
type InstanceQuery struct {
	Project     api.ProjectID
	Reservation api.ReservationID // "" for any; needs a project
	Match       func(*api.Instance) bool
	Deleted     bool // include DELETED instances, as long as they are kept
	Volumes     bool // volumes, and no instances
	Page
}

// InstancesPage returns instances, or volumes, by id, without slots: live ones, and DELETED ones
// if the query includes them.
func (s *workBook) InstancesPage(q InstanceQuery) []*api.Instance {
	var out []*api.Instance
	visit := func(id string) bool {
		i, ok := s.instances.Get(id)
		if ok && !i.Reserved && (i.Volume != "") == q.Volumes && (q.Deleted || i.Live()) && id != q.Marker && (q.Match == nil || q.Match(i)) {
			out = append(out, i)
		}
		return len(out) < q.Limit
	}
	if q.Project == "" {
		s.instances.Ascend(q.Marker, func(id string, _ *api.Instance) bool { return visit(id) })
		return out
	}
	own := api.Tenant{Project: q.Project}
	index, key := &s.byTenant, tenantKey(own)
	if q.Reservation != "" {
		index, key = &s.byRes, resKey(own, q.Reservation)
	}
	index.Ascend(key, q.Marker, visit)
	return out
}

// CountByStatus counts all known instances by status, without slots and volumes.
func (s *workBook) CountByStatus() map[api.Status]int {
	out := map[api.Status]int{}
	s.instances.Scan(func(_ string, i *api.Instance) bool {
		if !i.Reserved && i.Volume == "" {
			out[i.Status]++
		}
		return true
	})
	return out
}

// OfReservation returns every instance of a reservation of this zone by id, including
// DELETED ones.
func (s *workBook) OfReservation(p api.ProjectID, r api.ReservationID) []*api.Instance {
	return s.inReservation(api.Tenant{Project: p}, r)
}

// inReservation is OfReservation for a tenant.
func (s *workBook) inReservation(t api.Tenant, r api.ReservationID) []*api.Instance {
	var out []*api.Instance
	s.byRes.Ascend(resKey(t, r), "", func(id string) bool {
		if i, ok := s.instances.Get(id); ok {
			out = append(out, i)
		}
		return true
	})
	return out
}

// UnendedInstances returns the instances abroad whose zone must still be told to end them,
// by id.
func (s *workBook) UnendedInstances() []*api.Instance { return pickRecords(&s.unended, s.instances) }

// UnendedInstance returns the instance with an id, if its zone must still be told to end it.
func (s *workBook) UnendedInstance(id string) (*api.Instance, bool) {
	return pickRecord(&s.unended, s.instances, id)
}

// RoomUse is how one resource class is used on own hosts, as far as leases and preemptibles have it.
type RoomUse struct {
	Reserved    int64 // by slots that have begun
	Idle        int64 // of that, what their owners do not use
	Lent        int64 // of that, what preemptibles use
	Preemptible int64 // by preemptibles outside of leases
}

// RoomUse returns how leases and preemptibles use own hosts, by resource class. It looks at every
// instance.
func (s *workBook) RoomUse() map[api.ResourceClass]RoomUse {
	out := map[api.ResourceClass]RoomUse{}
	add := func(i *api.Instance, count func(u *RoomUse, n int64)) {
		for class, n := range i.Resources { // in any order
			u := out[class]
			count(&u, n)
			out[class] = u
		}
	}
	s.instances.Scan(func(_ string, i *api.Instance) bool {
		switch {
		case i.Host == "" || !i.Live():
		case i.Reserved && i.Status == api.StatusActive:
			add(i, func(u *RoomUse, n int64) { u.Reserved, u.Idle = u.Reserved+n, u.Idle+n })
		case i.Reserved:
		case i.Within != "" && i.Class == api.Preemptible:
			add(i, func(u *RoomUse, n int64) { u.Lent += n })
		case i.Within != "":
			add(i, func(u *RoomUse, n int64) { u.Idle -= n })
		case i.Class == api.Preemptible:
			add(i, func(u *RoomUse, n int64) { u.Preemptible += n })
		}
		return true
	})
	return out
}
