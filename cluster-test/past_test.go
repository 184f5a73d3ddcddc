package clustertest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
	"berth/identity"
	"berth/internal/await"
	"berth/internal/dice"
)

// How much TestDeleteAtALeaderThatStoodStill asks for.
const (
	stoodServers = 24
	stoodTimeout = 20 * time.Second // for an answer of the node that stood still: it may give none
)

// stood are a root, and west, of three, whose leader stands still and goes on later.
type stood struct {
	*testing.T
	root, west *lab.Zone
	here       *identity.Credentials // of the root's gateway
	there      *identity.Credentials // of west's
	user       *client.Client
}

// TestDeleteAtALeaderThatStoodStill lets the leader of a child stand still until
// another one leads and has servers that the first has never heard of. Their deletes
// wait in its sockets when it goes on. It may not tell that there are no such servers,
// and what it confirms must end.
func TestDeleteAtALeaderThatStoodStill(t *testing.T) {
	t.Parallel()
	w := lab.New(t, lab.Options{Quick: true})
	s := &stood{T: t, root: w.Zone("root", 1), west: w.Zone("west", 3)}
	s.root.Link(s.west)
	s.root.Flavor("unit", unitMB)
	s.west.FakeAgent("fake", 1, 6*stoodServers*unitMB)
	s.user = s.root.Nodes[0].Client(s.root.MemberToken("web", api.RoleMember))
	var err error
	s.here, err = identity.LoadDir(s.root.Nodes[0].Dir, identity.RoleGateway)
	require.NoError(t, err)
	s.there, err = identity.LoadDir(s.west.Nodes[0].Dir, identity.RoleGateway)
	require.NoError(t, err)
	answers := 0
	for _, n := range dice.Part(t, []int{1, 2, 3}, 1) { // in one of two or so it still believes to lead when it reads the first calls
		answers += s.round(fmt.Sprintf("r-%d", n))
	}
	t.Logf("%d answers of %d in each round", answers, stoodServers)
	w.Audit()
}

// round lets the leader stand still once. It returns how many deletes were answered.
func (s *stood) round(id string) int {
	old := s.west.Leader()
	var warm []*tls.Conn
	for range stoodServers {
		warm = append(warm, s.dial(old))
	}
	old.Pause()
	defer old.Resume()
	s.succeed(old)
	servers := s.boot(id)
	for i, c := range warm {
		require.NoError(s, ask(c, http.MethodDelete, "/servers/"+string(servers[i].ID)))
	}
	old.Resume()
	ended, answers := s.hear(warm, servers)
	s.seeEnd("what the old leader confirmed", ended)
	ended = nil
	for _, srv := range servers {
		if err := s.user.DeleteServer(s.Context(), srv.ID); api.CodeOf(err) != api.CodeNotFound { // it ended above
			require.NoError(s, err)
		}
		ended = append(ended, srv.ID)
	}
	s.seeEnd("what the user deleted", ended)
	return answers
}

// succeed waits until another node of west leads.
func (s *stood) succeed(old *lab.NodeProc) {
	others := slices.DeleteFunc(slices.Clone(s.west.Nodes), func(n *lab.NodeProc) bool { return n == old })
	await.Until(s.T, "another node leads", func(ctx context.Context) error {
		now, err := s.west.AskLeader(ctx, others...)
		if err == nil && now == old {
			return fmt.Errorf("it is %s still", now.ID)
		}
		return err
	})
}

// hear reads the answers to the deletes of servers. It returns those that were
// confirmed, and how many answers there were.
func (s *stood) hear(warm []*tls.Conn, servers []rest.Server) (ended []api.InstanceID, answers int) {
	for i, c := range warm {
		switch status := s.answer(c, stoodTimeout); status {
		case 0, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests: // nothing is said of the server
			continue
		case http.StatusNoContent:
			ended = append(ended, servers[i].ID)
		default:
			assert.Failf(s, "answer", "%s: status %d for a server that runs", servers[i].ID, status)
		}
		answers++
	}
	return ended, answers
}

// boot boots servers in west through the root, and waits until they run.
func (s *stood) boot(id string) []rest.Server {
	count := stoodServers
	_, err := s.user.Boot(s.Context(), rest.ServerCreate{Name: id, FlavorRef: "unit", MinCount: &count, MaxCount: &count, Reservation: id}, "")
	require.NoError(s, err)
	var p client.Page[rest.Server]
	await.Until(s.T, id+" runs", func(ctx context.Context) error {
		b, err := s.user.Reservation(ctx, api.ReservationID(id), time.Second)
		if err != nil || b.Instances[api.StatusActive] != count {
			return lab.OrElse(err, "it is %s: %v %s", b.State, b.Instances, b.Reason)
		}
		p, err = s.user.Servers(ctx, client.ServerQuery{Reservation: api.ReservationID(id)}, client.ListOptions{})
		if err != nil || len(p.Items) != count {
			return lab.OrElse(err, "there are %d servers", len(p.Items))
		}
		return nil
	})
	return p.Items
}

// seeEnd waits until none of these servers is left in west.
func (s *stood) seeEnd(what string, ids []api.InstanceID) {
	await.Until(s.T, what+" has ended", func(context.Context) error {
		left := map[api.InstanceID]api.Status{}
		for _, srv := range s.west.Servers() {
			left[srv.ID] = srv.Status
		}
		for _, id := range ids {
			if status := left[id]; status != "" && status != api.StatusDeleted {
				return fmt.Errorf("%s is %s", id, status)
			}
		}
		return nil
	})
}

// dial connects to a node's gateway as the root does, and makes one call.
func (s *stood) dial(n *lab.NodeProc) *tls.Conn {
	ctx, cancel := context.WithTimeout(s.Context(), await.Limit)
	defer cancel()
	get := func() *identity.Credentials { return s.here }
	want := identity.Subject{Zone: s.there.Subject.Zone, Role: identity.RoleGateway}
	raw, err := n.Zone.Dial(ctx, n.At.Gateway)
	require.NoError(s, err)
	s.Cleanup(func() { _ = raw.Close() }) // of the test itself
	c := tls.Client(raw, identity.ClientTLS(get, api.ALPNHTTP, identity.PinTo(s.there.CA.Raw), want, time.Now))
	require.NoError(s, c.HandshakeContext(ctx))
	require.NoError(s, ask(c, http.MethodGet, "/zones/info"))
	require.Equal(s, http.StatusOK, s.answer(c, await.Limit))
	return c
}

// ask sends a call that has no body.
func ask(c *tls.Conn, method, path string) error {
	_, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: zone\r\n%s: 1\r\nContent-Length: 0\r\n\r\n", method, path, api.HeaderDepth)
	return err
}

// answer returns the status of the answer on a connection, 0 if none comes in time.
func (s *stood) answer(c *tls.Conn, most time.Duration) int {
	require.NoError(s, c.SetReadDeadline(time.Now().Add(most)))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(s, errors.Join(err, res.Body.Close()))
	return res.StatusCode
}
