package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/raftstore/command"
)

// ruleID names a rule of a tenant: a server group, or a boot and a number.
type ruleID struct {
	tenant api.Tenant
	name   string
}

// bond is one instance under a rule, as long as its hold waits or it is live.
type bond struct {
	hold *hold
	rule api.Rule
	link api.LinkID // "" for an own host
}

// spot is where a member of a rule is.
type spot struct {
	host api.HostID
	link api.LinkID
}

// rulesFor returns the rules that bind a group, by name.
func rulesFor(h *hold, group int) map[ruleID]api.Rule {
	out := map[ruleID]api.Rule{}
	for n, rule := range h.request.Rules {
		name := string(rule.ID)
		if name == "" {
			name = fmt.Sprintf("%s#%d", h.request.Reservation, n)
		}
		if slices.Contains(rule.Groups, group) {
			out[ruleID{api.Tenant{Origin: h.id.origin, Project: h.request.Project}, name}] = rule
		}
	}
	return out
}

// bind notes an instance that is held under rules.
func (m *model) bind(h *hold, group int, id api.InstanceID, link api.LinkID) {
	h.groups[id] = group
	for name, rule := range rulesFor(h, group) {
		if m.bonds[name] == nil {
			m.bonds[name] = map[api.InstanceID]bond{}
		}
		m.bonds[name][id] = bond{h, rule, link}
		m.ruled[name] = true
		m.bound++
	}
}

// members returns where the members of a rule are, and how many. One that moves is
// on both hosts.
func (m *model) members(name ruleID) map[spot]int {
	out := map[spot]int{}
	for id, b := range m.bonds[name] {
		i := m.madeBy(b.hold, id)
		switch {
		case m.held[id] != b.hold && (i == nil || !i.live()):
			delete(m.bonds[name], id)
		case b.link != "":
			out[spot{link: b.link}]++
		default:
			out[spot{host: m.claims[id].host}]++
			if c := m.coming[id]; c != nil {
				out[spot{host: c.host}]++
			}
		}
	}
	return out
}

// obeys reports whether one more of a group may be at a spot. The instance but, if
// there is one, does not count where it is.
func (m *model) obeys(h *hold, group int, at spot, but *claim) bool {
	for name, rule := range rulesFor(h, group) {
		all := m.members(name)
		if but != nil {
			if all[spot{host: but.host}]--; all[spot{host: but.host}] == 0 {
				delete(all, spot{host: but.host})
			}
		}
		here := all[at]
		delete(all, at)
		if rule.Policy == api.Affinity && len(all) > 0 || rule.Policy == api.AntiAffinity && at.host != "" && here >= rule.Max {
			return false
		}
	}
	return true
}

// broken returns the first rule that this command touched and that does not hold,
// in words; "" if all do.
func (m *model) broken() string {
	for name := range m.ruled {
		all := m.members(name)
		for _, b := range m.bonds[name] {
			for at, n := range all {
				if b.rule.Policy == api.AntiAffinity && at.host != "" && n > b.rule.Max {
					return fmt.Sprintf("rule %s has %d members on host %s", name.name, n, at.host)
				}
			}
			if b.rule.Policy == api.Affinity && len(all) > 1 && !m.onlyMoves(name) {
				return fmt.Sprintf("rule %s has members in %d places", name.name, len(all))
			}
		}
	}
	return ""
}

// onlyMoves reports whether a rule has one member, which moves.
func (m *model) onlyMoves(name ruleID) bool {
	for id := range m.bonds[name] {
		return len(m.bonds[name]) == 1 && m.coming[id] != nil
	}
	return false
}

// ask notes what a child is asked for: all that rules do not keep out of it.
func (m *model) ask(h *hold, p command.Part) {
	mp, asked := &part{link: p.Link}, 0
	for g, specs := range p.Instances {
		for _, i := range specs {
			asked++
			if l := m.links[p.Link]; l != nil && l.paused || !m.obeys(h, g, spot{link: p.Link}, nil) {
				h.refused++
				continue
			}
			mp.ids = append(mp.ids, i.ID)
			m.held[i.ID] = h
			m.bind(h, g, i.ID, p.Link)
		}
	}
	if asked == 0 || len(mp.ids) > 0 {
		h.parts = append(h.parts, mp)
	}
}

// has counts what a commit of b would make: for each group, by zone; "" is this one.
func (b *boot) has() []map[api.LinkID]int {
	out := make([]map[api.LinkID]int, len(b.request.Groups))
	for g := range out {
		out[g] = map[api.LinkID]int{}
	}
	for _, h := range b.holds {
		if h.decision != api.DecisionPending || !h.complete() {
			continue
		}
		for _, c := range h.slots {
			out[h.groups[c.consumer]][""]++
		}
		for _, p := range h.parts {
			for _, id := range p.ids {
				out[h.groups[id]][p.link]++
			}
		}
	}
	return out
}

// lacks says what keeps a boot from being committed with what it holds, "" if
// nothing does.
func (b *boot) lacks() string {
	total, zones := 0, map[api.LinkID]bool{}
	groups := b.has()
	for _, at := range groups {
		for zone, n := range at {
			zones[zone] = true
			total += n
		}
	}
	rule := b.request.Zones
	switch {
	case total < b.least:
		return "fewer than min_count are held"
	case len(zones) < rule.MinZones:
		return "too few zones hold of it"
	case rule.Pack && len(zones) > 1:
		return "more than one zone holds of it"
	}
	for g, at := range groups {
		n, counts := 0, []int{}
		for zone := range zones {
			n += at[zone]
			counts = append(counts, at[zone])
		}
		if n < b.request.Groups[g].Min {
			return "a group has fewer than its min_count"
		}
		if rule.MaxSkew > 0 && n > 0 && !b.onOneHost(g) && slices.Max(counts)-slices.Min(counts) > rule.MaxSkew {
			return "a group is too uneven over zones"
		}
	}
	return ""
}

