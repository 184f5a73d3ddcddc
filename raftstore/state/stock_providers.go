package state

import (
	"slices"
	"strings"
	"unicode/utf8"

	"berth/api"
	"berth/capacity"
	"berth/raftstore/command"
)

// declaration is the inventory, traits and aggregates that one source claims for a provider.
type declaration struct {
	inventory  map[api.ResourceClass]api.Inventory
	traits     []string // sorted
	aggregates []string // sorted
	// fields are those of inventory that the source has set, by class: the others follow the other
	// source. A class without an entry is set as a whole.
	fields map[api.ResourceClass]api.InventoryFields
}

// declaredProvider is a provider and its declarations by source. Those of a host's agent
// and of the operators' aggregates are merged with those of the placement API, whose
// inventory of a class wins, in the fields that it sets. A provider that is not a host has only the latter.
type declaredProvider struct {
	// declared is by the agent and the aggregates, own by the placement API.
	declared, own declaration
	host          *Host // nil for none
}

// declaredOf returns a provider, which may be a host.
func (s *stockBook) declaredOf(id api.ProviderID) (*declaredProvider, bool) {
	if h, ok := s.hosts.Get(string(id)); ok {
		return s.declarationsOfHost(h), true
	}
	p, ok := s.providers.Get(string(id))
	if !ok {
		return nil, false
	}
	return declarationsOfProvider(p), true
}

func (s *stockBook) declarationsOfHost(h *Host) *declaredProvider {
	return &declaredProvider{
		declared: declaration{inventory: h.Inventory, traits: sortedUnique(h.Traits), aggregates: s.aggregateIDs(h.ID)},
		own:      declaration{h.OwnInventory, h.OwnTraits, h.OwnAggregates, h.OwnFields}, host: h,
	}
}

func declarationsOfProvider(p *api.Provider) *declaredProvider {
	return &declaredProvider{own: declaration{inventory: p.Inventory, traits: p.Traits, aggregates: p.Aggregates}}
}

// merged returns the declaration that is in effect. It may share memory with records.
func (w *declaredProvider) merged() declaration {
	return declaration{
		inventory: w.mergedInventory(), traits: mergeSorted(w.declared.traits, w.own.traits),
		aggregates: mergeSorted(w.declared.aggregates, w.own.aggregates),
	}
}

// mergeSorted returns the items that are in either of two sorted lists, sorted.
func mergeSorted(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	return sortedUnique(slices.Concat(a, b))
}

