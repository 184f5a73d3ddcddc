package state

import (
	"maps"
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// checkPlace refuses an invalid change of name or parent.
func (s *stockBook) checkPlace(w *declaredProvider, c command.ProviderSet) Result {
	if w.host != nil {
		switch {
		case c.Name != nil && *c.Name != w.host.Name:
			return refuseWith(api.CodeConflict, "the agent of host %q names it; start the agent with another name", w.host.Name)
		case c.Parent != nil && *c.Parent != "":
			return refuseWith(api.CodeConflict, "host %q is a root and stays one", w.host.Name)
		}
		return Result{}
	}
	if c.Name != nil {
		if r := s.checkName(c.ID, *c.Name); r.Err != nil {
			return r
		}
	}
	if c.Parent == nil {
		return Result{}
	}
	if r := s.checkParent(c.ID, *c.Parent); r.Err != nil {
		return r
	}
	from, _ := s.rootOf(c.ID)
	to := c.ID
	if *c.Parent != "" {
		to, _ = s.rootOf(*c.Parent)
	}
	if from != to && s.runOn(c.ID) {
		return refuseWith(api.CodeConflict, "instances draw from provider %s, or from what is below it; end or move them first", string(c.ID))
	}
	return Result{}
}

// runOn reports whether an instance or a held slot uses a provider or its descendants.
func (s *stockBook) runOn(id api.ProviderID) bool {
	found := false
	s.consumersOf(id, func(who api.ConsumerID) bool {
		_, other := s.consumers.Get(string(who))
		found = !other
		return !found
	})
	eachOn(&s.children, id, func(child api.InstanceID) { found = found || s.runOn(api.ProviderID(child)) })
	return found
}

// checkInventory refuses an inventory that is malformed, or that lacks a class declared by
// the agent.
func (s *stockBook) checkInventory(w *declaredProvider, want map[api.ResourceClass]api.Inventory) Result {
	if len(want) > s.limits.classes {
		return refuseWith(api.CodeInvalid, "an inventory has at most %d resource classes, got %d", s.limits.classes, len(want))
	}
	for _, class := range slices.Sorted(maps.Keys(want)) {
		if r := s.checkClass(class); r.Err != nil {
			return r
		}
		if err := want[class].Validate(class); err != nil {
			return Result{Err: err}
		}
	}
	for _, class := range slices.Sorted(maps.Keys(w.declared.inventory)) {
		if _, stays := want[class]; !stays {
			return refuseWith(api.CodeConflict, "the agent of host %q says that it has %s; start the agent without it", w.host.Name, class)
		}
	}
	return Result{}
}

func (s *stockBook) checkClass(name api.ResourceClass) Result {
	if _, known := s.ResourceClass(name); !known {
		return refuseWith(api.CodeInvalid, "no resource class %q", string(name))
	}
	return Result{}
}

// hasClass reports whether the provider has a class now.
func (w *declaredProvider) hasClass(class api.ResourceClass) bool {
	_, ok := w.merged().inventory[class]
	return ok
}

// checkTraits refuses a list of traits with unknown ones, or without one that the agent
// declares.
func (s *stockBook) checkTraits(w *declaredProvider, want []string) Result {
	for _, name := range want {
		if _, known := s.Trait(name); !known {
			return refuseWith(api.CodeInvalid, "no trait %q", name)
		}
	}
	if lost := listWithout(w.declared.traits, want); len(lost) > 0 {
		return refuseWith(api.CodeConflict, "the agent of host %q says that it has the trait %s; start the agent without it", w.host.Name, lost[0])
	}
	return Result{}
}

// checkAggregates refuses a list of aggregates that is too long or malformed, or that
// contradicts the zone's own aggregates.
func (s *stockBook) checkAggregates(w *declaredProvider, want []string) Result {
	if len(want) > s.limits.providerAggs {
		return refuseWith(api.CodeInvalid, "a provider is in at most %d aggregates, got %d", s.limits.providerAggs, len(want))
	}
	if lost := listWithout(w.declared.aggregates, want); len(lost) > 0 {
		return refuseWith(api.CodeConflict, "host %q is a member of aggregate %s; take it out of that", w.host.Name, lost[0])
	}
	for _, id := range listWithout(want, w.declared.aggregates) {
		if !api.ValidUUID(id) {
			return refuseWith(api.CodeInvalid, "an aggregate must be a UUID, got %q", id)
		}
		if a, ok := s.aggregates.Get(id); ok && w.host != nil {
			return refuseWith(api.CodeConflict, "%s is aggregate %q; add host %q to that", id, a.Name, w.host.Name)
		}
	}
	return Result{}
}

// listWithout returns the items of a sorted list that are not in the other, nil if none.
func listWithout(list, other []string) []string {
	var out []string
	for _, v := range list {
		if _, found := slices.BinarySearch(other, v); !found {
			out = append(out, v)
		}
	}
	return out
}

// setOwn stores the placement API's declaration for a provider. edit changes a provider
// other than a host further. The generation stays.
func (s *stockBook) setOwn(id api.ProviderID, own declaration, edit func(*api.Provider)) {
	if old, ok := s.hosts.Get(string(id)); ok {
		h := *old
		h.OwnInventory, h.OwnTraits, h.OwnAggregates, h.OwnFields, h.Updated = own.inventory, own.traits, own.aggregates, own.fields, s.now
		s.putHost(&h)
		s.hostTable.Put(s.specOf(&h))
		return
	}
	old, _ := s.providers.Get(string(id))
	p := *old
	p.Inventory, p.Traits, p.Aggregates, p.Updated = own.inventory, own.traits, own.aggregates, s.now
	if edit != nil {
		edit(&p)
	}
	s.storeProvider(old, &p)
}
