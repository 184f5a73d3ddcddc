package state

import (
	"iter"
	"maps"
	"slices"

	"berth/api"
)

// Allocation is what one consumer uses of a provider at the zone's time.
type Allocation struct {
	Consumer   api.ConsumerID
	Generation uint64 // of the consumer
	Resources  api.Resources
}

// Usage is what the consumers of one type use at the zone's time.
type Usage struct {
	Type      string // "" for those that have none
	Consumers int
	Resources api.Resources
}

// Consumer returns one consumer with what it uses at the zone's time, or false if it uses
// nothing. The generation of an instance is the log index of its last change; that of a
// held slot is 1.
func (s *sagaBook) Consumer(id api.ConsumerID) (*api.Consumer, bool) {
	if c, ok := s.consumers.Get(string(id)); ok {
		return c, true
	}
	shares := s.sharesNow(id)
	if len(shares) == 0 {
		return nil, false
	}
	out := api.Consumer{ID: id, Type: api.ConsumerInstance, Instance: true, Generation: 1, Shares: shares}
	if i, ok := s.instances.Get(string(id)); ok {
		out.Project, out.User, out.Created, out.Updated, out.Generation = i.Project, i.User, i.Created, i.Updated, i.ModIndex
		return &out, true
	}
	h, _, _ := s.heldSlot(id)
	out.Project, out.User, out.Created, out.Updated = h.Request.Project, h.Request.User, h.Created, h.Updated
	return &out, true
}

// Knows reports whether an id is taken by a consumer, a held slot, or an instance that has
// not been pruned.
func (s *sagaBook) Knows(id api.ConsumerID) bool { return s.knowsInstance(id) }

// AllocationsOn returns the allocations on a provider at the zone's time, by consumer.
func (s *sagaBook) AllocationsOn(id api.ProviderID) []Allocation {
	var out []Allocation
	s.consumersOf(id, func(who api.ConsumerID) bool {
		c, ok := s.Consumer(who)
		if !ok {
			return true
		}
		for _, sh := range c.Shares {
			if sh.Provider == id {
				out = append(out, Allocation{Consumer: who, Generation: c.Generation, Resources: sh.Resources})
			}
		}
		return true
	})
	return out
}

// Usages returns what a project of this zone uses at the zone's time, by type of consumer.
// If u is given, only that user's consumers count. A parent's project of the same name is
// another project.
func (s *sagaBook) Usages(p api.ProjectID, u *api.UserID) []Usage {
	byType := map[string]*Usage{}
	for _, id := range s.consumersFor(p) {
		c, ok := s.Consumer(id)
		if !ok || u != nil && c.User != *u {
			continue
		}
		sum := byType[c.Type]
		if sum == nil {
			sum = &Usage{Type: c.Type, Resources: api.Resources{}}
			byType[c.Type] = sum
		}
		sum.Consumers++
		for _, sh := range c.Shares {
			for class, n := range sh.Resources {
				sum.Resources[class] += n
			}
		}
	}
	var out []Usage
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		out = append(out, *byType[name])
	}
	return out
}

// consumersFor returns the consumers of a project of this zone: those made by the placement
// API, its instances, and the slots of its undecided holds.
func (s *sagaBook) consumersFor(p api.ProjectID) []api.ConsumerID {
	var out []api.ConsumerID
	own := api.Tenant{Project: p}
	eachUnder(&s.byOwner, string(p)+"\x00", func(id string) { out = append(out, api.ConsumerID(id)) })
	s.byTenant.Ascend(tenantKey(own), "", func(id string) bool {
		out = append(out, api.ConsumerID(id))
		return true
	})
	s.held.Scan(func(id, _ string) bool {
		if h, _, ok := s.heldSlot(api.ConsumerID(id)); ok && h.Tenant() == own {
			out = append(out, api.ConsumerID(id))
		}
		return true
	})
	return out
}

// claimsOf yields every claim of a consumer that has not been released, with its
// provider.
func (s *sagaBook) claimsOf(id api.ConsumerID) iter.Seq2[api.ProviderID, api.Claim] {
	if c, ok := s.consumers.Get(string(id)); ok {
		return allocations("", consumerClaim(c), c.Shares)
	}
	if i, ok := s.instances.Get(string(id)); ok {
		return s.instanceClaims(i)
	}
	if h, n, ok := s.heldSlot(id); ok && h.Slots[n].Keeps == "" {
		return allocations(h.Slots[n].Host, s.claimOfSlot(h, h.Slots[n]), h.sharesOf(n))
	}
	return func(func(api.ProviderID, api.Claim) bool) {}
}

// heldSlot returns the undecided hold that has a slot on an own host for an instance, and
// the index of the slot.
func (s *sagaBook) heldSlot(id api.InstanceID) (*Hold, int, bool) {
	h, held := s.UndecidedHoldOf(id)
	if !held {
		return nil, 0, false
	}
	for n := range h.Slots {
		if h.Slots[n].Instance.ID == id {
			return h, n, true
		}
	}
	return nil, 0, false // a child has it
}

// sharesNow returns what a consumer uses at the zone's time, by provider. What is within the
// slot of a lease uses nothing more.
func (s *sagaBook) sharesNow(id api.ConsumerID) []api.Share {
	sums := map[api.ProviderID]api.Resources{}
	for at, c := range s.claimsOf(id) {
		if len(c.Resources) == 0 || c.Within != nil || !c.Window.Contains(s.now) {
			continue
		}
		if sums[at] == nil {
			sums[at] = api.Resources{}
		}
		for class, n := range c.Resources {
			sums[at][class] += n
		}
	}
	var out []api.Share
	for _, at := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, api.Share{Provider: at, Resources: sums[at]})
	}
	return out
}

// claimedClass reports whether a consumer outside leave has a claim on a class of a provider.
func (s *sagaBook) claimedClass(id api.ProviderID, class api.ResourceClass, leave map[api.ConsumerID]bool) bool {
	found := false
	s.consumersOf(id, func(who api.ConsumerID) bool {
		if leave[who] {
			return true
		}
		for at, c := range s.claimsOf(who) {
			found = found || at == id && c.Resources[class] > 0
		}
		return !found
	})
	return found
}
