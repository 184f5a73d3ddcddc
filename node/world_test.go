package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
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
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"berth/api"
	"berth/buildplan/seal"
	"berth/cluster-test/simnet"
	"berth/identity"
	"berth/internal/await"
	"berth/internal/codec"
	"berth/raftstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	quiet = slog.New(slog.DiscardHandler)
	keyA  = bytes.Repeat([]byte("a"), 32)
	keyB  = bytes.Repeat([]byte("b"), 32)
)

// world is the network and the time of one test.
type world struct {
	testing.TB
	net  Network
	http *http.Transport // of callers of public APIs

	virtual bool
}

// farewell is longer than any timer that may be left when the nodes of a test have ended.
const farewell = 2 * time.Minute

// virtually runs a test in a bubble, over a network in memory: its time passes while all wait, and only then. What a
// test leaves running or open fails it. It has no subtests.
func virtually(t *testing.T, test func(t *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simnet.Loopback{Network: simnet.New(1)})
		w.virtual = true
		t.Cleanup(func() { await.Sleep(farewell) })
		t.Cleanup(w.http.CloseIdleConnections)
		test(w)
	})
}

// really returns the network and the time of this machine, for what only they can show. Wait for events in it, with await.
func really(tb testing.TB) *world {
	tb.Helper()
	w := newWorld(tb, tcp{})
	tb.Cleanup(w.http.CloseIdleConnections)
	return w
}

func newWorld(tb testing.TB, n Network) *world {
	tb.Helper()
	w := &world{TB: tb, net: n}
	w.http = &http.Transport{DialContext: w.dial}
	return w
}

func (w *world) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	return w.net.Dial(ctx, addr)
}

func anyPorts() Addresses {
	const any0 = "127.0.0.1:0"
	return Addresses{API: any0, Gateway: any0, Node: any0, Agent: any0, Admin: any0}
}

// clock is that of a world, set forward by as much as a test wants.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time              { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) setForward(by time.Duration) { c.ahead.Add(int64(by)) }

// home is the data directory of a node, and how the node is to run.
type home struct {
	t     *world
	opts  Options
	clock *clock
	token string // of the zone's admin; "" for nodes that joined
}

// patient is the timing of nodes that share a busy machine: nobody is deposed because it stood still.
var patient = raftstore.Timing{
	Heartbeat: 1500 * time.Millisecond, Election: 1500 * time.Millisecond, LeaderLease: time.Second, Commit: 50 * time.Millisecond,
}

// homeIn returns a node that keeps all that it replicates in memory, if time is virtual; see onDisk.
func homeIn(w *world, dir string) *home {
	w.Helper()
	c := &clock{}
	h := &home{t: w, clock: c, opts: Options{Dir: dir, Version: "test", Plain: true, Log: quiet, Now: c.now, Timing: patient}}
	if w.virtual {
		h.opts.Net, h.opts.Memory = w.net, raftstore.NewMemory()
	}
	return h
}

// onDisk makes a node that has not run keep what it replicates in files.
func (h *home) onDisk() *home {
	h.opts.Memory = nil
	return h
}

// newZone makes the first node of a zone.
func newZone(w *world, name string, change ...func(*InitOptions)) *home {
	w.Helper()
	h := homeIn(w, filepath.Join(w.TempDir(), name))
	o := InitOptions{Dir: h.opts.Dir, Name: name, Placement: Placement{Listen: anyPorts()}, Now: time.Now()}
	for _, f := range change {
		f(&o)
	}
	var err error
	h.token, err = Init(o)
	require.NoError(w, err)
	h.opts.PlanKey, h.opts.DiskKey = o.PlanKey, o.DiskKey
	if o.DiskKey != nil {
		h.onDisk()
	}
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
	t     *world
	home  *home
	ended <-chan error
	stop  func() error // a second call returns the same
}

// open opens the node. A node that is started again listens where it did before, and on a real network a port may
// have gone to a connection of another process meanwhile: then it waits until the port is free.
func (h *home) open() (n *Node, err error) {
	h.t.Helper()
	_ = await.Wait(h.t.Context(), func(context.Context) error { // the error of the last try is returned
		if n, err = Open(h.opts); errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		return nil
	})
	return n, err
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
	await.Until(r.t, "the node is ready", r.Ready)
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
	await.True(r.t, what, func() bool { return is(r.view()) })
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
	if r.opts.Memory == nil {
		h.onDisk()
	}
	require.NoError(r.t, JoinNode(r.t.Context(), JoinOptions{
		Dir: h.opts.Dir, Token: token, Placement: Placement{Listen: anyPorts()}, Plain: r.opts.Plain, Now: time.Now, Net: r.t.net,
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
		Dir: dir, Token: r.joinToken(api.JoinAgent, id), Plain: r.opts.Plain, Now: time.Now, Net: r.t.net,
	})
	require.NoError(r.t, err)
	return dir
}

// threeNodes runs a zone of three, the leader first.
func threeNodes(w *world, name string) []*running {
	w.Helper()
	first := newZone(w, name).run()
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
	return do(r.t, r.t.http, req)
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
func over(w *world, conf *tls.Config, addr, method, path string, body any, header map[string]string) (status int, said string) {
	w.Helper()
	b, err := codec.Marshal(body)
	require.NoError(w, err)
	req, err := http.NewRequestWithContext(w.Context(), method, "https://"+addr+path, bytes.NewReader(b))
	require.NoError(w, err)
	req.Header.Set("Content-Type", api.MediaCBOR)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	rt := &http.Transport{DialTLSContext: dialTLS(w.net, conf)}
	defer rt.CloseIdleConnections()
	return do(w, rt, req)
}

// credentials returns the certificate with which the node has joined.
func (h *home) credentials() *identity.Credentials {
	h.t.Helper()
	c, err := identity.LoadDir(h.opts.Dir, identity.RoleNode)
	require.NoError(h.t, err)
	return c
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

// hangsUp expects that the other end closes a connection on which it is only listened to.
func hangsUp(tb testing.TB, c net.Conn) {
	tb.Helper()
	require.NoError(tb, c.SetReadDeadline(time.Now().Add(await.Limit)))
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
