package leak

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"berth/agent"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/api/client"
	"berth/buildplan/seal"
	"berth/identity"
	"berth/internal/await"
	"berth/node"
	"berth/raftstore"
	"berth/raftstore/command"
)

// TestMain looks for goroutines that are left over. A probe of the gossip library waits out its interval, though its pool has ended.
func TestMain(m *testing.M) { goleak.VerifyTestMain(resting{m}, probing) }

var probing = goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode")

// resting gives goroutines the time to end that they need after the tests.
type resting struct{ tests *testing.M }

// Run implements goleak.TestingM.
func (r resting) Run() int {
	code := r.tests.Run()
	_ = await.Wait(context.Background(), func(context.Context) error { return goleak.Find(probing) }) // what is left then is told
	return code
}

// world is a line of zones in this process, each below the one before, whose
// gateways are real and are recorded.
type world struct {
	t    *testing.T
	ctx  context.Context //nolint:containedctx // the life of the world
	stop context.CancelFunc
	wg   sync.WaitGroup

	timing raftstore.Timing // of the nodes that run from now on; zero for that of the product
}

// patient is the timing of nodes that share a busy machine: none is deposed because it stood still.
var patient = raftstore.Timing{Heartbeat: 3 * time.Second, Election: 3 * time.Second, LeaderLease: 2 * time.Second, Commit: 50 * time.Millisecond}

// place is one zone: a node, an agent, and what leaves it.
type place struct {
	w     *world
	name  string
	dir   string
	token string
	node  *node.Node
	stop  func() // ends it
	tap   *recorder
	own   []Canary // noted while it was there: see noteOwn
}

// wrong is what drivers say of instances whose name says that they are doomed.
const wrong = "disk /dev/canary-7 of rack 12 is worn out"

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := &world{t: t, ctx: ctx, stop: stop}
	t.Cleanup(w.end)
	return w
}

func (w *world) end() {
	w.stop()
	w.wg.Wait()
}

// zone starts a zone below parent, which may be nil. Every inner listener has an
// address of its own, so that each can be looked for.
func (w *world) zone(name string, parent *place, hosts int) *place {
	w.t.Helper()
	p := &place{w: w, name: name, dir: w.t.TempDir(), tap: &recorder{dir: w.t.TempDir()}}
	token, err := node.Init(node.InitOptions{
		Dir: p.dir, Name: name, Node: api.NodeID(name + "-canary-node"), Now: time.Now(), Placement: node.Placement{Listen: apart},
	})
	require.NoError(w.t, err)
	p.token = token
	p.run()
	_, err = p.node.Zone().Propose(w.ctx, command.FlavorPut{Stamp: p.node.Zone().Stamp(), Flavor: api.Flavor{
		ID: "small", Name: "small", Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 512},
	}})
	require.NoError(w.t, err)
	if parent != nil {
		token, err := parent.node.Federation().LinkToken(w.ctx, name, 0, 1)
		require.NoError(w.t, err)
		_, err = p.node.Federation().Link(w.ctx, token, "parent")
		require.NoError(w.t, err)
	}
	if hosts > 0 {
		p.serve(hosts)
	}
	return p
}

// apart are listeners with an address each; the gateway's is the one that others see.
var apart = node.Addresses{
	Gateway: "127.0.0.1:0", API: "127.0.77.2:0", Node: "127.0.77.3:0", Agent: "127.0.77.4:0", Admin: "127.0.77.5:0",
}

// run runs the node of p's directory.
func (p *place) run() {
	w := p.w
	w.t.Helper()
	n, err := node.Open(node.Options{
		Dir: p.dir, Plain: true, Log: slog.New(slog.DiscardHandler), Now: time.Now, Tap: p.tap.tap, Timing: w.timing,
		Fatal: func(err error) { assert.NoError(w.t, err) },
	})
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(w.ctx)
	done := make(chan struct{})
	w.wg.Go(func() {
		defer close(done)
		assert.NoError(w.t, n.Run(ctx))
	})
	p.node, p.stop = n, func() { stop(); <-done }
	require.NoError(w.t, n.Ready(w.ctx))
}

