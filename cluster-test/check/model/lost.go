package model

import (
	"maps"
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// hostWriteOff takes as gone what is on a host that is lost: one instance, or all of it with the host.
func (m *Model) hostWriteOff(c command.HostWriteOff) *Refusal {
	h := m.Hosts[c.ID]
	switch {
	case h == nil || h.Passive:
		return &Refusal{promise.Model, "there is no host " + string(c.ID)}
	case h.Up || h.DownSince != c.Since:
		return &Refusal{promise.Exactly, "what is on host " + string(c.ID) + " may run: it is up, or has been since"}
	case c.Instance != "":
		i := m.Instances[c.Instance]
		if i == nil || !i.Live() || i.Host != c.ID || i.Reserved() {
			return &Refusal{promise.Model, "no instance " + string(c.Instance) + " is on host " + string(c.ID)}
		}
		m.giveUp(c.Instance)
		return nil
	case len(m.hostsBelow(h)) > 0:
		return &Refusal{promise.Model, "providers are below host " + string(c.ID)}
	}
	if not := m.isSettledOn(h); not != nil {
		return not
	}
	for _, slots := range []bool{false, true} {
		for _, id := range slices.Sorted(maps.Keys(m.Instances)) {
			if i := m.Instances[id]; i.Host == h.ID && i.Live() && i.Reserved() == slots {
				m.giveUp(id)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.Consumers)) {
		m.leave(id, h.ID)
	}
	m.removeProvider(h)
	for _, other := range m.Hosts {
		if !other.Passive && other.Agent == h.Agent && !other.Up && !other.Unserved {
			other.Unserved = true
			m.bumpGeneration(other)
		}
	}
	return nil
}

// isSettledOn returns who has room on a host, or will have, without being on it.
func (m *Model) isSettledOn(h *Host) *Refusal {
	for _, cl := range h.Claims {
		i := m.Instances[cl.Consumer]
		switch {
		case m.Held[cl.Consumer] != nil || m.Kept[cl.Consumer] != nil:
			return &Refusal{promise.Saga, "what has room on host " + string(h.ID) + " is not decided"}
		case m.Consumers[cl.Consumer] == nil && (i == nil || i.Host != h.ID):
			return &Refusal{promise.Durable, "instance " + string(cl.Consumer) + " is not on host " + string(h.ID) + ", and needs it"}
		}
	}
	return nil
}

// giveUp takes an instance as gone. It may run, so it is not booted again.
func (m *Model) giveUp(id api.InstanceID) {
	m.stayEnded(id)
	m.setStatus(id, api.StatusDeleted)
}

// leave takes the claim of a consumer on one provider.
func (m *Model) leave(id api.ConsumerID, from api.ProviderID) {
	old := m.Consumers[id]
	rest := slices.DeleteFunc(slices.Clone(old.Claims), func(c *Claim) bool { return c.Host == from })
	if len(rest) == len(old.Claims) {
		return
	}
	m.HitConsumers[id] = true
	m.yieldClaims(id, len(rest) == 0)
	if len(rest) == 0 {
		delete(m.Consumers, id)
		return
	}
	next := *old
	next.Generation++
	next.Claims = rest
	m.Consumers[id] = &next
	for _, c := range rest {
		h := m.Hosts[c.Host]
		h.Claims = append(h.Claims, c)
		m.bumpGeneration(h)
	}
}
