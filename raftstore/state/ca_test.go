package state

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// authorised returns a zone with an authority, nodes n1 and n2 with its certificates, and a child.
func authorised(tb testing.TB) *world {
	tb.Helper()
	w := newWorld(tb)
	w.form = api.FormFifth
	for _, id := range []api.NodeID{"n1", "n2"} {
		w.reports(id, w.s.CA, w.s.CA)
	}
	w.ok(command.LinkPut{Stamp: w.stamp(), Link: linkOf("kid", api.LinkChild)})
	return w
}

// reports has a node record which authorities it has.
func (w *world) reports(id api.NodeID, trusts, issuer []byte) {
	w.tb.Helper()
	w.ok(command.NodePut{Stamp: w.stamp(), Node: api.Node{ID: id, Form: api.FormFifth, Trusts: api.FingerprintOf(trusts), Issuer: api.FingerprintOf(issuer)}})
}

var nextCA = []byte("the next authority")

func (w *world) caAdd() command.CAAdd {
	return command.CAAdd{Stamp: w.stamp(), Old: api.FingerprintOf(w.s.CA), Cert: nextCA, Key: []byte("its key"), Vouch: []byte("its vouch"), KEK: w.s.KEK}
}

func (w *world) caUse(force bool) command.CAUse {
	return command.CAUse{Stamp: w.stamp(), New: api.FingerprintOf(nextCA), Force: force}
}

func (w *world) told(all ...[]byte) command.LinkPin {
	c := command.LinkPin{Stamp: w.stamp(), ID: "kid"}
	for _, der := range all {
		c.Told = append(c.Told, api.FingerprintOf(der))
	}
	return c
}

// waits returns for whom the change waits, each as "kind name".
func (w *world) waits() (all []string) {
	for _, one := range w.s.CAWaits() {
		all = append(all, string(one.Kind)+" "+one.Name)
	}
	return all
}

// TestAnAuthorityIsChanged step by step: each waits for those whom it would refuse.
func TestAnAuthorityIsChanged(t *testing.T) {
	w := authorised(t)
	old := w.s.CA
	drop := func(force bool) command.CADrop {
		return command.CADrop{Stamp: w.stamp(), Old: api.FingerprintOf(old), Force: force}
	}
	assert.Equal(t, []api.Authority{{Cert: old}}, w.s.Authorities())
	assert.Empty(t, w.waits())
	w.refused(api.CodeConflict, w.caUse(true))
	w.refused(api.CodeConflict, drop(true))
	w.ok(command.JoinPut{Stamp: w.stamp(), Token: api.JoinToken{ID: "t1", Hash: []byte("h"), Kind: api.JoinAgent, Name: "a1", Expires: w.now.Add(time.Hour)}})

	w.ok(w.caAdd())
	w.refused(api.CodeConflict, w.caAdd())
	w.refused(api.CodeConflict, command.LinkPut{Stamp: w.stamp(), Link: linkOf("other", api.LinkChild)})
	assert.Equal(t, api.CATrusted, w.s.CAPhase())
	assert.Equal(t, old, w.s.CA, "the old one issues")
	both := []api.Authority{{Cert: old}, {Cert: nextCA, Vouch: []byte("its vouch")}}
	assert.Equal(t, both, w.s.Authorities())
	assert.Equal(t, []string{"node n1", "node n2", "link kid", "join-token a1"}, w.waits())
	w.refused(api.CodeConflict, w.caUse(false))
	w.refused(api.CodeConflict, drop(true))

	w.ok(command.JoinPut{Stamp: w.stamp(), Token: api.JoinToken{ID: "t2", Hash: []byte("h"), Kind: api.JoinNode, Name: "n3", Expires: w.now.Add(time.Hour), Trusts: api.FingerprintOf(nextCA)}})
	w.ok(command.JoinUse{Stamp: w.stamp(), ID: "t1", Hash: []byte("h"), Want: api.JoinAgent})
	w.ok(command.JoinUse{Stamp: w.stamp(), ID: "t2", Hash: []byte("h"), Want: api.JoinNode})
	w.reports("n1", nextCA, old)
	w.reports("n2", nextCA, old)
	assert.Equal(t, []string{"node n3", "agent a1", "link kid"}, w.waits(), "n3 has joined, and did not start yet")
	w.reports("n3", nextCA, old)
	w.ok(command.AgentTrust{Stamp: w.stamp(), ID: "a1", Issued: w.now, Trusts: api.FingerprintOf(nextCA), Issuer: api.FingerprintOf(old)})
	w.ok(w.told(old, nextCA))
	assert.Empty(t, w.waits())
	assert.Equal(t, both, loaded(t, saved(t, w.s)).Authorities())

	w.refused(api.CodeConflict, command.CAUse{Stamp: w.stamp(), New: api.FingerprintOf(old)})
	w.ok(w.caUse(false))
	assert.Equal(t, nextCA, w.s.CA)
	assert.Equal(t, []byte("its key"), w.s.CAKey)
	assert.Empty(t, w.s.Change.Key, "that of the old one is destroyed")
	assert.Equal(t, both, w.s.Authorities())
	assert.Equal(t, api.CAUsed, w.s.CAPhase())
	assert.Equal(t, []string{"node n1", "node n2", "node n3", "agent a1"}, w.waits())
	w.refused(api.CodeConflict, drop(false))
	back := loaded(t, saved(t, w.s))
	assert.Equal(t, w.s.CAWaits(), back.CAWaits())

	for _, id := range []api.NodeID{"n1", "n2", "n3"} {
		w.reports(id, nextCA, nextCA)
	}
	w.ok(command.AgentTrust{Stamp: w.stamp(), ID: "a1", Issued: w.now, Trusts: api.FingerprintOf(nextCA), Issuer: api.FingerprintOf(nextCA)})
	w.refused(api.CodeConflict, command.CADrop{Stamp: w.stamp(), Old: api.FingerprintOf(nextCA)})
	w.ok(drop(false))
	assert.Equal(t, []api.Authority{{Cert: nextCA}}, w.s.Authorities())
	assert.Empty(t, w.waits())
	w.ok(command.LinkPut{Stamp: w.stamp(), Link: linkOf("other", api.LinkChild)})
}

