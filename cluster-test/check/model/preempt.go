package model

import (
	"maps"
	"slices"

	"berth/api"
)

// isClosed reports whether the room of c is closed to preemptibles although it is not used yet.
func (c *Claim) isClosed(now api.Instant) bool {
	return c != nil && c.Within == "" && c.Class != api.Preemptible && c.Start.Add(-c.Grace) <= now && now < c.Start
}

// closedNow sums up what is closed to preemptibles on h and not in use.
func (h *Host) closedNow(class api.ResourceClass, now api.Instant) (sum int64) {
	for _, c := range h.Claims {
		if !c.isClosed(now) {
			continue
		}
		n := c.Amounts[class]
		if c.Instead.isClosed(now) {
			n = max(0, n-c.Instead.Amounts[class])
		}
		sum += n
	}
	return sum
}

// NeedsRoom reports whether preemptibles have to leave the room of an instance or slot.
func (m *Model) NeedsRoom(id api.InstanceID) bool {
	i, c := m.Instances[id], m.Claims[id]
	if i == nil || c == nil {
		return false
	}
	return i.Waits || i.isSlot() && i.Status == api.StatusBuild && c.Start.Add(-c.Grace) <= m.Now
}

// beginMade closes the room of a new slot, has a new instance wait, or evicts it again.
func (m *Model) beginMade(id api.InstanceID) {
	i, c := m.Instances[id], m.Claims[id]
	switch {
	case c == nil || !i.isSlot() || i.Status != api.StatusBuild:
	case c.Start <= m.Now:
		i.Closed = true
		m.beginSlot(id)
	case m.NeedsRoom(id):
		m.closeRoom(id)
	}
	if c == nil || i.isSlot() {
		return
	}
	if slot := m.Instances[c.Within]; c.Within != "" && slot.Status != api.StatusActive {
		if i.Status == api.StatusBuild {
			m.setStatus(id, api.StatusDeleting) // its slot has ended
		}
		return
	}
	switch {
	case c.Class == api.Preemptible && i.Live():
		m.evictLate(c)
		if c.Within != "" {
			m.evictLent(c.Within)
		}
	case c.Class == api.Firm && c.Pushes && i.Live() && !m.isRoomFree(id):
		i.Waits, m.Hit[id] = true, true
		m.evictFor(id)
	}
}

// closeRoom evicts what is in the way of a slot whose closing has begun.
func (m *Model) closeRoom(slot api.InstanceID) {
	m.Instances[slot].Closed = true
	m.evictFor(slot)
}

// missing returns what c has and others use of each provider, now or until it starts.
func (m *Model) missing(c *Claim) map[amount]int64 {
	out := map[amount]int64{}
	if c.Within != "" {
		for class, n := range m.excessInside(c.Within) {
			out[amount{c.Host, class}] = n
		}
		return out
	}
	for _, p := range c.Pieces() {
		h := m.Hosts[p.Host]
		for class, n := range p.Amounts {
			if n <= 0 {
				continue
			}
			_, soft := h.useAt(class, m.Now)
			over := int64(0)
			for _, at := range h.changeInstants(&Claim{Start: m.Now, End: api.Forever}, m.Now) {
				if at == m.Now || at <= c.Start {
					firm, _ := h.useAt(class, at)
					over = max(over, firm+soft-capacityOf(h.Stock()[class]))
				}
			}
			if over > 0 {
				out[amount{h.ID, class}] = over
			}
		}
	}
	return out
}

// excessInside returns by how much what is within a slot now exceeds it.
func (m *Model) excessInside(slot api.InstanceID) api.Resources {
	sums := api.Resources{}
	for _, c := range m.Inside(slot) {
		if c.Start <= m.Now && m.Now < c.End {
			for class, n := range c.Amounts {
				sums[class] += n
			}
		}
	}
	for class := range sums {
		sums[class] -= m.Claims[slot].Amounts[class]
	}
	maps.DeleteFunc(sums, func(_ api.ResourceClass, n int64) bool { return n <= 0 })
	return sums
}

// usesOf returns what an instance uses of each provider, also where it moves to.
func (m *Model) usesOf(id api.InstanceID) map[amount]int64 {
	out := map[amount]int64{}
	var seen []*Claim
	for _, c := range []*Claim{m.Claims[id], m.Coming[id]} {
		if c == nil {
			continue
		}
		for _, p := range c.Pieces() {
			if slices.Contains(seen, p) {
				continue // it is claimed once
			}
			seen = append(seen, p)
			for class, n := range p.Amounts {
				out[amount{p.Host, class}] += n
			}
		}
	}
	return out
}

// beside returns the instances, by id, that use room of c's providers without a right to it.
func (m *Model) beside(c *Claim) (out []api.InstanceID) {
	touches := func(o *Claim) bool {
		if o == nil || o.Class != api.Preemptible || o.Within != c.Within {
			return false
		}
		return c.Within != "" || slices.ContainsFunc(o.Pieces(), func(p *Claim) bool { return c.PieceOn(p.Host) != nil })
	}
	for _, id := range slices.Sorted(maps.Keys(m.Instances)) {
		if i := m.Instances[id]; id != c.Consumer && i.Live() && (touches(m.Claims[id]) || touches(m.Coming[id])) {
			out = append(out, id)
		}
	}
	return out
}

