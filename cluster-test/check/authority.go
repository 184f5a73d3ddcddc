package check

import (
	"bytes"
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// authorities follows which authorities a zone trusts, and which it has pinned for the zones it is linked
// to, by the commands and their outcomes alone.
type authorities struct {
	known   bool
	trusted [][]byte // the zone's, the older one first
	used    bool     // the second one issues
	pins    map[api.LinkID][][]byte
}

// noteAuthorities learns where a zone begins, once.
func (r *replay) noteAuthorities() {
	a := &r.authorities
	if a.known || r.s.Zone == "" {
		return
	}
	a.known, a.used, a.pins = true, r.s.CAPhase() == api.CAUsed, map[api.LinkID][][]byte{}
	for _, one := range r.s.Authorities() {
		a.trusted = append(a.trusted, one.Cert)
	}
	for _, l := range r.s.Links() {
		a.pins[l.ID] = l.Pins()
	}
}

// compareAuthorities judges a step of a change of authority that was accepted, and compares what is trusted after
// it. A restore is one, which changes nothing.
func (r *replay) compareAuthorities(index uint64, c command.Command, failed error) {
	r.noteAuthorities()
	a := &r.authorities
	if failed != nil {
		return
	}
	why := ""
	switch c := c.(type) {
	case command.CAAdd:
		if len(a.trusted) > 1 || api.FingerprintOf(a.trusted[0]) != c.Old {
			why = "another change is under way"
		}
		a.trusted = append(slices.Clone(a.trusted), c.Cert)
	case command.CAUse:
		why, a.used = a.refuseStep(!a.used, len(a.trusted)-1, c.New), true
		if why == "" && !c.Force && r.anyNeedsAuthority(func(trusts, _ api.Fingerprint) bool { return trusts == c.New }, c.New) {
			why = "somebody does not trust the next one"
		}
	case command.CADrop:
		why = a.refuseStep(a.used, 0, c.Old)
		newest := api.FingerprintOf(a.trusted[len(a.trusted)-1])
		if why == "" && !c.Force && r.anyNeedsAuthority(func(_, issuer api.Fingerprint) bool { return issuer == newest }, newest) {
			why = "somebody has a certificate of the old one alone"
		}
		a.trusted, a.used = a.trusted[len(a.trusted)-1:], false
	case command.LinkPut:
		a.pins[c.Link.ID] = c.Link.Pins()
	case command.LinkPin:
		if c.Pins != nil {
			if !mayFollow(a.pins[c.ID], c.Pins) {
				why = "a pin of the link goes back or is exchanged"
			}
			a.pins[c.ID] = c.Pins
		}
	case command.Restore:
		if !c.Last() {
			return
		}
	default:
		return
	}
	if why != "" {
		r.addViolation(promise.Authority, index, "%T was accepted although %s", c, why)
		return
	}
	r.compareTrusted(index)
}

// refuseStep returns why a step of a change that names an authority may not be taken.
func (a *authorities) refuseStep(turn bool, which int, named api.Fingerprint) string {
	if !turn || len(a.trusted) < 2 || api.FingerprintOf(a.trusted[which]) != named {
		return "it is not the next step of a change"
	}
	return ""
}

// mayFollow reports whether a linked zone may have pins after others: a second one comes once, and takes the place of
// the first.
func mayFollow(old, pins [][]byte) bool {
	second := func(of [][]byte) []byte {
		if len(of) > 1 {
			return of[1]
		}
		return nil
	}
	switch {
	case len(old) == 0 || len(pins) == 0:
		return false
	case bytes.Equal(pins[0], old[0]):
		return second(old) == nil || bytes.Equal(second(pins), second(old))
	}
	return bytes.Equal(pins[0], second(old)) && !bytes.Equal(second(pins), old[0])
}

// anyNeedsAuthority reports whether a node, an agent with hosts or a linked zone would be refused: has tells it of what a
// party trusts and has its certificate of, and newest is what a linked zone must have pinned.
func (r *replay) anyNeedsAuthority(has func(trusts, issuer api.Fingerprint) bool, newest api.Fingerprint) bool {
	return slices.ContainsFunc(r.s.Nodes(), func(n *api.Node) bool { return !has(n.Trusts, n.Issuer) }) ||
		slices.ContainsFunc(r.s.AllHosts(), func(h *state.Host) bool {
			a, ok := r.s.Agent(h.Agent)
			return !ok || !a.IsRevoked() && !has(a.Trusts, a.Issuer)
		}) ||
		slices.ContainsFunc(r.s.Links(), func(l *api.Link) bool { return !slices.Contains(l.Told, newest) })
}

// compareTrusted compares what the zone trusts with what it should.
func (r *replay) compareTrusted(index uint64) {
	a := &r.authorities
	is, issuing := r.s.Authorities(), a.trusted[0]
	if a.used {
		issuing = a.trusted[1]
	}
	switch {
	case len(is) != len(a.trusted) || a.used != (r.s.CAPhase() == api.CAUsed):
		r.addViolation(promise.Authority, index, "the zone trusts %d authorities, and should trust %d, or is at another step", len(is), len(a.trusted))
		return
	case !bytes.Equal(r.s.CA, issuing):
		r.addViolation(promise.Authority, index, "another authority issues than should")
	}
	for i := range is {
		if !bytes.Equal(is[i].Cert, a.trusted[i]) {
			r.addViolation(promise.Authority, index, "the zone trusts another authority than it should")
		}
	}
	for _, l := range r.s.Links() {
		if pins := a.pins[l.ID]; !slices.EqualFunc(l.Pins(), pins, bytes.Equal) {
			r.addViolation(promise.Authority, index, "link %s has %d pins, and should have %d, or others", l.ID, len(l.Pins()), len(pins))
		}
	}
}
