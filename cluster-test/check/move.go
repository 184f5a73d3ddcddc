package check

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// instanceMove takes an instance to another host: it has room on both until the one
// that it leaves says that it is gone, or at once if that one is lost.
func (m *model) instanceMove(c command.InstanceMove) *no {
	i, ok := m.instances[c.ID]
	switch {
	case !ok || !i.live() || i.host == "":
		return &no{RuleModel, "there is no instance " + string(c.ID) + " here"}
	case c.From == c.To:
		return &no{RuleModel, "it goes nowhere"}
	case i.host == c.To:
		return nil
	case i.host != c.From:
		return &no{RuleMove, "the instance is not where it should leave"}
	case i.status == api.StatusDeleting:
		return &no{RuleMove, "the instance is being deleted"}
	case i.target != "" && i.target != c.To:
		return &no{RuleMove, "the instance moves somewhere else"}
	case c.Evacuate && m.hosts[i.host].up:
		return &no{RuleMove, "the host that it should leave is up"}
	case c.Evacuate && !i.movable():
		return &no{RuleMove, "the instance may not be started elsewhere"}
	}
	if i.target == "" {
		if not := m.aim(c, i); not != nil {
			return not
		}
	}
	if c.Evacuate {
		m.evacuated[c.ID] = true
		m.arrive(c.ID, i)
	}
	return nil
}

// movable reports whether an instance was booted to be started elsewhere when its
// host is lost.
func (i *instance) movable() bool {
	return i.hold.request.Groups[i.group].ExtraSpecs["berth:evacuate"] == "true"
}

// aim gives an instance room on the host that it will move to.
func (m *model) aim(c command.InstanceMove, i *instance) *no {
	old := m.claims[c.ID]
	next := *old
	next.host = c.To
	switch {
	case m.hosts[c.To] == nil:
		return &no{RuleMove, "there is no host " + string(c.To)}
	case !m.obeys(i.hold, i.group, spot{host: c.To}, old):
		return &no{RuleBound, "a rule keeps the instance from host " + string(c.To)}
	case !m.fitsBeside(&next, old):
		return &no{RuleCapacity, "host " + string(c.To) + " has no room or takes no work"}
	}
	m.coming[c.ID] = &next
	m.put(&next, old.rest...)
	i.target, m.hit[c.ID] = c.To, true
	m.touch(i)
	return nil
}

// fitsBeside is fits for where an instance moves to. What pools give it where it is they
// need not give twice: those pieces belong to both claims.
func (m *model) fitsBeside(next, old *claim) bool {
	twice := map[api.HostID]bool{} // pools that give another piece there
	for {
		held := map[*host][]*claim{}
		for _, p := range old.rest {
			if h := m.hosts[p.host]; m.root(h).id != old.host && p.host != next.host && !twice[p.host] {
				held[h] = h.claims
				h.claims = slices.DeleteFunc(slices.Clone(h.claims), func(o *claim) bool { return o == p })
			}
		}
		fits := m.fits(next)
		for h, claims := range held {
			h.claims = claims
		}
		again := false
		for _, p := range next.rest {
			if held[m.hosts[p.host]] != nil && old.differs(p) {
				twice[p.host], again = true, true
			}
		}
		if !fits || !again {
			next.keep(old)
			return fits
		}
	}
}

// differs reports whether a provider gives c another piece than p.
func (c *claim) differs(p *claim) bool {
	return slices.ContainsFunc(c.rest, func(o *claim) bool { return o.host == p.host && !o.amounts.Equal(p.amounts) })
}

// keep replaces pieces of c by those of old that are the same.
func (c *claim) keep(old *claim) {
	for n, p := range c.rest {
		for _, o := range old.rest {
			if o.host == p.host && o.amounts.Equal(p.amounts) {
				c.rest[n] = o
			}
		}
	}
}

// arrive makes the host that an instance moves to its own.
func (m *model) arrive(id api.InstanceID, i *instance) {
	m.drop(m.claims[id], m.coming[id].rest...)
	m.claims[id] = m.coming[id]
	delete(m.coming, id)
	m.left[stayed{id, i.host}] = true
	if m.left[stayed{id, i.target}] {
		m.returned[id]++
	}
	i.host, i.target, i.status = i.target, "", api.StatusBuild
	i.stays++
	m.hit[id], m.arrived[id] = true, true
	m.touch(i)
}

// stay gives back the room where an instance was to move to.
func (m *model) stay(id api.InstanceID, i *instance) {
	if c := m.coming[id]; c != nil {
		m.drop(c, m.claims[id].rest...)
		delete(m.coming, id)
		i.target = ""
	}
}

// touch has the rules of an instance looked at after this command.
func (m *model) touch(i *instance) {
	for name := range rulesFor(i.hold, i.group) {
		m.ruled[name] = true
	}
}
