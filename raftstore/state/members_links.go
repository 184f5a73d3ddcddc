package state

import (
	"cmp"

	"berth/api"
	"berth/raftstore/command"
)

func (s *membersBook) linkPut(c command.LinkPut) Result {
	l := c.Link
	if l.Zone == s.Zone {
		return refuseWith(api.CodeInvalid, "a zone cannot be linked to itself")
	}
	if s.Change != nil {
		return refuseWith(api.CodeConflict, "this zone changes its certificate authority; link zones when that is finished")
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
		if r := s.joinUse(command.JoinUse{Stamp: c.Stamp, ID: c.Token, Hash: c.Hash, Want: api.JoinLink}); r.Err != nil {
			return r
		}
	}
	l.Created, l.Updated = c.At, c.At
	s.links.Set(string(l.ID), &l)
	s.touchTopic(dueTopic(DueFollows, string(l.ID)))
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
	if c.HasTerms() {
		if l.Role != api.LinkChild {
			return refuseWith(api.CodeInvalid, "a parent has no tags, availability zone, headroom or maintenance")
		}
		l.Terms = termsAfter(l.Terms, &c)
		if err := cmp.Or(l.Terms.Validate(), s.limits.checkTags(l.Terms.Tags)); err != nil {
			return Result{Err: err}
		}
	}
	if c.HasShare() && l.Role != api.LinkParent {
		return refuseWith(api.CodeInvalid, "a child has no share of this zone")
	}
	l.Share = shareAfter(l.Share, &c)
	if err := l.Share.Validate(); err != nil {
		return Result{Err: err}
	}
	l.Updated = c.At
	s.links.Set(string(l.ID), &l)
	if l.SilentSince != old.SilentSince {
		s.addFact(childReached{l.ID, l.SilentSince})
	}
	return Result{Link: &l}
}

// shareAfter returns the share of a parent after a change.
func shareAfter(sh api.LinkShare, c *command.LinkSet) api.LinkShare {
	if c.ShareHeld != nil {
		sh.Held = c.ShareHeld
	}
	if c.ShareCommitted != nil {
		sh.Committed = c.ShareCommitted
	}
	return sh
}

// termsAfter returns the terms of a child after a change.
func termsAfter(t api.LinkTerms, c *command.LinkSet) api.LinkTerms {
	assignIfSet(&t.AZ, c.AZ)
	assignIfSet(&t.Maintenance, c.Maintenance)
	if c.Tags != nil {
		t.Tags = append([]string(nil), c.Tags...)
	}
	if c.Headroom != nil {
		t.Headroom = nil
		if len(c.Headroom) > 0 {
			t.Headroom = c.Headroom
		}
	}
	return t
}

func (s *membersBook) deleteLink(id api.LinkID) { s.links.Delete(string(id)) }

// acceptIncarnation records that a linked zone goes on as a later incarnation.
func (s *membersBook) acceptIncarnation(old *api.Link, c command.LinkRelink) {
	l := *old
	l.Incarnation, l.Updated = c.Incarnation, s.now
	if begin, _ := c.Incarnation.Begin(); l.Role == api.LinkChild {
		l.Restored = max(l.Restored, begin) // what is compared because of this is not compared again when the child tells of it
	}
	if len(c.Endpoints) > 0 {
		l.Endpoints = c.Endpoints
	}
	s.links.Set(string(l.ID), &l)
}

// noteRestored records where a child says that it went back to a backup.
func (s *membersBook) noteRestored(old *api.Link, index uint64) {
	l := *old
	l.Restored = index
	s.links.Set(string(l.ID), &l)
}

// noteReconciling records that a child has to be reconciled, and that its changes are followed anew.
func (s *membersBook) noteReconciling(id api.LinkID, since api.Instant) {
	old, _ := s.links.Get(string(id))
	l := *old
	l.Reconcile, l.Forgot, l.ChangesNext = since, since, 0
	s.links.Set(string(id), &l)
}

// noteReconciled records that a child was reconciled.
func (s *membersBook) noteReconciled(old *api.Link) {
	l := *old
	l.Reconcile = 0
	s.links.Set(string(l.ID), &l)
}

// noteFollowed records how far the changes of a child have been read.
func (s *membersBook) noteFollowed(l *api.Link, next uint64) {
	cp := *l
	cp.ChangesNext = next
	s.links.Set(string(l.ID), &cp)
}

// isPaused reports whether a link accepts no new work.
func (s *membersBook) isPaused(id api.LinkID) bool {
	l, ok := s.links.Get(string(id))
	return ok && l.State == api.LinkPaused
}

// Link returns one link.
func (s *membersBook) Link(id api.LinkID) (*api.Link, bool) { return s.links.Get(string(id)) }

// LinkByName returns the link with a name.
func (s *membersBook) LinkByName(name string) (*api.Link, bool) {
	return s.findLink(func(l *api.Link) bool { return l.Name == name })
}

// LinkByZone returns the link to a zone.
func (s *membersBook) LinkByZone(id api.ZoneID) (*api.Link, bool) {
	return s.findLink(func(l *api.Link) bool { return l.Zone == id })
}

// Parent returns the link to the parent zone.
func (s *membersBook) Parent() (*api.Link, bool) {
	return s.findLink(func(l *api.Link) bool { return l.Role == api.LinkParent })
}

// Links returns all links by id.
func (s *membersBook) Links() []*api.Link { return s.links.Values() }

// Children returns the links to children by id.
func (s *membersBook) Children() []*api.Link {
	var out []*api.Link
	for _, l := range s.links.Values() {
		if l.Role == api.LinkChild {
			out = append(out, l)
		}
	}
	return out
}

// Child returns the link with an id, if it leads to a child.
func (s *membersBook) Child(id string) (*api.Link, bool) {
	l, ok := s.links.Get(id)
	return l, ok && l.Role == api.LinkChild
}

func (s *membersBook) findLink(ok func(*api.Link) bool) (*api.Link, bool) {
	for _, l := range s.links.Values() {
		if ok(l) {
			return l, true
		}
	}
	return nil, false
}

// sharedLink returns an id with the text of the link's own record.
func (s *membersBook) sharedLink(id api.LinkID) api.LinkID {
	if l, ok := s.links.Get(string(id)); ok {
		return l.ID
	}
	return id
}
