package model

import (
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// instanceMove moves an instance to another host: it has room on both until the old one
// reports it gone, or only on the new one if the old one is lost.
func (m *Model) instanceMove(c command.InstanceMove) *Refusal {
	i, ok := m.Instances[c.ID]
	switch {
	case !ok || !i.Live() || i.Host == "":
		return &Refusal{promise.Model, "there is no instance " + string(c.ID) + " here"}
	case m.Kept[c.ID] != nil:
		return &Refusal{promise.Lease, "an update takes over the slot " + string(c.ID)}
	case m.Claims[c.ID].Within != "":
		return &Refusal{promise.Lease, "the instance is in a slot"}
	case c.From == c.To:
		return &Refusal{promise.Model, "it goes nowhere"}
	case i.Host == c.To:
		return nil
	case i.Host != c.From:
		return &Refusal{promise.Move, "the instance is not where it should leave"}
	case i.Status == api.StatusDeleting:
		return &Refusal{promise.Move, "the instance is being deleted"}
	case i.Waits && !i.isSlot():
		return &Refusal{promise.Move, "the instance waits for its room"}
	case i.Volume() != "":
		return &Refusal{promise.Volume, "volumes do not move"}
	case i.Target != "" && i.Target != c.To:
		return &Refusal{promise.Move, "the instance moves somewhere else"}
	case i.isSlot():
		return m.moveSlot(c.ID, i, c.To)
	case c.Evacuate && m.Hosts[i.Host].Up:
		return &Refusal{promise.Move, "the host that it should leave is up"}
	case c.Evacuate && !i.isMovable():
		return &Refusal{promise.Move, "the instance may not be started elsewhere"}
	}
	if i.Target == "" {
		if not := m.aimAt(c, i); not != nil {
			return not
		}
	}
	if c.Evacuate {
		m.Evacuated[c.ID] = true
		m.arriveAt(c.ID, i)
	}
	return nil
}

// isMovable reports whether an instance was booted to be started elsewhere when its
// host is lost.
func (i *Instance) isMovable() bool {
	return i.Hold.Request.Groups[i.Group].ExtraSpecs["berth:evacuate"] == "true"
}

// aimAt gives an instance room on the host that it will move to.
func (m *Model) aimAt(c command.InstanceMove, i *Instance) *Refusal {
	old := m.Claims[c.ID]
	next := *old
	next.Host, next.Pushes = c.To, false // nobody leaves for what moves
	switch {
	case m.Hosts[c.To] == nil:
		return &Refusal{promise.Move, "there is no host " + string(c.To)}
	case !m.Obeys(i.Hold, i.Group, Spot{Host: c.To}, old):
		return &Refusal{promise.Bound, "a rule keeps the instance from host " + string(c.To)}
	case !m.reachesAll(c.To, c.ID):
		return &Refusal{promise.Volume, "host " + string(c.To) + " does not reach its volumes"}
	case !m.fitsBeside(&next, old):
		return &Refusal{promise.Capacity, "host " + string(c.To) + " has no room or takes no work"}
	}
	m.Coming[c.ID] = &next
	m.putClaim(&next, old.Rest...)
	i.Target, m.Hit[c.ID] = c.To, true
	m.touchRules(i)
	return nil
}

// fitsBeside is fits for where an instance moves to. What pools give it where it is they
// need not give twice: those pieces belong to both claims.
func (m *Model) fitsBeside(next, old *Claim) bool {
	twice := map[api.HostID]bool{} // pools that give another piece there
	for {
		held := map[*Host][]*Claim{}
		for _, p := range old.Rest {
			if h := m.Hosts[p.Host]; m.Root(h).ID != old.Host && p.Host != next.Host && !twice[p.Host] {
				held[h] = h.Claims
				h.Claims = slices.DeleteFunc(slices.Clone(h.Claims), func(o *Claim) bool { return o == p })
			}
		}
		fits := m.Fits(next)
		for h, claims := range held {
			h.Claims = claims
		}
		again := false
		for _, p := range next.Rest {
			if held[m.Hosts[p.Host]] != nil && old.differsFrom(p) {
				twice[p.Host], again = true, true
			}
		}
		if !fits || !again {
			next.Keep(old)
			return fits
		}
	}
}

// differsFrom reports whether a provider gives c another piece than p.
func (c *Claim) differsFrom(p *Claim) bool {
	return slices.ContainsFunc(c.Rest, func(o *Claim) bool { return o.Host == p.Host && !o.Amounts.Equal(p.Amounts) })
}

// Keep replaces pieces of c by those of old that are the same.
func (c *Claim) Keep(old *Claim) {
	for n, p := range c.Rest {
		for _, o := range old.Rest {
			if o.Host == p.Host && o.Amounts.Equal(p.Amounts) {
				c.Rest[n] = o
			}
		}
	}
}

// arriveAt completes the move of an instance to its target.
func (m *Model) arriveAt(id api.InstanceID, i *Instance) {
	m.dropClaim(m.Claims[id], m.Coming[id].Rest...)
	m.Claims[id] = m.Coming[id]
	delete(m.Coming, id)
	m.left[stayed{id, i.Host}] = true
	if m.left[stayed{id, i.Target}] {
		m.Returned[id]++
	}
	i.Host, i.Target, i.Status = i.Target, "", api.StatusBuild
	i.Stays++
	m.Hit[id], m.Arrived[id] = true, true
	m.touchRules(i)
}

// releaseTarget releases the room at the target of an instance.
func (m *Model) releaseTarget(id api.InstanceID, i *Instance) {
	if c := m.Coming[id]; c != nil {
		m.dropClaim(c, m.Claims[id].Rest...)
		delete(m.Coming, id)
		i.Target = ""
	}
}

// touchRules has the rules of an instance looked at after this command.
func (m *Model) touchRules(i *Instance) {
	for name := range rulesFor(i.Hold, i.Group) {
		m.Ruled[name] = true
	}
}
