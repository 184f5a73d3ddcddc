package state

import (
	"bytes"
	"crypto/subtle"
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

func (s *membersBook) init(c command.Init) Result {
	if s.Zone != "" {
		return refuseWith(api.CodeConflict, "the zone is initialised already")
	}
	s.Zone, s.Name, s.Config = c.Zone, c.Name, c.Config
	s.CA, s.CAKey = c.CA, c.CAKey
	s.Epochs = []command.Epoch{c.Epoch}
	if c.Admin.ID != "" {
		s.tokens.Set(string(c.Admin.ID), &c.Admin)
	}
	return Result{}
}

// setConfig replaces the configuration but for what schedulerSet does.
func (s *membersBook) setConfig(c api.ZoneConfig) {
	c.Filters, c.Costs = s.Config.Filters, s.Config.Costs
	s.Config = c
}

func (s *membersBook) schedulerSet(c command.SchedulerSet) Result {
	if len(c.Scheduler.Filters) > s.limits.filters || len(c.Scheduler.Costs) > s.limits.filters {
		return refuseWith(api.CodeInvalid, "a zone has at most %d filters and as many costs", s.limits.filters)
	}
	s.Config.Filters, s.Config.Costs = c.Scheduler.Filters, c.Scheduler.Costs
	return Result{}
}

func (s *membersBook) nodePut(c command.NodePut) Result {
	n := c.Node
	if reads := max(n.Form, api.FormFirst); reads < s.Form() {
		return refuseWith(api.CodeConflict, "node %q reads forms up to %d, and the log of the zone has form %d: start the node with a newer release",
			string(n.ID), reads, s.Form())
	}
	if old, ok := s.nodes.Get(string(n.ID)); ok {
		n.Joined = old.Joined
	} else {
		n.Joined = c.At
	}
	s.nodes.Set(string(n.ID), &n)
	return Result{}
}

// nodeRemove forgets a node, and that it was ever admitted.
func (s *membersBook) nodeRemove(c command.NodeRemove) {
	s.nodes.Delete(string(c.ID))
	for _, k := range firstKeys(&s.joins, s.joins.Len(), func(t *api.JoinToken) bool {
		return t.Kind == api.JoinNode && t.Name == string(c.ID)
	}) {
		s.joins.Delete(k)
	}
}

func (s *membersBook) epochAdd(c command.EpochAdd) Result {
	if slices.ContainsFunc(s.Epochs, func(e command.Epoch) bool { return bytes.Equal(e.ID, c.Epoch.ID) }) {
		return Result{} // a repeat
	}
	all := append([]command.Epoch{c.Epoch}, s.Epochs...)
	n := min(len(all), max(c.Keep, 1))
	for c.Sealed > 0 && n < len(all) && all[n-1].Created > c.Sealed { // when the one after it came
		n++
	}
	if n > s.limits.epochs {
		return refuseWith(api.CodeOverloaded, "%d keys may still be needed for plans that have not expired, which is the limit; rotate again later", n-1)
	}
	s.Epochs = all[:n]
	return Result{}
}

func (s *membersBook) tokenPut(c command.TokenPut) Result {
	if s.tokens.Len() >= s.limits.tokens {
		return refuseWith(api.CodeOverloaded, "the zone has %d tokens, which is the limit", s.limits.tokens)
	}
	s.tokens.Set(string(c.Token.ID), &c.Token)
	return Result{}
}

func (s *membersBook) tokenDelete(c command.TokenDelete) Result {
	if _, ok := s.tokens.Delete(string(c.ID)); !ok {
		return refuseWith(api.CodeNotFound, "no token %q", string(c.ID))
	}
	return Result{}
}

func (s *membersBook) joinPut(c command.JoinPut) Result {
	if t, ok := s.joins.Get(string(c.Token.ID)); ok {
		return Result{Join: t} // a repeat; the token may be used by now
	}
	if s.joins.Len() >= s.limits.tokens {
		return refuseWith(api.CodeOverloaded, "the zone has %d join tokens, which is the limit", s.limits.tokens)
	}
	s.joins.Set(string(c.Token.ID), &c.Token)
	return Result{Join: &c.Token}
}

// joinUse consumes a token. Every way to fail looks the same to the joiner.
func (s *membersBook) joinUse(id api.TokenID, hash []byte, kind api.JoinKind) Result {
	t, ok := s.joins.Get(string(id))
	if !ok || t.Used || t.Kind != kind || s.now >= t.Expires || subtle.ConstantTimeCompare(t.Hash, hash) != 1 {
		return refuseWith(api.CodeUnauthenticated, "the join token is unknown, used or expired; ask for a new one")
	}
	used := *t
	used.Used = true
	s.joins.Set(string(id), &used)
	return Result{Join: &used}
}

func (s *membersBook) flavorPut(c command.FlavorPut) Result {
	f := c.Flavor
	old, exists := s.flavors.Get(string(f.ID))
	switch {
	case exists && !c.Replace:
		return refuseWith(api.CodeConflict, "flavor %q exists", string(f.ID))
	case !exists && c.Replace:
		return refuseWith(api.CodeNotFound, "no flavor %q", string(f.ID))
	case !exists && s.flavors.Len() >= s.limits.flavors:
		return refuseWith(api.CodeOverloaded, "the zone has %d flavors, which is the limit", s.limits.flavors)
	case exists:
		f.Created = old.Created
	default:
		f.Created = c.At
	}
	s.flavors.Set(string(f.ID), &f)
	return Result{}
}

func (s *membersBook) flavorDelete(c command.FlavorDelete) Result {
	if _, ok := s.flavors.Delete(string(c.ID)); !ok {
		return refuseWith(api.CodeNotFound, "no flavor %q", string(c.ID))
	}
	return Result{}
}

func (s *membersBook) linkPut(c command.LinkPut) Result {
	l := c.Link
	if l.Zone == s.Zone {
		return refuseWith(api.CodeInvalid, "a zone cannot be linked to itself")
	}
	children := 0
	for _, o := range s.links.Values() {
		switch {
		case o.ID == l.ID:
			return refuseWith(api.CodeConflict, "link %s exists, as %q", string(l.ID), o.Name)
		case o.Zone == l.Zone:
			return refuseWith(api.CodeConflict, "zone %s is linked already, as %q", string(l.Zone), o.Name)
		case o.Name == l.Name:
			return refuseWith(api.CodeConflict, "a link named %q exists", l.Name)
		case o.Role == api.LinkParent && l.Role == api.LinkParent:
			return refuseWith(api.CodeConflict, "this zone has a parent already")
		case o.Role == api.LinkChild:
			children++
		}
	}
	if l.Role == api.LinkChild && children >= s.limits.links {
		return refuseWith(api.CodeOverloaded, "this zone has %d children, which is the limit", s.limits.links)
	}
	if c.Token != "" {
		if r := s.joinUse(c.Token, c.Hash, api.JoinLink); r.Err != nil {
			return r
		}
	}
	l.Created, l.Updated = c.At, c.At
	s.links.Set(string(l.ID), &l)
	return Result{Link: &l}
}

func (s *membersBook) linkSet(c command.LinkSet) Result {
	old, ok := s.links.Get(string(c.ID))
	if !ok {
		return refuseWith(api.CodeNotFound, "no such zone")
	}
	l := *old
	if c.Name != nil && *c.Name != l.Name {
		if _, taken := s.LinkByName(*c.Name); taken {
			return refuseWith(api.CodeConflict, "a link named %q exists", *c.Name)
		}
		l.Name = *c.Name
	}
	assignIfSet(&l.Offset, c.Offset)
	assignIfSet(&l.Scale, c.Scale)
	assignIfSet(&l.State, c.State)
	if len(c.Endpoints) > 0 {
		l.Endpoints = c.Endpoints
	}
	if c.Silent != nil {
		if l.Role != api.LinkChild {
			return refuseWith(api.CodeInvalid, "a parent is not watched")
		}
		l.SilentSince = min(*c.Silent, s.now)
	}
	l.Updated = c.At
	s.links.Set(string(l.ID), &l)
	if l.SilentSince != old.SilentSince {
		s.addFact(childReached{l.ID, l.SilentSince})
	}
	return Result{Link: &l}
}

func (s *membersBook) deleteLink(id api.LinkID) { s.links.Delete(string(id)) }

// noteFollowed notes how far the changes of a child have been followed.
func (s *membersBook) noteFollowed(l *api.Link, next uint64) {
	cp := *l
	cp.ChangesNext = next
	s.links.Set(string(l.ID), &cp)
}

// assignIfSet stores *from in *to unless from is nil.
func assignIfSet[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}
