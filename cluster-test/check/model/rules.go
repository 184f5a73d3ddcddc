package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// RuleID names a rule of a tenant: a server group, or a boot and a number.
type RuleID struct {
	Tenant api.Tenant
	Name   string
}

// Bond is one instance under a rule, as long as its hold waits or it is live.
type Bond struct {
	hold *Hold
	rule api.Rule
	link api.LinkID // "" for an own host
}

// Spot is where a member of a rule is.
type Spot struct {
	Host api.HostID
	Link api.LinkID
}

// rulesFor returns the rules that bind a group, by name.
func rulesFor(h *Hold, group int) map[RuleID]api.Rule {
	out := map[RuleID]api.Rule{}
	for n, rule := range h.Request.Rules {
		name := string(rule.ID)
		if name == "" {
			name = fmt.Sprintf("%s#%d", h.Request.Reservation, n)
		}
		if slices.Contains(rule.Groups, group) {
			out[RuleID{api.Tenant{Origin: h.ID.Origin, Project: h.Request.Project}, name}] = rule
		}
	}
	return out
}

// bindRules notes an instance that is held under rules.
func (m *Model) bindRules(h *Hold, group int, id api.InstanceID, link api.LinkID) {
	h.Groups[id] = group
	for name, rule := range rulesFor(h, group) {
		if m.Bonds[name] == nil {
			m.Bonds[name] = map[api.InstanceID]Bond{}
		}
		m.Bonds[name][id] = Bond{h, rule, link}
		m.Ruled[name] = true
		m.Bound++
	}
}

// Members returns the places of the members of a rule with their numbers. A moving member
// counts on both hosts.
func (m *Model) Members(name RuleID) map[Spot]int {
	out := map[Spot]int{}
	for id, b := range m.Bonds[name] {
		i := m.MadeBy(b.hold, id)
		switch {
		case m.Held[id] != b.hold && (i == nil || !i.Live()):
			delete(m.Bonds[name], id)
		case b.link != "":
			out[Spot{Link: b.link}]++
		default:
			out[Spot{Host: m.Claims[id].Host}]++
			if c := m.Coming[id]; c != nil {
				out[Spot{Host: c.Host}]++
			}
		}
	}
	return out
}

// Obeys reports whether one more of a group may be at a spot, or, with its brothers, one of those that move
// there: they do not count where they are.
func (m *Model) Obeys(h *Hold, group int, at Spot, moving []api.InstanceID) bool {
	for name, rule := range rulesFor(h, group) {
		if len(moving) > 0 && m.form >= api.FormFifth && attaches(h, rule) {
			continue // what is attached keeps it, and nothing else
		}
		all, leaving, coming := m.Members(name), 0, 0
		for _, id := range moving {
			if _, bound := m.Bonds[name][id]; !bound {
				continue
			}
			leaving++
			from := Spot{Host: m.Claims[id].Host}
			if all[from]--; all[from] == 0 {
				delete(all, from)
			}
			if m.Coming[id] == nil {
				coming++
			}
		}
		if len(moving) > 0 && leaving == 0 {
			continue // it was let go
		}
		here := all[at] + max(coming, 1)
		delete(all, at)
		if rule.Pairs && at.Host != "" { // pairs may be on any hosts of one zone
			maps.DeleteFunc(all, func(s Spot, _ int) bool { return s.Host != "" })
		}
		if rule.Policy == api.Affinity && len(all) > 0 || rule.Policy == api.AntiAffinity && at.Host != "" && here > rule.Max {
			return false
		}
	}
	return true
}

