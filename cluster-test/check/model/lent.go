package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/api"
)

// lentPercent is how much of each class a parent may hold, and have, of whom nothing else is said.
const lentPercent = 100

// shares sets what the operator says of the share of a parent.
func (l *Link) shares(held, committed *int) {
	if held != nil {
		l.Held = held
	}
	if committed != nil {
		l.Committed = committed
	}
}

// Owed is what a parent has of a class at an instant: what it has not decided, and firm and preemptible
// claims, decided or not.
type Owed struct{ Held, Firm, Soft int64 }

// OwedAt returns what a parent has of a class on hosts of the zone at an instant from now on. A claim that
// is to take the place of another one counts with what it has beyond that. One within a slot is counted
// with the slot.
func (m *Model) OwedAt(origin api.LinkID, class api.ResourceClass, at api.Instant) (out Owed) {
	for id, c := range m.Claims {
		h := m.Held[id]
		undecided := h != nil
		if i := m.Instances[id]; !undecided && i != nil {
			h = i.Hold
		}
		if h == nil || h.ID.Origin != origin || c.Within != "" || !c.covers(at) {
			continue
		}
		n := c.Want[class]
		if old := m.Claims[c.Keeps]; c.Keeps != "" && old.covers(at) {
			n = max(0, n-old.Want[class])
		}
		if c.Class == api.Preemptible {
			out.Soft += n
		} else {
			out.Firm += n
		}
		if undecided {
			out.Held += n
		}
	}
	return out
}

// LentInstants returns now, and all later instants at which something of a parent begins or ends.
func (m *Model) LentInstants() []api.Instant {
	out := []api.Instant{m.Now}
	for _, c := range m.Claims {
		for _, at := range []api.Instant{c.Start, c.End} {
			if at > m.Now && at < api.Forever {
				out = append(out, at)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ShareOf returns how much of a class a parent may hold, and have.
func (m *Model) ShareOf(origin api.LinkID, class api.ResourceClass) (held, committed int64) {
	stock := m.StockOf(class)
	percent := func(p *int) int64 {
		if p == nil {
			return stock * lentPercent / 100
		}
		return stock * int64(*p) / 100
	}
	l := cmp.Or(m.Links[origin], &Link{})
	return percent(l.Held), percent(l.Committed)
}

// StockOf returns the capacity of a class that shares are of. A zone that hides its layout leaves out the hosts that
// parents would not be shown if all served.
func (m *Model) StockOf(class api.ResourceClass) (sum int64) {
	for _, h := range m.Hosts {
		sum += capacityOf(h.Stock()[class])
	}
	if !m.Hides {
		return sum
	}
	kinds, order := map[string][]*Host{}, []string(nil)
	for _, id := range slices.Sorted(maps.Keys(m.Hosts)) {
		if h := m.Hosts[id]; !h.Passive {
			k := m.kindOf(h)
			if kinds[k] == nil {
				order = append(order, k)
			}
			kinds[k] = append(kinds[k], h)
		}
	}
	all := 0
	for _, hosts := range kinds {
		all += power(len(hosts))
	}
	most := power(all)
	if len(kinds) > most {
		for _, k := range order[most:] {
			delete(kinds, k)
		}
	}
	least := func(level int) (n int) { // hosts of which no kind has more than so many, and each a power of two
		for _, hosts := range kinds {
			n += min(level, power(len(hosts)))
		}
		return n
	}
	level := 1
	for least(level+1) <= most && least(level+1) > least(level) {
		level++
	}
	for _, h := range m.Hosts {
		if n := slices.Index(kinds[m.kindOf(h)], h); h.Passive || n >= 0 && n < min(level, power(len(kinds[m.kindOf(h)]))) {
			continue
		}
		for _, part := range append(m.hostsBelow(h), h) {
			sum -= capacityOf(part.Stock()[class])
		}
	}
	return sum
}

// power returns the largest power of two up to n.
func power(n int) int {
	p := 0
	for q := 1; q <= n; q += q {
		p = q
	}
	return p
}

// kindOf returns what a parent can ask of a host, as a text.
func (m *Model) kindOf(h *Host) string {
	var b strings.Builder
	stock := h.Stock()
	for _, class := range slices.Sorted(maps.Keys(stock)) {
		fmt.Fprint(&b, class, stock[class].Normal())
	}
	fmt.Fprint(&b, h.AllTraits(), h.Pool, h.Commands, m.Sets(h), m.Standing(h.ID))
	for _, name := range append([]string{"arch", "hypervisor_type", "os"}, m.Public...) {
		text := h.Attributes[name]
		if own, has := h.Overrides[name]; has {
			text = own
		}
		fmt.Fprintf(&b, " %q", text)
	}
	fmt.Fprint(&b, len(m.hostsBelow(h)), len(m.sharersOf(h)))
	return b.String()
}

// mayLend reports whether the share of a parent has room for a claim, in place of the one that it keeps, at
// every instant from now on.
func (m *Model) mayLend(h *Hold, c *Claim, keeps api.InstanceID) bool {
	if h.ID.Origin == "" || m.form < api.FormFifth {
		return true
	}
	for class, want := range c.Want {
		for _, at := range append(m.LentInstants(), max(c.Start, m.Now)) {
			n := want
			if old := m.Claims[keeps]; keeps != "" && old.covers(at) {
				n = max(0, n-old.Want[class])
			}
			if n > 0 && c.covers(at) && !m.mayLendAt(h.ID.Origin, class, n, c.Class, at) {
				return false
			}
		}
	}
	return true
}

// mayLendAt is mayLend for an amount of one class at one instant. A preemptible claim counts beside all
// others, now alone.
func (m *Model) mayLendAt(origin api.LinkID, class api.ResourceClass, n int64, kind api.Class, at api.Instant) bool {
	held, committed := m.ShareOf(origin, class)
	owed := m.OwedAt(origin, class, at)
	switch {
	case owed.Held+n > held:
		return false
	case kind != api.Preemptible:
		return owed.Firm+n <= committed
	}
	return at != m.Now || owed.Firm+owed.Soft+n <= committed
}
