package state

import (
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/capacity"
	"berth/raftstore/command"
)

// A consumer has claims. It is one made by the placement API, with a record of its own, an
// instance of this zone, or a slot held for one.

// consumerClaim returns the claim of a consumer made by the placement API, without its
// amounts.
func consumerClaim(c *api.Consumer) api.Claim {
	return api.Claim{Consumer: c.ID, Window: api.Window{End: api.Forever}, Class: api.Firm}
}

// Consumers returns the consumers made by the placement API, by id.
func (s *stockBook) Consumers() []*api.Consumer { return s.consumers.Values() }

// allotment collects the figures of a ConsumersPut while it is checked.
type allotment struct {
	names  map[api.ConsumerID]bool        // the consumers of the call
	seen   map[api.ProviderID]declaration // providers in the call, with their new inventories
	had    map[api.ProviderID]api.Resources
	wanted map[api.ProviderID]api.Resources
}

// reshapeProviders replaces inventories.
func (s *stockBook) reshapeProviders(c command.ConsumersPut) {
	for _, r := range c.Reshape {
		w, _ := s.declaredOf(r.ID)
		own := w.own
		own.inventory, own.fields = s.ownInventory(w, r.Inventory)
		s.setOwn(r.ID, own, nil)
		s.bumpGeneration(r.ID)
	}
}

// checkEntries refuses a malformed call.
func (s *stockBook) checkEntries(a *allotment, c command.ConsumersPut) Result {
	if len(c.Consumers) > s.limits.consumersCall {
		return refuseWith(api.CodeInvalid, "one call has at most %d consumers, got %d", s.limits.consumersCall, len(c.Consumers))
	}
	for _, e := range c.Consumers {
		if a.names[e.ID] || e.ID == "" {
			return refuseWith(api.CodeInvalid, "each consumer must have an id and be named once, got %q again", string(e.ID))
		}
		a.names[e.ID] = true
		if len(e.Shares) > s.limits.shares {
			return refuseWith(api.CodeInvalid, "a consumer draws from at most %d providers, got %d", s.limits.shares, len(e.Shares))
		}
		from := map[api.ProviderID]bool{}
		for _, sh := range e.Shares {
			if from[sh.Provider] || len(sh.Resources) == 0 {
				return refuseWith(api.CodeInvalid, "consumer %s must name provider %s once, and what it wants of it", string(e.ID), string(sh.Provider))
			}
			from[sh.Provider] = true
			if err := sh.Resources.Validate(); err != nil {
				return Result{Err: err}
			}
		}
	}
	return Result{}
}

// checkReshape refuses new inventories that do not fit the new allocations.
func (s *stockBook) checkReshape(a *allotment, c command.ConsumersPut) Result {
	for _, r := range c.Reshape {
		if _, twice := a.seen[r.ID]; twice {
			return refuseWith(api.CodeInvalid, "provider %s is named twice", string(r.ID))
		}
		w, ok := s.declaredOf(r.ID)
		if !ok {
			return refuseWith(api.CodeInvalid, "no provider %s", string(r.ID))
		}
		if r := s.checkGeneration(r.ID, &r.Generation); r.Err != nil {
			return r
		}
		if r := s.checkInventory(w, r.Inventory); r.Err != nil {
			return r
		}
		a.seen[r.ID] = declaration{inventory: s.inventoryAfter(w, r.Inventory)}
	}
	return Result{}
}

// checkShares refuses amounts that a provider does not have or does not hand out in such
// units, and sums up what the call frees and requests.
func (s *stockBook) checkShares(a *allotment, c command.ConsumersPut) Result {
	for _, e := range c.Consumers {
		if old, ok := s.consumers.Get(string(e.ID)); ok {
			addShares(a.had, old.Shares)
		}
		addShares(a.wanted, e.Shares)
		for _, sh := range e.Shares {
			if r := s.checkShare(a, sh); r.Err != nil {
				return r
			}
		}
	}
	return Result{}
}

func (s *stockBook) checkShare(a *allotment, sh api.Share) Result {
	seen, ok := a.seen[sh.Provider]
	if !ok {
		w, known := s.declaredOf(sh.Provider)
		if !known {
			return refuseWith(api.CodeInvalid, "no provider %s", string(sh.Provider))
		}
		seen = w.merged()
		a.seen[sh.Provider] = seen
	}
	for _, class := range sh.Resources.Classes() {
		if r := s.checkClass(class); r.Err != nil {
			return r
		}
		v, has := seen.inventory[class]
		if w, _ := s.declaredOf(sh.Provider); !has && w.hasClass(class) {
			return refuseWith(api.CodeInUse, "%s of provider %s is taken away and claimed in one call", class, string(sh.Provider))
		}
		if !has {
			return refuseWith(api.CodeNoCapacity, "Inventory for '%s' on resource provider '%s' invalid: it has none", class, string(sh.Provider))
		}
		if n := v.Normal(); !v.Admits(sh.Resources[class]) {
			return refuseWith(api.CodeNoCapacity, "provider %s hands out %d to %d of %s in steps of %d, got %d",
				string(sh.Provider), n.MinUnit, n.MaxUnit, class, n.StepSize, sh.Resources[class])
		}
	}
	return Result{}
}

