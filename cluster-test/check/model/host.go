package model

import (
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

func (m *Model) bumpGeneration(h *Host) {
	if !m.Bumped[h.ID] {
		m.Bumped[h.ID] = true
		h.Generation++
	}
}

func (m *Model) hostsPut(c command.HostsPut) *Refusal {
	joined := m.agent(c.Agent)
	if joined.Revoked {
		return &Refusal{promise.Model, "the agent was revoked"}
	}
	for _, e := range c.Hosts {
		if !strings.HasPrefix(e.Host.Name, joined.Terms.HostPrefix) {
			return &Refusal{promise.Model, "the agent may not serve a host with the name " + e.Host.Name}
		}
		for class, most := range joined.Terms.HostCapacity { // any one is enough
			if capacityOf(e.Host.Inventory[class]) > most {
				return &Refusal{promise.Model, "the agent may not serve a host that offers so much as " + e.Host.Name}
			}
		}
		if id, known := m.Names[e.Host.Name]; known && (m.Hosts[id].Passive || m.Hosts[id].Agent != c.Agent) {
			return &Refusal{promise.Model, "the name " + e.Host.Name + " belongs to another agent, or to no host"}
		}
	}
	if not := m.mayServe(&c); not != nil {
		return not
	}
	served := map[api.HostID]bool{}
	for _, e := range c.Hosts {
		id, known := m.Names[e.Host.Name]
		if !known {
			id = e.ID
			m.Names[e.Host.Name] = id
			m.Hosts[id] = &Host{ID: id, Name: e.Host.Name, Up: true, Enabled: !joined.Terms.Disabled, Pool: e.Host.Pool}
		}
		h := m.Hosts[id]
		m.noteHostReach(h, true)
		if m.form >= api.FormFifth {
			h.followReports(e.Host.Inventory)
		}
		h.Agent, h.Inventory, h.Traits = c.Agent, e.Host.Inventory, e.Host.Traits
		h.Attributes, h.Commands = e.Host.Attributes, NeedsCommand(e.Host.Driver, e.Host.Needs)
		h.Unserved, served[id] = false, true
		m.learnNames(h)
		m.bumpGeneration(h)
	}
	for id, h := range m.Hosts {
		if c.Whole && !h.Passive && h.Agent == c.Agent && !served[id] && !h.Unserved {
			m.noteHostReach(h, false)
			h.Unserved = true
			m.bumpGeneration(h)
		}
	}
	return nil
}

// mayServe returns why an agent may not have more hosts, or more classes and traits that only this zone
// has, on all of them. What is known already it may have, however much.
func (m *Model) mayServe(c *command.HostsPut) *Refusal {
	if m.form < api.FormFifth {
		return nil
	}
	hosts, names, unknown := map[string]bool{}, map[string]bool{}, false
	look := func(h *Host) {
		hosts[h.Name] = true
		for class := range h.Inventory {
			names["class "+string(class)] = !slices.Contains(api.StandardClasses(), class)
		}
		for _, t := range h.Traits {
			names["trait "+t] = !slices.Contains(api.StandardTraits(), t)
		}
	}
	for _, e := range c.Hosts {
		look(&Host{Name: e.Host.Name, Inventory: e.Host.Inventory, Traits: e.Host.Traits})
	}
	grows := false
	for name := range hosts {
		_, known := m.Names[name]
		grows = grows || !known
	}
	for text, own := range names {
		kind, name, _ := strings.Cut(text, " ")
		unknown = unknown || own && (kind == "class" && !m.Classes[name] || kind == "trait" && !m.Traits[name])
	}
	for _, h := range m.Hosts {
		if !h.Passive && h.Agent == c.Agent && !hosts[h.Name] {
			look(h)
		}
	}
	count := map[string]int{}
	for name, own := range names {
		if own {
			kind, _, _ := strings.Cut(name, " ")
			count[kind]++
		}
	}
	most := api.HostsPerAgentMax
	if t := m.agent(c.Agent).Terms; t.HostsMax > 0 {
		most = min(most, t.HostsMax)
	}
	if grows && len(hosts) > most || unknown && (count["class"] > api.AgentClassesMax || count["trait"] > api.AgentTraitsMax) {
		return &Refusal{promise.Model, "an agent has too many hosts, classes or traits"}
	}
	return nil
}

func (m *Model) hostsState(c command.HostsState) {
	for _, id := range c.Hosts {
		if h, ok := m.Hosts[id]; ok && h.Up != (c.State == api.HostUp) && !h.Unserved {
			m.noteHostReach(h, c.State == api.HostUp)
			m.bumpGeneration(h)
		}
	}
}

// currentHost returns the host if generation is 0 or the one it is at.
func (m *Model) currentHost(id api.HostID, generation uint64) (*Host, *Refusal) {
	h, ok := m.Hosts[id]
	switch {
	case !ok || h.Passive:
		return nil, &Refusal{promise.Model, "there is no host " + string(id)}
	case generation != 0 && generation != h.Generation:
		return nil, &Refusal{promise.Generation, "the writer's generation of host " + string(id) + " is stale"}
	}
	return h, nil
}

func (m *Model) hostSet(c command.HostSet) *Refusal {
	h, not := m.currentHost(c.ID, c.Generation)
	if not != nil {
		return not
	}
	next := *h
	if c.Enabled != nil {
		next.Enabled = *c.Enabled
	}
	if c.Pool != nil {
		next.Pool = *c.Pool
	}
	if not := next.applyWish(c); not != nil {
		return not
	}
	if next.Enabled != h.Enabled || next.Pool != h.Pool || next.Maintenance != h.Maintenance || next.Drain != h.Drain ||
		!maps.Equal(next.Overrides, h.Overrides) {
		*h = next
		m.bumpGeneration(h)
	}
	return nil
}

// applyWish applies an operator's maintenance, drain and attributes.
func (h *Host) applyWish(c command.HostSet) *Refusal {
	if c.Maintenance != nil {
		h.Maintenance = *c.Maintenance
		if h.Maintenance == "" {
			h.Drain = ""
		}
	}
	if c.Drain != nil {
		h.Drain = *c.Drain
	}
	h.Overrides = maps.Clone(h.Overrides)
	for k, v := range c.Overrides {
		if h.Overrides == nil {
			h.Overrides = map[string]string{}
		}
		h.Overrides[k] = v
	}
	maps.DeleteFunc(h.Overrides, func(_, v string) bool { return v == "" })
	long := func(s string) bool { return len(s) > api.ExtraSpecMaxBytes }
	for k, v := range h.Overrides {
		if k == "" || long(k) || long(v) {
			return &Refusal{promise.Model, "an attribute is empty or too long"}
		}
	}
	known := h.Drain == "" || slices.Contains([]api.DrainPolicy{api.DrainWait, api.DrainEnd, api.DrainMove}, h.Drain)
	if len(h.Overrides) > api.AttributesMax || len(h.Maintenance) > api.FaultMaxBytes || !known || h.Drain != "" && h.Maintenance == "" {
		return &Refusal{promise.Model, "no operator may say that of host " + string(h.ID)}
	}
	return nil
}

func (m *Model) hostDelete(c command.HostDelete) *Refusal {
	h, not := m.currentHost(c.ID, c.Generation)
	if not != nil {
		return not
	}
	if len(h.Claims) > 0 || len(m.hostsBelow(h)) > 0 {
		return &Refusal{promise.Model, "host " + string(c.ID) + " is in use, or has children"}
	}
	m.removeProvider(h)
	return nil
}

// removeProvider forgets a provider.
func (m *Model) removeProvider(h *Host) {
	delete(m.Hosts, h.ID)
	delete(m.Names, h.Name)
	for _, a := range m.Aggregates {
		a.Hosts = slices.DeleteFunc(slices.Clone(a.Hosts), func(id api.HostID) bool { return id == h.ID })
	}
}

// NeedsCommand reports whether a driver runs only flavors with a command, by what its agent says of its needs.
func NeedsCommand(driver string, needs *api.Needs) bool {
	if needs != nil {
		return needs.Command
	}
	return driver == "process"
}
