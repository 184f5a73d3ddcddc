package filters

import (
	"math/bits"
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
// the hint near. A host without a well-formed address is dropped, and so is every host for a request of
// another zone unless the attribute is public.
func newNear() Filter {
	return Filter{Name: NameNear, Tier: api.TierNotAsked, Demand: true, Asks: demands[NameNear].stated, Keep: func(l *Look, pass *capacity.Set) {
		network, err := netip.ParsePrefix(l.Group().Hints.Near)
		if err != nil {
			clearSet(pass) // nothing is near what is nowhere; the request was not validated
			return
		}
		values, may := l.attribute(attributeIP)
		if !may {
			clearSet(pass)
			return
		}
		values.Keep(pass, func(v *capacity.Value) bool {
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
		from, to := 0, pass.Words()
		for from < to && pass.Word(from) == 0 {
			from++
		}
		for from < to && pass.Word(to-1) == 0 {
			to--
		}
		part := pass.Part(from, to)
		q.Keep(&columns{l, part.Clone(), from * capacity.WordRows}, &part)
	}}
}

// columns are what a query sees of the hosts that it may still pass. Its rows are those of the
// view from first on.
type columns struct {
	l     *Look
	pass  capacity.Set
	first int
}

var _ query.Columns = (*columns)(nil)

// Free returns what claims of the request could have, over its window; like Total
// the sum over everything that slots on the host may draw from.
func (c *columns) Free(class api.ResourceClass) *query.Column {
	v := c.l.View
	if v.HasCompounds() {
		return c.numberColumn(wordsOf(v.FreeColumn(class, c.l.Window, c.l.Req.ClaimClass())), wordsOf(v.CapacityColumn(class)))
	}
	free, total := v.Free(class, c.l.Window, c.l.Req.ClaimClass()), v.Total(class)
	return c.numberColumn(free.Word, total.Word)
}

// words reads one word of rows, as capacity.Free.Word does.
type words func(n int, room *[capacity.WordRows]int64) *[capacity.WordRows]int64

// wordsOf returns what reads a column.
func wordsOf(column []int64) words {
	return func(n int, _ *[capacity.WordRows]int64) *[capacity.WordRows]int64 {
		return (*[capacity.WordRows]int64)(column[n*capacity.WordRows:])
	}
}

// seen returns a number as the request may see it: one of another zone sees it as it is in a digest.
func (c *columns) seen(n int64) int64 {
	if c.l.Req.Origin != "" {
		return api.RoundUp(n)
	}
	return n
}

// rows returns the number of rows.
func (c *columns) rows() int { return c.pass.Words() * capacity.WordRows }

// Total returns the capacity of a class.
func (c *columns) Total(class api.ResourceClass) *query.Column {
	if c.l.View.HasCompounds() {
		total := wordsOf(c.l.View.CapacityColumn(class))
		return c.numberColumn(total, total)
	}
	total := c.l.View.Total(class)
	return c.numberColumn(total.Word, total.Word)
}

// Instances returns how many instances hosts have.
func (c *columns) Instances() *query.Column {
	out := query.NewColumn(c.rows())
	for row := range c.pass.All() {
		out.SetNumber(row, c.seen(int64(c.l.View.Instances(c.first+row))))
	}
	return out
}

// numberColumn returns the values of the rows that have something of a class.
func (c *columns) numberColumn(values, total words) *query.Column {
	out := query.NewColumn(c.rows())
	var value, capacities [capacity.WordRows]int64
	for n := range c.pass.Words() {
		word, at := c.pass.Word(n), c.first/capacity.WordRows+n
		if word == 0 {
			continue
		}
		have, all := values(at, &value), total(at, &capacities)
		for ; word != 0; word &= word - 1 {
			if i := bits.TrailingZeros64(word); all[i] > 0 {
				out.SetNumber(n*capacity.WordRows+i, c.seen(have[i]))
			}
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
	out := query.NewColumn(c.rows())
	for row := range c.pass.All() {
		if text := of(c.first + row); text != "" {
			out.SetText(row, text)
		}
	}
	return out
}

// Attribute returns the values of an attribute that the request may ask for.
func (c *columns) Attribute(name string) *query.Column {
	if name == attributeIP {
		return nil // a query may come from another zone, which would find the address by trying
	}
	from, may := c.l.attribute(name)
	if !may {
		return nil
	}
	out := query.NewColumn(c.rows())
	for row := range c.pass.All() {
		switch v := from.At(c.first + row); v.Kind {
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
