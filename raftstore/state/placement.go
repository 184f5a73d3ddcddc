package state

import (
	"maps"
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

func (s *State) providerSet(c command.ProviderSet) Result {
	if r := s.checkGeneration(c.ID, c.Generation); r.Err != nil {
		return r
	}
	w, _ := s.declaredOf(c.ID)
	if r := s.checkPlace(w, c); r.Err != nil {
		return r
	}
	own, before, bump := w.own, w.merged(), c.Inventory != nil
	if c.Inventory != nil {
		if r := s.checkInventory(w, *c.Inventory); r.Err != nil {
			return r
		}
		if r := s.checkUnused(c.ID, w, *c.Inventory, nil); r.Err != nil {
			return r
		}
		own.inventory, own.fields = s.ownInventory(w, *c.Inventory)
	}
	if c.Traits != nil {
		want := sortedUnique(*c.Traits)
		if r := s.checkTraits(w, want); r.Err != nil {
			return r
		}
		own.traits = listWithout(want, w.declared.traits)
		bump = bump || !slices.Equal(want, before.traits)
	}
	if c.Aggregates != nil {
		want := sortedUnique(*c.Aggregates)
		if r := s.checkAggregates(w, want); r.Err != nil {
			return r
		}
		own.aggregates = listWithout(want, w.declared.aggregates)
		bump = bump || c.Bump
	}
	s.setOwn(c.ID, own, func(p *api.Provider) {
		assignIfSet(&p.Name, c.Name)
		assignIfSet(&p.Parent, c.Parent)
	})
	if bump {
		s.bumpGeneration(c.ID)
	}
	return Result{}
}

// checkUnused refuses to remove a class on which there are claims. Claims of the consumers
// in leave do not count: the same call replaces them.
func (s *State) checkUnused(id api.ProviderID, w *declaredProvider, want map[api.ResourceClass]api.Inventory, leave map[api.ConsumerID]bool) Result {
	for _, class := range slices.Sorted(maps.Keys(w.merged().inventory)) {
		if _, stays := want[class]; !stays && s.claimedClass(id, class, leave) {
			return refuseWith(api.CodeInUse, "%s of provider %s is in use", class, string(id))
		}
	}
	return Result{}
}

func (s *State) consumersPut(c command.ConsumersPut) Result {
	a := allotment{
		names: map[api.ConsumerID]bool{}, seen: map[api.ProviderID]declaration{},
		had: map[api.ProviderID]api.Resources{}, wanted: map[api.ProviderID]api.Resources{},
	}
	for _, check := range []func(*allotment, command.ConsumersPut) Result{
		s.checkEntries, s.checkReshape, s.checkConsumers, s.checkShares, s.checkRoom, s.checkLeft,
	} {
		if r := check(&a, c); r.Err != nil {
			return r
		}
	}
	s.reshapeProviders(c)
	for _, e := range c.Consumers {
		s.consumerPut(e)
	}
	return Result{}
}

// checkConsumers refuses consumers that the caller may not change, or that have changed
// meanwhile.
func (s *State) checkConsumers(_ *allotment, c command.ConsumersPut) Result {
	count := s.consumers.Len()
	for _, e := range c.Consumers {
		if s.isInstance(e.ID) {
			return refuseWith(api.CodeConflict, "consumer %s is an instance; its zone alone changes what it draws", string(e.ID))
		}
		old, ok := s.consumers.Get(string(e.ID))
		switch {
		case e.Generation == nil:
		case !ok && *e.Generation != 0:
			return refuseWith(api.CodeStale, "consumer %s is new and at no generation, not %d; read it again", string(e.ID), *e.Generation)
		case ok && *e.Generation != old.Generation:
			return refuseWith(api.CodeStale, "consumer %s is at generation %d, not %d; read it again", string(e.ID), old.Generation, *e.Generation)
		}
		switch {
		case ok && len(e.Shares) == 0:
			count--
		case !ok && len(e.Shares) > 0:
			count++
		}
	}
	if count > s.limits.consumers && count > s.consumers.Len() {
		return refuseWith(api.CodeOverloaded, "the zone would have %d consumers; the limit is %d", count, s.limits.consumers)
	}
	return Result{}
}

// checkLeft refuses to remove a class on which consumers outside the call have claims.
func (s *State) checkLeft(a *allotment, c command.ConsumersPut) Result {
	for _, r := range c.Reshape {
		w, _ := s.declaredOf(r.ID)
		if r := s.checkUnused(r.ID, w, r.Inventory, a.names); r.Err != nil {
			return r
		}
	}
	return Result{}
}

func (s *State) consumerDelete(c command.ConsumerDelete) Result {
	if s.isInstance(c.ID) {
		return refuseWith(api.CodeConflict, "consumer %s is an instance; delete that", string(c.ID))
	}
	old, ok := s.consumers.Get(string(c.ID))
	if !ok {
		return refuseWith(api.CodeNotFound, "consumer %s has no allocations", string(c.ID))
	}
	s.forgetConsumer(old)
	return Result{}
}
