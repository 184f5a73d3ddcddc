package dev

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/buildplan/seal"
	"berth/httpd/gateway"
	"berth/internal/await"
	"berth/internal/codec"
	"berth/raftstore/state"
	"berth/zone/estimate"
)

// TestAcceptance restates the acceptance cases of the original zones that speak
// of the API, in one federation: hosts are in the root, in east, and in edge,
// which is below west. The numbers of the cases are the originals'.
func TestAcceptance(t *testing.T) {
	virtually(t, func(t *world) {
		none := 0
		r := start(t, t.TempDir(), Spec{Name: "root", Children: []Spec{
			{Name: "west", Hosts: &none, Children: []Spec{{Name: "edge"}}},
			{Name: "east"},
		}}, 2) // room for 24
		r.case56(t)
		r.case66(t)
		r.case67(t)
		r.case69(t)
		r.case70(t)
		r.case61And76(t)
		r.case73And74(t) // stops a zone: last
	})
}

// secrets is what no other zone and no caller without the role may learn of a
// zone: names, ids and addresses of its hosts, agents and inner listeners.
func secrets(z *Zone) []string {
	n := z.Nodes[0].Node
	a := n.Addresses()
	out := []string{a.Node, a.Agent, a.Admin, a.API}
	for _, h := range n.Store().View().AllHosts() {
		out = append(out, h.Name, string(h.ID), string(h.Agent))
	}
	return out
}

func (r *running) silent(t *world, what, said string, of *Zone) {
	t.Helper()
	for _, s := range secrets(of) {
		assert.NotContains(t, said, s, "%s says too much", what)
	}
}