// Broken returns the first rule that this command touched and that does not hold,
// in words; "" if all do.
func (m *Model) Broken() string {
	for name := range m.Ruled {
		all := m.Members(name)
		for _, b := range m.Bonds[name] {
			for at, n := range all {
				if b.rule.Policy == api.AntiAffinity && at.Host != "" && n > b.rule.Max {
					return fmt.Sprintf("rule %s has %d members on host %s", name.Name, n, at.Host)
				}
			}
			if b.rule.Pairs {
				if zones := zonesOf(all); zones > 1 {
					return fmt.Sprintf("pairs under rule %s are in %d zones", name.Name, zones)
				}
				continue
			}
			if b.rule.Policy == api.Affinity && len(all) > 1 && !m.onlyMoves(name) && !m.leftVolumes(name) {
				return fmt.Sprintf("rule %s has members in %d places", name.Name, len(all))
			}
		}
	}
	return ""
}

// zonesOf counts the zones that places are in: this one, and those behind links.
func zonesOf(all map[Spot]int) int {
	zones := map[api.LinkID]bool{}
	for at := range all {
		zones[at.Link] = true
	}
	return len(zones)
}

// dropUnpaired gives back the slots of a new hold that have no other one of their pair on the same host: each host keeps
// as many of each group as it has of the one with the fewest.
func (m *Model) dropUnpaired(h *Hold) {
	for again := true; again; {
		again = false
		for _, rule := range h.Request.Rules {
			if !rule.Pairs {
				continue
			}
			left := map[api.HostID]map[int]int{}
			for _, c := range h.Slots {
				if left[c.Host] == nil {
					left[c.Host] = map[int]int{}
				}
				left[c.Host][h.Groups[c.Consumer]]++
			}
			for host, n := range left {
				least := min(n[rule.Groups[0]], n[rule.Groups[1]])
				left[host] = map[int]int{rule.Groups[0]: least, rule.Groups[1]: least}
			}
			var keep []*Claim
			for _, c := range h.Slots {
				g := h.Groups[c.Consumer]
				if slices.Contains(rule.Groups, g) {
					if left[c.Host][g] == 0 {
						m.refuseSlot(h, c)
						again = true
						continue
					}
					left[c.Host][g]--
				}
				keep = append(keep, c)
			}
			h.Slots = keep
		}
	}
}

// refuseSlot gives back a slot that was just taken.
func (m *Model) refuseSlot(h *Hold, c *Claim) {
	for name := range rulesFor(h, h.Groups[c.Consumer]) {
		delete(m.Bonds[name], c.Consumer)
	}
	delete(m.Held, c.Consumer)
	m.endInstance(c.Consumer)
	h.Refused++
}

// attaches reports whether a rule keeps volumes beside the instances of a boot that get them.
func attaches(h *Hold, rule api.Rule) bool {
	if rule.ID != "" || rule.Policy != api.Affinity || len(rule.Groups) != 2 {
		return false
	}
	if !rule.Pairs && slices.ContainsFunc(h.Request.Rules, func(r api.Rule) bool { return r.Pairs }) {
		return false // its owner wants it
	}
	one, two := h.Request.Groups[rule.Groups[0]], h.Request.Groups[rule.Groups[1]]
	return one.Volume != "" && one.AttachTo == two.Name || two.Volume != "" && two.AttachTo == one.Name
}

// leftVolumes reports whether a rule kept volumes beside instances, of which one has moved or moves.
func (m *Model) leftVolumes(name RuleID) bool {
	for id, b := range m.Bonds[name] {
		if i := m.MadeBy(b.hold, id); attaches(b.hold, b.rule) && i != nil && (i.Stays > 0 || m.Coming[id] != nil) {
			return true
		}
	}
	return false
}

// onlyMoves reports whether all members of a rule move to one host, have arrived there, or end.
func (m *Model) onlyMoves(name RuleID) bool {
	to := map[api.HostID]bool{}
	for id, b := range m.Bonds[name] {
		i, c := m.MadeBy(b.hold, id), m.Coming[id]
		switch {
		case b.link != "":
			return false
		case i != nil && i.Status == api.StatusDeleting:
		case c != nil:
			to[c.Host] = true
		default:
			to[m.Claims[id].Host] = true
		}
	}
	return len(to) <= 1
}