// joined adds a node to the zone and returns the zone as seen from there.
func (p *place) joined(n int) *place {
	t := p.w.t
	t.Helper()
	q := &place{w: p.w, name: p.name, dir: t.TempDir(), token: p.token, tap: p.tap}
	token, err := p.node.Federation().JoinToken(t.Context(), api.JoinNode, fmt.Sprintf("%s-canary-node-%d", p.name, n), time.Minute)
	require.NoError(t, err)
	require.NoError(t, node.JoinNode(t.Context(), node.JoinOptions{Dir: q.dir, Token: token, Placement: node.Placement{Listen: apart}, Plain: true, Now: time.Now}))
	q.run()
	return q
}

// serve runs an agent with so many hosts, and waits until they are up.
func (p *place) serve(hosts int) {
	p.w.t.Helper()
	p.serveAs(p.name+"-canary-agent", p.name+"-canary-host", hosts)
}

// serveAs runs an agent of a name with so many more hosts, and waits until they are up.
func (p *place) serveAs(name, prefix string, hosts int) {
	p.w.t.Helper()
	p.serveKind(name, prefix, hosts, slotsPerHost, nil)
}

// serveKind is serveAs for hosts with so many processors each, and with ids by their number; nil for any.
func (p *place) serveKind(name, prefix string, hosts int, cpus int64, ids func(n int) api.HostID) {
	p.w.t.Helper()
	t, ctx := p.w.t, p.w.ctx
	dir := t.TempDir()
	all := len(p.node.Store().View().AllHosts()) + hosts
	token, err := p.node.Federation().JoinToken(ctx, api.JoinAgent, name, time.Minute)
	require.NoError(t, err)
	p.own = append(p.own, Canary{Kind: "directory of an agent", Text: dir})
	_, err = node.JoinAgent(ctx, node.JoinOptions{Dir: dir, Token: token, Plain: true, Now: time.Now})
	require.NoError(t, err)
	home, wallet, err := node.LoadAgent(dir)
	require.NoError(t, err)
	drv := printing{fake.New(fake.Options{FailStart: func(_ api.HostID, w api.Workload) error {
		if strings.HasPrefix(w.Name, "doomed") {
			return errors.New(wrong)
		}
		return nil
	}})}
	var list []agent.Host
	for _, h := range agent.FakeHosts(prefix, hosts, agent.Inventory{api.VCPU: {Total: cpus}, api.MemoryMB: {Total: 8192}, api.DiskGB: {Total: 64}}) {
		list = append(list, agent.Host{AgentHost: h, Driver: drv})
		if ids != nil { // the agent finds it registered
			p.propose(command.HostsPut{Stamp: p.node.Zone().Stamp(), Agent: home.Agent, Hosts: []command.HostEntry{{ID: ids(len(list)), Host: h}}})
		}
	}
	a, err := agent.New(agent.Config{
		Addresses: home.Addresses, Hosts: list, Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Float64,
		TLS: identity.ClientTLS(wallet.Of(identity.RoleAgent), api.ALPNHTTP, wallet.Pins,
			identity.Subject{Zone: home.Zone, Role: identity.RoleNode}, time.Now),
	})
	require.NoError(t, err)
	p.w.wg.Go(func() { assert.NoError(t, errors.Join(ignoreEnd(a.Run(ctx)), a.Close())) })
	up := func() bool {
		for _, h := range p.node.Store().View().AllHosts() {
			if h.State != api.HostUp {
				return false
			}
		}
		return len(p.node.Store().View().AllHosts()) == all
	}
	await.True(t, "the hosts of "+name+" are up", up)
}