// evictFor ends what is in the way of an instance or slot: all of a whole host, else as many as
// are needed.
func (m *Model) evictFor(who api.InstanceID) {
	c := m.Claims[who]
	need := m.missing(c)
	if len(need) == 0 && !c.Whole {
		return
	}
	var staying []api.InstanceID
	for _, id := range m.beside(c) {
		i := m.Instances[id]
		if i.Status != api.StatusDeleting {
			staying = append(staying, id)
			continue
		}
		for k, n := range m.usesOf(id) {
			need[k] -= n
		}
		m.hasten(id, who)
	}
	leave := staying
	if !c.Whole {
		leave = m.choose(need, staying)
	}
	for _, id := range leave {
		m.evict(id, who)
	}
}

// deadline returns until when what is in the way of an instance or slot must have gone.
func (m *Model) deadline(who api.InstanceID) api.Instant {
	if c := m.Claims[who]; c.Start > m.Now {
		return c.Start
	}
	grace := m.Preempt.Grace
	if grace == 0 {
		grace = api.PreemptGraceDefault
	}
	return m.Now.Add(max(grace, 0))
}

// evictionFor returns why an instance must leave for another.
func (m *Model) evictionFor(who api.InstanceID) *api.Eviction {
	i := m.Instances[who]
	e := &api.Eviction{For: i.Hold.Request.Reservation, At: m.Now, By: m.deadline(who)}
	if i.Reserved() {
		e.For, e.Lease = i.Reservation(), true
	}
	return e
}

func (m *Model) evict(id, who api.InstanceID) {
	m.Instances[id].Eviction = m.evictionFor(who)
	m.Hit[id] = true
	m.setStatus(id, api.StatusDeleting)
}

// hasten gives what is leaving no more time than it has for another.
func (m *Model) hasten(id, who api.InstanceID) {
	i, e := m.Instances[id], m.evictionFor(who)
	switch {
	case i.Hold.Request.Class != api.Preemptible || i.Eviction != nil && i.Eviction.By <= e.By:
		return
	case i.Eviction != nil:
		by := e.By
		*e = *i.Eviction
		e.By = by
	case i.Hold.Request.OnPreempt == api.PreemptRequeue:
		e.Stays = api.RequeueEnded
	}
	i.Eviction, m.Hit[id] = e, true
}

// evictLate evicts again for all whose room a new preemptible uses.
func (m *Model) evictLate(late *Claim) {
	var owners []api.InstanceID
	for _, id := range slices.Sorted(maps.Keys(m.Claims)) {
		c := m.Claims[id]
		switch {
		case c.Within != late.Within:
		case late.Within != "":
			owners = append(owners, id)
		case slices.ContainsFunc(late.Pieces(), func(p *Claim) bool {
			return m.isClosed(p) && (c.PieceOn(p.Host) != nil || m.Coming[id] != nil && m.Coming[id].PieceOn(p.Host) != nil)
		}):
			owners = append(owners, id)
		}
	}
	for _, id := range owners {
		if m.NeedsRoom(id) {
			m.evictFor(id)
		}
	}
}

// isClosed reports whether preemptibles use room on the provider of p that is closed to them.
func (m *Model) isClosed(p *Claim) bool {
	h := m.Hosts[p.Host]
	for class, n := range p.Amounts {
		firm, soft := h.useAt(class, m.Now)
		if n > 0 && firm+soft+h.closedNow(class, m.Now) > capacityOf(h.Stock()[class]) {
			return true
		}
	}
	return false
}

// evictLent evicts what has no room in a slot any more since an update.
func (m *Model) evictLent(slot api.InstanceID) {
	var lent, leaving []api.InstanceID
	for _, c := range m.Inside(slot) {
		switch i := m.Instances[c.Consumer]; {
		case c.Class != api.Preemptible || i == nil || !i.Live():
		case i.Status == api.StatusDeleting:
			leaving = append(leaving, c.Consumer)
		default:
			lent = append(lent, c.Consumer)
		}
	}
	if i := m.Instances[slot]; len(lent) > 0 && i.Hold.Request.Groups[i.Group].ShareIdle {
		need := m.missing(m.Claims[lent[0]])
		for _, id := range leaving {
			for k, n := range m.usesOf(id) {
				need[k] -= n
			}
		}
		lent = m.choose(need, lent)
	}
	for _, id := range lent {
		m.evict(id, slot)
	}
}

// fitsLent puts the claim of a preemptible into a slot whose owner lends what he does not use.
func (m *Model) fitsLent(h *Hold, c *Claim, group int, id api.InstanceID) bool {
	slot := m.Instances[id]
	if !slot.isSlot() || !slot.Hold.Request.Groups[slot.Group].ShareIdle || slot.Status != api.StatusActive || m.Claims[id].Over > 0 || m.Kept[id] != nil {
		return false
	}
	outer, host := m.Claims[id], m.Hosts[slot.Host]
	c.Host, c.Within, c.Amounts, c.End = slot.Host, id, maps.Clone(c.Want), min(c.End, outer.End)
	if !host.takesWork() || !m.isClaim(c) || c.Start < outer.Start || !m.Obeys(h, group, Spot{Host: c.Host}, nil) {
		return false
	}
	for class, n := range c.Amounts {
		v, has := host.Stock()[class]
		soft := int64(0)
		for _, o := range m.Inside(id) {
			if o.Class == api.Preemptible && o.covers(m.Now) {
				soft += o.Amounts[class]
			}
		}
		if !has || !admitsUnits(v, n) || m.mostInside(id, class, m.Now, api.Forever)+soft+n > outer.Amounts[class] {
			return false
		}
	}
	return true
}
