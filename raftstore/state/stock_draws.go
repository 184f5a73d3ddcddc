package state

import (
	"iter"
	"slices"

	"berth/api"
	"berth/capacity"
)

// The claim of a consumer is served by one provider or several. A slot, and the instance
// that it becomes, uses its host for everything that its shares do not give; see
// capacity.Table.Place. A consumer of the placement API uses its shares only. The index
// draws counts the claims that have not been released, by provider and consumer.

// allocations yields what the claim of a slot on a host takes from each provider: from the
// host everything that shares do not give, even if that is nothing, and from the others
// their share. Without a host there are only shares. Shares in kept are left out: another
// claim of the same slot has them.
func allocations(host api.HostID, c api.Claim, shares []api.Share, kept ...api.Share) iter.Seq2[api.ProviderID, api.Claim] {
	return func(yield func(api.ProviderID, api.Claim) bool) {
		if host != "" && !yield(host, capacity.OwnPart(c, shares)) {
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

// allocate makes the claim of a slot, or of a consumer if host is "", that is known to
// fit.
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

// releaseAllocation releases what allocate or claimSlot has claimed.
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
		s.draws.Add(string(id), string(c.Consumer), n)
		if n < 0 {
			s.recheckCleaning(id)
		}
	}
}

// bumpDrawn raises the generation of every provider that a slot or consumer uses.
func (s *stockBook) bumpDrawn(host api.HostID, shares []api.Share, kept ...api.Share) {
	for id := range allocations(host, api.Claim{}, shares, kept...) {
		s.bumpGeneration(id)
	}
}

// consumersOf visits the consumers with claims on a provider, in any window, by id.
func (s *stockBook) consumersOf(id api.ProviderID, visit func(api.ConsumerID) bool) {
	s.draws.Ascend(string(id), func(consumer string, _ int) bool { return visit(api.ConsumerID(consumer)) })
}

// isClaimed reports whether there is a claim on a provider.
func (s *stockBook) isClaimed(id api.ProviderID) bool {
	found := false
	s.consumersOf(id, func(api.ConsumerID) bool {
		found = true
		return false
	})
	return found
}

// claimSlot claims a slot on a host, and what the host cannot give from providers that it
// reaches. It returns the shares of those. all is what a whole host gives, with them. anyState
// is for a host that need not take work.
func (s *stockBook) claimSlot(id api.HostID, c api.Claim, anyState bool) (shares []api.Share, all api.Resources, ok bool) {
	host, known := s.hosts.Get(string(id))
	if !known || !anyState && !host.takesWork() {
		return nil, nil, false
	}
	var err error
	if c.Whole {
		shares, all, err = s.hostTable.PlaceWhole(id, c)
	} else {
		shares, err = s.hostTable.Place(id, c)
	}
	if err != nil {
		return nil, nil, false
	}
	s.noteDrawn(host.ID, c, shares, +1) // with the text of its record
	return shares, all, true
}

// takeTarget claims room for an instance with the claim c on its target. It does not claim shares of sharing
// providers twice: if they can give the same shares on the target, the instance keeps them.
// What the target now gives as a sharing provider is claimed anew, as what its host gives.
func (s *stockBook) takeTarget(i *api.Instance, c api.Claim) bool {
	pooled := slices.DeleteFunc(slices.Clone(i.Shares), func(sh api.Share) bool {
		root, _ := s.rootOf(sh.Provider)
		return root == i.Host || sh.Provider == i.Target
	})
	for {
		ok := s.takeBeside(i, c, pooled)
		fewer := slices.DeleteFunc(slices.Clone(pooled), func(sh api.Share) bool { return changesProvider(sh, i.TargetShares) })
		if !ok || len(fewer) == len(pooled) {
			return ok
		}
		s.releaseAllocation(i.Target, c, i.TargetShares, i.Kept()...)
		pooled = fewer
	}
}

// takeBeside claims room for an instance on its target as if its shares in pooled were
// free. That is right only if none of pooled changes.
func (s *stockBook) takeBeside(i *api.Instance, c api.Claim, pooled []api.Share) bool {
	for id, part := range allocations("", c, pooled) {
		s.hostTable.Return(id, part)
	}
	shares, _, ok := s.claimSlot(i.Target, c, false)
	i.ChangeExtras(func(x *api.InstanceExtras) { x.TargetShares = shares })
	kept := i.Kept()
	for id, part := range allocations("", c, pooled, kept...) {
		s.hostTable.Lend(id, part)
	}
	for id, part := range allocations("", c, kept, pooled...) { // there it was claimed again
		s.hostTable.Return(id, part)
	}
	for _, sh := range kept {
		s.draws.Add(string(sh.Provider), string(i.ID), -1) // claimSlot has counted it again
	}
	return ok
}

// changesProvider reports whether the provider of a share gives a different one in shares.
func changesProvider(old api.Share, shares []api.Share) bool {
	return slices.ContainsFunc(shares, func(sh api.Share) bool { return sh.Provider == old.Provider && !sh.Equal(old) })
}