// TestAForcedChangeLosesThoseWhoWait and nobody can force a step that is not next.
func TestAForcedChangeLosesThoseWhoWait(t *testing.T) {
	w := authorised(t)
	old := w.s.CA
	w.ok(w.caAdd())
	w.ok(w.caUse(true))
	w.ok(command.CADrop{Stamp: w.stamp(), Old: api.FingerprintOf(old), Force: true})
	assert.Equal(t, nextCA, w.s.CA)
}

// TestWhoIsNotWaitedFor: revoked agents, tokens that are used, expired or for links; and hosts tell of agents that
// joined in an earlier release.
func TestWhoIsNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.ok(hostPut(w.stamp(), "early", "h1", 4))
	for i, tok := range []api.JoinToken{
		{Kind: api.JoinAgent, Expires: w.now}, {Kind: api.JoinLink, Expires: api.Forever}, {Kind: api.JoinAgent, Expires: api.Forever, Trusts: api.FingerprintOf(nextCA)},
	} {
		tok.ID, tok.Name, tok.Hash = api.TokenID(fmt.Sprint("t", i)), fmt.Sprint("name", i), []byte("h")
		w.ok(command.JoinPut{Stamp: w.stamp(), Token: tok})
	}
	w.ok(w.caAdd())
	assert.Equal(t, []string{"agent early"}, w.waits())
	w.ok(command.AgentRevoke{Stamp: w.stamp(), ID: "early"})
	assert.Empty(t, w.waits())
	w.refused(api.CodeForbidden, command.AgentTrust{Stamp: w.stamp(), ID: "early", Issued: start})
}

