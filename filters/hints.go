package filters

import (
	"net/netip"

	"berth/api"
	"berth/capacity"
	"berth/filters/query"
)

// newAllHosts returns the filter that passes every host. It is there for a list that is to have no filter.
func newAllHosts() Filter {
	never := func(*Look) bool { return false }
	return Filter{Name: NameAllHosts, Tier: api.TierNotAsked, Asks: never, Keep: func(*Look, *capacity.Set) {}}
}

// newForcedHosts returns the filter that passes exactly the hosts that the hint force_hosts names, if it
// names any. It forces the choice and nothing else: a forced host must pass all
// other filters too, because capacity, state and rules are promises to others.
func newForcedHosts() Filter {
	return Filter{Name: NameForcedHosts, Tier: api.TierNotAsked, Demand: true, Asks: demands[NameForcedHosts].stated, Keep: func(l *Look, pass *capacity.Set) {
		pass.And(rowsByName(l.View, l.Group().Hints.ForceHosts))
	}}
}

// newIgnoredHosts returns the filter that drops the hosts that the hint ignore_hosts names.
func newIgnoredHosts() Filter {
	return Filter{Name: NameIgnoredHosts, Tier: api.TierNotAsked, Demand: true, Asks: demands[NameIgnoredHosts].stated, Keep: func(l *Look, pass *capacity.Set) {
		pass.AndNot(rowsByName(l.View, l.Group().Hints.IgnoreHosts))
	}}
}

// rowsByName returns the rows of hosts by name.
func rowsByName(v capacity.View, list []string) capacity.Set {
	s := capacity.NewSet(v.Rows())
	for _, name := range list {
		if row, ok := v.Named(name); ok {
			s.Add(row)
		}
	}
	return s
}

// newSameHost returns the filter that passes the hosts that one of the instances of the hint same_host is
// on; none, if none of them is in this zone.
func newSameHost() Filter {
	return Filter{Name: NameSameHost, Tier: api.TierNotAsked, Demand: true, Asks: demands[NameSameHost].stated, Keep: func(l *Look, pass *capacity.Set) {
		pass.And(hostsOf(l, l.Group().Hints.SameHost))
	}}
}

// newDifferentHost returns the filter that drops the hosts that an instance of the hint different_host is
// on.
func newDifferentHost() Filter {
	return Filter{Name: NameDifferentHost, Tier: api.TierNotAsked, Demand: true, Asks: demands[NameDifferentHost].stated, Keep: func(l *Look, pass *capacity.Set) {
		pass.AndNot(hostsOf(l, l.Group().Hints.DifferentHost))
	}}
}

// hostsOf returns the rows that some instances of the tenant are on.
func hostsOf(l *Look, list []api.InstanceID) capacity.Set {
	s := capacity.NewSet(l.View.Rows())
	if l.World.Census == nil {
		return s
	}
	for _, id := range list {
		host, ok := l.World.Census.HostOf(l.Req.Tenant(), id)
		if !ok {
			continue
		}
		if row, ok := l.View.Row(host); ok {
			s.Add(row)
		}
	}
	return s
}

// attributeIP is the attribute that says at which address a host is.
const attributeIP = "ip"

// newNear returns the filter that passes hosts whose own address, the attribute ip, lies in the network of
// the hint near. A host without a well-formed address is dropped.
func newNear() Filter {
	return Filter{Name: NameNear, Tier: api.TierNotAsked, Demand: true, Asks: demands[NameNear].stated, Keep: func(l *Look, pass *capacity.Set) {
		network, err := netip.ParsePrefix(l.Group().Hints.Near)
		if err != nil {
			clearSet(pass) // nothing is near what is nowhere; the request was not validated
			return
		}
		l.View.Attribute(attributeIP).Keep(pass, func(v *capacity.Value) bool {
			a, err := netip.ParseAddr(v.Text)
			return err == nil && network.Contains(a.Unmap())
		})
	}}
}

// newQuery returns the filter that passes hosts for which the query of the hint query is true; see package
// filters/query. A query that does not compile passes none: whoever takes the
// request refuses it before.
func newQuery() Filter {
	return Filter{Name: NameQuery, Tier: api.TierNotAsked, Demand: true, Asks: demands[NameQuery].stated, Keep: func(l *Look, pass *capacity.Set) {
		q, err := query.Compile(l.Group().Hints.Query)
		if err != nil {
			clearSet(pass)
			return
		}
		q.Keep(&columns{l, pass.Clone()}, pass)
	}}
}

// columns are what a query sees of the hosts that it may still pass.
type columns struct {
	l    *Look
	pass capacity.Set
}

var _ query.Columns = (*columns)(nil)

// Free returns what claims of the request could have, over its window; like Total
// the sum over everything that slots on the host may draw from.
func (c *columns) Free(class api.ResourceClass) *query.Column {
	return c.numberColumn(c.l.View.FreeColumn(class, c.l.Window, c.l.Req.ClaimClass()), c.l.View.CapacityColumn(class))
}

// Total returns the capacity of a class.
func (c *columns) Total(class api.ResourceClass) *query.Column {
	total := c.l.View.CapacityColumn(class)
	return c.numberColumn(total, total)
}

// Instances returns how many instances hosts have.
func (c *columns) Instances() *query.Column {
	out := query.NewColumn(c.l.View.Rows())
	for row := range c.pass.All() {
		out.SetNumber(row, int64(c.l.View.Instances(row)))
	}
	return out
}

// numberColumn returns the values of the rows that have something of a class.
func (c *columns) numberColumn(values, total []int64) *query.Column {
	out := query.NewColumn(len(values))
	for row := range c.pass.All() {
		if total[row] > 0 {
			out.SetNumber(row, values[row])
		}
	}
	return out
}

// AZ returns the availability zones of hosts.
func (c *columns) AZ() *query.Column {
	return c.textColumn(func(row int) string { return c.l.View.Spec(row).AZ })
}

// Name returns the names of hosts to a lease of this zone. Boots name hosts by hints, which
// need the role admin, and another zone would find names by trying.
func (c *columns) Name() *query.Column {
	if !c.l.Req.Reserves || c.l.Req.Origin != "" {
		return nil
	}
	return c.textColumn(c.l.View.Name)
}

// textColumn returns the texts of the rows that have one.
func (c *columns) textColumn(of func(row int) string) *query.Column {
	out := query.NewColumn(c.l.View.Rows())
	for row := range c.pass.All() {
		if text := of(row); text != "" {
			out.SetText(row, text)
		}
	}
	return out
}

// Attribute returns the values of an attribute.
func (c *columns) Attribute(name string) *query.Column {
	if name == attributeIP {
		return nil // a query may come from another zone, which would find the address by trying
	}
	from, out := c.l.View.Attribute(name), query.NewColumn(c.l.View.Rows())
	for row := range c.pass.All() {
		switch v := from.At(row); v.Kind {
		case capacity.KindNumber:
			out.SetMicros(row, v.Number)
		case capacity.KindBool:
			out.SetBool(row, v.Number == 1)
		case capacity.KindText:
			out.SetText(row, v.Text)
		case capacity.KindNone:
		}
	}
	return out
}
