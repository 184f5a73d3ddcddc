package model

import (
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/raftstore/command"
)

// isSlot reports whether i is a slot of a lease on an own host.
func (i *Instance) isSlot() bool { return i.Reserved() && i.Host != "" }

// Reserved reports whether i is a slot of a lease, here or in a child.
func (i *Instance) Reserved() bool { return i.Hold.Request.Reserves }

// Reservation returns the reservation that a slot is of.
func (i *Instance) Reservation() api.ReservationID {
	return api.ReservationID(i.Hold.Request.Groups[i.Group].Name)
}

// isWhole reports whether a slot is a whole host.
func (i *Instance) isWhole() bool { return i.Hold.Request.Groups[i.Group].Whole }

// isFor reports whether a project may use a slot.
func (i *Instance) isFor(p api.ProjectID) bool {
	return i.Hold.Request.Project == p || slices.Contains(i.Hold.Request.Shared, p)
}

// Slots returns the slots of a reservation that are not DELETED, here and in children, by id.
func (m *Model) Slots(origin api.LinkID, r api.ReservationID) (out []api.InstanceID) {
	if r == "" {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(m.Instances)) {
		i := m.Instances[id]
		if i.Live() && i.Reserved() && i.Hold.ID.Origin == origin && i.Reservation() == r {
			out = append(out, id)
		}
	}
	return out
}

// countSlots counts all slots that a parent has.
func (m *Model) countSlots(origin api.LinkID) (n int) {
	for _, i := range m.Instances {
		if i.Live() && i.Reserved() && i.Hold.ID.Origin == origin {
			n++
		}
	}
	return n
}

// Inside returns the claims within a slot, by consumer.
func (m *Model) Inside(slot api.InstanceID) (out []*Claim) {
	for _, id := range slices.Sorted(maps.Keys(m.Claims)) {
		if c := m.Claims[id]; slot != "" && c.Within == slot {
			out = append(out, c)
		}
	}
	return out
}

// FreeSlots returns the own slots of a reservation that a project may boot into now, by id.
func (m *Model) FreeSlots(origin api.LinkID, r api.ReservationID, p api.ProjectID) (out []api.InstanceID) {
	for _, id := range m.Slots(origin, r) {
		if i := m.Instances[id]; i.isSlot() && m.takesOne(id, i, p) {
			out = append(out, id)
		}
	}
	return out
}

// takesOne reports whether one more instance of a project may come into a slot, if its
// amounts fit.
func (m *Model) takesOne(id api.InstanceID, i *Instance, p api.ProjectID) bool {
	switch {
	case i.Status != api.StatusActive || m.Claims[id].Over > 0: // outside its window, or ending
		return false
	case !i.isFor(p) || m.Kept[id] != nil:
		return false
	}
	return i.isWhole() || !slices.ContainsFunc(m.Inside(id), m.isOwners) // a slot for an instance takes one
}

// isOwners reports whether a claim within a slot is that of its owner, whatever right it has
// left.
func (m *Model) isOwners(c *Claim) bool {
	h := m.Held[c.Consumer]
	if i := m.Instances[c.Consumer]; i != nil {
		h = i.Hold
	}
	return h.Request.Class != api.Preemptible
}

// fitsWithin puts a claim into a slot, if it fits there.
func (m *Model) fitsWithin(h *Hold, c *Claim, group int, id api.InstanceID) bool {
	slot := m.Instances[id]
	if slot == nil || !slot.Live() || !slot.isSlot() || slot.Hold.ID.Origin != h.ID.Origin || slot.Reservation() != h.Request.Within ||
		!m.takesOne(id, slot, h.Request.Project) {
		return false
	}
	c.Host, c.Within, c.Amounts = slot.Host, id, maps.Clone(c.Want)
	outer, host := m.Claims[id], m.Hosts[slot.Host]
	if !host.takesWork() || !m.isClaim(c) || c.Start < outer.Start || c.End > outer.End || !m.Obeys(h, group, Spot{Host: c.Host}, nil) {
		return false
	}
	for class, n := range c.Amounts {
		v, has := host.Stock()[class]
		if !has || !admitsUnits(v, n) || m.mostInside(id, class, max(c.Start, m.Now), c.End)+n > outer.Amounts[class] {
			return false
		}
	}
	return true
}