// sortedUnique returns the words of a list in order, each once.
func sortedUnique(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// findProvider returns the name of a provider for which ok is true, "" for none. It scans
// all providers.
func (s *stockBook) findProvider(ok func(*declaredProvider) bool) string {
	found := ""
	s.hosts.Scan(func(_ string, h *Host) bool {
		if ok(s.declarationsOfHost(h)) {
			found = h.Name
		}
		return found == ""
	})
	if found != "" {
		return found
	}
	s.providers.Scan(func(_ string, p *api.Provider) bool {
		if ok(declarationsOfProvider(p)) {
			found = p.Name
		}
		return found == ""
	})
	return found
}

// Provider returns one provider, which may be a host, with its use at the zone's time and
// the merged declarations of agent and operators.
func (s *stockBook) Provider(id api.ProviderID) (*api.Provider, bool) {
	w, ok := s.declaredOf(id)
	if !ok {
		return nil, false
	}
	var out api.Provider
	if h := w.host; h != nil {
		out = api.Provider{ID: h.ID, Name: h.Name, Created: h.Created, Updated: h.Updated, CanHost: true, Reported: h.Inventory}
	} else {
		p, _ := s.providers.Get(string(id))
		out = *p
	}
	seen := w.merged()
	out.Inventory = make(map[api.ResourceClass]api.Inventory, len(seen.inventory))
	for c, inv := range seen.inventory {
		out.Inventory[c] = inv.Normal()
	}
	out.Traits, out.Aggregates = append([]string{}, seen.traits...), append([]string{}, seen.aggregates...)
	out.Generation, out.Used = s.generationOf(id), s.Hosts().Usage(id)
	out.Root, _ = s.rootOf(id)
	return &out, true
}

// Providers returns all providers by id, including hosts.
func (s *stockBook) Providers() []*api.Provider {
	ids := make([]string, 0, s.hosts.Len()+s.providers.Len())
	ids = append(append(ids, s.hosts.Keys()...), s.providers.Keys()...)
	slices.Sort(ids)
	out := make([]*api.Provider, len(ids))
	for i, id := range ids {
		out[i], _ = s.Provider(api.ProviderID(id))
	}
	return out
}

// ProviderByName returns one provider by name; see Provider.
func (s *stockBook) ProviderByName(name string) (*api.Provider, bool) {
	id, ok := s.byName.Get(name)
	if !ok {
		return nil, false
	}
	return s.Provider(id)
}

func (s *stockBook) isProvider(id api.ProviderID) bool {
	_, host := s.hosts.Get(string(id))
	_, other := s.providers.Get(string(id))
	return host || other
}

// rootOf returns the root of a provider's tree, and the depth of the provider in it; the
// root has depth 1.
func (s *stockBook) rootOf(id api.ProviderID) (root api.ProviderID, depth int) {
	for {
		depth++
		p, ok := s.providers.Get(string(id))
		if !ok || p.Parent == "" {
			return id, depth
		}
		id = p.Parent
	}
}

// extentOf returns the number of providers in the subtree of id, and its height; a provider
// without children has size 1 and height 1.
func (s *stockBook) extentOf(id api.ProviderID) (size, height int) {
	size = 1
	eachOn(&s.children, id, func(child api.InstanceID) {
		n, h := s.extentOf(api.ProviderID(child))
		size, height = size+n, max(height, h)
	})
	return size, height + 1
}

func (s *stockBook) hasChildren(id api.ProviderID) bool {
	found := false
	prefix := string(id) + "\x00"
	s.children.Ascend(prefix, func(k string) bool {
		found = strings.HasPrefix(k, prefix)
		return false
	})
	return found
}

func (s *stockBook) providerCreate(c command.ProviderCreate) Result {
	switch {
	case c.ID == "":
		return refuseWith(api.CodeInvalid, "a provider needs an id")
	case s.isProvider(c.ID):
		return refuseWith(api.CodeExists, "provider %s exists", string(c.ID))
	case s.providers.Len() >= s.limits.providers:
		return refuseWith(api.CodeOverloaded, "the zone has %d providers that are no hosts, which is the limit", s.limits.providers)
	}
	if r := s.checkName(c.ID, c.Name); r.Err != nil {
		return r
	}
	if r := s.checkParent(c.ID, c.Parent); r.Err != nil {
		return r
	}
	s.storeProvider(nil, &api.Provider{ID: c.ID, Name: c.Name, Parent: c.Parent, Created: c.At, Updated: c.At})
	return Result{}
}

// checkName refuses an invalid or taken name of a provider.
func (s *stockBook) checkName(id api.ProviderID, name string) Result {
	if n := utf8.RuneCountInString(name); n < 1 || n > s.limits.providerName {
		return refuseWith(api.CodeInvalid, "the name of a provider must have 1 to %d characters, got %d", s.limits.providerName, n)
	}
	if other, taken := s.byName.Get(name); taken && other != id {
		return refuseWith(api.CodeExists, "a provider named %q exists", name)
	}
	return Result{}
}

// checkParent refuses an invalid parent of a provider, which may be new. The subtree of the
// provider moves with it.
func (s *stockBook) checkParent(id, parent api.ProviderID) Result {
	if parent == "" {
		return Result{}
	}
	if !s.isProvider(parent) {
		return refuseWith(api.CodeInvalid, "no provider %s, which should be the parent", string(parent))
	}
	for up := parent; up != ""; {
		if up == id {
			return refuseWith(api.CodeInvalid, "a provider cannot be below itself")
		}
		p, ok := s.providers.Get(string(up))
		if !ok {
			break
		}
		up = p.Parent
	}
	size, height := s.extentOf(id)
	root, depth := s.rootOf(parent)
	if depth+height > s.limits.treeDepth {
		return refuseWith(api.CodeOverloaded, "a tree of providers is at most %d deep", s.limits.treeDepth)
	}
	if from, _ := s.rootOf(id); from == root {
		return Result{}
	}
	if all, _ := s.extentOf(root); all+size > s.limits.tree {
		return refuseWith(api.CodeOverloaded, "a tree has at most %d providers", s.limits.tree)
	}
	return Result{}
}

// storeProvider stores p in place of old (nil for a new one), and updates indexes and host
// table. Unlike storeHost it keeps the generation.
func (s *stockBook) storeProvider(old, p *api.Provider) {
	if old != nil {
		s.byName.Delete(old.Name)
		s.children.Delete(joinKey(old.Parent, old.ID))
	}
	s.providers.Set(string(p.ID), p)
	s.byName.Set(p.Name, p.ID)
	if p.Parent != "" {
		s.children.Insert(joinKey(p.Parent, p.ID))
	}
	s.hostTable.Put(specOfProvider(p))
}

func specOfProvider(p *api.Provider) capacity.Spec {
	return capacity.Spec{
		ID: p.ID, Name: p.Name, Inventory: p.Inventory, Traits: p.Traits, Aggregates: p.Aggregates, Parent: p.Parent, Passive: true,
	}
}

func (s *stockBook) providerDelete(c command.ProviderDelete) Result {
	if h, ok := s.hosts.Get(string(c.ID)); ok {
		return s.forgetHost(h, api.CodeInUse)
	}
	p, ok := s.providers.Get(string(c.ID))
	if !ok {
		return refuseWith(api.CodeNotFound, "no such provider")
	}
	if r := s.mayForget(c.ID, api.CodeInUse); r.Err != nil {
		return r
	}
	s.providers.Delete(string(p.ID))
	s.byName.Delete(p.Name)
	s.children.Delete(joinKey(p.Parent, p.ID))
	s.hostTable.Remove(p.ID)
	return Result{}
}

// mayForget refuses to delete a provider with children, and, with the code inUse, one with
// claims.
func (s *stockBook) mayForget(id api.ProviderID, inUse api.Code) Result {
	switch {
	case s.hasChildren(id):
		return refuseWith(api.CodeHasChildren, "other providers are part of it; delete or move them first")
	case s.isClaimed(id):
		return refuseWith(inUse, "instances, holds or allocations are still on it; delete them first")
	}
	return Result{}
}

// checkGeneration refuses an unknown provider and a generation that is not current.
func (s *stockBook) checkGeneration(id api.ProviderID, generation *uint64) Result {
	if !s.isProvider(id) {
		return refuseWith(api.CodeNotFound, "no such provider")
	}
	if current := s.generationOf(id); generation != nil && *generation != current {
		return refuseWith(api.CodeStale, "provider %s is at generation %d, not %d; read it again", string(id), current, *generation)
	}
	return Result{}
}

// savedProviders is savedHosts for other providers.
func (s *stockBook) savedProviders() []*api.Provider {
	providers := s.providers.Values()
	for i, old := range providers {
		cp := *old
		cp.Generation = s.generationOf(cp.ID)
		providers[i] = &cp
	}
	return providers
}