// TestCAAddRefuses what was made for another state, or is too large.
func TestCAAddRefuses(t *testing.T) {
	w := authorised(t)
	for what, change := range map[string]func(*command.CAAdd){
		"another authority":      func(c *command.CAAdd) { c.Old = api.FingerprintOf(nextCA) },
		"another key":            func(c *command.CAAdd) { c.KEK = []byte("k") },
		"no certificate":         func(c *command.CAAdd) { c.Cert = nil },
		"the same authority":     func(c *command.CAAdd) { c.Cert = w.s.CA },
		"too long a certificate": func(c *command.CAAdd) { c.Cert = make([]byte, api.AuthorityMaxBytes+1) },
		"too long a signature":   func(c *command.CAAdd) { c.Vouch = make([]byte, api.VouchMaxBytes+1) },
	} {
		c := w.caAdd()
		change(&c)
		require.Error(t, w.do(c).Err, what)
		require.Nil(t, w.s.Change, what)
	}
	c := w.caAdd()
	c.Cert, c.Vouch = make([]byte, api.AuthorityMaxBytes), make([]byte, api.VouchMaxBytes)
	w.ok(c)
}

// TestARemovedNodeHasTheAuthority: a change is due until one that began after the removal has ended.
func TestARemovedNodeHasTheAuthority(t *testing.T) {
	w := authorised(t)
	change := func(between func()) {
		old := w.s.CA
		c := w.caAdd()
		c.Cert = append(bytes.Clone(old), 'x')
		w.ok(c)
		between()
		w.ok(command.CAUse{Stamp: w.stamp(), New: api.FingerprintOf(c.Cert), Force: true})
		w.ok(command.CADrop{Stamp: w.stamp(), Old: api.FingerprintOf(old), Force: true})
	}
	assert.Zero(t, w.s.CADue)
	w.ok(command.NodeRemove{Stamp: w.stamp(), ID: "n1"})
	assert.Equal(t, w.index, w.s.CADue)
	assert.Equal(t, w.s.CADue, loaded(t, saved(t, w.s)).CADue)
	change(func() { w.ok(command.NodeRemove{Stamp: w.stamp(), ID: "n2"}) })
	assert.NotZero(t, w.s.CADue, "n2 has the key of the new one too")
	change(func() {})
	assert.Zero(t, w.s.CADue)
}

// TestTheNextKeyIsRewrapped with all others.
func TestTheNextKeyIsRewrapped(t *testing.T) {
	w := secretive(t)
	w.ok(w.caAdd())
	c := w.rewrapped("k1", 0)
	without := c
	without.Secrets = nil
	for _, s := range c.Secrets {
		if string(s.Old) != "its key" {
			without.Secrets = append(without.Secrets, s)
		}
	}
	w.refused(api.CodeConflict, without)
	view := w.s.Clone()
	w.ok(c)
	assert.Equal(t, "k1its key", string(w.s.Change.Key))
	assert.Equal(t, "its key", string(view.Change.Key), "views are not changed")
}

// TestARestoreTakesNoAuthorityBack, of the zone or of a linked one: they are on disks that it does not reach.
func TestARestoreTakesNoAuthorityBack(t *testing.T) {
	w := authorised(t)
	old := w.s.CA
	kid, _ := w.s.Link("kid")
	first := kid.CA
	w.ok(command.JoinPut{Stamp: w.stamp(), Token: api.JoinToken{ID: "t1", Hash: []byte("h"), Kind: api.JoinAgent, Name: "a1", Expires: w.now.Add(time.Hour)}})
	w.ok(command.JoinUse{Stamp: w.stamp(), ID: "t1", Hash: []byte("h"), Want: api.JoinAgent})
	backup := saved(t, w.s)
	restore := func() {
		for _, c := range w.parts(backup, 1) {
			w.ok(w.part(c))
		}
	}
	w.ok(w.caAdd())
	w.ok(command.AgentTrust{Stamp: w.stamp(), ID: "a1", Issued: w.now, Trusts: api.FingerprintOf(nextCA)})
	w.ok(w.told(old, nextCA))
	w.ok(command.LinkPin{Stamp: w.stamp(), ID: "kid", Pins: [][]byte{first, []byte("theirs")}})
	restore()
	assert.Equal(t, api.CATrusted, w.s.CAPhase())
	assert.Equal(t, []string{"node n1", "node n2"}, w.waits())
	kid, _ = w.s.Link("kid")
	assert.Equal(t, [][]byte{first, []byte("theirs")}, kid.Pins())
	w.ok(w.caUse(true))
	restore()
	assert.Equal(t, nextCA, w.s.CA)
	w.ok(command.CADrop{Stamp: w.stamp(), Old: api.FingerprintOf(old), Force: true})
	restore()
	assert.Equal(t, []api.Authority{{Cert: nextCA}}, w.s.Authorities())
}

