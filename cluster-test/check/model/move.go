package model

import (
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// instanceMove moves instances to another host: each has room on both until the old one
// reports it gone, or only on the new one if the old one is lost. All of them move, or none.
func (m *Model) instanceMove(c command.InstanceMove) *Refusal {
	for _, id := range c.All() {
		if not := m.mayLeave(c, id); not != nil {
			return not
		}
	}
	var ids []api.InstanceID // in the order of the command: where room is short, the first has the better of it
	for _, id := range c.All() {
		if m.Instances[id].Host != c.To && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if m.evictFrom(ids) {
		return nil
	}
	next, not := m.roomTogether(c, ids)
	if not != nil {
		return not
	}
	for n, id := range ids {
		i := m.Instances[id]
		switch {
		case i.isSlot():
			m.moveSlot(id, i, next[n])
			continue
		case next[n] != nil:
			m.aimAt(id, i, next[n])
		}
		if c.Evacuate {
			m.Evacuated[id] = true
			m.arriveAt(id, i)
		}
	}
	return nil
}

// roomTogether returns the claims on their new host of all that move: each fits beside those before it,
// and beside all that they have now. Nil is for what has its room there.
func (m *Model) roomTogether(c command.InstanceMove, ids []api.InstanceID) (out []*Claim, not *Refusal) {
	for _, id := range ids {
		i := m.Instances[id]
		switch {
		case i.Target != "":
		case !m.Obeys(i.Hold, i.Group, Spot{Host: c.To}, ids):
			return nil, &Refusal{promise.Bound, "a rule keeps " + string(id) + " from host " + string(c.To)}
		case m.Hosts[c.To] == nil:
			return nil, &Refusal{promise.Move, "there is no host " + string(c.To)}
		case !i.isSlot() && !m.reachesAll(c.To, id):
			return nil, &Refusal{promise.Volume, "host " + string(c.To) + " does not reach its volumes"}
		}
	}
	tried := map[*Host][]*Claim{}
	for _, id := range ids {
		old := m.Claims[id]
		next, fits := *old, false
		switch i := m.Instances[id]; {
		case i.Target != "":
			out = append(out, nil)
			continue
		case i.isSlot():
			next = Claim{
				Consumer: id, Host: c.To, Want: old.Want, Start: old.Start, End: old.End, Class: old.Class, Whole: old.Whole,
				Grace: old.Grace, Pushes: old.Pushes,
			}
			fits = m.Fits(&next)
		default:
			next.Host, next.Pushes = c.To, false // nobody leaves for what moves
			fits = m.fitsBeside(&next, old)
		}
		if !fits {
			not = &Refusal{promise.Capacity, "host " + string(c.To) + " has no room for " + string(id) + " or takes no work"}
			break
		}
		for _, p := range next.Pieces() {
			if h := m.Hosts[p.Host]; !slices.Contains(old.Rest, p) {
				if _, seen := tried[h]; !seen {
					tried[h] = slices.Clone(h.Claims)
				}
				h.Claims = append(h.Claims, p)
			}
		}
		out = append(out, &next)
	}
	for h, claims := range tried {
		h.Claims = claims
	}
	return out, not
}

// evictFrom evicts the preemptibles from within slots, and reports whether there are any.
func (m *Model) evictFrom(ids []api.InstanceID) bool {
	found := false
	for _, id := range ids {
		if !m.Instances[id].isSlot() {
			continue
		}
		for _, c := range m.Inside(id) {
			found = true
			if m.Instances[c.Consumer].Status != api.StatusDeleting {
				m.evict(c.Consumer, id)
			}
		}
	}
	return found
}

// isNotLent reports whether a claim within a slot is none of a preemptible instance.
func (m *Model) isNotLent(c *Claim) bool {
	return c.Class != api.Preemptible || m.Instances[c.Consumer] == nil
}

// mayLeave refuses what does not leave its host as c says.
func (m *Model) mayLeave(c command.InstanceMove, id api.InstanceID) *Refusal {
	i, ok := m.Instances[id]
	switch {
	case !ok || !i.Live() || i.Host == "":
		return &Refusal{promise.Model, "there is no instance " + string(id) + " here"}
	case m.Kept[id] != nil:
		return &Refusal{promise.Lease, "an update takes over the slot " + string(id)}
	case m.Claims[id].Within != "":
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
	case i.isSlot() && slices.ContainsFunc(m.Inside(id), m.isNotLent):
		return &Refusal{promise.Lease, "something is in the slot " + string(id)}
	case i.isSlot():
		return nil
	case c.Evacuate && m.Hosts[i.Host].Up:
		return &Refusal{promise.Move, "the host that it should leave is up"}
	case c.Evacuate && !i.isMovable() && (!c.Unstarted || i.Status != api.StatusBuild):
		return &Refusal{promise.Move, "the instance may not be started elsewhere"}
	}
	return nil
}

// isMovable reports whether an instance was booted to be started elsewhere when its
// host is lost.
func (i *Instance) isMovable() bool {
	return i.Hold.Request.Groups[i.Group].ExtraSpecs["berth:evacuate"] == "true"
}

// aimAt gives an instance room on the host that it will move to.
func (m *Model) aimAt(id api.InstanceID, i *Instance, next *Claim) {
	m.Coming[id] = next
	m.putClaim(next, m.Claims[id].Rest...)
	i.Target, m.Hit[id] = next.Host, true
	m.touchRules(i)
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
