package state

import (
	"encoding/binary"
	"strings"

	"berth/api"
	"berth/raftstore/state/table"
)

// Page bounds a listing: at most Limit items after the key Marker.
type Page struct {
	Marker string
	Limit  int
}

// Nodes returns the zone's nodes by id. Records must not be changed by readers;
// that holds for every method of this file.
func (s *membersBook) Nodes() []*api.Node { return s.nodes.Values() }

// Node returns one node.
func (s *membersBook) Node(id api.NodeID) (*api.Node, bool) { return s.nodes.Get(string(id)) }

// Token returns one bearer token.
func (s *membersBook) Token(id api.TokenID) (*api.Token, bool) { return s.tokens.Get(string(id)) }

// Tokens returns all bearer tokens by id.
func (s *membersBook) Tokens() []*api.Token { return s.tokens.Values() }

// Admitted reports whether a node has joined with a token lately, and was not
// removed since.
func (s *membersBook) Admitted(id api.NodeID) bool {
	found := false
	s.joins.Scan(func(_ string, t *api.JoinToken) bool {
		found = t.Used && t.Kind == api.JoinNode && t.Name == string(id)
		return !found
	})
	return found
}

// Join returns one join token.
func (s *membersBook) Join(id api.TokenID) (*api.JoinToken, bool) { return s.joins.Get(string(id)) }

// Flavor returns one flavor.
func (s *membersBook) Flavor(id api.FlavorID) (*api.Flavor, bool) { return s.flavors.Get(string(id)) }

// Flavors returns all flavors by id.
func (s *membersBook) Flavors() []*api.Flavor { return s.flavors.Values() }

// Link returns one link.
func (s *membersBook) Link(id api.LinkID) (*api.Link, bool) { return s.links.Get(string(id)) }

// LinkByName returns the link with a name.
func (s *membersBook) LinkByName(name string) (*api.Link, bool) {
	return s.findLink(func(l *api.Link) bool { return l.Name == name })
}

// LinkByZone returns the link to a zone.
func (s *membersBook) LinkByZone(id api.ZoneID) (*api.Link, bool) {
	return s.findLink(func(l *api.Link) bool { return l.Zone == id })
}

// Parent returns the link to the parent zone.
func (s *membersBook) Parent() (*api.Link, bool) {
	return s.findLink(func(l *api.Link) bool { return l.Role == api.LinkParent })
}

func (s *membersBook) findLink(ok func(*api.Link) bool) (*api.Link, bool) {
	for _, l := range s.links.Values() {
		if ok(l) {
			return l, true
		}
	}
	return nil, false
}

// Links returns all links by id.
func (s *membersBook) Links() []*api.Link { return s.links.Values() }

// Children returns the links to children by id.
func (s *membersBook) Children() []*api.Link {
	var out []*api.Link
	for _, l := range s.links.Values() {
		if l.Role == api.LinkChild {
			out = append(out, l)
		}
	}
	return out
}

// Host returns one host with its use at the zone's time, and with the inventory and
// traits that the zone goes by: what its agent says and what operators add to it. Its
// instances are those on it and those that will move there.
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
	seen := s.wordedHost(old).merged()
	h.Inventory = make(map[api.ResourceClass]api.Inventory, len(seen.inventory))
	for c, inv := range seen.inventory {
		h.Inventory[c] = inv.Normal()
	}
	h.Traits = seen.traits
	h.Used = s.Hosts().Usage(h.ID)
	h.Instances = 0
	h.AZ = s.AZOf(h.ID)
	for _, index := range []*table.Set{&s.byHost, &s.byTarget} {
		eachOn(index, h.ID, func(api.InstanceID) { h.Instances++ })
	}
	return &h
}

