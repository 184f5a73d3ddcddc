package federation

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/identity"
	"berth/raftstore"
	"berth/raftstore/command"
)

func leafOf(tb testing.TB, der []byte) *x509.Certificate {
	tb.Helper()
	leaf, err := x509.ParseCertificate(der)
	require.NoError(tb, err)
	return leaf
}

// TestMembersAreRenewed: a node gets all its certificates anew as long as it is a member, and not before half of the
// life of the one that it has shown has passed.
func TestMembersAreRenewed(t *testing.T) {
	a := newWorld(t).addOfForm("a", nil, api.FormFifth)
	a.joins("node-2")
	began, names := a.time(), []string{"n2.example", "127.0.0.1"}
	_, err := a.RenewNode(t.Context(), "node-2", a.shown(began), certificateRequest(t), names)
	refusedAs(t, api.CodeConflict, err)
	_, err = a.RenewNode(t.Context(), "node-2", a.shown(began.Add(time.Hour)), certificateRequest(t), names)
	require.NoError(t, err, "one of a time that is yet to come")
	a.setForward(identity.RenewableAge(identity.LeafTTL))
	certs, err := a.RenewNode(t.Context(), "node-2", a.shown(began), certificateRequest(t), names)
	require.NoError(t, err)
	for _, role := range []identity.Role{identity.RoleNode, identity.RoleGateway, identity.RoleAPI} {
		assert.WithinDuration(t, a.time().Add(identity.LeafTTL), leafOf(t, certs[string(role)]).NotAfter, time.Minute, "%s", role)
	}
	assert.Equal(t, names, identity.APIHosts(leafOf(t, certs[string(identity.RoleAPI)])))

	for what, call := range map[string]struct {
		csr   []byte
		names []string
	}{
		"a request of nobody": {[]byte("x"), names},
		"a name of nothing":   {certificateRequest(t), []string{"a b"}},
		"no name":             {certificateRequest(t), nil},
	} {
		_, err = a.RenewNode(t.Context(), "node-2", a.shown(began), call.csr, call.names)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), "%s: %v", what, err)
	}
	a.members.edit("", func(list []raftstore.Member) []raftstore.Member {
		return slices.DeleteFunc(list, func(m raftstore.Member) bool { return m.ID == "node-2" })
	})
	_, err = a.RenewNode(t.Context(), "node-2", a.shown(began), certificateRequest(t), names)
	refusedAs(t, api.CodeForbidden, err)
}

// TestAnAgentIsRenewedUntilItIsRevoked: its new certificate was issued at the time of the entry that the zone has of it, and
// so a revocation after that refuses it, however long it takes to issue.
func TestAnAgentIsRenewedUntilItIsRevoked(t *testing.T) {
	a := newWorld(t).addOfForm("a", nil, api.FormFifth)
	joined := a.zone.Instant()
	_, err := a.admits(a.joinToken(api.JoinAgent, "rack-1"), certificateRequest(t))
	require.NoError(t, err)
	_, err = a.RenewAgent(t.Context(), "rack-1", a.shown(joined.Time()), certificateRequest(t))
	refusedAs(t, api.CodeConflict, err)
	a.setForward(identity.RenewableAge(identity.LeafTTL) + time.Hour)
	a.propose(command.Tick{Stamp: command.Stamp{At: a.zone.Instant().Add(time.Hour)}}) // of a leader whose clock is ahead
	der, err := a.RenewAgent(t.Context(), "rack-1", a.shown(a.issued(t, "rack-1")), certificateRequest(t))
	require.NoError(t, err)
	leaf := leafOf(t, der)
	known, _ := a.view().Agent("rack-1")
	assert.Equal(t, known.Renewed.Time().Truncate(time.Second), identity.IssuedAt(leaf))
	assert.Equal(t, "berth://"+string(a.id)+"/agent/rack-1", leaf.URIs[0].String())

	a.propose(command.AgentRevoke{Stamp: a.zone.Stamp(), ID: "rack-1"})
	known, _ = a.view().Agent("rack-1")
	assert.True(t, known.Refuses(api.InstantOf(identity.IssuedAt(leaf))))
	a.setForward(identity.RenewableAge(identity.LeafTTL) + time.Hour)
	_, err = a.RenewAgent(t.Context(), "rack-1", a.shown(identity.IssuedAt(leaf)), certificateRequest(t))
	refusedAs(t, api.CodeForbidden, err)
}

// shown is a certificate of the authority in use that was issued at an instant.
func (p *place) shown(issued time.Time) Shown {
	return Shown{Issued: issued, Authority: identity.PinOf(p.view().CA)}
}

// issued returns when the newest certificate of an agent was issued.
func (p *place) issued(tb testing.TB, id api.AgentID) time.Time {
	tb.Helper()
	a, ok := p.view().Agent(id)
	require.True(tb, ok)
	return a.Issued().Time()
}

// TestTheEndOfACertificateIsRecorded when all nodes read it, and is not forgotten when a node that starts does not say it.
func TestTheEndOfACertificateIsRecorded(t *testing.T) {
	for form, want := range map[api.Form]api.Instant{api.FormFourth: 0, api.FormFifth: 77} {
		a := newWorld(t).addOfForm("a", nil, api.FormFifth)
		a.joins("node-2")
		a.members.form.Store(int64(form))
		known, _ := a.view().Node("node-2")
		m := *known
		for _, m.Expires = range []api.Instant{77, 0} {
			require.NoError(t, a.AdmitNode(t.Context(), m))
			got, _ := a.view().Node("node-2")
			assert.Equal(t, want, got.Expires, "form %d", form)
		}
	}
}
