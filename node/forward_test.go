package node

import (
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/identity"
	"berth/raftstore/state"
)

// forged are the headers between nodes as somebody outside would write them, to
// pass for another zone.
func forged(door string, as *running) map[string]string {
	return map[string]string{headerDoor: door, headerPeer: peerText(as)}
}

func peerText(of *running) string {
	pin := identity.PinOf(of.nodeCredentials().CA.Raw)
	return string(of.rec.Zone) + "/" + hex.EncodeToString(pin[:])
}

// TestFollowersPassRequestsOn: to the leader and back, with headers that nobody
// outside can forge, on the public API and on the gateway.
func TestFollowersPassRequestsOn(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		zone := threeNodes(t, "p")
		leader, follower := zone[0], zone[1]
		child, other := newZone(t, "c").run(), newZone(t, "o").run()
		admin := leader.home.token
		require.False(t, follower.Leads())

		{ // a write is seen where it was made
			for i := range 10 {
				name := fmt.Sprint("flavor-", i)
				status, said := follower.answers(call{
					method: http.MethodPost, path: "/flavors", token: admin, header: forged(doorGateway, leader),
					body: fmt.Sprintf(`{"flavor": {"name": %q, "vcpus": 1, "ram": 1, "disk": 1}}`, name),
				})
				require.Equal(t, http.StatusCreated, status, said)
				status, said = follower.answers(call{method: http.MethodGet, path: "/flavors", token: admin})
				require.Equal(t, http.StatusOK, status)
				require.Contains(t, said, name)
			}
		}
		{ // a key is passed on
			leader.offers("small")
			var first string
			for _, r := range []*running{follower, leader, zone[2], follower} { // each is a repeat of the first
				status, said := r.answers(call{
					method: http.MethodPost, path: "/zones/boot", token: admin, header: map[string]string{api.HeaderIdempotencyKey: "k-1"},
					body: `{"server": {"name": "a", "flavorRef": "small"}}`,
				})
				require.Equal(t, http.StatusAccepted, status, said)
				first = cmp.Or(first, said)
				assert.Equal(t, first, said)
			}
		}
		follower.losesTheLeader(t)             // a leader that is lost
		follower.showsMoreThanItHas(t, leader) // an answer that is newer than the view
		{                                      // forged headers stand for no token
			for _, r := range zone {
				for _, path := range []string{"/operator/transfer", "/operator/join-tokens"} {
					status, _ := r.answers(call{method: http.MethodPost, path: path, header: forged(doorAPI, leader)})
					assert.Equal(t, http.StatusUnauthorized, status, path)
				}
			}
		}
		{ // enrolment at a follower
			token := leader.linkToken("c")
			conf := identity.ClientTLS(other.gatewayCredentials, api.ALPNEnrol, identity.PinTo(leader.nodeCredentials().CA.Raw),
				identity.Subject{Zone: leader.rec.Zone, Role: identity.RoleGateway}, other.now)
			for _, r := range zone {
				status, said := over(t, conf, r.Addresses().Gateway, http.MethodPost, "/links/enrol", child.enrolment(token), forged(doorEnrol, child))
				assert.Equal(t, http.StatusForbidden, status, said)
			}
			_, err := child.Link(t.Context(), altered(t, token, func(j *identity.JoinToken) {
				j.Addresses = []string{follower.Addresses().Gateway}
			}), "parent")
			require.NoError(t, err)
			assert.Len(t, leader.linkTo(child).Endpoints, 1)
			assert.Len(t, child.linkTo(leader).Endpoints, 3)
		}
		{ // the gateway of a follower
			follower.until("the link is known", func(v *state.State) bool { return len(v.Links()) == 1 })
			l := *child.linkTo(leader)
			l.Endpoints = []string{follower.Addresses().Gateway}
			d, err := child.peers.Decision(t.Context(), &l, "hold-1")
			require.NoError(t, err, "only the leader may answer it")
			assert.Equal(t, api.DecisionAbort, d)
		}
		{ // a zone is who its certificate says
			other.isBelow(leader)
			for _, r := range zone { // a child may not do what a parent may, whoever it says it is
				r.until("both links are known", func(v *state.State) bool { return len(v.Links()) == 2 })
				status, said := over(t, other.toZone(other.linkTo(leader), api.ALPNHTTP), r.Addresses().Gateway,
					http.MethodGet, "/zones/changes?after=0&wait=0s", nil, forged(doorAPI, leader))
				assert.Equal(t, http.StatusForbidden, status, said)
			}
		}
		{ // another node's leader
			addr, self := follower.leaderAgentAddr()
			assert.Equal(t, leader.Addresses().Agent, addr)
			assert.False(t, self)
			_, self = leader.leaderAgentAddr()
			assert.True(t, self)
		}
	})
}