// Case 56: the bytes of a select answer, as users and as parents get it, hold no
// host name, id or address, of this zone or of those below.
func (r *running) case56(t *world) {
	const body = `{"server": {"name": "a", "flavorRef": "small", "max_count": 24}}`
	status, said := r.raw(r.zone("root"), http.MethodPost, "/zones/select", body)
	require.Equal(t, http.StatusOK, status, said)
	var a struct {
		Weights [][]int64 `json:"weights"`
		Blob    []byte    `json:"blob"`
	}
	require.NoError(t, json.Unmarshal([]byte(said), &a))
	assert.Len(t, a.Weights[0], 24, "all zones offer: %s", said)
	for _, z := range r.Zones {
		r.silent(t, "the answer", said, z)
		r.silent(t, "the blob", string(a.Blob), z)
	}

	edge, west := r.zone("edge"), r.zone("west")
	n := edge.Nodes[0].Node
	door := gateway.New(gateway.Config{
		Zone: n.Zone(), Estimator: estimate.New(estimate.Config{Zone: n.Zone(), Keys: oneKey{}}),
		Peer:   func(*http.Request) (api.ZoneID, bool) { return west.Nodes[0].Node.Store().View().Zone, true },
		Leader: func() bool { return true }, Led: func() bool { return true }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	req := api.Request{
		Reservation: "r", Project: "p", Window: api.Window{End: api.Forever}, Class: api.Firm,
		Groups: []api.Group{{Count: 3, Flavor: flavors()[1].ID, Resources: flavors()[1].Resources}},
	}
	b, err := codec.Marshal(req)
	require.NoError(t, err)
	call := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/zones/select", bytes.NewReader(b))
	call.Header.Set("Content-Type", api.MediaCBOR)
	rec := httptest.NewRecorder()
	door.ServeHTTP(rec, call)
	require.Equal(t, http.StatusOK, rec.Code, rec.Body.String())
	r.silent(t, "the gateway", rec.Body.String(), edge)
	var one api.SelectAnswer
	require.NoError(t, codec.Unmarshal(rec.Body.Bytes(), &one))
	assert.Len(t, one.Weights[0], 3)
	for _, w := range one.Weights[0] {
		assert.Zero(t, w%estimate.WeightQuantum)
	}
}

// Case 66: the default answer is one server; with return_reservation_id it is a
// reservation id and nothing else.
func (r *running) case66(t *world) {
	status, said := r.raw(r.zone("root"), http.MethodPost, "/servers", `{"server": {"name": "a", "flavorRef": "tiny"}}`)
	require.Equal(t, http.StatusAccepted, status, said)
	var one struct {
		Server rest.Server `json:"server"`
	}
	require.NoError(t, json.Unmarshal([]byte(said), &one))
	assert.NotEmpty(t, one.Server.ID)

	status, said = r.raw(r.zone("root"), http.MethodPost, "/servers",
		`{"server": {"name": "b", "flavorRef": "tiny", "return_reservation_id": true}}`)
	require.Equal(t, http.StatusAccepted, status, said)
	var id map[string]string
	require.NoError(t, json.Unmarshal([]byte(said), &id))
	assert.Len(t, id, 1, said)
	assert.NotEmpty(t, id["reservation_id"])
}

// Case 67 differs: the original replaced an ordinary user's reservation id. Ours
// keeps any caller's, because it is what makes a repeat harmless, and because it
// names something within the caller's project alone.
func (r *running) case67(t *world) {
	root := r.client("root")
	for i, role := range []api.UserRole{api.RoleAdmin, api.RoleMember} {
		tok, err := root.CreateToken(t.Context(), rest.TokenSpec{
			User: "u", Project: api.ProjectID(fmt.Sprint("p", i)), Roles: []api.UserRole{role},
		})
		require.NoError(t, err)
		c := r.as(r.zone("root"), tok.Token)
		s := rest.ServerCreate{Name: "a", FlavorRef: "tiny", Reservation: "mine"}
		for range 2 { // and a repeat is the same
			id, err := c.Boot(t.Context(), s, "")
			require.NoError(t, err)
			assert.Equal(t, api.ReservationID("mine"), id, "role %s", role)
		}
		b, err := c.Reservation(t.Context(), "mine", 10*time.Second)
		require.NoError(t, err)
		assert.Equal(t, 1, b.MaxCount)
		assert.Len(t, r.servers(c, "mine"), 1)
	}
}

// Case 69: two servers made by one request share its reservation id, and one made
// apart is not in that list.
func (r *running) case69(t *world) {
	root := r.client("root")
	pair := r.boot(root, "pair", 2, 2)
	require.Equal(t, api.BootActive, pair.State, pair.Reason)
	require.Equal(t, api.BootActive, r.boot(root, "third", 1, 1).State)
	list := r.servers(root, "pair")
	require.Len(t, list, 2)
	for _, s := range list {
		assert.Equal(t, api.ReservationID("pair"), s.Reservation)
	}
	assert.Len(t, r.servers(root, "third"), 1)
}

// Case 70: a plan that the caller brings is taken up as it is, wherever it leads,
// and nothing is selected again; a plan that is missing or damaged is refused.
func (r *running) case70(t *world) {
	root := r.client("root")
	s := rest.ServerCreate{Name: "planned", FlavorRef: "small", MaxCount: count(10)}
	a, err := root.Select(t.Context(), s)
	require.NoError(t, err)
	s.Reservation, s.Blob = string(a.Reservation), a.Blob
	_, err = root.CreateServer(t.Context(), s, "")
	require.NoError(t, err)
	b, err := root.Reservation(t.Context(), a.Reservation, 10*time.Second)
	require.NoError(t, err)
	assert.Equal(t, api.BootActive, b.State, b.Reason)
	require.Len(t, b.Attempts, 1)
	for _, z := range b.Attempts[0].Zones {
		assert.Equal(t, z.Wanted, z.Offered+z.Short, "what the plan had of %s", z.Zone)
	}
	assert.Len(t, r.servers(root, string(a.Reservation)), 10)
	assert.Greater(t, len(b.Zones), 1, "the plan led here and below")

	bad := s
	bad.Reservation = ""
	_, err = root.CreateServer(t.Context(), bad, "")
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err), "a blob without its reservation")
	for name, blob := range map[string][]byte{
		"used": a.Blob, "damaged": append([]byte{a.Blob[0] ^ 1}, a.Blob[1:]...), "short": a.Blob[:10],
	} {
		bad := s
		bad.Blob, bad.Name = blob, "another"
		_, err = root.CreateServer(t.Context(), bad, "")
		assert.Equal(t, api.CodePlanRefused, api.CodeOf(err), name)
		assert.Equal(t, api.PlanRefusedMessage, api.MessageOf(err), name)
	}
	_, err = root.Release(t.Context(), a.Reservation, 10*time.Second)
	require.NoError(t, err)
}

