package model

import (
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// Stock returns the inventory of h: that of its agent, overridden by operators.
func (h *Host) Stock() map[api.ResourceClass]api.Inventory {
	out := maps.Clone(h.Inventory)
	if out == nil {
		out = map[api.ResourceClass]api.Inventory{}
	}
	for class, own := range h.OwnInventory {
		if v, is := h.overridden(class, own); is {
			out[class] = v
		}
	}
	return out
}

// propertySet says whether an attribute of hosts is private.
func (m *Model) propertySet(c command.PropertySet) *Refusal {
	if c.Name == "" || len(c.Name) > 255 {
		return &Refusal{promise.Model, "the name of the property is too short or too long"}
	}
	m.Private[c.Name] = c.Private
	return nil
}

// AllTraits returns the traits of h, the agent's and the operators', sorted.
func (h *Host) AllTraits() []string { return union2(h.Traits, h.OwnTraits) }

// Sets returns the aggregates of h, by id: those that it is a member of, and those set by
// operators.
func (m *Model) Sets(h *Host) []string {
	var member []string
	for id, a := range m.Aggregates {
		if slices.Contains(a.Hosts, h.ID) {
			member = append(member, string(id))
		}
	}
	return union2(member, h.OwnAggregates)
}

func union2(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// Root returns the root of the tree of h.
func (m *Model) Root(h *Host) *Host {
	for h.Parent != "" && m.Hosts[h.Parent] != nil {
		h = m.Hosts[h.Parent]
	}
	return h
}

// hostsBelow returns what is under h, each before what is under it, by id.
func (m *Model) hostsBelow(h *Host) (out []*Host) {
	for _, id := range slices.Sorted(maps.Keys(m.Hosts)) {
		if child := m.Hosts[id]; child.Parent == h.ID {
			out = append(append(out, child), m.hostsBelow(child)...)
		}
	}
	return out
}

// sharersOf returns the sharing providers outside the tree of h that have an
// aggregate in common with a part of it, by id.
func (m *Model) sharersOf(h *Host) (out []*Host) {
	tree := append(m.hostsBelow(h), h)
	var sets []string
	for _, part := range tree {
		sets = append(sets, m.Sets(part)...)
	}
	for _, id := range slices.Sorted(maps.Keys(m.Hosts)) {
		p := m.Hosts[id]
		common := slices.ContainsFunc(m.Sets(p), func(s string) bool { return slices.Contains(sets, s) })
		if common && slices.Contains(p.AllTraits(), "MISC_SHARES_VIA_AGGREGATE") && !slices.Contains(tree, p) {
			out = append(out, p)
		}
	}
	return out
}

// Fits divides the resources of c among its host and the providers that it reaches. It
// reports whether all of them have room, and the host takes work.
func (m *Model) Fits(c *Claim) bool {
	h, ok := m.Hosts[c.Host]
	if !ok || !h.takesWork() || !m.isClaim(c) {
		return false
	}
	if c.Whole {
		return m.fitsWhole(h, c)
	}
	if h.isReserved(c, m.Now) {
		return false
	}
	from := m.givers(h, c, maps.Clone(c.Want))
	c.divide(from)
	return len(from) == len(c.Want)
}

// givers returns who gives each of some amounts to c, as far as anybody does: its host first,
// then what is under it, then what shares with it.
func (m *Model) givers(h *Host, c *Claim, left api.Resources) map[api.ResourceClass]api.HostID {
	out := map[api.ResourceClass]api.HostID{}
	give := func(p *Host) api.Resources {
		out := api.Resources{}
		for class, n := range left {
			if p.Gives(class, n, c, m.Now) {
				out[class] = n
			}
		}
		return out
	}
	settle := func(p *Host, amounts api.Resources) {
		for class := range amounts {
			out[class] = p.ID
			delete(left, class)
		}
	}
	settle(h, give(h))
	for tree := m.hostsBelow(h); len(tree) > 0; {
		best := 0
		for i := range tree {
			if len(give(tree[i])) > len(give(tree[best])) {
				best = i
			}
		}
		settle(tree[best], give(tree[best]))
		tree = slices.Delete(tree, best, best+1)
	}
	for _, p := range m.sharersOf(h) {
		settle(p, give(p))
	}
	return out
}

// divide divides the resources of c among its host and others.
func (c *Claim) divide(from map[api.ResourceClass]api.HostID) {
	c.Amounts, c.Rest = api.Resources{}, nil
	for _, class := range c.Want.Classes() {
		switch at, given := from[class]; {
		case !given:
		case at == c.Host:
			c.Amounts[class] = c.Want[class]
		default:
			c.give(at, class, c.Want[class])
		}
	}
	slices.SortFunc(c.Rest, func(a, b *Claim) int { return strings.Compare(string(a.Host), string(b.Host)) })
}

// give adds an amount to what another provider than its host gives to c.
func (c *Claim) give(from api.HostID, class api.ResourceClass, n int64) {
	for _, p := range c.Rest {
		if p.Host == from {
			p.Amounts[class] = n
			return
		}
	}
	piece := *c
	piece.Host, piece.Amounts, piece.Want, piece.Rest = from, api.Resources{class: n}, nil, nil
	c.Rest = append(c.Rest, &piece)
}

// Shares returns the shares of c from providers other than its host.
func (c *Claim) Shares() (out []api.Share) {
	for _, p := range c.Rest {
		out = append(out, api.Share{Provider: p.Host, Resources: p.Amounts})
	}
	return out
}

func (m *Model) hasClass(name api.ResourceClass) bool {
	for _, h := range m.Hosts {
		if _, has := h.Stock()[name]; has {
			return true
		}
	}
	return false
}

func (m *Model) hasTrait(name string) bool {
	for _, h := range m.Hosts {
		if slices.Contains(h.AllTraits(), name) {
			return true
		}
	}
	return false
}

// takeName removes a custom name, unless it is in use.
func (m *Model) takeName(names map[string]bool, name string, used bool) *Refusal {
	switch {
	case !names[name]:
		return &Refusal{promise.Model, name + " is not there, or is no custom name"}
	case used:
		return &Refusal{promise.Model, name + " is in use"}
	}
	delete(names, name)
	return nil
}

func (m *Model) classPut(c command.ClassPut) *Refusal {
	switch {
	case c.Was != "" && !m.Classes[string(c.Was)]:
		return &Refusal{promise.Model, "there is no resource class " + string(c.Was) + ", or it is no custom one"}
	case c.Was == c.Name:
		return nil
	case m.Classes[string(c.Name)] || slices.Contains(api.StandardClasses(), c.Name):
		return &Refusal{promise.Model, "resource class " + string(c.Name) + " exists"}
	case c.Was != "" && m.hasClass(c.Was):
		return &Refusal{promise.Model, "resource class " + string(c.Was) + " is in use"}
	}
	delete(m.Classes, string(c.Was))
	m.Classes[string(c.Name)] = true
	return nil
}

// learnNames takes names from an agent.
func (m *Model) learnNames(h *Host) {
	for class := range h.Inventory {
		if !slices.Contains(api.StandardClasses(), class) {
			m.Classes[string(class)] = true
		}
	}
	for _, t := range h.Traits {
		if !slices.Contains(api.StandardTraits(), t) {
			m.Traits[t] = true
		}
	}
}

func (m *Model) providerCreate(c command.ProviderCreate) *Refusal {
	_, taken := m.Names[c.Name]
	switch {
	case m.Hosts[c.ID] != nil || taken:
		return &Refusal{promise.Model, "the name or id is taken"}
	case c.Parent != "" && m.Hosts[c.Parent] == nil:
		return &Refusal{promise.Model, "there is no such parent"}
	}
	m.Names[c.Name] = c.ID
	m.Hosts[c.ID] = &Host{ID: c.ID, Name: c.Name, Passive: true, Parent: c.Parent}
	m.Reshaped[c.ID] = true
	return nil
}

func (m *Model) providerSet(c command.ProviderSet) *Refusal {
	h := m.Hosts[c.ID]
	switch {
	case h == nil:
		return &Refusal{promise.Model, "there is no such provider"}
	case c.Generation != nil && *c.Generation != h.Generation:
		return &Refusal{promise.Generation, "the writer's generation of provider " + string(c.ID) + " is stale"}
	}
	next, bump := *h, c.Inventory != nil || c.Aggregates != nil && c.Bump
	for _, change := range []func(command.ProviderSet, *Host) *Refusal{m.setPlace, m.setInventory, m.setTraits, m.setAggregates} {
		if not := change(c, &next); not != nil {
			return not
		}
	}
	bump = bump || !slices.Equal(h.AllTraits(), next.AllTraits())
	if next.Name != h.Name {
		delete(m.Names, h.Name)
		m.Names[next.Name] = h.ID
	}
	*h = next
	m.Reshaped[h.ID] = true
	if bump {
		m.bumpGeneration(h)
	}
	return nil
}

// setPlace gives a provider another name or parent. Those of a host are its agent's.
func (m *Model) setPlace(c command.ProviderSet, h *Host) *Refusal {
	if c.Name != nil && *c.Name != h.Name {
		if _, taken := m.Names[*c.Name]; taken || !h.Passive {
			return &Refusal{promise.Model, "the name is taken, or that of a host"}
		}
		h.Name = *c.Name
	}
	if c.Parent == nil || *c.Parent == h.Parent {
		return nil
	}
	p := m.Hosts[*c.Parent]
	if *c.Parent != "" && (p == nil || p.ID == h.ID || slices.Contains(m.hostsBelow(m.Hosts[h.ID]), p)) || !h.Passive {
		return &Refusal{promise.Model, "the provider cannot be there"}
	}
	next := h
	if p != nil {
		next = m.Root(p)
	}
	if next != m.Root(m.Hosts[h.ID]) && slices.ContainsFunc(append(m.hostsBelow(m.Hosts[h.ID]), m.Hosts[h.ID]), m.runOn) {
		return &Refusal{promise.Model, "instances draw from the provider"}
	}
	h.Parent = *c.Parent
	return nil
}

// runOn reports whether an instance or a held slot has a claim on h.
func (m *Model) runOn(h *Host) bool {
	return slices.ContainsFunc(h.Claims, func(c *Claim) bool { return m.Consumers[c.Consumer] == nil })
}

func (m *Model) setInventory(c command.ProviderSet, h *Host) *Refusal {
	if c.Inventory == nil {
		return nil
	}
	want := *c.Inventory
	for class := range want {
		if !m.Classes[string(class)] && !slices.Contains(api.StandardClasses(), class) {
			return &Refusal{promise.Model, "resource class " + string(class) + " is unknown"}
		}
	}
	for class := range h.Inventory {
		if _, has := want[class]; !has {
			return &Refusal{promise.Model, "the agent says that the host has " + string(class)}
		}
	}
	for class := range h.Stock() {
		if _, stays := want[class]; !stays && h.isClaimed(class) {
			return &Refusal{promise.Capacity, string(class) + " is taken away from provider " + string(h.ID) + " and is in use"}
		}
	}
	if m.form >= api.FormFifth {
		h.override(want)
		return nil
	}
	h.OwnInventory = map[api.ResourceClass]api.Inventory{}
	for class, v := range want {
		if declared, has := h.Inventory[class]; !has || declared.Normal() != v.Normal() {
			h.OwnInventory[class] = v
		}
	}
	return nil
}

// isClaimed reports whether something holds any of a class, now or later.
func (h *Host) isClaimed(class api.ResourceClass) bool {
	return slices.ContainsFunc(h.Claims, func(c *Claim) bool { return c.Amounts[class] > 0 })
}

func (m *Model) setTraits(c command.ProviderSet, h *Host) *Refusal {
	if c.Traits == nil {
		return nil
	}
	for _, t := range *c.Traits {
		if !m.Traits[t] && !slices.Contains(api.StandardTraits(), t) {
			return &Refusal{promise.Model, "trait " + t + " is unknown"}
		}
	}
	for _, t := range h.Traits {
		if !slices.Contains(*c.Traits, t) {
			return &Refusal{promise.Model, "the agent says that the host has " + t}
		}
	}
	h.OwnTraits = listWithout(*c.Traits, h.Traits)
	return nil
}

func (m *Model) setAggregates(c command.ProviderSet, h *Host) *Refusal {
	if c.Aggregates == nil {
		return nil
	}
	for _, id := range *c.Aggregates {
		if !api.ValidUUID(id) && m.Aggregates[api.AggregateID(id)] == nil {
			return &Refusal{promise.Model, id + " is no UUID"}
		}
	}
	if h.Passive {
		h.OwnAggregates = union2(*c.Aggregates, nil)
		return nil
	}
	var member []string
	for id, a := range m.Aggregates {
		in := slices.Contains(a.Hosts, h.ID)
		if in != slices.Contains(*c.Aggregates, string(id)) {
			return &Refusal{promise.Model, "the host's membership of an aggregate is changed elsewhere"}
		}
		if in {
			member = append(member, string(id))
		}
	}
	h.OwnAggregates = listWithout(*c.Aggregates, member)
	return nil
}

// listWithout returns the items that are in all and not in some, sorted.
func listWithout(all, some []string) []string {
	return slices.DeleteFunc(union2(all, nil), func(s string) bool { return slices.Contains(some, s) })
}

func (m *Model) providerDelete(c command.ProviderDelete) *Refusal {
	h := m.Hosts[c.ID]
	switch {
	case h == nil:
		return &Refusal{promise.Model, "there is no such provider"}
	case len(m.hostsBelow(h)) > 0:
		return &Refusal{promise.Model, "the provider has children"}
	case len(h.Claims) > 0:
		return &Refusal{promise.Model, "provider " + string(c.ID) + " is in use"}
	}
	m.removeProvider(h)
	return nil
}

// Draw divides the resources of c according to shares.
func (c *Claim) Draw(shares []api.Share) {
	c.Amounts, c.Rest = maps.Clone(c.Want), nil
	for _, sh := range shares {
		piece := *c
		piece.Host, piece.Amounts, piece.Want, piece.Rest = sh.Provider, sh.Resources, nil, nil
		c.Rest = append(c.Rest, &piece)
		for class := range sh.Resources {
			delete(c.Amounts, class)
		}
	}
}
