package state

import (
	"bytes"

	"berth/api"
	"berth/raftstore/command"
)

// CAChange is a change of the zone's authority that is under way. Both authorities are trusted.
type CAChange struct {
	Cert  []byte `cbor:"1,keyasint"`           // DER, of the authority that does not issue: the next one, or with Used the old one
	Key   []byte `cbor:"2,keyasint,omitempty"` // DER, wrapped, of the next one; none with Used
	Vouch []byte `cbor:"3,keyasint"`           // signature of the old one for the next one
	Begun uint64 `cbor:"4,keyasint"`           // the entry
	Used  bool   `cbor:"5,keyasint,omitempty"` // the next one issues
}

// CAPhase returns how far the change of the zone's authority is.
func (s *membersBook) CAPhase() api.CAPhase {
	switch {
	case s.Change == nil:
		return api.CAStable
	case s.Change.Used:
		return api.CAUsed
	}
	return api.CATrusted
}

// Authorities returns the authorities of the zone that are trusted, the older one first.
func (s *membersBook) Authorities() []api.Authority {
	if s.Change == nil {
		return []api.Authority{{Cert: s.CA}}
	}
	old, next := s.CA, s.Change.Cert
	if s.Change.Used {
		old, next = next, old
	}
	return []api.Authority{{Cert: old}, {Cert: next, Vouch: s.Change.Vouch}}
}

// NewestAuthority returns the last of them.
func (s *membersBook) NewestAuthority() api.Fingerprint {
	all := s.Authorities()
	return api.FingerprintOf(all[len(all)-1].Cert)
}

func (s *membersBook) caAdd(c command.CAAdd) Result {
	switch {
	case s.Change != nil:
		return refuseWith(api.CodeConflict, "the zone changes its certificate authority already; see: berth operator ca status")
	case c.Old != api.FingerprintOf(s.CA) || !bytes.Equal(c.KEK, s.KEK):
		return refuseWith(api.CodeConflict, "the authority or the key-encryption key was changed meanwhile; try again")
	case len(c.Cert) == 0 || len(c.Cert) > s.limits.authorityBytes || len(c.Vouch) > s.limits.vouchBytes:
		return refuseWith(api.CodeInvalid, "an authority has a certificate of at most %d bytes, and a signature of at most %d", s.limits.authorityBytes, s.limits.vouchBytes)
	case bytes.Equal(c.Cert, s.CA):
		return refuseWith(api.CodeInvalid, "this is the authority in use")
	}
	s.Change = &CAChange{Cert: c.Cert, Key: c.Key, Vouch: c.Vouch, Begun: s.index}
	return Result{}
}

// useNext lets the next authority issue. The key of the old one is in the state no more.
func (s *membersBook) useNext() {
	ch := *s.Change
	s.CA, s.CAKey, ch.Cert, ch.Key, ch.Used = ch.Cert, ch.Key, s.CA, nil, true
	s.Change = &ch
}

// dropOld ends the trust in the old authority. A node that was removed after the change had begun has
// the key of the new one too.
func (s *membersBook) dropOld() {
	if s.CADue < s.Change.Begun {
		s.CADue = 0
	}
	s.Change = nil
}

// continueCA takes over, after a restore, what has happened to authorities since the backup: they are
// on the disks of nodes and agents and in linked zones, which no restore takes back. Nor does it take back incarnations.
func (s *membersBook) continueCA(before *membersBook) {
	s.CA, s.CAKey, s.Change, s.CADue = before.CA, before.CAKey, before.Change, before.CADue
	s.Incarnation = before.Incarnation
	for _, l := range s.links.Values() {
		now, ok := before.links.Get(string(l.ID))
		if !ok {
			continue
		}
		cp := *l
		cp.CA, cp.NextCA, cp.Pinned, cp.Told = now.CA, now.NextCA, now.Pinned, now.Told
		cp.Incarnation = now.Incarnation
		s.links.Set(string(l.ID), &cp)
	}
	for _, a := range s.agents.Values() {
		now, ok := before.agents.Get(string(a.ID))
		if !ok {
			continue
		}
		cp := *a
		cp.Trusts, cp.Issuer = now.Trusts, now.Issuer
		s.agents.Set(string(a.ID), &cp)
	}
}

