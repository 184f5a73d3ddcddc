package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"berth/api"
	"berth/buildplan/seal"
	"berth/identity"
	"berth/internal/codec"
	"berth/raftstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// TestMain lets many tests run at once, also on a small machine: they wait for
// elections and farewells most of the time. A probe of the gossip library waits out its
// interval, though its pool has ended.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

// patience bounds every wait of these tests; none is meant to come near it.
const patience = 30 * time.Second

var (
	quiet = slog.New(slog.DiscardHandler)
	keyA  = bytes.Repeat([]byte("a"), 32)
	keyB  = bytes.Repeat([]byte("b"), 32)
)

func anyPorts() Addresses {
	const any0 = "127.0.0.1:0"
	return Addresses{API: any0, Gateway: any0, Node: any0, Agent: any0, Admin: any0}
}

// clock is the real one, set forward by as much as a test wants.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time              { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) setForward(by time.Duration) { c.ahead.Add(int64(by)) }

// home is the data directory of a node, and how the node is to run.
type home struct {
	t     testing.TB
	opts  Options
	clock *clock
	token string // of the zone's admin; "" for nodes that joined
}

func homeIn(tb testing.TB, dir string) *home {
	tb.Helper()
	c := &clock{}
	return &home{t: tb, clock: c, opts: Options{Dir: dir, Version: "test", Plain: true, Log: quiet, Now: c.now}}
}

// newZone makes the first node of a zone. A zone of one node may elect fast.
func newZone(tb testing.TB, name string, change ...func(*InitOptions)) *home {
	tb.Helper()
	h := homeIn(tb, filepath.Join(tb.TempDir(), name))
	h.opts.Timing = raftstore.Timing{
		Heartbeat: 100 * time.Millisecond, Election: 100 * time.Millisecond,
		LeaderLease: 80 * time.Millisecond, Commit: 20 * time.Millisecond,
	}
	o := InitOptions{Dir: h.opts.Dir, Name: name, Placement: Placement{Listen: anyPorts()}, Now: time.Now()}
	for _, f := range change {
		f(&o)
	}
	var err error
	h.token, err = Init(o)
	require.NoError(tb, err)
	h.opts.PlanKey, h.opts.DiskKey = o.PlanKey, o.DiskKey
	return h
}

func withPlanKey(k []byte) func(*InitOptions) { return func(o *InitOptions) { o.PlanKey = k } }

func (h *home) path(name string) string { return filepath.Join(h.opts.Dir, name) }

// refusedToOpen opens the node and expects that it cannot be.
func (h *home) refusedToOpen() error {
	h.t.Helper()
	_, err := h.open()
	require.Error(h.t, err)
	return err
}

// running is a node that serves until it is stopped or the test ends.
type running struct {
	*Node
	authority
	t     testing.TB
	home  *home
	ended <-chan error
	stop  func() error // a second call returns the same
}

// portPause is between two tries to get a port back.
const portPause = 50 * time.Millisecond

// open opens the node. A node that is started again listens where it did before,
// and meanwhile a port may have gone to a connection of another process: then it
// waits until the port is free.
func (h *home) open() (*Node, error) {
	late := time.After(patience)
	for {
		n, err := Open(h.opts)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return n, err
		}
		select {
		case <-late:
			return n, err
		case <-time.After(portPause):
		}
	}
}

// start runs the node and waits for nothing.
func (h *home) start() *running {
	h.t.Helper()
	n, err := h.open()
	require.NoError(h.t, err)
	ctx, cancel := context.WithCancel(h.t.Context()) // all nodes of a test end at once
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	r := &running{Node: n, authority: authority{n.federation, n}, t: h.t, home: h, ended: ended}
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	h.t.Cleanup(func() { _ = r.stop() }) // the test looks at what it cares for
	return r
}

// run starts the node and waits until it is part of a zone that has a leader.
func (h *home) run() *running {
	h.t.Helper()
	r := h.start()
	r.becomesReady()
	return r
}

func (r *running) becomesReady() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	require.NoError(r.t, r.Ready(ctx))
}

// again stops the node and runs it once more from its directory.
func (r *running) again() *running {
	r.t.Helper()
	require.NoError(r.t, r.stop())
	return r.home.run()
}

// until waits for a state of the zone on this node.
func (r *running) until(what string, is func(*state.State) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for v := r.view(); !is(v); {
		next, err := r.store.Wait(ctx, v.Index())
		require.NoError(r.t, err, what)
		v = next
	}
}

// adopt joins a further node to the zone and runs it.
func (r *running) adopt(id api.NodeID) *running {
	r.t.Helper()
	h := r.joined(id)
	n := h.run()
	r.until("the zone knows "+string(id), func(v *state.State) bool {
		_, ok := v.Node(id)
		return ok
	})
	return n
}

// joined makes the directory of a further node of the zone.
func (r *running) joined(id api.NodeID) *home {
	r.t.Helper()
	token := r.joinToken(api.JoinNode, string(id))
	h := homeIn(r.t, filepath.Join(r.t.TempDir(), string(id)))
	h.opts.Plain, h.token, h.opts.Timing = r.opts.Plain, r.home.token, r.opts.Timing
	require.NoError(r.t, JoinNode(r.t.Context(), JoinOptions{
		Dir: h.opts.Dir, Token: token, Placement: Placement{Listen: anyPorts()}, Plain: r.opts.Plain, Now: time.Now,
	}))
	return h
}