// TestLinkPin: a linked zone may have a second authority, which then takes the place of the first one, and never
// another one; and it changes no more often than the limit.
func TestLinkPin(t *testing.T) {
	a, b, c, d := []byte("kid"), []byte("b"), []byte("c"), []byte("d")
	limit := make([]byte, api.AuthorityMaxBytes)
	for name, row := range map[string]struct {
		has, pins [][]byte
		want      api.Code
	}{
		"the one it has":           {[][]byte{a}, [][]byte{a}, ""},
		"a second one":             {[][]byte{a}, [][]byte{a, b}, ""},
		"a second one at limit":    {[][]byte{a}, [][]byte{a, limit}, ""},
		"both it has":              {[][]byte{a, b}, [][]byte{a, b}, ""},
		"the second alone":         {[][]byte{a, b}, [][]byte{b}, ""},
		"the second and a third":   {[][]byte{a, b}, [][]byte{b, c}, ""},
		"none":                     {[][]byte{a}, nil, api.CodeInvalid},
		"three":                    {[][]byte{a, b}, [][]byte{a, b, c}, api.CodeInvalid},
		"an empty one":             {[][]byte{a}, [][]byte{a, nil}, api.CodeInvalid},
		"one above the limit":      {[][]byte{a}, [][]byte{a, append(bytes.Clone(limit), 0)}, api.CodeInvalid},
		"one twice":                {[][]byte{a}, [][]byte{a, a}, api.CodeInvalid},
		"another one":              {[][]byte{a}, [][]byte{b}, api.CodeConflict},
		"two others":               {[][]byte{a, b}, [][]byte{c, d}, api.CodeConflict},
		"another second one":       {[][]byte{a, b}, [][]byte{a, c}, api.CodeConflict},
		"the first alone again":    {[][]byte{a, b}, [][]byte{a}, api.CodeConflict},
		"both the other way round": {[][]byte{a, b}, [][]byte{b, a}, api.CodeConflict},
	} {
		w := newWorld(t)
		w.form = api.FormFifth
		l := linkOf("kid", api.LinkChild)
		l.CA = row.has[0]
		w.ok(command.LinkPut{Stamp: w.stamp(), Link: l})
		pin := func(pins [][]byte) Result { return w.do(command.LinkPin{Stamp: w.stamp(), ID: "kid", Pins: pins}) }
		if len(row.has) > 1 {
			require.NoError(t, pin(row.has).Err, name)
			w.now = w.now.Add(api.PinPause)
		}
		err := pin(row.pins).Err
		got, _ := w.s.Link("kid")
		if row.want != "" {
			assert.Equal(t, row.want, api.CodeOf(err), name)
			assert.Equal(t, row.has, got.Pins(), name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, row.pins, got.Pins(), name)
	}

	w := authorised(t)
	kid, _ := w.s.Link("kid")
	pin := func(pins ...[]byte) command.LinkPin { return command.LinkPin{Stamp: w.stamp(), ID: "kid", Pins: pins} }
	w.ok(pin(kid.CA, b))
	w.now = w.now.Add(api.PinPause) - 2 // of which stamp takes one
	w.refused(api.CodeOverloaded, pin(b))
	w.ok(pin(b))
	w.refused(api.CodeNotFound, command.LinkPin{Stamp: w.stamp(), ID: "none", Pins: [][]byte{b}})
	w.ok(w.told(a, b))
	w.refused(api.CodeInvalid, w.told(a, b, c))
	kid, _ = w.s.Link("kid")
	assert.Equal(t, []api.Fingerprint{api.FingerprintOf(a), api.FingerprintOf(b)}, kid.Told)
}