// onOneHost reports whether a rule of affinity binds a group: it cannot be spread.
func (b *boot) onOneHost(group int) bool {
	for _, r := range b.request.Rules {
		if r.Policy == api.Affinity && slices.Contains(r.Groups, group) {
			return true
		}
	}
	return false
}

// tooFew reports whether a committed boot has fewer instances, in all or of a group,
// than it needs.
func (b *boot) tooFew() string {
	total, groups := 0, make([]int, len(b.request.Groups))
	for _, h := range b.holds {
		if h.decision == api.DecisionCommit {
			for _, id := range h.ids() {
				groups[h.groups[id]]++
				total++
			}
		}
	}
	if total < b.least {
		return fmt.Sprintf("with %d instances and needs %d", total, b.least)
	}
	for g, n := range groups {
		if least := b.request.Groups[g].Min; n < least {
			return fmt.Sprintf("with %d instances of group %d and needs %d", n, g, least)
		}
	}
	return ""
}

// compareRules compares who readers say is where under each rule that the last
// command touched.
func (r *replay) compareRules(index uint64) {
	if text := r.m.broken(); text != "" {
		r.add(RuleBound, index, "%s", text)
	}
	for name := range r.m.ruled {
		hosts, links := r.s.Members(name.tenant, name.name)
		got := map[spot]int{}
		for id, n := range hosts {
			got[spot{host: id}] = n
		}
		for id, n := range links {
			got[spot{link: id}] = n
		}
		if want := r.m.members(name); !maps.Equal(got, want) {
			r.add(RuleBound, index, "the members of rule %s are %v, not %v", name.name, got, want)
		}
	}
}

// aggregate is a set of hosts as far as it says where they are.
type aggregate struct {
	name  string
	az    string
	meta  map[string]string
	hosts []api.HostID
}

// standing tells what aggregates make of a host.
func (m *model) standing(id api.HostID) string {
	az, in := m.defaultAZ, []string{}
	if az == "" {
		az = m.zone
	}
	for _, k := range slices.Sorted(maps.Keys(m.aggregates)) {
		if a := m.aggregates[k]; slices.Contains(a.hosts, id) {
			in = append(in, string(k))
			if a.az != "" {
				az = a.az
			}
		}
	}
	return strings.Join(append(in, az), " ")
}

// rearrange does something, and moves the hosts on for which it changes something.
func (m *model) rearrange(do func()) {
	before := map[api.HostID]string{}
	for id := range m.hosts {
		before[id] = m.standing(id)
	}
	do()
	for id, h := range m.hosts {
		if m.standing(id) != before[id] && !h.passive {
			m.bump(h)
		}
	}
}

func (m *model) aggregatePut(c command.AggregatePut) *no {
	a := &aggregate{c.Aggregate.Name, c.Aggregate.Metadata[api.MetaAZ], c.Aggregate.Metadata, slices.Compact(slices.Sorted(slices.Values(c.Aggregate.Hosts)))}
	old, ok := m.aggregates[c.Aggregate.ID]
	if ok && old.name == a.name && maps.Equal(old.meta, a.meta) && slices.Equal(old.hosts, a.hosts) {
		return nil
	}
	if ok != c.Replace {
		return &no{RuleModel, "there is such an aggregate, or none to replace"}
	}
	if !ok && len(m.aggregates) >= api.AggregatesMax {
		return &no{RuleModel, "there are too many aggregates"}
	}
	for id, o := range m.aggregates {
		if id != c.Aggregate.ID && o.name == a.name {
			return &no{RuleModel, "the name of the aggregate is taken"}
		}
	}
	for _, h := range a.hosts {
		if m.hosts[h] == nil || m.hosts[h].passive {
			return &no{RuleModel, "there is no host " + string(h)}
		}
		for id, o := range m.aggregates {
			if id != c.Aggregate.ID && slices.Contains(o.hosts, h) && a.az != "" && o.az != "" && o.az != a.az {
				return &no{RuleModel, "host " + string(h) + " is in another availability zone"}
			}
		}
	}
	m.rearrange(func() { m.aggregates[c.Aggregate.ID] = a })
	return nil
}

func (m *model) aggregateDelete(c command.AggregateDelete) *no {
	if m.aggregates[c.ID] == nil {
		return &no{RuleModel, "there is no such aggregate"}
	}
	m.rearrange(func() { delete(m.aggregates, c.ID) })
	return nil
}

// group is a server group.
type group struct {
	name   string
	policy api.Policy
	most   int
}

type groupID struct {
	project api.ProjectID
	id      api.ServerGroupID
}

func (m *model) groupPut(c command.GroupPut) *no {
	id, g := groupID{c.Group.Project, c.Group.ID}, group{c.Group.Name, c.Group.Policy, c.Group.Max}
	if old, ok := m.groups[id]; ok {
		if old != g {
			return &no{RuleRepeat, "the server group is another one"}
		}
		return nil
	}
	n := 0
	for o, other := range m.groups {
		if o.project == id.project {
			n++
			if other.name == g.name {
				return &no{RuleModel, "the name of the server group is taken"}
			}
		}
	}
	if n >= api.ServerGroupsMax {
		return &no{RuleModel, "the project has too many server groups"}
	}
	m.groups[id] = g
	return nil
}

func (m *model) groupDelete(c command.GroupDelete) *no {
	id := groupID{c.Project, c.ID}
	if _, ok := m.groups[id]; !ok {
		return &no{RuleModel, "there is no such server group"}
	}
	delete(m.groups, id)
	return nil
}
