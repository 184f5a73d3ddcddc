package federation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/identity"
	"berth/internal/actor"
)

// TestWhoIsSaidToHaveChangedTheZone by its audit log: whoever joins, by the token; a linked zone, of its own link; a node, on its own
// initiative; and whoever calls, for all else.
func TestWhoIsSaidToHaveChangedTheZone(t *testing.T) {
	w := newWorld(t)
	parent, child := w.addOfForm("p", nil, api.FormNewest), w.addOfForm("c", nil, api.FormNewest)
	child.isBelow(parent)
	parent.nodes = map[string]*Keys{}
	user := api.AuditActor{Kind: api.ActorToken, ID: "t1", User: "u"}
	called := actor.With(t.Context(), actor.Call{By: user, Path: "POST /called"})
	linked := actor.With(t.Context(), actor.Call{By: api.AuditActor{Kind: api.ActorLink, ID: "who"}, Path: "POST /zones/called"})
	idOf := func(token string) string {
		j, err := identity.ParseJoinToken(token)
		require.NoError(t, err)
		return string(j.ID)
	}
	agent, kid := parent.joinToken(api.JoinAgent, "rack-1"), parent.linkToken("kid")
	other := w.addOfForm("o", nil, api.FormNewest)
	join := func(token string) api.AuditActor { return api.AuditActor{Kind: api.ActorJoin, ID: idOf(token)} }
	link, node := api.AuditActor{Kind: api.ActorLink, ID: string(child.id)}, api.AuditActor{Kind: api.ActorNode, ID: "node-1"}
	csr := certificateRequest(t)
	parent.setForward(gatewaysPause)
	hello := func(h *api.Hello) error { return parent.Hello(linked, parent.linkTo(child), child.pin(), h) }
	for _, c := range []struct {
		change string
		by     api.AuditActor
		path   string
		do     func() error
	}{
		{"JoinUse", join(agent), "POST /operator/join", func() error {
			_, err := parent.Join(t.Context(), &rest.JoinBody{Token: agent, CSR: csr})
			return err
		}},
		{"LinkPut", join(kid), "POST /zones/called", func() error {
			_, err := parent.Enrol(linked, other.id, other.pin(), other.enrolment(kid))
			return err
		}},
		{"LinkSet", link, "POST /zones/called", func() error { return hello(&api.Hello{Endpoints: []string{"gw:7601"}}) }},
		{"LinkPin", link, "POST /zones/called", func() error {
			require.NoError(t, child.RotateCA(t.Context(), rest.CABrought{}))
			return hello(&api.Hello{Authorities: child.view().Authorities()})
		}},
		{"CAAdd", user, "POST /called", func() error { return parent.RotateCA(called, rest.CABrought{}) }},
		{"LinkPin", node, "", func() error { return parent.announceTo(t.Context(), parent.view(), parent.linkTo(child)) }},
		{"CAUse", user, "POST /called", func() error { return parent.UseCA(called, true) }},
		{"CADrop", user, "POST /called", func() error { return parent.FinishCA(called, true) }},
		{"EpochAdd", user, "POST /called", func() error { return parent.RotateKEK(called) }},
		{"NodePut", api.AuditActor{Kind: api.ActorNode, ID: "node-2"}, "", func() error {
			return parent.RecordNode(t.Context(), api.Node{ID: "node-2", Form: api.FormNewest})
		}},
		{"NodeRemove", node, "", func() error { return parent.ForgetRemoved(t.Context()) }},
		{"NodePut", user, "POST /called", func() error {
			return parent.RecordNode(called, api.Node{ID: "node-2", Form: api.FormNewest})
		}},
		{"NodeRemove", user, "POST /called", func() error { return parent.ForgetRemoved(called) }},
		{"JoinPut", user, "POST /called", func() error {
			_, err := parent.JoinToken(called, api.JoinAgent, "rack-2", time.Minute)
			return err
		}},
		{"TokenPut", user, "POST /called", func() error {
			_, _, err := parent.NewToken(called, api.Token{User: "u", Project: "p", Expires: api.Forever})
			return err
		}},
	} {
		require.NoError(t, c.do(), c.change)
		records, _ := parent.view().Audit()
		require.NotEmpty(t, records)
		last := records[len(records)-1]
		assert.Equal(t, []any{c.change, c.by, c.path, api.Code("")}, []any{last.Change, last.Actor, last.Call, last.Outcome})
	}
}