// askPart notes what a child is asked for: all that rules do not keep out of it.
func (m *Model) askPart(h *Hold, p command.Part) {
	mp, asked := &Part{Link: p.Link}, 0
	for g, specs := range p.Instances {
		for _, i := range specs {
			asked++
			if l := m.Links[p.Link]; l != nil && l.Paused || !m.Obeys(h, g, Spot{Link: p.Link}, nil) {
				h.Refused++
				continue
			}
			mp.IDs = append(mp.IDs, i.ID)
			m.Held[i.ID] = h
			m.bindRules(h, g, i.ID, p.Link)
		}
	}
	if asked == 0 || len(mp.IDs) > 0 {
		h.Parts = append(h.Parts, mp)
	}
}

// Has counts what a commit of b would make: for each group, by zone; "" is this one.
func (b *Boot) Has() []map[api.LinkID]int {
	out := make([]map[api.LinkID]int, len(b.Request.Groups))
	for g := range out {
		out[g] = map[api.LinkID]int{}
	}
	for _, h := range b.Holds {
		if h.Decision != api.DecisionPending || !h.isComplete() {
			continue
		}
		for _, c := range h.Slots {
			out[h.Groups[c.Consumer]][""]++
		}
		for _, p := range h.Parts {
			for _, id := range p.IDs {
				out[h.Groups[id]][p.Link]++
			}
		}
	}
	return out
}

// DescribeShortfall returns the reason why a boot cannot be committed with its holds, "" for none.
func (m *Model) DescribeShortfall(b *Boot) string {
	total, zones := 0, map[api.LinkID]bool{}
	groups, there := b.Has(), m.survivorsOf(b)
	for g, at := range groups {
		n := 0
		for _, has := range at {
			n += has
		}
		total += n
		if n < b.Request.Groups[g].Min {
			return "a group has fewer than its min_count"
		}
		for zone, more := range there[g] {
			at[zone] += more
		}
		for zone := range at {
			zones[zone] = true
		}
	}
	rule := b.Request.Zones
	switch {
	case total < b.Least:
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
		if rule.MaxSkew > 0 && n > 0 && !b.onOneHost(g) && slices.Max(counts)-slices.Min(counts) > rule.MaxSkew {
			return "a group is too uneven over zones"
		}
	}
	return ""
}

// survivorsOf returns the instances of a boot that an order for its preempted ones finds, by group and place.
func (m *Model) survivorsOf(b *Boot) []map[api.LinkID]int {
	out := make([]map[api.LinkID]int, len(b.Request.Groups))
	from := m.Boots[BootID{Project: b.ID.Project, Reservation: b.ID.Reservation}]
	for g := range out {
		out[g] = map[api.LinkID]int{}
	}
	if b.ID.Refill == 0 || from == nil {
		return out
	}
	for _, i := range m.Instances {
		if i.Hold.Boot != from || i.Status == api.StatusDeleting || i.Status == api.StatusDeleted {
			continue
		}
		if g := groupIn(&from.Request, i); g >= 0 {
			out[g][i.Link]++
		}
	}
	return out
}

// onOneHost reports whether a rule of affinity binds a group: it cannot be spread.
func (b *Boot) onOneHost(group int) bool {
	for _, r := range b.Request.Rules {
		if r.Policy == api.Affinity && !r.Pairs && slices.Contains(r.Groups, group) {
			return true
		}
	}
	return false
}

// TooFew reports whether a committed boot has fewer instances, in all or of a group,
// than it needs.
func (b *Boot) TooFew() string {
	total, groups := 0, make([]int, len(b.Request.Groups))
	for _, h := range b.Holds {
		if h.Decision == api.DecisionCommit {
			for _, id := range h.IDs() {
				groups[h.Groups[id]]++
				total++
			}
		}
	}
	if total < b.Least {
		return fmt.Sprintf("with %d instances and needs %d", total, b.Least)
	}
	for g, n := range groups {
		if least := b.Request.Groups[g].Min; n < least {
			return fmt.Sprintf("with %d instances of group %d and needs %d", n, g, least)
		}
	}
	return ""
}