func (r *running) joinToken(kind api.JoinKind, name string) string {
	r.t.Helper()
	token, err := r.JoinToken(r.t.Context(), kind, name, time.Minute)
	require.NoError(r.t, err)
	return token
}

// joinedAgent makes the directory of an agent of the zone.
func (r *running) joinedAgent(id string) string {
	r.t.Helper()
	dir := filepath.Join(r.t.TempDir(), id)
	_, err := JoinAgent(r.t.Context(), JoinOptions{
		Dir: dir, Token: r.joinToken(api.JoinAgent, id), Plain: r.opts.Plain, Now: time.Now,
	})
	require.NoError(r.t, err)
	return dir
}

// patient is the timing of nodes that share a busy machine.
var patient = raftstore.Timing{
	Heartbeat: 1500 * time.Millisecond, Election: 1500 * time.Millisecond, LeaderLease: time.Second, Commit: 50 * time.Millisecond,
}

// threeNodes runs a zone of three, the leader first.
func threeNodes(tb testing.TB, name string) []*running {
	tb.Helper()
	h := newZone(tb, name)
	h.opts.Timing = patient // a busy machine must not depose anybody
	first := h.run()
	return []*running{first, first.adopt("node-2"), first.adopt("node-3")}
}

func (r *running) propose(c command.Command) {
	r.t.Helper()
	_, err := r.zone.Propose(r.t.Context(), c)
	require.NoError(r.t, err)
}

func (r *running) offers(flavor string) {
	r.t.Helper()
	r.propose(command.FlavorPut{Stamp: r.zone.Stamp(), Flavor: api.Flavor{
		ID: api.FlavorID(flavor), Name: flavor, Resources: api.Resources{api.VCPU: 1},
	}})
}

// call is one request to the node's public API.
type call struct {
	method, path, body string
	token              string
	header             map[string]string
}

// answers makes a call over a connection of its own.
func (r *running) answers(c call) (status int, said string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), c.method, "http://"+r.Addresses().API+c.path, strings.NewReader(c.body))
	require.NoError(r.t, err)
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	return do(r.t, http.DefaultTransport, req)
}

func do(tb testing.TB, rt http.RoundTripper, req *http.Request) (status int, said string) {
	tb.Helper()
	req.Close = true
	res, err := rt.RoundTrip(req)
	require.NoError(tb, err)
	b, err := io.ReadAll(res.Body)
	require.NoError(tb, err)
	require.NoError(tb, res.Body.Close())
	return res.StatusCode, string(b)
}

// over makes one call over a TLS configuration. A body that is no text is sent as CBOR.
func over(tb testing.TB, conf *tls.Config, addr, method, path string, body any, header map[string]string) (status int, said string) {
	tb.Helper()
	b, err := codec.Marshal(body)
	require.NoError(tb, err)
	req, err := http.NewRequestWithContext(tb.Context(), method, "https://"+addr+path, bytes.NewReader(b))
	require.NoError(tb, err)
	req.Header.Set("Content-Type", api.MediaCBOR)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	rt := &http.Transport{DialTLSContext: dialTLS(tcp{}, conf)}
	defer rt.CloseIdleConnections()
	return do(tb, rt, req)
}

// certified has the zone issue a certificate for a key of the test's.
func (r *running) certified(role identity.Role, id string) *identity.Credentials {
	r.t.Helper()
	der, err := seal.Unwrap(r.keys.KEKs()[0], "berth/ca-key", r.view().CAKey)
	require.NoError(r.t, err)
	ca, err := identity.LoadCA(r.view().CA, der)
	require.NoError(r.t, err)
	key, err := identity.NewKey()
	require.NoError(r.t, err)
	der, err = ca.Issue(identity.Subject{Zone: ca.Zone(), Role: role, ID: id}, key.Public(), time.Now(), identity.LeafTTL)
	require.NoError(r.t, err)
	c, err := identity.NewCredentials(key, der, ca.CertDER())
	require.NoError(r.t, err)
	return c
}

// dialAs is how somebody with c dials a listener of this node.
func (r *running) dialAs(c *identity.Credentials, role identity.Role, alpn string) *tls.Config {
	return identity.ClientTLS(func() *identity.Credentials { return c }, alpn, r.wallet.Pins,
		identity.Subject{Zone: r.rec.Zone, Role: role}, time.Now)
}

// hangsUp expects that the other end closes a connection on which it is only
// listened to.
func hangsUp(tb testing.TB, c net.Conn) {
	tb.Helper()
	require.NoError(tb, c.SetReadDeadline(time.Now().Add(patience)))
	_, err := io.Copy(io.Discard, c)
	assert.NotErrorIs(tb, err, os.ErrDeadlineExceeded)
}

func refusedAs(tb testing.TB, want api.Code, err error) {
	tb.Helper()
	require.Error(tb, err)
	assert.Equal(tb, want, api.CodeOf(err), "%v", err)
}

// files returns the names and modes of what is in a directory.
func files(tb testing.TB, dir string) map[string]os.FileMode {
	tb.Helper()
	out := map[string]os.FileMode{}
	es, err := os.ReadDir(dir)
	require.NoError(tb, err)
	for _, e := range es {
		info, err := e.Info()
		require.NoError(tb, err)
		out[e.Name()] = info.Mode()
	}
	return out
}