// mostInside returns the most that its owner uses of a class within a slot at any instant of
// [from, to).
func (m *Model) mostInside(slot api.InstanceID, class api.ResourceClass, from, to api.Instant) (most int64) {
	all := m.Inside(slot)
	for _, at := range instantsOf(all, from) {
		sum := int64(0)
		for _, c := range all {
			if c.Class != api.Preemptible && c.covers(at) && at < to {
				sum += c.Amounts[class]
			}
		}
		most = max(most, sum)
	}
	return most
}

// instantsOf returns the instants from one on at which something of some claims may change.
func instantsOf(claims []*Claim, from api.Instant) []api.Instant {
	out := []api.Instant{from}
	for _, c := range claims {
		for _, at := range []api.Instant{c.Start, c.End} {
			if at > from {
				out = append(out, at)
			}
		}
	}
	return out
}

// Occupied returns the slots in which something is claimed, by id.
func (m *Model) Occupied() (out []api.InstanceID) {
	for _, c := range m.Claims {
		if c.Within != "" {
			out = append(out, c.Within)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Crowded returns the slot in which more is claimed at some instant from now on than the slot
// has, or at another time than its own; "" for none.
func (m *Model) Crowded() api.InstanceID {
	for _, c := range m.Claims {
		if c.Within == "" || c.Over > 0 {
			continue
		}
		outer := m.Claims[c.Within]
		if outer == nil || max(c.Start, m.Now) < outer.Start || c.End > outer.Until() {
			return c.Within
		}
		for class := range c.Amounts {
			if m.mostInside(c.Within, class, max(c.Start, m.Now), c.End) > outer.Amounts[class] {
				return c.Within
			}
		}
	}
	return ""
}

// isClaim reports whether c can be claimed anywhere.
func (m *Model) isClaim(c *Claim) bool {
	return c.End > m.Now && c.Start < c.End && (c.Class == api.Firm || c.Class == api.Preemptible)
}

// fitsWhole claims all that a host and what is under it have, if it is idle.
func (m *Model) fitsWhole(h *Host, c *Claim) bool {
	if c.Class != api.Firm {
		return false
	}
	for _, p := range append(m.hostsBelow(h), h) {
		if !p.isIdle(c.Start, p.until(c), m.Now, c.Pushes) {
			return false
		}
	}
	m.divideWhole(h, c)
	return len(c.Want) > 0
}

// divideWhole gives c all that a host and what is under it have.
func (m *Model) divideWhole(h *Host, c *Claim) {
	c.Want, c.Amounts, c.Rest = api.Resources{}, api.Resources{}, nil
	for _, p := range append(m.hostsBelow(h), h) {
		for class, v := range p.Stock() {
			n := capacityOf(v)
			if n <= 0 {
				continue
			}
			c.Want[class] += n
			if p == h {
				c.Amounts[class] = n
			} else {
				c.give(p.ID, class, n)
			}
		}
	}
	slices.SortFunc(c.Rest, func(a, b *Claim) int { return strings.Compare(string(a.Host), string(b.Host)) })
}

// keepSlot has a new slot take over an old one of the order that it replaces, on the same
// host. Until the new one is decided, the host is charged for the greater of the two at each
// instant.
func (m *Model) keepSlot(h *Hold, c *Claim, sl command.Slot) bool {
	old, g := m.Instances[sl.Keeps], h.Request.Groups[sl.Group]
	switch {
	case old == nil || !old.Live() || !old.isSlot() || old.Status == api.StatusDeleting || m.Claims[sl.Keeps].Over > 0 || m.Kept[sl.Keeps] != nil:
		return false
	case old.Status == api.StatusActive && c.Start > m.Now:
		return false // what has begun does not begin later
	case old.Hold.ID.Origin != h.ID.Origin || old.Hold.Request.Project != h.Request.Project || old.Hold.Request.Reservation != h.Request.Replaces:
		return false
	case string(old.Reservation()) != g.Name || old.isWhole() != g.Whole || old.Host != sl.Host:
		return false
	case !m.Obeys(h, sl.Group, Spot{Host: sl.Host}, nil):
		return false
	}
	from := m.Claims[sl.Keeps]
	for _, inner := range m.Inside(sl.Keeps) { // what ends with the slot ends with the shorter one
		if i := m.Instances[inner.Consumer]; i != nil && i.Live() && inner.End == from.End && inner.End > c.End && inner.Over == 0 {
			c.Shortened = append(c.Shortened, inner)
			inner.End = c.End
		}
	}
	if !m.fitsInstead(from, c) || !m.mayLend(h, c, sl.Keeps) {
		for _, inner := range c.Shortened {
			inner.End = from.End
		}
		return false
	}
	for _, inner := range c.Shortened {
		m.Hit[inner.Consumer] = true
	}
	for _, p := range c.Pieces() {
		p.Keeps = sl.Keeps
	}
	m.Kept[sl.Keeps] = c
	return true
}

// PieceOn returns what a provider gives to c, nil for nothing.
func (c *Claim) PieceOn(id api.HostID) *Claim {
	for _, p := range c.Pieces() {
		if p.Host == id {
			return p
		}
	}
	return nil
}

// fitsInstead divides what c wants, and reports whether it fits in place of from.
func (m *Model) fitsInstead(from, c *Claim) bool {
	h := m.Hosts[c.Host]
	if from.Class != api.Firm || c.Class != api.Firm || !m.isClaim(c) {
		return false
	}
	if c.Whole {
		m.divideWhole(h, c)
	} else if !m.divideInstead(h, from, c) {
		return false
	}
	for _, p := range c.Pieces() {
		p.Instead = from.PieceOn(p.Host)
		p.Replaced = p.Instead
	}
	for _, p := range c.Pieces() {
		if !m.Hosts[p.Host].hasBeyond(p, m.Now) {
			return false
		}
	}
	return m.holdsInside(from, c)
}

// divideInstead has each class that from has given by whoever gives it now.
func (m *Model) divideInstead(h *Host, from, c *Claim) bool {
	left, givers := api.Resources{}, map[api.ResourceClass]api.HostID{}
	for class, n := range c.Want {
		left[class] = n
		for _, p := range from.Pieces() {
			if p.Amounts[class] > 0 {
				givers[class] = p.Host
				delete(left, class)
			}
		}
	}
	maps.Copy(givers, m.givers(h, c, left))
	c.divide(givers)
	return len(givers) == len(c.Want)
}

// hasBeyond reports whether h has room for what a claim needs beyond the one that it replaces.
func (h *Host) hasBeyond(c *Claim, now api.Instant) bool {
	if !c.Whole && h.isReserved(c, now) {
		return false
	}
	for _, at := range h.changeInstants(c, now) {
		if c.Whole && h.occupies(c, at) && !h.occupies(c.Instead, at) && !h.isIdle(at, at+1, now, c.Pushes) {
			return false
		}
	}
	for class, n := range c.Amounts {
		same := c.Instead != nil && c.Instead.Amounts[class] == n
		if !same && !c.Whole && !admitsUnits(h.Stock()[class], n) || !h.hasMore(class, c, now) {
			return false
		}
	}
	return true
}

// hasMore reports whether h has, of one class and at every instant from now on, what a claim
// needs beyond the one that it replaces.
func (h *Host) hasMore(class api.ResourceClass, c *Claim, now api.Instant) bool {
	for _, at := range h.changeInstants(c, now) {
		more := h.beyond(c, class, at)
		if !h.occupies(c, at) || more == 0 {
			continue
		}
		firm, preemptible := h.useAt(class, at)
		if at == now && !c.Pushes {
			firm += preemptible
		}
		if firm+more > capacityOf(h.Stock()[class]) {
			return false
		}
	}
	return true
}

// holdsInside reports whether all that is within a slot fits into the one that takes it over,
// from now on.
func (m *Model) holdsInside(from, c *Claim) bool {
	all := m.Inside(from.Consumer)
	for _, at := range append(instantsOf(append(all, c), m.Now), m.Now) {
		sums := api.Resources{}
		for _, inner := range all {
			if inner.Class != api.Preemptible && inner.covers(at) {
				for class, n := range inner.Amounts {
					sums[class] += n
				}
			}
		}
		for class, n := range sums {
			if !c.covers(at) && n > 0 || n > c.Amounts[class] {
				return false
			}
		}
	}
	return true
}

// unkeepSlot leaves the slot that c was to take over as it was.
func (m *Model) unkeepSlot(c *Claim) {
	if c.Keeps == "" {
		return
	}
	m.lengthen(c)
	delete(m.Kept, c.Keeps)
}

// lengthen has what is within the slot that c takes over end with that slot again.
func (m *Model) lengthen(c *Claim) {
	for _, inner := range c.Shortened {
		if m.Claims[inner.Consumer] == inner {
			inner.End = m.Claims[c.Keeps].End
			m.Hit[inner.Consumer] = true
		}
	}
	c.Shortened = nil
}

// replaceSlot makes the slot that takes over an old one, with all that is within that. The room
// that the old one alone needed is free.
func (m *Model) replaceSlot(h *Hold, c *Claim) {
	old, from := m.Instances[c.Keeps], m.Claims[c.Keeps]
	m.unkeepSlot(c)
	inside := m.Inside(c.Keeps)
	for _, inner := range inside {
		if i := m.Instances[inner.Consumer]; i != nil && i.Live() && inner.End == from.End && inner.Over == 0 {
			inner.End = c.End // it ends with the slot
		} else if i == nil && inner.Class == api.Preemptible {
			inner.End = min(inner.End, c.End) // so does what is lent to an undecided hold
		}
		inner.Within = c.Consumer
		m.Hit[inner.Consumer] = m.Hit[inner.Consumer] || m.Instances[inner.Consumer] != nil
	}
	maps.DeleteFunc(m.Hit, func(_ api.InstanceID, hit bool) bool { return !hit })
	for _, p := range from.Pieces() {
		o := m.Hosts[p.Host]
		o.Claims = slices.DeleteFunc(o.Claims, func(x *Claim) bool { return x == p })
	}
	delete(m.Claims, c.Keeps)
	old.Status, old.Waits, m.Hit[c.Keeps] = api.StatusDeleted, false, true
	m.touchRules(old)
	for _, p := range append(c.Pieces(), from.Pieces()...) {
		p.Instead, p.Keeps = nil, ""
		m.bumpGeneration(m.Hosts[p.Host])
	}
	i := &Instance{Hold: h, Group: h.Groups[c.Consumer], Host: c.Host}
	m.makeInstance(c.Consumer, i)
	m.beginMade(c.Consumer)
	m.evictLent(c.Consumer)
}

// endWithin ends what is within a slot that is to end, and then the slot.
func (m *Model) endWithin(slot api.InstanceID) {
	if !m.Instances[slot].isSlot() {
		return
	}
	for _, c := range m.Inside(slot) {
		if i := m.Instances[c.Consumer]; i != nil && i.Live() && i.Status != api.StatusDeleting {
			m.setStatus(c.Consumer, api.StatusDeleting)
		}
	}
	m.endEmptySlot(slot)
}

// endEmptySlot ends a slot that is ending and in which nothing is left.
func (m *Model) endEmptySlot(slot api.InstanceID) {
	if i := m.Instances[slot]; i != nil && i.Status == api.StatusDeleting && i.isSlot() && len(m.Inside(slot)) == 0 {
		m.setStatus(slot, api.StatusDeleted)
	}
}

// moveSlot moves an empty slot to another host.
func (m *Model) moveSlot(id api.InstanceID, i *Instance, next *Claim) {
	m.dropClaim(m.Claims[id])
	m.grantClaim(next)
	i.Host, i.Status, m.Hit[id] = next.Host, api.StatusBuild, true
	i.Stays++
	i.Other = i.Other || next.Start <= m.Now
	m.touchRules(i)
	m.beginMade(id)
}

// isRoomFree reports whether all that a slot reserves is free of others now.
func (m *Model) isRoomFree(id api.InstanceID) bool {
	if slot := m.Claims[id].Within; slot != "" {
		return len(m.excessInside(slot)) == 0
	}
	for _, p := range m.Claims[id].Pieces() {
		h := m.Hosts[p.Host]
		for class := range p.Amounts {
			if firm, preemptible := h.useAt(class, m.Now); firm+preemptible > capacityOf(h.Stock()[class]) {
				return false
			}
		}
	}
	return true
}

// beginSlot begins a slot whose window has begun if its room is free; else it waits.
func (m *Model) beginSlot(id api.InstanceID) {
	i := m.Instances[id]
	if i.Waits = !m.isRoomFree(id); i.Waits {
		m.evictFor(id)
	} else {
		m.setStatus(id, api.StatusActive)
	}
}

// beginWaiting begins the slots and instances that have waited and whose room is free, where this
// command has changed something, once all windows that are over have ended.
func (m *Model) beginWaiting() {
	isOver := func(s step) bool { return s.rank == windowEnds && s.at <= m.Now }
	if m.form >= api.FormFifth && slices.ContainsFunc(m.steps(), isOver) {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(m.Instances)) {
		i := m.Instances[id]
		i.Waits = i.Waits && i.Status == api.StatusBuild
		switch {
		case !i.Waits || !slices.ContainsFunc(m.Claims[id].Pieces(), func(p *Claim) bool { return m.Bumped[p.Host] }) || !m.isRoomFree(id):
		case i.isSlot():
			m.beginSlot(id)
		default:
			i.Waits, m.Hit[id] = false, true
		}
	}
}