// roundTrip is an http.RoundTripper.
type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// losesTheLeader passes calls on that get no answer. Only of one that was not sent
// is it said that nothing was changed; and one whose body came too slowly has lost nobody.
func (r *running) losesTheLeader(t *world) {
	t.Helper()
	closed := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}}
	hangsUp := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer func() { _ = there.Close() }()
			_, _ = http.ReadRequest(bufio.NewReader(there)) // it is lost while it works on it
		}()
		return here, nil
	}}
	defer hangsUp.CloseIdleConnections()
	// What was sent over a connection that was open for long may have arrived, and the
	// transport sends it once more.
	again := roundTrip(func(req *http.Request) (*http.Response, error) {
		if res, err := hangsUp.RoundTrip(req); err == nil {
			return res, nil
		}
		return closed.RoundTrip(req)
	})
	slow := roundTrip(func(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("write: %w", errSlowBody) })
	for want, way := range map[api.Code][]http.RoundTripper{api.CodeUnavailable: {closed}, api.CodeTimeout: {hangsUp, again}, api.CodeSlow: {slow}} {
		for _, one := range way {
			h, rec := wire.WithRequestID(r.forwardOver(one, doorAPI)), httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/servers/i-1", nil))
			var said api.ErrorBody
			require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &said), rec.Body)
			assert.Equal(t, want, said.Error.Code, said.Error.Message)
			assert.Equal(t, want.HTTPStatus(), rec.Code)
		}
	}
}

// showsMoreThanItHas passes an answer on that its view does not have yet. Until it has it,
// the leader answers all that this node is asked.
func (r *running) showsMoreThanItHas(t *world, leader *running) {
	t.Helper()
	own := 0
	h := r.requireCurrent(doorAPI, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { own++ }))
	ask := func(ctx context.Context, h http.Handler) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
	}
	ask(t.Context(), h)
	require.Equal(t, 1, own, "it answers from its view")

	// Its leader is lost while the answer waits for the view.
	ctx, lost := context.WithCancel(t.Context())
	const ahead = 20
	index := r.view().Index() + ahead
	ask(ctx, wire.WithRequestID(r.forwardOver(roundTrip(func(req *http.Request) (*http.Response, error) {
		lost()
		head := http.Header{api.HeaderIndex: {strconv.FormatUint(index, 10)}}
		return &http.Response{StatusCode: http.StatusOK, Header: head, Body: http.NoBody, Request: req}, nil
	}), doorAPI)))
	ask(t.Context(), h)
	if r.view().Index() < index {
		assert.Equal(t, 1, own, "its view is older than what it has shown")
	}

	for i := range ahead {
		leader.offers(fmt.Sprint("newer-", i))
	}
	r.until("the view has it", func(v *state.State) bool { return v.Index() >= index })
	ask(t.Context(), h)
	assert.Equal(t, 2, own)
}

// TestANodeThatHasJustStartedKnowsNothing: one of three, alone after all were
// stopped, has not heard what was agreed on and answers nothing.
func TestANodeThatHasJustStartedKnowsNothing(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		zone := threeNodes(t, "p")
		for _, r := range zone {
			require.NoError(t, r.stop())
		}
		alone := zone[1].home.start()
		status, said := alone.answers(call{method: http.MethodGet, path: "/"})
		assert.Equal(t, http.StatusServiceUnavailable, status, said)
	})
}

// TestNodesAloneUseTheHeaders: what they are for works on the node listener, and
// a door that does not exist is refused.
func TestNodesAloneUseTheHeaders(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r := newZone(t, "a").run()
		conf := r.dialAs(r.joined("node-2").credentials(), identity.RoleNode, api.ALPNHTTP)
		for door, want := range map[string]int{doorAPI: http.StatusUnauthorized, doorGateway: http.StatusNotFound, "x": http.StatusNotFound, "": http.StatusNotFound} {
			status, said := over(t, conf, r.Addresses().Node, http.MethodGet, "/operator/members", nil, map[string]string{headerDoor: door})
			assert.Equal(t, want, status, "%s: %s", door, said)
		}
	})
}

func TestOutsideDropsTheHeaders(t *testing.T) {
	t.Parallel()
	h := stripNodeHeaders(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Empty(t, r.Header.Values(headerDoor))
		assert.Empty(t, r.Header.Values(headerPeer))
		assert.Equal(t, "x", r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusNoContent)
	}))
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	req.Header = http.Header{headerDoor: {"a", "b"}, headerPeer: {"c"}, "Authorization": {"x"}}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	assert.Equal(t, http.StatusNoContent, rec.Code)
}

func TestPeerFrom(t *testing.T) {
	t.Parallel()
	pin := identity.PinOf([]byte("x"))
	p := peerFrom("z/" + hex.EncodeToString(pin[:]))
	assert.Equal(t, api.ZoneID("z"), p.Zone)
	assert.Equal(t, pin, p.pin)
	for _, bad := range []string{"", "z", "z/", "z/00", "z/x", "z/" + hex.EncodeToString(pin[:]) + "00"} {
		assert.Zero(t, peerFrom(bad).pin, bad)
	}
}

// TestANodeWithoutALeaderTrustsNoTokenForEver: for a while it answers from its view, and then it
// does not know who is still a caller.
func TestANodeWithoutALeaderTrustsNoTokenForEver(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r := newZone(t, "cut").run()
		assert.Less(t, r.cutOff(), door.TrustMax)
		r.stop()
		ask := func(since time.Duration) int {
			at := r.now().Add(-since)
			r.heard.Store(&at)
			rec, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/servers", nil)
			req.Header.Set("Authorization", "Bearer "+r.home.token)
			r.api.ServeHTTP(rec, req)
			return rec.Code
		}
		assert.Equal(t, http.StatusOK, ask(door.TrustMax-time.Minute))
		assert.Equal(t, http.StatusServiceUnavailable, ask(door.TrustMax+time.Minute))
		r.noteLed()
		assert.Less(t, r.cutOff(), door.TrustMax, "it hears of a leader again")
	})
}
