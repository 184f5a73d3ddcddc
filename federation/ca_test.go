package federation

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/identity"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// reports records which authorities a node of the zone has: the newest one on its disk, and the one that issues.
func (p *place) reports(id api.NodeID) {
	p.w.t.Helper()
	m, ok := p.view().Node(id)
	require.True(p.w.t, ok)
	n := *m
	n.Trusts, n.Issuer = p.view().NewestAuthority(), api.FingerprintOf(p.view().CA)
	p.propose(command.NodePut{Stamp: p.zone.Stamp(), Node: n})
}

// announces tells linked zones of the zone's authorities until it waits for nobody.
func (p *place) announces() {
	p.w.t.Helper()
	ctx, cancel := context.WithCancel(p.w.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.AnnounceAuthorities(ctx) }()
	p.until(func(v *state.State) bool {
		for _, l := range v.Links() {
			if isUntold(v, l) {
				return false
			}
		}
		return true
	})
	cancel()
	<-done
}

func (p *place) status() *rest.CA {
	p.w.t.Helper()
	got, err := p.CAStatus(p.w.t.Context())
	require.NoError(p.w.t, err)
	return got
}

// TestBothEndsOfALinkChangeTheirAuthority at the same time, step by step, and each has one pin of the other at the end.
func TestBothEndsOfALinkChangeTheirAuthority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		parent, child := w.addOfForm("p", nil, api.FormFifth), w.addOfForm("c", nil, api.FormFifth)
		child.isBelow(parent)
		both := []*place{parent, child}
		old := map[*place][]byte{}
		for _, p := range both {
			old[p] = p.view().CA
			p.reports("node-1")
			refusedAs(t, api.CodeConflict, p.UseCA(t.Context(), true))
			refusedAs(t, api.CodeConflict, p.FinishCA(t.Context(), true))
			require.NoError(t, p.RotateCA(t.Context(), rest.CABrought{}))
			refusedAs(t, api.CodeConflict, p.RotateCA(t.Context(), rest.CABrought{}))
			assert.Equal(t, []rest.CAWait{{Kind: api.CAWaitNode, Name: "node-1"}, {Kind: api.CAWaitLink, Name: p.view().Links()[0].Name}}, p.status().Waits)
			refusedAs(t, api.CodeConflict, p.UseCA(t.Context(), false))
		}
		for _, p := range both {
			p.announces()
			p.reports("node-1")
			assert.Empty(t, p.status().Waits)
		}
		assert.Len(t, parent.linkTo(child).Pins(), 2)
		assert.Len(t, child.linkTo(parent).Pins(), 2)
		for _, p := range both {
			require.NoError(t, p.UseCA(t.Context(), false))
			p.shows = p.view().CA
			ca, err := p.keys.zoneAuthority(p.view())
			require.NoError(t, err)
			assert.Equal(t, p.view().CA, ca.CertDER())
			refusedAs(t, api.CodeConflict, p.FinishCA(t.Context(), false))
			p.reports("node-1")
			require.NoError(t, p.FinishCA(t.Context(), false))
			assert.Len(t, p.status().Behind, 1)
			p.setForward(api.PinPause)
		}
		for _, p := range both {
			p.announces()
			got := p.status()
			assert.Equal(t, api.CAStable, got.Phase)
			assert.Empty(t, got.Behind)
			require.Len(t, got.Authorities, 1)
			assert.NotEqual(t, api.FingerprintOf(old[p]), got.Authorities[0].Fingerprint)
			assert.Equal(t, 1, bytes.Count([]byte(got.Bundle), []byte("BEGIN CERTIFICATE")))
		}
		assert.Equal(t, [][]byte{child.view().CA}, parent.linkTo(child).Pins())
		assert.Equal(t, [][]byte{parent.view().CA}, child.linkTo(parent).Pins())
		assert.Contains(t, auditOf(parent.view()), "LinkPin by link "+string(child.id))
	})
}

// auditOf returns what linked zones have changed by the audit log.
func auditOf(v *state.State) (all []string) {
	records, _ := v.Audit()
	for _, r := range records {
		all = append(all, r.Change+" by "+string(r.Actor.Kind)+" "+r.Actor.ID)
	}
	return all
}