// linkPin records the authorities of a linked zone, or what that has pinned. A second one is never
// exchanged: it takes the place of the first one, or stays beside it.
func (s *membersBook) linkPin(c command.LinkPin) Result {
	old, ok := s.links.Get(string(c.ID))
	if !ok {
		return refuseWith(api.CodeNotFound, "no such zone")
	}
	l := *old
	if len(c.Told) > 0 {
		if len(c.Told) > s.limits.authorities {
			return refuseWith(api.CodeInvalid, "a zone has at most %d authorities, got %d", s.limits.authorities, len(c.Told))
		}
		l.Told = c.Told
		s.links.Set(string(l.ID), &l)
		return Result{}
	}
	if r := s.checkPins(&l, c.Pins); r.Err != nil {
		return r
	}
	next := []byte(nil)
	if len(c.Pins) > 1 {
		next = c.Pins[1]
	}
	if s.idle = bytes.Equal(l.CA, c.Pins[0]) && bytes.Equal(l.NextCA, next); s.idle {
		return Result{}
	}
	if l.Pinned > 0 && s.now < l.Pinned.Add(s.limits.pinPause) {
		return refuseWith(api.CodeOverloaded, "the authority of zone %q was changed a moment ago; try again", l.Name)
	}
	l.CA, l.NextCA, l.Pinned = c.Pins[0], next, s.now
	s.links.Set(string(l.ID), &l)
	return Result{}
}

// checkPins refuses authorities that may not follow those of a link.
func (s *membersBook) checkPins(l *api.Link, pins [][]byte) Result {
	if len(pins) == 0 || len(pins) > s.limits.authorities {
		return refuseWith(api.CodeInvalid, "a zone has 1 to %d authorities, got %d", s.limits.authorities, len(pins))
	}
	for _, p := range pins {
		if len(p) == 0 || len(p) > s.limits.authorityBytes {
			return refuseWith(api.CodeInvalid, "the certificate of an authority has 1 to %d bytes, got %d", s.limits.authorityBytes, len(p))
		}
	}
	second := func(der []byte) bool { return len(pins) > 1 && bytes.Equal(pins[1], der) }
	switch {
	case second(pins[0]):
		return refuseWith(api.CodeInvalid, "an authority is named twice")
	case bytes.Equal(pins[0], l.CA):
		if l.NextCA != nil && !second(l.NextCA) {
			return refuseWith(api.CodeConflict, "zone %q has another second authority; unlink it and link it again", l.Name)
		}
	case l.NextCA == nil || !bytes.Equal(pins[0], l.NextCA):
		return refuseWith(api.CodeConflict, "zone %q had another authority; unlink it and link it again", l.Name)
	case second(l.CA):
		return refuseWith(api.CodeConflict, "the authority of zone %q does not go back", l.Name)
	}
	return Result{}
}

// agentTrust records which authorities an agent has, while that is of interest. An agent that joined in an
// earlier release gets its record with that.
func (s *membersBook) agentTrust(c command.AgentTrust) Result {
	a := api.Agent{ID: c.ID, Joined: min(c.Issued, s.now)}
	old, known := s.agents.Get(string(c.ID))
	switch {
	case known && old.Refuses(c.Issued):
		return refuseWith(api.CodeForbidden, "agent %q was revoked; it may join with a new token", string(c.ID))
	case s.Change == nil:
		return Result{}
	case known:
		a = *old
	case s.agents.Len() >= s.limits.agents:
		return refuseWith(api.CodeOverloaded, "the zone keeps %d agents, which is the limit", s.limits.agents)
	}
	a.Trusts, a.Issuer = c.Trusts, c.Issuer
	s.agents.Set(string(c.ID), &a)
	return Result{}
}
