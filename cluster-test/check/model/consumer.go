package model

import (
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// Consumer is a consumer of the placement API.
type Consumer struct {
	Project    api.ProjectID
	User       api.UserID
	Kind       string
	Generation uint64
	Claims     []*Claim // one for each provider
}

func (m *Model) consumersPut(c command.ConsumersPut) *Refusal {
	stock := stocks{}
	for _, r := range c.Reshape {
		if h := m.Hosts[r.ID]; h == nil || h.Generation != r.Generation {
			return &Refusal{promise.Generation, "the writer's generation of provider " + string(r.ID) + " is stale"}
		}
		stock[r.ID] = r.Inventory
		if m.form >= api.FormFifth {
			next := *m.Hosts[r.ID]
			next.override(r.Inventory)
			stock[r.ID] = next.Stock()
		}
	}
	after := map[api.ProviderID]api.Resources{} // what the consumers of the call will hold
	named := map[api.ConsumerID]bool{"": true}
	for _, e := range c.Consumers {
		if named[e.ID] {
			return &Refusal{promise.Model, "consumer " + string(e.ID) + " is named twice, or not at all"}
		}
		named[e.ID] = true
		if not := m.mayPut(e); not != nil {
			return not
		}
		for _, sh := range e.Shares {
			if after[sh.Provider] == nil {
				after[sh.Provider] = api.Resources{}
			}
			for class, n := range sh.Resources {
				after[sh.Provider][class] += n
			}
		}
	}
	if not := m.haveRoom(c, after, stock); not != nil {
		return not
	}
	return m.replaceClaims(c)
}

// mayPut returns the reason why an entry is invalid, independent of room.
func (m *Model) mayPut(e command.ConsumerEntry) *Refusal {
	old := m.Consumers[e.ID]
	generation := uint64(0)
	if old != nil {
		generation = old.Generation
	}
	switch {
	case m.knowsInstance(e.ID) && old == nil:
		return &Refusal{promise.Once, "consumer " + string(e.ID) + " is an instance"}
	case e.Generation != nil && *e.Generation != generation:
		return &Refusal{promise.Generation, "the writer's generation of consumer " + string(e.ID) + " is stale"}
	}
	from := map[api.ProviderID]bool{}
	for _, sh := range e.Shares {
		if m.Hosts[sh.Provider] == nil || from[sh.Provider] {
			return &Refusal{promise.Model, "there is no provider " + string(sh.Provider) + ", or it is named twice"}
		}
		from[sh.Provider] = true
	}
	return nil
}

// stocks are what providers will have after a call, where that changes.
type stocks map[api.ProviderID]map[api.ResourceClass]api.Inventory

func (m *Model) stockAfter(s stocks, id api.ProviderID) map[api.ResourceClass]api.Inventory {
	if changed, is := s[id]; is {
		return changed
	}
	return m.Hosts[id].Stock()
}

// haveRoom returns the reason why the amounts of a call do not fit, in room or in units.
func (m *Model) haveRoom(c command.ConsumersPut, after map[api.ProviderID]api.Resources, stock stocks) *Refusal {
	for _, e := range c.Consumers {
		if not := m.inUnits(e, stock); not != nil {
			return not
		}
	}
	for id, want := range after {
		for class, n := range want {
			if not := m.hasRoom(m.Hosts[id], class, n, m.heldBy(c, id, class), m.stockAfter(stock, id)[class]); not != nil {
				return not
			}
		}
	}
	for id, inventory := range stock {
		for class := range m.Hosts[id].Stock() {
			_, stays := inventory[class]
			if !stays && m.Hosts[id].sumClaims(class) > m.heldBy(c, id, class) {
				return &Refusal{promise.Capacity, string(class) + " is taken away from provider " + string(id) + " and is in use"}
			}
		}
	}
	return nil
}

// inUnits returns the reason why a provider cannot allocate the amounts of an entry.
func (m *Model) inUnits(e command.ConsumerEntry, stock stocks) *Refusal {
	for _, sh := range e.Shares {
		for class, n := range sh.Resources {
			if v, ok := m.stockAfter(stock, sh.Provider)[class]; !ok || !admitsUnits(v, n) {
				return &Refusal{promise.Capacity, "provider " + string(sh.Provider) + " does not give such an amount of " + string(class)}
			}
		}
	}
	return nil
}

// hasRoom returns why those who hold so much of a provider before a call cannot hold n
// after it.
func (m *Model) hasRoom(h *Host, class api.ResourceClass, n, before int64, v api.Inventory) *Refusal {
	if n <= before {
		return nil
	}
	if root := m.Root(h); !root.Passive && !root.takesWork() {
		return &Refusal{promise.Model, "host " + string(root.ID) + " takes nothing new"}
	}
	if h.isReserved(&Claim{Start: m.Now, End: api.Forever, Class: api.Firm}, m.Now) {
		return &Refusal{promise.Capacity, "all of provider " + string(h.ID) + " is reserved"}
	}
	if h.peakUse(class, m.Now)-before+n > capacityOf(v) {
		return &Refusal{promise.Capacity, "provider " + string(h.ID) + " has not so much of " + string(class)}
	}
	return nil
}

// heldBy returns the present allocations of the consumers of a call from a provider.
func (m *Model) heldBy(c command.ConsumersPut, id api.ProviderID, class api.ResourceClass) (n int64) {
	for _, e := range c.Consumers {
		if old := m.Consumers[e.ID]; old != nil {
			for _, cl := range old.Claims {
				if cl.Host == id {
					n += cl.Amounts[class]
				}
			}
		}
	}
	return n
}

// replaceClaims replaces the claims after consumersPut has found that they fit.
func (m *Model) replaceClaims(c command.ConsumersPut) *Refusal {
	for _, r := range c.Reshape {
		h := m.Hosts[r.ID]
		if not := m.setInventory(command.ProviderSet{Inventory: &r.Inventory}, &Host{Inventory: h.Inventory, OwnInventory: h.OwnInventory, OwnFields: h.OwnFields}); not != nil {
			return not
		}
	}
	for _, e := range c.Consumers {
		m.yieldClaims(e.ID, len(e.Shares) == 0)
	}
	for _, r := range c.Reshape {
		h := m.Hosts[r.ID]
		_ = m.setInventory(command.ProviderSet{Inventory: &r.Inventory}, h) // it was allowed above
		m.bumpGeneration(h)
	}
	for _, e := range c.Consumers {
		m.HitConsumers[e.ID] = true
		old := m.Consumers[e.ID]
		if len(e.Shares) == 0 {
			delete(m.Consumers, e.ID)
			continue
		}
		next := &Consumer{Project: e.Project, User: e.User, Generation: 1}
		if old != nil {
			next.Kind, next.Generation = old.Kind, old.Generation+1
		}
		if e.Type != nil {
			next.Kind = *e.Type
		}
		for _, sh := range e.Shares {
			cl := &Claim{Consumer: e.ID, Host: sh.Provider, Amounts: sh.Resources, Start: m.Now, End: api.Forever, Class: api.Firm}
			next.Claims = append(next.Claims, cl)
			h := m.Hosts[cl.Host]
			h.Claims = append(h.Claims, cl)
			m.bumpGeneration(h)
		}
		m.Consumers[e.ID] = next
		m.Claimed++
	}
	return nil
}

// yieldClaims takes the claims of a consumer off their providers.
func (m *Model) yieldClaims(id api.ConsumerID, bump bool) {
	old := m.Consumers[id]
	if old == nil {
		return
	}
	for _, cl := range old.Claims {
		h := m.Hosts[cl.Host]
		h.Claims = slices.DeleteFunc(h.Claims, func(o *Claim) bool { return o == cl })
		m.Reshaped[h.ID] = true
		if bump {
			m.bumpGeneration(h)
		}
	}
}

func (m *Model) consumerDelete(c command.ConsumerDelete) *Refusal {
	if m.Consumers[c.ID] == nil {
		if m.knowsInstance(c.ID) {
			return &Refusal{promise.Once, "consumer " + string(c.ID) + " is an instance"}
		}
		return &Refusal{promise.Model, "there is no such consumer"}
	}
	m.yieldClaims(c.ID, false)
	delete(m.Consumers, c.ID)
	m.HitConsumers[c.ID] = true
	return nil
}

// Shares returns the allocations of a consumer, by provider.
func (c *Consumer) Shares() (out []api.Share) {
	for _, cl := range c.Claims {
		out = append(out, api.Share{Provider: cl.Host, Resources: cl.Amounts})
	}
	slices.SortFunc(out, func(a, b api.Share) int {
		if a.Provider < b.Provider {
			return -1
		}
		return 1
	})
	return out
}