// TestAZoneThatChangesItsAuthorityIsNotLinked: neither end would know both.
func TestAZoneThatChangesItsAuthorityIsNotLinked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent, child := w.addOfForm("p", nil, api.FormFifth), w.addOfForm("c", nil, api.FormFifth)
	token := parent.linkToken("kid")
	require.NoError(t, parent.RotateCA(t.Context(), rest.CABrought{}))
	_, err := parent.LinkToken(t.Context(), "other", 0, 1)
	refusedAs(t, api.CodeConflict, err)
	_, err = child.Link(t.Context(), token, "parent")
	refusedAs(t, api.CodeConflict, err)
	_, err = parent.Link(t.Context(), token, "parent")
	refusedAs(t, api.CodeConflict, err)

	parent.members.form.Store(int64(api.FormFourth))
	refusedAs(t, api.CodeConflict, parent.RotateCA(t.Context(), rest.CABrought{}))
}

// TestAZoneSetsItsOwnSecondPinAlone, for which its first authority vouches, and drops none by which it is known.
func TestAZoneSetsItsOwnSecondPinAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent, child, other := w.addOfForm("p", nil, api.FormFifth), w.addOfForm("c", nil, api.FormFifth), w.addOfForm("o", nil, api.FormFifth)
	child.isBelow(parent)
	other.isBelow(parent)
	vouch := func(by *identity.CA, of api.ZoneID) api.Authority {
		next, err := identity.NewCA(of, time.Now())
		require.NoError(t, err)
		sig, err := by.Vouch(next.CertDER())
		require.NoError(t, err)
		return api.Authority{Cert: next.CertDER(), Vouch: sig}
	}
	first := api.Authority{Cert: child.ca.CertDER()}
	second := vouch(child.ca, child.id)
	says := func(from []byte, all ...api.Authority) error {
		return parent.Hello(t.Context(), parent.linkTo(child), identity.PinOf(from), &api.Hello{Authorities: all})
	}
	before := parent.linkTo(child)
	for what, all := range map[string][]api.Authority{
		"an authority of another zone":      {first, vouch(child.ca, other.id)},
		"one that its gateway alone has":    {first, vouch(other.ca, child.id)},
		"the next one alone":                {second},
		"too many":                          {first, second, vouch(child.ca, child.id)},
		"another zone's":                    {{Cert: other.ca.CertDER()}},
		"one with a signature of something": {first, {Cert: second.Cert, Vouch: vouch(child.ca, child.id).Vouch}},
	} {
		require.Error(t, says(first.Cert, all...), what)
		assert.Equal(t, before, parent.linkTo(child), what)
	}
	require.NoError(t, says(first.Cert, first))
	require.NoError(t, says(first.Cert, first, second))
	require.NoError(t, says(first.Cert, first, second), "a repeat")
	assert.Equal(t, [][]byte{first.Cert, second.Cert}, parent.linkTo(child).Pins())
	assert.Equal(t, [][]byte{other.ca.CertDER()}, parent.linkTo(other).Pins(), "it is its own link")

	parent.setForward(api.PinPause)
	refusedAs(t, api.CodeForbidden, says(first.Cert, second))
	refusedAs(t, api.CodeConflict, says(first.Cert, first))
	refusedAs(t, api.CodeConflict, says(first.Cert, first, vouch(child.ca, child.id)))
	require.NoError(t, says(second.Cert, second))
	refusedAs(t, api.CodeInvalid, says(first.Cert, first))
	assert.Equal(t, [][]byte{second.Cert}, parent.linkTo(child).Pins())
}

// TestALinkedZoneThatCannotBeToldIsNamed, with the reason, and is told when it can be.
func TestALinkedZoneThatCannotBeToldIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		parent, child := w.addOfForm("p", nil, api.FormFifth), w.addOfForm("c", nil, api.FormFifth)
		child.isBelow(parent)
		child.away.Store(true)
		require.NoError(t, parent.RotateCA(t.Context(), rest.CABrought{}))
		parent.reports("node-1")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); parent.AnnounceAuthorities(ctx) }()
		want := []rest.CAWait{{Kind: api.CAWaitLink, Name: "c", Error: errAway.Error()}}
		await.True(t, "who is waited for, and why", func() bool { return assert.ObjectsAreEqual(want, parent.status().Waits) })
		child.away.Store(false)
		parent.setForward(pinsRetry)
		parent.until(func(v *state.State) bool { return len(v.CAWaits()) == 0 })
		cancel()
		<-done
		assert.Len(t, child.linkTo(parent).Pins(), 2)
	})
}

