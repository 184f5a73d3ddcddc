package model

import (
	"cmp"
	"slices"

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
	stock := int64(0)
	for _, h := range m.Hosts {
		stock += capacityOf(h.Stock()[class])
	}
	percent := func(p *int) int64 {
		if p == nil {
			return stock * lentPercent / 100
		}
		return stock * int64(*p) / 100
	}
	l := cmp.Or(m.Links[origin], &Link{})
	return percent(l.Held), percent(l.Committed)
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