func addShares(sums map[api.ProviderID]api.Resources, shares []api.Share) {
	for _, sh := range shares {
		if sums[sh.Provider] == nil {
			sums[sh.Provider] = api.Resources{}
		}
		for class, n := range sh.Resources {
			sums[sh.Provider][class] += n
		}
	}
}

// checkRoom refuses a call that would use more of a provider than it has room for, at any
// time from now on. A call that does not raise a provider's use is allowed.
func (s *stockBook) checkRoom(a *allotment, _ command.ConsumersPut) Result {
	if len(a.wanted) == 0 {
		return Result{}
	}
	v := s.hostTable.View()
	for _, id := range slices.Sorted(maps.Keys(a.wanted)) {
		row, _ := v.Row(id)
		for _, class := range a.wanted[id].Classes() {
			more := a.wanted[id][class] - a.had[id][class]
			grown := a.seen[id].inventory[class].Capacity() - v.Capacity(row, class)
			room := grown + v.FreeOver(row, class, api.Window{Start: s.now, End: api.Forever}, api.Firm)
			if h := s.closedHost(id); more > 0 && h != nil {
				return refuseWith(api.CodeNoCapacity, "host %q is %s and takes nothing new", h.Name, h.whyNoWork())
			}
			if more > 0 && more > room {
				if until := s.fullFrom(v, row, class, more-grown); until > s.now {
					return refuseWith(api.CodeNoCapacity, "provider %s has %d of %s left, %d more wanted; it would fit until %v, when room is reserved there", string(id), max(room, 0), class, more, until)
				}
				return refuseWith(api.CodeNoCapacity, "provider %s has %d of %s left, %d more wanted", string(id), max(room, 0), class, more)
			}
		}
	}
	return Result{}
}

// fullFrom returns the instant until which a row has room for an amount of a class without a break from now on. It must
// not have it for ever.
func (s *stockBook) fullFrom(v capacity.View, row int, class api.ResourceClass, amount int64) api.Instant {
	fits, full := s.now, api.Forever
	for fits+1 < full {
		mid := fits + (full-fits)/2
		if v.FreeOver(row, class, api.Window{Start: s.now, End: mid}, api.Firm) >= amount {
			fits = mid
		} else {
			full = mid
		}
	}
	return fits
}

// closedHost returns the host whose tree a provider is in if it takes no work, else nil.
func (s *stockBook) closedHost(id api.ProviderID) *Host {
	root, _ := s.rootOf(id)
	if h, ok := s.hosts.Get(string(root)); ok && !h.takesWork() {
		return h
	}
	return nil
}

// consumerPut replaces the allocations of one consumer. A provider that it only leaves
// for others keeps its generation.
func (s *stockBook) consumerPut(e command.ConsumerEntry) {
	next := api.Consumer{ID: e.ID, Created: s.now}
	if old, ok := s.consumers.Get(string(e.ID)); ok {
		next = *old
		if len(e.Shares) == 0 {
			s.bumpDrawn("", old.Shares)
		}
		s.forgetConsumer(old)
	}
	if len(e.Shares) == 0 {
		return
	}
	next.Project, next.User, next.Updated = e.Project, e.User, s.now
	next.Generation++
	assignIfSet(&next.Type, e.Type)
	next.Shares = slices.Clone(e.Shares)
	slices.SortFunc(next.Shares, func(a, b api.Share) int { return strings.Compare(string(a.Provider), string(b.Provider)) })
	s.loadConsumer(&next)
	s.bumpDrawn("", next.Shares)
}

// leaveProvider takes what a consumer has of one provider from it. Without anything else it is gone.
func (s *stockBook) leaveProvider(id api.ConsumerID, from api.ProviderID) {
	old, _ := s.consumers.Get(string(id))
	e := command.ConsumerEntry{ID: id, Project: old.Project, User: old.User}
	e.Shares = slices.DeleteFunc(slices.Clone(old.Shares), func(sh api.Share) bool { return sh.Provider == from })
	s.consumerPut(e)
}

func (s *stockBook) loadConsumer(c *api.Consumer) {
	s.consumers.Set(string(c.ID), c)
	s.byOwner.Insert(joinKey(c.Project, c.ID))
	s.allocate("", consumerClaim(c), c.Shares)
}

func (s *stockBook) forgetConsumer(c *api.Consumer) {
	s.consumers.Delete(string(c.ID))
	s.byOwner.Delete(joinKey(c.Project, c.ID))
	s.releaseAllocation("", consumerClaim(c), c.Shares)
}