func ignoreEnd(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// client calls the zone as its admin.
func (p *place) client() *client.Client {
	p.w.t.Helper()
	c, err := client.New(client.Config{Addr: "http://" + p.node.Addresses().API, Token: p.token, Timeout: await.Limit})
	require.NoError(p.w.t, err)
	p.w.t.Cleanup(c.Close)
	return c
}

// canaries returns what must not leave the zone.
func (p *place) canaries() []Canary {
	t := p.w.t
	t.Helper()
	v := p.node.Store().View()
	out, err := OfState(v)
	require.NoError(t, err)
	a := p.node.Addresses()
	more, err := addressCanaries("admin address", []string{a.Admin}, []string{a.Gateway})
	require.NoError(t, err)
	out = append(append(out, more...), p.own...)
	for _, w := range p.words() {
		out = append(out, Canary{Kind: "name of a lease", Text: w})
	}
	out = append(out, Canary{Kind: "driver's words", Text: wrong}, Canary{Kind: "directory", Text: p.dir})
	_, secret, found := strings.Cut(strings.TrimPrefix(p.token, "berth_"), "_")
	require.True(t, found)
	out = append(out, Canary{Kind: "token", Text: secret})
	out = append(out, Key("token's hash", v.Tokens()[0].Hash)...)
	kek, err := os.ReadFile(filepath.Join(p.dir, "kek"))
	require.NoError(t, err)
	out = append(out, Key("key-encryption key", kek)...)
	open := func(label string, wrapped []byte) []byte {
		b, err := seal.Unwrap([32]byte(kek), label, wrapped)
		require.NoError(t, err)
		return b
	}
	for _, e := range v.Epochs {
		out = append(out, Key("sealing key", open("berth/epoch", e.Wrapped)[seal.EpochBytes:])...)
		out = append(out, Key("wrapped sealing key", e.Wrapped)...)
	}
	ca, err := privateKeyCanaries("authority's key", open("berth/ca-key", v.CAKey))
	require.NoError(t, err)
	return append(out, ca...)
}

// recorder writes what leaves a zone to files.
type recorder struct {
	dir  string
	next atomic.Int64
}

func (r *recorder) tap(at node.Crossing, c net.Conn) net.Conn {
	n := r.next.Add(1)
	f, err := os.Create(filepath.Join(r.dir, fmt.Sprintf("%04d-out-%s.bin", n, strings.ReplaceAll(labelOf(at), "/", "_"))))
	if err == nil {
		err = os.WriteFile(filepath.Join(r.dir, fmt.Sprintf("%04d-cert.der", n)), join(at.Chain), 0o600)
	}
	if err != nil {
		panic(err)
	}
	return &kept{Conn: c, file: f}
}

func join(chain [][]byte) []byte {
	var out []byte
	for _, der := range chain {
		out = append(out, der...)
	}
	return out
}

type kept struct {
	net.Conn
	file *os.File
}

func (k *kept) Write(p []byte) (int, error) {
	if _, err := k.file.Write(p); err != nil && !errors.Is(err, os.ErrClosed) {
		panic(err)
	}
	return k.Conn.Write(p)
}

func (k *kept) Close() error {
	_ = k.file.Close() // a second Close fails, and every byte is written
	return k.Conn.Close()
}

// caller makes calls to the gateway of a zone as its parent does.
type caller struct {
	http *http.Client
	base string
}

// door returns a caller of the gateway of a zone with the certificate of another.
func (p *place) door(from *place, alpn string) *caller {
	t := p.w.t
	t.Helper()
	creds, err := identity.LoadDir(from.dir, identity.RoleGateway)
	require.NoError(t, err)
	v := p.node.Store().View()
	conf := identity.ClientTLS(func() *identity.Credentials { return creds }, alpn, identity.PinTo(v.CA),
		identity.Subject{Zone: v.Zone, Role: identity.RoleGateway}, time.Now)
	tr := &http.Transport{DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return shake(ctx, c, conf)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &caller{&http.Client{Transport: tr, Timeout: await.Limit}, "https://" + p.node.Addresses().Gateway}
}