// Case 61: the root selects, the host is two levels down; the create succeeds,
// and neither API nor log of the root or the middle ever names the host. Case 76:
// a delete, which the child answers without a body, is a success at the root.
func (r *running) case61And76(t *world) {
	west, edge := r.client("west"), r.zone("edge")
	b := r.boot(west, "deep", 2, 2) // west has no hosts
	require.Equal(t, api.BootActive, b.State, b.Reason)
	root := r.client("root")
	wide := r.boot(root, "wide", 3, 24)
	require.Equal(t, api.BootActive, wide.State, wide.Reason)
	for _, name := range []string{"root", "west"} {
		for _, path := range []string{
			"/servers", "/servers/detail?all_projects=true", "/zones", "/zones/detail", "/zones/info", "/zones/boot",
			"/zones/boot/wide", "/zones/boot/deep", "/hosts", "/operator/members", "/operator/holds", "/operator/config",
		} {
			_, said := r.raw(r.zone(name), http.MethodGet, path, "")
			for _, h := range edge.Nodes[0].Node.Store().View().AllHosts() {
				assert.NotContains(t, said, h.Name, "%s %s", name, path)
				assert.NotContains(t, said, string(h.ID), "%s %s", name, path)
			}
		}
	}
	seen := 0
	for _, line := range r.log.lines() {
		if strings.Contains(line, " zone=root ") || strings.Contains(line, " zone=west ") {
			assert.NotContains(t, line, "edge-host", "a log above")
			seen++
		}
	}
	assert.Positive(t, seen, "the logs were looked at")
	_, said := r.raw(edge, http.MethodGet, "/servers/detail?all_projects=true", "")
	assert.Contains(t, said, "edge-host", "its own operator sees it")

	for _, s := range r.servers(root, "wide") {
		if s.Zone == "west" {
			status, said := r.raw(r.zone("root"), http.MethodDelete, "/servers/"+string(s.ID), "")
			assert.Equal(t, http.StatusNoContent, status)
			assert.Empty(t, said)
			await.True(t, "it ends where it runs", func() bool {
				_, err := r.client("edge").Server(t.Context(), s.ID)
				return api.CodeOf(err) == api.CodeNotFound
			})
			break
		}
	}
	_, err := root.Release(t.Context(), "wide", 10*time.Second)
	require.NoError(t, err)
}

// Case 73: what the directory knows is answered without a call to any child, and
// an id that it does not know, or that is none, is not found. Case 74: with one
// child unreachable the answer is the other child's record, without what is
// internal.
func (r *running) case73And74(t *world) {
	root := r.client("root")
	b := r.boot(root, "spread", 10, 24)
	require.Equal(t, api.BootActive, b.State, b.Reason)
	in := map[string]rest.Server{}
	for _, s := range r.servers(root, "spread") {
		in[s.Zone] = s
	}
	require.Contains(t, in, "east")
	require.Contains(t, in, "west")
	west := r.zone("west").Nodes[0]
	west.stop()
	<-west.done

	began := time.Now()
	for _, zone := range []string{"east", "west"} {
		status, said := r.raw(r.zone("root"), http.MethodGet, "/servers/"+string(in[zone].ID), "")
		require.Equal(t, http.StatusOK, status, said)
		var got struct {
			Server map[string]any `json:"server"`
		}
		require.NoError(t, json.Unmarshal([]byte(said), &got))
		assert.Equal(t, string(in[zone].ID), got.Server["id"])
		for _, inner := range []string{"host", "link", "origin", "hold", "Host", "Link", "Origin", "Hold", "ModIndex"} {
			assert.NotContains(t, got.Server, inner)
		}
	}
	for _, id := range []string{api.NewUUID(), "7", "not-a-uuid"} {
		_, err := root.Server(t.Context(), api.InstanceID(id))
		assert.Equal(t, api.CodeNotFound, api.CodeOf(err), id)
	}
	assert.Zero(t, time.Since(began), "nobody waited for a child")

	require.NoError(t, r.Restart(r.ctx, west))
	end, err := root.Release(t.Context(), "spread", 20*time.Second)
	require.NoError(t, err)
	assert.Equal(t, api.BootReleased, end.State, "the child is told when it is back")
}

// oneKey is estimate.Keys with one key for ever.
type oneKey struct{}

func (oneKey) Ring(*state.State) (seal.Keyring, error) { return seal.Keyring{{Epoch: [4]byte{1}}}, nil }