// TestTokensAndNewcomersKnowBothAuthorities while they change.
func TestTokensAndNewcomersKnowBothAuthorities(t *testing.T) {
	t.Parallel()
	a := newWorld(t).addOfForm("a", nil, api.FormFifth)
	pins := func() []identity.Pin {
		token, err := identity.ParseJoinToken(a.joinToken(api.JoinAgent, "rack-1"))
		require.NoError(t, err)
		return token.Pins()
	}
	assert.Len(t, pins(), 1)
	require.NoError(t, a.RotateCA(t.Context(), rest.CABrought{}))
	first, next := a.view().CA, a.view().Change.Cert
	assert.Equal(t, identity.PinsOf([][]byte{first, next}), pins())
	got, err := a.admits(a.joinToken(api.JoinAgent, "rack-2"), certificateRequest(t))
	require.NoError(t, err)
	assert.Equal(t, [][]byte{first, next}, got.Trusted)
	assert.Equal(t, first, got.CA)
	require.NoError(t, a.UseCA(t.Context(), true))
	assert.Equal(t, identity.PinsOf([][]byte{next, first}), pins())
}

// TestACertificateOfTheOldAuthorityIsRenewedAtAnyAge, once.
func TestACertificateOfTheOldAuthorityIsRenewedAtAnyAge(t *testing.T) {
	a := newWorld(t).addOfForm("a", nil, api.FormFifth)
	_, err := a.admits(a.joinToken(api.JoinAgent, "rack-1"), certificateRequest(t))
	require.NoError(t, err)
	old, names := a.shown(a.time()), []string{"localhost"}
	mark := a.TrustMark()
	trusted, err := a.AgentTrust(t.Context(), "rack-1", old, &api.AgentTrust{})
	require.NoError(t, err)
	assert.Equal(t, &api.AgentTrusted{Authorities: a.view().Authorities(), Issuer: api.FingerprintOf(a.view().CA)}, trusted)
	known, _ := a.view().Agent("rack-1")
	assert.Empty(t, known.Issuer, "nobody wants to know")
	require.NoError(t, a.RotateCA(t.Context(), rest.CABrought{}))
	assert.NotEqual(t, mark, a.TrustMark())
	mark = a.TrustMark()
	_, err = a.RenewNode(t.Context(), "node-1", old, certificateRequest(t), names)
	refusedAs(t, api.CodeConflict, err)
	_, err = a.AgentTrust(t.Context(), "rack-1", old, &api.AgentTrust{Trusts: a.view().NewestAuthority(), Issuer: "a text that is none"})
	require.NoError(t, err)
	known, _ = a.view().Agent("rack-1")
	assert.Equal(t, a.view().NewestAuthority(), known.Trusts)
	assert.Empty(t, known.Issuer)

	require.NoError(t, a.UseCA(t.Context(), true))
	assert.NotEqual(t, mark, a.TrustMark())
	certs, err := a.RenewNode(t.Context(), "node-1", old, certificateRequest(t), names)
	require.NoError(t, err)
	for role, der := range certs {
		require.NoError(t, leafOf(t, der).CheckSignatureFrom(leafOf(t, a.view().CA)), role)
	}
	_, err = a.RenewAgent(t.Context(), "rack-1", old, certificateRequest(t))
	require.NoError(t, err)
	_, err = a.RenewNode(t.Context(), "node-1", a.shown(a.time()), certificateRequest(t), names)
	refusedAs(t, api.CodeConflict, err)
	_, err = a.RenewAgent(t.Context(), "rack-1", a.shown(a.time()), certificateRequest(t))
	refusedAs(t, api.CodeConflict, err)
}

// TestWhenAnAuthorityIsDue: a removed node has its key, or it ends within a year.
func TestWhenAnAuthorityIsDue(t *testing.T) {
	t.Parallel()
	a := newWorld(t).addOfForm("a", nil, api.FormFifth)
	assert.Empty(t, a.CADue())
	a.joins("node-2")
	require.NoError(t, a.RemoveMember(t.Context(), "node-2"))
	assert.Equal(t, rest.CADueRemoved, a.CADue())
	assert.Equal(t, rest.CADueRemoved, a.status().Due)
	require.NoError(t, a.RotateCA(t.Context(), rest.CABrought{}))
	require.NoError(t, a.UseCA(t.Context(), true))
	assert.NotEmpty(t, a.CADue())
	require.NoError(t, a.FinishCA(t.Context(), true))
	assert.Empty(t, a.CADue())
	end := authorityEnd(a.view().CA)
	a.setForward(time.Until(end) - caEndsSoon - time.Minute)
	assert.Empty(t, a.CADue())
	a.setForward(2 * time.Minute)
	assert.Equal(t, rest.CADueEnds, a.CADue())
}
