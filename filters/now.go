package filters

import (
	"berth/api"
	"berth/capacity"
)

// newHostState returns the filter that passes hosts that are up, enabled and not in maintenance. Whether a
// silent host is down is decided by the zone's leader, not here. Maintenance takes hosts in any state.
func newHostState() Filter {
	asks := func(l *Look) bool { return !l.Req.Maintains() }
	return Filter{Name: nameHostState, Tier: api.TierNotNow, Asks: asks, Keep: func(l *Look, pass *capacity.Set) { l.View.KeepServing(pass) }}
}

// members is who is where already under one hard rule of the group.
type members struct {
	rule      int // of the request
	most      int // on one host; 0 for affinity
	here      map[int]int
	lost      int  // on hosts of this zone that the view does not have
	pairs     bool // each pair may have a host of its own: what is here counts for no other
	elsewhere int
}

// hardRules returns the hard rules that bind the group and their members, read once
// for each look.
func (l *Look) hardRules() []members {
	if l.rules != nil || len(l.Req.Rules) == 0 {
		return l.rules
	}
	l.rules = []members{}
	for _, n := range l.Req.RulesOf(l.Index) {
		rule := &l.Req.Rules[n]
		if rule.Policy != api.Affinity && rule.Policy != api.AntiAffinity {
			continue
		}
		m := members{rule: n, most: rule.Max, pairs: rule.Pairs, here: map[int]int{}}
		if c := l.World.Census; c != nil {
			m.countFrom(l, c)
		}
		l.rules = append(l.rules, m)
	}
	return l.rules
}

// countFrom fills m from a census.
func (m *members) countFrom(l *Look, c Census) {
	here, elsewhere := c.Members(l.Req.Tenant(), l.Req.RuleKey(m.rule))
	if m.pairs {
		here = nil
	}
	for id, n := range here { // in any order: sums
		if row, ok := l.View.Row(id); ok {
			m.here[row] += n
		} else {
			m.lost += n
		}
	}
	for _, n := range elsewhere {
		m.elsewhere += n
	}
}

// newServerGroup returns the filter that holds the hard rules of the request. Under affinity it passes the
// hosts that carry every member there is: any host if there is none, and none if
// members are in another zone or on several hosts. Under anti-affinity it passes
// hosts with fewer members than the maximum, and gives them room for the rest.
// Slots of earlier groups of the same request count as members.
func newServerGroup() Filter {
	return Filter{
		Name: NameServerGroup, Tier: api.TierNotNow, Demand: true, Asks: hasHardRule,
		Keep: func(l *Look, pass *capacity.Set) {
			for _, m := range l.hardRules() {
				if m.most == 0 {
					m.keepTogether(l, pass)
				} else {
					m.keepApart(l, pass)
				}
			}
		},
		Room: func(l *Look, row int) int64 {
			room := int64(api.CountMax)
			for _, m := range l.hardRules() {
				if m.most > 0 {
					room = min(room, int64(m.most-m.here[row]-l.placedMembers(row, m.rule)))
				}
			}
			return max(room, 0)
		},
	}
}

// keepTogether keeps the rows that carry all members.
func (m *members) keepTogether(l *Look, pass *capacity.Set) {
	if m.elsewhere+m.lost > 0 {
		clearSet(pass)
		return
	}
	on := capacity.NewSet(l.View.Rows())
	for row := range m.here {
		if m.here[row] > 0 {
			on.Add(row)
		}
	}
	if l.Placed != nil {
		for row := range l.View.Hosts().All() {
			if l.Placed(row, m.rule) > 0 {
				on.Add(row)
			}
		}
	}
	switch on.Len() {
	case 0:
	case 1:
		pass.And(on)
	default:
		clearSet(pass)
	}
}

// keepApart keeps the rows with fewer members than the maximum.
func (m *members) keepApart(l *Look, pass *capacity.Set) {
	for row, n := range m.here { // in any order: each is looked at alone
		if n >= m.most {
			pass.Remove(row)
		}
	}
	if l.Placed != nil {
		pass.Keep(func(row int) bool { return m.here[row]+l.Placed(row, m.rule) < m.most })
	}
}

// newInstances returns the filter that passes hosts with fewer than most instances, held slots and slots of
// earlier groups included, and gives them room for the rest. Most is 1 or more.
func newInstances(most int) Filter {
	left := func(l *Look, row int) int { return most - l.View.Instances(row) - l.placedMembers(row, -1) }
	return Filter{
		Name: nameInstances, Tier: api.TierNotNow,
		Keep: func(l *Look, pass *capacity.Set) { pass.Keep(func(row int) bool { return left(l, row) > 0 }) },
		Room: func(l *Look, row int) int64 { return max(int64(left(l, row)), 0) },
	}
}

// newCapacity returns the filter that passes hosts that have room for one slot of the group over the whole
// window of the request, in amounts that the host's units allow. A host has
// nothing of a class that its inventory does not name, unless a provider below it
// or one that shares with it has; each class of a slot comes whole from one of
// them. What it drops it reports as one of four: nameSize if in some class none
// of them is large enough, even empty; nameUnits if some are, but none of these
// hands out such an amount; else NameCapacity, or NamePromised if there is room when the window
// opens and none over all of it. For a group of whole hosts it passes those that are idle over the
// whole window, and reports nameSize for hosts without any inventory, and nameInUse or NamePromised
// for the others.
func newCapacity() Filter {
	return Filter{
		Name: NameCapacity, Tier: api.TierNotNow,
		Keep: func(l *Look, pass *capacity.Set) {
			l.keepRoom(pass, l.Window)
		},
		Sort: func(l *Look, dropped capacity.Set) []Part {
			if l.Group().Whole {
				bare := dropped.Clone()
				l.View.KeepStocked(&dropped)
				bare.AndNot(dropped)
				return append([]Part{{nameSize, api.TierNeverFits, bare}}, l.sortPromised(dropped, nameInUse)...)
			}
			r := l.Group().Resources
			small, odd := dropped.Clone(), dropped.Clone()
			l.View.KeepLarge(&dropped, r)
			small.AndNot(dropped)
			l.View.KeepAdmitting(&dropped, r)
			odd.AndNot(dropped)
			odd.AndNot(small)
			return append([]Part{{nameUnits, api.TierInvalid, odd}, {nameSize, api.TierNeverFits, small}}, l.sortPromised(dropped, NameCapacity)...)
		},
	}
}