// Aggregate is a set of hosts as far as it says where they are.
type Aggregate struct {
	Name     string
	AZ       string
	Metadata map[string]string
	Hosts    []api.HostID
}

// Standing returns the properties that a host gets from its aggregates.
func (m *Model) Standing(id api.HostID) string {
	az, in := m.DefaultAZ, []string{}
	if az == "" {
		az = m.Zone
	}
	for _, k := range slices.Sorted(maps.Keys(m.Aggregates)) {
		if a := m.Aggregates[k]; slices.Contains(a.Hosts, id) {
			in = append(in, string(k))
			if a.AZ != "" {
				az = a.AZ
			}
		}
	}
	return strings.Join(append(in, az), " ")
}

// rearrange does something, and moves the hosts on for which it changes something.
func (m *Model) rearrange(do func()) {
	before := map[api.HostID]string{}
	for id := range m.Hosts {
		before[id] = m.Standing(id)
	}
	do()
	for id, h := range m.Hosts {
		if m.Standing(id) != before[id] && !h.Passive {
			m.bumpGeneration(h)
		}
	}
}

func (m *Model) aggregatePut(c command.AggregatePut) *Refusal {
	a := &Aggregate{c.Aggregate.Name, c.Aggregate.Metadata[api.MetaAZ], c.Aggregate.Metadata, slices.Compact(slices.Sorted(slices.Values(c.Aggregate.Hosts)))}
	old, ok := m.Aggregates[c.Aggregate.ID]
	if ok && old.Name == a.Name && maps.Equal(old.Metadata, a.Metadata) && slices.Equal(old.Hosts, a.Hosts) {
		return nil
	}
	if ok != c.Replace {
		return &Refusal{promise.Model, "there is such an aggregate, or none to replace"}
	}
	if !ok && len(m.Aggregates) >= api.AggregatesMax {
		return &Refusal{promise.Model, "there are too many aggregates"}
	}
	for id, o := range m.Aggregates {
		if id != c.Aggregate.ID && o.Name == a.Name {
			return &Refusal{promise.Model, "the name of the aggregate is taken"}
		}
	}
	for _, h := range a.Hosts {
		if m.Hosts[h] == nil || m.Hosts[h].Passive {
			return &Refusal{promise.Model, "there is no host " + string(h)}
		}
		for id, o := range m.Aggregates {
			if id != c.Aggregate.ID && slices.Contains(o.Hosts, h) && a.AZ != "" && o.AZ != "" && o.AZ != a.AZ {
				return &Refusal{promise.Model, "host " + string(h) + " is in another availability zone"}
			}
		}
	}
	m.rearrange(func() { m.Aggregates[c.Aggregate.ID] = a })
	return nil
}

func (m *Model) aggregateDelete(c command.AggregateDelete) *Refusal {
	if m.Aggregates[c.ID] == nil {
		return &Refusal{promise.Model, "there is no such aggregate"}
	}
	m.rearrange(func() { delete(m.Aggregates, c.ID) })
	return nil
}

// LetGo ends that rules bind an instance, but for those in a list.
func (m *Model) LetGo(h *Hold, id api.InstanceID, but []string) {
	for name := range rulesFor(h, h.Groups[id]) {
		if !slices.Contains(but, name.Name) {
			delete(m.Bonds[name], id)
		}
	}
}

// Rebind binds all held and live instances to their rules.
func (m *Model) Rebind(h *Hold, id api.InstanceID, link api.LinkID) {
	if i := m.MadeBy(h, id); m.Held[id] == h || i != nil && i.Live() {
		m.bindRules(h, h.Groups[id], id, link)
	}
}
