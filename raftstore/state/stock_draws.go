package state

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"berth/api"
)

// What a consumer claims is drawn from one provider or several. A slot, and the
// instance that it becomes, draws from its host all that its shares do not give; see
// capacity.Table.Place. A consumer of the placement API draws what its shares say. The
// index draws has, by provider and consumer, how many claims were made and not released.

// allocations yields what a claim of a slot on a host takes of each provider: of the host
// all but what shares give, be it nothing, and of the others what they give. With no
// host, shares are all there is. Shares that are in kept are left out: another claim
// of the same slot has them.
func allocations(host api.HostID, c api.Claim, shares []api.Share, kept ...api.Share) iter.Seq2[api.ProviderID, api.Claim] {
	return func(yield func(api.ProviderID, api.Claim) bool) {
		if host != "" && !yield(host, withoutShares(c, shares)) {
			return
		}
		for _, sh := range shares {
			c.Resources = sh.Resources
			if !slices.ContainsFunc(kept, sh.Equal) && !yield(sh.Provider, c) {
				return
			}
		}
	}
}

// withoutShares returns a claim less what shares give of it.
func withoutShares(c api.Claim, shares []api.Share) api.Claim {
	if len(shares) == 0 {
		return c
	}
	c.Resources = maps.Clone(c.Resources)
	for _, sh := range shares {
		for class := range sh.Resources { // each class comes whole from one provider
			delete(c.Resources, class)
		}
	}
	return c
}

// allocate makes a claim of a slot, or of a consumer if host is "", which is there or was
// found to fit.
func (s *stockBook) allocate(host api.HostID, c api.Claim, shares []api.Share, kept ...api.Share) {
	for id, part := range allocations(host, c, shares, kept...) {
		if id == host {
			s.hostTable.Restore(id, part)
		} else {
			s.hostTable.Lend(id, part)
		}
	}
	s.noteDrawn(host, c, shares, +1, kept...)
}

// releaseAllocation releases what draw or take has claimed.
func (s *stockBook) releaseAllocation(host api.HostID, c api.Claim, shares []api.Share, kept ...api.Share) {
	for id, part := range allocations(host, c, shares, kept...) {
		if id == host {
			s.hostTable.Release(id, part)
		} else {
			s.hostTable.Return(id, part)
		}
	}
	s.noteDrawn(host, c, shares, -1, kept...)
}

func (s *stockBook) noteDrawn(host api.HostID, c api.Claim, shares []api.Share, n int, kept ...api.Share) {
	for id := range allocations(host, c, shares, kept...) {
		addTally(&s.draws, joinKey(id, c.Consumer), n)
	}
}

// bumpDrawn moves every provider that a slot or consumer draws from one generation on.
func (s *stockBook) bumpDrawn(host api.HostID, shares []api.Share, kept ...api.Share) {
	for id := range allocations(host, api.Claim{}, shares, kept...) {
		s.bumpGeneration(id)
	}
}

// consumersOf visits, by id, who has claims on a provider, whatever their windows.
func (s *stockBook) consumersOf(id api.ProviderID, visit func(api.ConsumerID) bool) {
	prefix := string(id) + "\x00"
	s.draws.Ascend(prefix, func(k string, _ int) bool {
		return strings.HasPrefix(k, prefix) && visit(api.ConsumerID(k[len(prefix):]))
	})
}

// isClaimed reports whether anybody has a claim on a provider.
func (s *stockBook) isClaimed(id api.ProviderID) bool {
	found := false
	s.consumersOf(id, func(api.ConsumerID) bool {
		found = true
		return false
	})
	return found
}

// claimedClass reports whether anybody but leave has a claim on a class of a provider.
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

// claimsOf yields every claim of a consumer that was made and not released, with the
// provider that it is on.
func (s *sagaBook) claimsOf(id api.ConsumerID) iter.Seq2[api.ProviderID, api.Claim] {
	if c, ok := s.consumers.Get(string(id)); ok {
		return allocations("", consumerClaim(c), c.Shares)
	}
	if i, ok := s.instances.Get(string(id)); ok {
		return instanceClaims(i)
	}
	if h, n, ok := s.heldSlot(id); ok {
		return allocations(h.Slots[n].Host, h.claimOfSlot(h.Slots[n]), h.sharesOf(n))
	}
	return func(func(api.ProviderID, api.Claim) bool) {}
}

func instanceClaims(i *api.Instance) iter.Seq2[api.ProviderID, api.Claim] {
	return func(yield func(api.ProviderID, api.Claim) bool) {
		if i.Host == "" || !i.Live() {
			return
		}
		for id, c := range allocations(i.Host, claimOf(i), i.Shares) {
			if !yield(id, c) {
				return
			}
		}
		if i.Target == "" {
			return
		}
		for id, c := range allocations(i.Target, claimOf(i), i.TargetShares, i.Kept()...) {
			if !yield(id, c) {
				return
			}
		}
	}
}

// heldSlot returns the undecided hold that has a slot on an own host for an instance,
// and the number of the slot.
func (s *sagaBook) heldSlot(id api.InstanceID) (*Hold, int, bool) {
	k, held := s.held.Get(string(id))
	if !held {
		return nil, 0, false
	}
	h, _ := s.holds.Get(k)
	for n := range h.Slots {
		if h.Slots[n].Instance.ID == id {
			return h, n, true
		}
	}
	return nil, 0, false // a child has it
}

// sharesNow returns what a consumer draws at the zone's time, by provider.
func (s *sagaBook) sharesNow(id api.ConsumerID) []api.Share {
	sums := map[api.ProviderID]api.Resources{}
	for at, c := range s.claimsOf(id) {
		if len(c.Resources) == 0 || !c.Window.Contains(s.now) {
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
