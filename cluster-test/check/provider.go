package check

import (
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// stock returns what h has of each class: the word of its agent, and what
// operators put over it.
func (h *host) stock() map[api.ResourceClass]api.Inventory {
	out := maps.Clone(h.inventory)
	if out == nil {
		out = map[api.ResourceClass]api.Inventory{}
	}
	maps.Copy(out, h.ownInventory)
	return out
}

func (h *host) allTraits() []string { return union2(h.traits, h.ownTraits) }

// sets returns the aggregates of h, by id: those that it is a member of, and those
// that operators said.
func (m *model) sets(h *host) []string {
	var member []string
	for id, a := range m.aggregates {
		if slices.Contains(a.hosts, h.id) {
			member = append(member, string(id))
		}
	}
	return union2(member, h.ownAggregates)
}

func union2(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// root returns the root of the tree of h.
func (m *model) root(h *host) *host {
	for h.parent != "" && m.hosts[h.parent] != nil {
		h = m.hosts[h.parent]
	}
	return h
}

// below returns what is under h, each before what is under it, by id.
func (m *model) below(h *host) (out []*host) {
	for _, id := range slices.Sorted(maps.Keys(m.hosts)) {
		if child := m.hosts[id]; child.parent == h.id {
			out = append(append(out, child), m.below(child)...)
		}
	}
	return out
}

// sharers returns the sharing providers outside the tree of h that have an
// aggregate in common with a part of it, by id.
func (m *model) sharers(h *host) (out []*host) {
	tree := append(m.below(h), h)
	var sets []string
	for _, part := range tree {
		sets = append(sets, m.sets(part)...)
	}
	for _, id := range slices.Sorted(maps.Keys(m.hosts)) {
		p := m.hosts[id]
		common := slices.ContainsFunc(m.sets(p), func(s string) bool { return slices.Contains(sets, s) })
		if common && slices.Contains(p.allTraits(), "MISC_SHARES_VIA_AGGREGATE") && !slices.Contains(tree, p) {
			out = append(out, p)
		}
	}
	return out
}

// fits divides what c wants among its host and what that reaches. It reports
// whether all of it has room, and the host takes work.
func (m *model) fits(c *claim) bool {
	h, ok := m.hosts[c.host]
	if !ok || !h.takesWork() || c.end <= m.now || c.start >= c.end {
		return false
	}
	left := maps.Clone(c.want)
	give := func(p *host) api.Resources {
		out := api.Resources{}
		for class, n := range left {
			if p.gives(class, n, c, m.now) {
				out[class] = n
			}
		}
		return out
	}
	settle := func(p *host, amounts api.Resources) {
		for class := range amounts {
			delete(left, class)
		}
		if p != h && len(amounts) > 0 {
			piece := *c
			piece.host, piece.amounts, piece.want, piece.rest = p.id, amounts, nil, nil
			c.rest = append(c.rest, &piece)
		}
	}
	c.amounts, c.rest = give(h), nil
	settle(h, c.amounts)
	for tree := m.below(h); len(tree) > 0; {
		best := 0
		for i := range tree {
			if len(give(tree[i])) > len(give(tree[best])) {
				best = i
			}
		}
		settle(tree[best], give(tree[best]))
		tree = slices.Delete(tree, best, best+1)
	}
	for _, p := range m.sharers(h) {
		settle(p, give(p))
	}
	slices.SortFunc(c.rest, func(a, b *claim) int { return strings.Compare(string(a.host), string(b.host)) })
	return len(left) == 0
}

// shares returns what others than its host give to c, by provider.
func (c *claim) shares() (out []api.Share) {
	for _, p := range c.rest {
		out = append(out, api.Share{Provider: p.host, Resources: p.amounts})
	}
	return out
}

// applyPlacement is apply for what comes by the placement API.
func (m *model) applyPlacement(c command.Command) *no {
	switch c := c.(type) { //nolint:gochecksumtype // apply has the other kinds
	case command.ProviderCreate:
		return m.providerCreate(c)
	case command.ProviderSet:
		return m.providerSet(c)
	case command.ProviderDelete:
		return m.providerDelete(c)
	case command.ConsumersPut:
		return m.consumersPut(c)
	case command.ConsumerDelete:
		return m.consumerDelete(c)
	case command.ClassPut:
		return m.classPut(c)
	case command.ClassDelete:
		return m.named(m.classes, string(c.Name), m.hasClass(c.Name))
	case command.TraitPut:
		m.traits[c.Name] = true
	case command.TraitDelete:
		return m.named(m.traits, c.Name, m.hasTrait(c.Name))
	}
	return nil
}

func (m *model) hasClass(name api.ResourceClass) bool {
	for _, h := range m.hosts {
		if _, has := h.stock()[name]; has {
			return true
		}
	}
	return false
}

func (m *model) hasTrait(name string) bool {
	for _, h := range m.hosts {
		if slices.Contains(h.allTraits(), name) {
			return true
		}
	}
	return false
}

// named takes a custom name away, unless something has it.
func (m *model) named(names map[string]bool, name string, used bool) *no {
	switch {
	case !names[name]:
		return &no{RuleModel, name + " is not there, or is no custom name"}
	case used:
		return &no{RuleModel, name + " is in use"}
	}
	delete(names, name)
	return nil
}

func (m *model) classPut(c command.ClassPut) *no {
	switch {
	case c.Was != "" && !m.classes[string(c.Was)]:
		return &no{RuleModel, "there is no resource class " + string(c.Was) + ", or it is no custom one"}
	case c.Was == c.Name:
		return nil
	case m.classes[string(c.Name)] || slices.Contains(api.StandardClasses(), c.Name):
		return &no{RuleModel, "resource class " + string(c.Name) + " exists"}
	case c.Was != "" && m.hasClass(c.Was):
		return &no{RuleModel, "resource class " + string(c.Was) + " is in use"}
	}
	delete(m.classes, string(c.Was))
	m.classes[string(c.Name)] = true
	return nil
}

// learnNames takes names from an agent.
func (m *model) learnNames(h *host) {
	for class := range h.inventory {
		if !slices.Contains(api.StandardClasses(), class) {
			m.classes[string(class)] = true
		}
	}
	for _, t := range h.traits {
		if !slices.Contains(api.StandardTraits(), t) {
			m.traits[t] = true
		}
	}
}

func (m *model) providerCreate(c command.ProviderCreate) *no {
	_, taken := m.names[c.Name]
	switch {
	case m.hosts[c.ID] != nil || taken:
		return &no{RuleModel, "the name or id is taken"}
	case c.Parent != "" && m.hosts[c.Parent] == nil:
		return &no{RuleModel, "there is no such parent"}
	}
	m.names[c.Name] = c.ID
	m.hosts[c.ID] = &host{id: c.ID, name: c.Name, passive: true, parent: c.Parent}
	m.reshaped[c.ID] = true
	return nil
}

func (m *model) providerSet(c command.ProviderSet) *no {
	h := m.hosts[c.ID]
	switch {
	case h == nil:
		return &no{RuleModel, "there is no such provider"}
	case c.Generation != nil && *c.Generation != h.generation:
		return &no{RuleGeneration, "the writer's generation of provider " + string(c.ID) + " is stale"}
	}
	next, bump := *h, c.Inventory != nil || c.Aggregates != nil && c.Bump
	for _, change := range []func(command.ProviderSet, *host) *no{m.setPlace, m.setInventory, m.setTraits, m.setAggregates} {
		if not := change(c, &next); not != nil {
			return not
		}
	}
	bump = bump || !slices.Equal(h.allTraits(), next.allTraits())
	if next.name != h.name {
		delete(m.names, h.name)
		m.names[next.name] = h.id
	}
	*h = next
	m.reshaped[h.id] = true
	if bump {
		m.bump(h)
	}
	return nil
}

// setPlace gives a provider another name or parent. Those of a host are its agent's.
func (m *model) setPlace(c command.ProviderSet, h *host) *no {
	if c.Name != nil && *c.Name != h.name {
		if _, taken := m.names[*c.Name]; taken || !h.passive {
			return &no{RuleModel, "the name is taken, or that of a host"}
		}
		h.name = *c.Name
	}
	if c.Parent == nil || *c.Parent == h.parent {
		return nil
	}
	p := m.hosts[*c.Parent]
	if *c.Parent != "" && (p == nil || p.id == h.id || slices.Contains(m.below(m.hosts[h.id]), p)) || !h.passive {
		return &no{RuleModel, "the provider cannot be there"}
	}
	next := h
	if p != nil {
		next = m.root(p)
	}
	if next != m.root(m.hosts[h.id]) && slices.ContainsFunc(append(m.below(m.hosts[h.id]), m.hosts[h.id]), m.runOn) {
		return &no{RuleModel, "instances draw from the provider"}
	}
	h.parent = *c.Parent
	return nil
}

// runOn reports whether an instance or a held slot has a claim on h.
func (m *model) runOn(h *host) bool {
	return slices.ContainsFunc(h.claims, func(c *claim) bool { return m.consumers[c.consumer] == nil })
}

func (m *model) setInventory(c command.ProviderSet, h *host) *no {
	if c.Inventory == nil {
		return nil
	}
	want := *c.Inventory
	for class := range want {
		if !m.classes[string(class)] && !slices.Contains(api.StandardClasses(), class) {
			return &no{RuleModel, "resource class " + string(class) + " is unknown"}
		}
	}
	for class := range h.inventory {
		if _, has := want[class]; !has {
			return &no{RuleModel, "the agent says that the host has " + string(class)}
		}
	}
	for class := range h.stock() {
		if _, stays := want[class]; !stays && h.claimed(class) {
			return &no{RuleCapacity, string(class) + " is taken away from provider " + string(h.id) + " and is in use"}
		}
	}
	h.ownInventory = map[api.ResourceClass]api.Inventory{}
	for class, v := range want {
		if said, has := h.inventory[class]; !has || said.Normal() != v.Normal() {
			h.ownInventory[class] = v
		}
	}
	return nil
}

// claimed reports whether something holds any of a class, now or later.
func (h *host) claimed(class api.ResourceClass) bool {
	return slices.ContainsFunc(h.claims, func(c *claim) bool { return c.amounts[class] > 0 })
}

func (m *model) setTraits(c command.ProviderSet, h *host) *no {
	if c.Traits == nil {
		return nil
	}
	for _, t := range *c.Traits {
		if !m.traits[t] && !slices.Contains(api.StandardTraits(), t) {
			return &no{RuleModel, "trait " + t + " is unknown"}
		}
	}
	for _, t := range h.traits {
		if !slices.Contains(*c.Traits, t) {
			return &no{RuleModel, "the agent says that the host has " + t}
		}
	}
	h.ownTraits = without(*c.Traits, h.traits)
	return nil
}

func (m *model) setAggregates(c command.ProviderSet, h *host) *no {
	if c.Aggregates == nil {
		return nil
	}
	for _, id := range *c.Aggregates {
		if !api.ValidUUID(id) && m.aggregates[api.AggregateID(id)] == nil {
			return &no{RuleModel, id + " is no UUID"}
		}
	}
	if h.passive {
		h.ownAggregates = union2(*c.Aggregates, nil)
		return nil
	}
	var member []string
	for id, a := range m.aggregates {
		in := slices.Contains(a.hosts, h.id)
		if in != slices.Contains(*c.Aggregates, string(id)) {
			return &no{RuleModel, "the host's membership of an aggregate is changed elsewhere"}
		}
		if in {
			member = append(member, string(id))
		}
	}
	h.ownAggregates = without(*c.Aggregates, member)
	return nil
}

// without returns what is in all and not in some, sorted.
func without(all, some []string) []string {
	return slices.DeleteFunc(union2(all, nil), func(s string) bool { return slices.Contains(some, s) })
}

func (m *model) providerDelete(c command.ProviderDelete) *no {
	h := m.hosts[c.ID]
	switch {
	case h == nil:
		return &no{RuleModel, "there is no such provider"}
	case len(m.below(h)) > 0:
		return &no{RuleModel, "the provider has children"}
	case len(h.claims) > 0:
		return &no{RuleModel, "provider " + string(c.ID) + " is in use"}
	}
	m.remove(h)
	return nil
}

// addPlacement adds what came by the placement API before s.
func (m *model) addPlacement(s *state.State) {
	for _, p := range s.Providers() {
		if p.CanHost {
			continue
		}
		m.names[p.Name] = p.ID
		m.hosts[p.ID] = &host{
			id: p.ID, name: p.Name, passive: true, parent: p.Parent, generation: p.Generation,
			ownInventory: p.Inventory, ownTraits: p.Traits, ownAggregates: p.Aggregates,
		}
	}
	for _, c := range s.Consumers() {
		to := &consumer{project: c.Project, user: c.User, kind: c.Type, generation: c.Generation}
		for _, sh := range c.Shares {
			cl := &claim{consumer: c.ID, host: sh.Provider, amounts: sh.Resources, start: c.Created, end: api.Forever, class: api.Firm}
			to.claims = append(to.claims, cl)
			m.hosts[cl.host].claims = append(m.hosts[cl.host].claims, cl)
		}
		m.consumers[c.ID] = to
	}
	for _, n := range s.ResourceClasses() {
		m.classes[n.Name] = !slices.Contains(api.StandardClasses(), api.ResourceClass(n.Name))
	}
	for _, n := range s.Traits() {
		m.traits[n.Name] = !slices.Contains(api.StandardTraits(), n.Name)
	}
	maps.DeleteFunc(m.classes, func(_ string, custom bool) bool { return !custom })
	maps.DeleteFunc(m.traits, func(_ string, custom bool) bool { return !custom })
}