func (s *stockBook) generationOf(id api.HostID) uint64 {
	if s.hostTable != nil {
		return s.hostTable.Generation(id)
	}
	row, ok := s.view.Row(id)
	if !ok {
		return 0
	}
	return s.view.Generation(row)
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

// AllHosts returns every host record by id, without its use.
func (s *stockBook) AllHosts() []*Host { return s.hosts.Values() }

func eachOn(index *table.Set, id api.HostID, visit func(api.InstanceID)) {
	prefix := string(id) + "\x00"
	index.Ascend(prefix, func(k string) bool {
		if !strings.HasPrefix(k, prefix) {
			return false
		}
		visit(api.InstanceID(k[len(prefix):]))
		return true
	})
}

// OnHost returns the instances on a host that are not DELETED, by id.
func (s *workBook) OnHost(id api.HostID) []*api.Instance {
	var out []*api.Instance
	eachOn(&s.byHost, id, func(i api.InstanceID) {
		if in, ok := s.instances.Get(string(i)); ok {
			out = append(out, in)
		}
	})
	return out
}

// Instance returns one instance, own or abroad, also a DELETED one.
func (s *workBook) Instance(id api.InstanceID) (*api.Instance, bool) {
	return s.instances.Get(string(id))
}

// InstanceQuery selects instances of one project of this zone, or all there are when
// Project is "".
type InstanceQuery struct {
	Project     api.ProjectID
	Reservation api.ReservationID // "" for any; needs a project
	Match       func(*api.Instance) bool
	Deleted     bool // DELETED ones too, for as long as they are kept
	Page
}

// InstancesPage returns instances by id: live ones, and if the query says so those
// that are DELETED.
func (s *workBook) InstancesPage(q InstanceQuery) []*api.Instance {
	var out []*api.Instance
	visit := func(id string) bool {
		i, ok := s.instances.Get(id)
		if ok && (q.Deleted || i.Live()) && id != q.Marker && (q.Match == nil || q.Match(i)) {
			out = append(out, i)
		}
		return len(out) < q.Limit
	}
	if q.Project == "" {
		s.instances.Ascend(q.Marker, func(id string, _ *api.Instance) bool { return visit(id) })
		return out
	}
	own := api.Tenant{Project: q.Project}
	index, prefix := &s.byTenant, tenantKey(own)+"\x00"
	if q.Reservation != "" {
		index, prefix = &s.byRes, resKey(own, q.Reservation)
	}
	index.Ascend(prefix+q.Marker, func(k string) bool {
		return strings.HasPrefix(k, prefix) && visit(k[len(prefix):])
	})
	return out
}

// Boot returns the record of one boot of this zone.
func (s *bootsBook) Boot(p api.ProjectID, r api.ReservationID) (*Boot, bool) {
	return s.boots.Get(joinKey(p, r))
}

// FindBoot returns the first boot, by project and reservation, for which ok is
// true; nil for none. It looks at every boot.
func (s *bootsBook) FindBoot(ok func(*Boot) bool) *Boot {
	var out *Boot
	s.boots.Scan(func(_ string, b *Boot) bool {
		if ok(b) {
			out = b
		}
		return out == nil
	})
	return out
}

// CountByStatus counts the instances that are known here by status.
func (s *workBook) CountByStatus() map[api.Status]int {
	out := map[api.Status]int{}
	s.instances.Scan(func(_ string, i *api.Instance) bool {
		out[i.Status]++
		return true
	})
	return out
}

// BootsPage returns boots of a project by reservation id.
func (s *bootsBook) BootsPage(p api.ProjectID, page Page) []*Boot {
	var out []*Boot
	prefix := string(p) + "\x00"
	s.boots.Ascend(prefix+page.Marker, func(k string, b *Boot) bool {
		if !strings.HasPrefix(k, prefix) {
			return false
		}
		if k != prefix+page.Marker {
			out = append(out, b)
		}
		return len(out) < page.Limit
	})
	return out
}

// OfReservation returns every instance of a reservation of this zone by id, DELETED
// ones too.
func (s *workBook) OfReservation(p api.ProjectID, r api.ReservationID) []*api.Instance {
	var out []*api.Instance
	prefix := resKey(api.Tenant{Project: p}, r)
	s.byRes.Ascend(prefix, func(k string) bool {
		if !strings.HasPrefix(k, prefix) {
			return false
		}
		if i, ok := s.instances.Get(k[len(prefix):]); ok {
			out = append(out, i)
		}
		return true
	})
	return out
}

// Hold returns one hold; origin is "" for one of this zone's own boots.
func (s *sagaBook) Hold(origin api.LinkID, id api.HoldID) (*Hold, bool) {
	return s.holds.Get(joinKey(origin, id))
}

// PlanUsed reports whether a plan has been used up by a hold. It forgets plans
// that have expired.
func (s *sagaBook) PlanUsed(id api.PlanID) bool {
	_, used := s.plans.Get(string(id))
	return used
}

// HoldsFor returns the holds with an id, whoever asked for them: at most one of
// this zone's own boots and one of a parent.
func (s *sagaBook) HoldsFor(id api.HoldID) []*Hold {
	var out []*Hold
	if h, ok := s.Hold("", id); ok {
		out = append(out, h)
	}
	if p, ok := s.Parent(); ok {
		if h, ok := s.Hold(p.ID, id); ok {
			out = append(out, h)
		}
	}
	return out
}

// Holds returns every hold by key; for operators and tests.
func (s *sagaBook) Holds() []*Hold { return s.holds.Values() }

// UndecidedBoots returns the boots without a decision, by key.
func (s *bootsBook) UndecidedBoots() []*Boot { return pickRecords(&s.undecided, &s.boots) }

// UntoldHolds returns decided holds that some child has not confirmed, by key.
func (s *sagaBook) UntoldHolds() []*Hold { return pickRecords(&s.untold, &s.holds) }

// PreparedHolds returns holds that a parent has not decided, by key.
func (s *sagaBook) PreparedHolds() []*Hold { return pickRecords(&s.prepared, &s.holds) }

// UnendedInstances returns instances abroad whose zone must still be told that
// they end, by id.
func (s *workBook) UnendedInstances() []*api.Instance { return pickRecords(&s.unended, &s.instances) }

func pickRecords[V any](index *table.Set, from *table.Map[V]) []V {
	out := make([]V, 0, index.Len())
	index.Scan(func(k string) bool {
		if v, ok := from.Get(k); ok {
			out = append(out, v)
		}
		return true
	})
	return out
}

// Changes returns what changed of the instances made for a parent after an
// index, in order. It stops at the first index at which it has limit items or
// more, so that no index is ever cut in two.
func (s *workBook) Changes(origin api.LinkID, after uint64, limit int) api.Changes {
	out := api.Changes{Next: after}
	prefix := string(origin) + "\x00"
	start := prefix + string(binary.BigEndian.AppendUint64(nil, after+1))
	s.changes.Ascend(start, func(k string) bool {
		if !strings.HasPrefix(k, prefix) {
			return false
		}
		rest := k[len(prefix):]
		index := binary.BigEndian.Uint64([]byte(rest[:8]))
		if len(out.Items) >= limit && index != out.Next {
			out.More = true
			return false
		}
		if i, ok := s.instances.Get(rest[8:]); ok {
			out.Items = append(out.Items, s.changeOf(i))
			out.Next = index
		}
		return true
	})
	return out
}

func (s *workBook) changeOf(i *api.Instance) api.InstanceChange {
	ch := api.InstanceChange{ID: i.ID, Status: i.Status, Updated: i.Updated, Index: i.ModIndex, Unreachable: s.UnreachableSince(i)}
	if i.Fault != "" {
		ch.Fault = FaultAbroad
	}
	return ch
}
