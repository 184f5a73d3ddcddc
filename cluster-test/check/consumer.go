package check

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// consumer is who claimed by the placement API.
type consumer struct {
	project    api.ProjectID
	user       api.UserID
	kind       string
	generation uint64
	claims     []*claim // one for each provider
}

func (m *model) consumersPut(c command.ConsumersPut) *no {
	stock := stocks{}
	for _, r := range c.Reshape {
		if h := m.hosts[r.ID]; h == nil || h.generation != r.Generation {
			return &no{RuleGeneration, "the writer's generation of provider " + string(r.ID) + " is stale"}
		}
		stock[r.ID] = r.Inventory
	}
	after := map[api.ProviderID]api.Resources{} // what the consumers of the call will hold
	for _, e := range c.Consumers {
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
	return m.replace(c)
}

// mayPut returns why an entry cannot be, whatever room there is.
func (m *model) mayPut(e command.ConsumerEntry) *no {
	old := m.consumers[e.ID]
	generation := uint64(0)
	if old != nil {
		generation = old.generation
	}
	switch {
	case m.knows(e.ID) && old == nil:
		return &no{RuleOnce, "consumer " + string(e.ID) + " is an instance"}
	case e.Generation != nil && *e.Generation != generation:
		return &no{RuleGeneration, "the writer's generation of consumer " + string(e.ID) + " is stale"}
	}
	for _, sh := range e.Shares {
		if m.hosts[sh.Provider] == nil {
			return &no{RuleModel, "there is no provider " + string(sh.Provider)}
		}
	}
	return nil
}

// stocks are what providers will have after a call, where that changes.
type stocks map[api.ProviderID]map[api.ResourceClass]api.Inventory

func (m *model) stockAfter(s stocks, id api.ProviderID) map[api.ResourceClass]api.Inventory {
	if changed, is := s[id]; is {
		return changed
	}
	return m.hosts[id].stock()
}

// haveRoom returns why what a call asks for is too much, or off the units.
func (m *model) haveRoom(c command.ConsumersPut, after map[api.ProviderID]api.Resources, stock stocks) *no {
	for _, e := range c.Consumers {
		if not := m.inUnits(e, stock); not != nil {
			return not
		}
	}
	for id, want := range after {
		for class, n := range want {
			if not := m.hasRoom(m.hosts[id], class, n, m.heldBy(c, id, class), m.stockAfter(stock, id)[class]); not != nil {
				return not
			}
		}
	}
	for id, inventory := range stock {
		for class := range m.hosts[id].stock() {
			_, stays := inventory[class]
			if !stays && m.hosts[id].sum(class) > m.heldBy(c, id, class) {
				return &no{RuleCapacity, string(class) + " is taken away from provider " + string(id) + " and is in use"}
			}
		}
	}
	return nil
}

// inUnits returns why a provider does not hand out what an entry wants of it.
func (m *model) inUnits(e command.ConsumerEntry, stock stocks) *no {
	for _, sh := range e.Shares {
		for class, n := range sh.Resources {
			if v, ok := m.stockAfter(stock, sh.Provider)[class]; !ok || !admits(v, n) {
				return &no{RuleCapacity, "provider " + string(sh.Provider) + " does not give such an amount of " + string(class)}
			}
		}
	}
	return nil
}

// hasRoom returns why those who hold so much of a provider before a call cannot hold n
// after it.
func (m *model) hasRoom(h *host, class api.ResourceClass, n, before int64, v api.Inventory) *no {
	if n <= before {
		return nil
	}
	if root := m.root(h); !root.passive && !root.takesWork() {
		return &no{RuleModel, "host " + string(root.id) + " takes nothing new"}
	}
	if h.peak(class, m.now)-before+n > capacityOf(v) {
		return &no{RuleCapacity, "provider " + string(h.id) + " has not so much of " + string(class)}
	}
	return nil
}

// heldBy returns what the consumers of a call hold of a provider so far.
func (m *model) heldBy(c command.ConsumersPut, id api.ProviderID, class api.ResourceClass) (n int64) {
	for _, e := range c.Consumers {
		if old := m.consumers[e.ID]; old != nil {
			for _, cl := range old.claims {
				if cl.host == id {
					n += cl.amounts[class]
				}
			}
		}
	}
	return n
}

// replace makes what consumersPut has found to fit.
func (m *model) replace(c command.ConsumersPut) *no {
	for _, r := range c.Reshape {
		h := m.hosts[r.ID]
		if not := m.setInventory(command.ProviderSet{Inventory: &r.Inventory}, &host{inventory: h.inventory}); not != nil {
			return not
		}
	}
	for _, e := range c.Consumers {
		m.yield(e.ID, len(e.Shares) == 0)
	}
	for _, r := range c.Reshape {
		h := m.hosts[r.ID]
		_ = m.setInventory(command.ProviderSet{Inventory: &r.Inventory}, h) // it was allowed above
		m.bump(h)
	}
	for _, e := range c.Consumers {
		m.hitConsumers[e.ID] = true
		old := m.consumers[e.ID]
		if len(e.Shares) == 0 {
			delete(m.consumers, e.ID)
			continue
		}
		next := &consumer{project: e.Project, user: e.User, generation: 1}
		if old != nil {
			next.kind, next.generation = old.kind, old.generation+1
		}
		if e.Type != nil {
			next.kind = *e.Type
		}
		for _, sh := range e.Shares {
			cl := &claim{consumer: e.ID, host: sh.Provider, amounts: sh.Resources, start: m.now, end: api.Forever, class: api.Firm}
			next.claims = append(next.claims, cl)
			h := m.hosts[cl.host]
			h.claims = append(h.claims, cl)
			m.bump(h)
		}
		m.consumers[e.ID] = next
		m.claimed++
	}
	return nil
}

// yield takes the claims of a consumer off their providers.
func (m *model) yield(id api.ConsumerID, bump bool) {
	old := m.consumers[id]
	if old == nil {
		return
	}
	for _, cl := range old.claims {
		h := m.hosts[cl.host]
		h.claims = slices.DeleteFunc(h.claims, func(o *claim) bool { return o == cl })
		m.reshaped[h.id] = true
		if bump {
			m.bump(h)
		}
	}
}

func (m *model) consumerDelete(c command.ConsumerDelete) *no {
	if m.consumers[c.ID] == nil {
		if m.knows(c.ID) {
			return &no{RuleOnce, "consumer " + string(c.ID) + " is an instance"}
		}
		return &no{RuleModel, "there is no such consumer"}
	}
	m.yield(c.ID, false)
	delete(m.consumers, c.ID)
	m.hitConsumers[c.ID] = true
	return nil
}
