package rogue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"berth/agent"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/identity"
	"berth/internal/await"
	"berth/internal/turns"
	"berth/node"
	"berth/quota"
	"berth/raftstore"
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

// longPoll is how long a zone may wait with an answer to whoever waits for a boot.
const longPoll = 30 * time.Second

// Sizes of the federation.
const (
	ownHosts  = 4 // of the root, and as many of each honest child
	hostVCPUs = 64
)

// secret is in the metadata of others, and in an attribute of their hosts. No party may see it.
const secret = "canary-of-others-8c1f"

// world is a federation in this process: crown above root, and below root west, thief and cheat. Root is
// attacked: crown is a parent that misbehaves, thief and cheat are such children.
type world struct {
	t    *testing.T
	ctx  context.Context //nolint:containedctx // the life of the world
	stop context.CancelFunc
	wg   sync.WaitGroup

	timing                          raftstore.Timing // of the nodes that run from now on; zero for that of the product
	pressure                        *turns.Pressure
	crown, root, west, thief, cheat *zone

	silence  *lies           // of crown, which decides nothing
	lies     map[*zone]*lies // of the children that misbehave
	standing standing
}

// patient is the timing of nodes that share a busy machine: none is deposed because it stood still.
var patient = raftstore.Timing{Heartbeat: 3 * time.Second, Election: 3 * time.Second, LeaderLease: 2 * time.Second, Commit: 50 * time.Millisecond}

// zone is one zone: a node and its directory.
type zone struct {
	w     *world
	name  string
	dir   string
	token string // of its admin
	node  *node.Node
	stop  func() // ends the node, and waits for its end
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.TempDir() // so that all of them are removed after the nodes have ended
	ctx, stop := context.WithCancel(context.Background())
	w := &world{pressure: turns.NewPressure(time.Now), t: t, ctx: ctx, stop: stop, lies: map[*zone]*lies{}, silence: newLies()}
	t.Cleanup(func() {
		stop()
		w.wg.Wait()
	})
	w.crown, w.west = w.newZone("crown", w.silence.tap), w.newZone("west", nil)
	w.timing = patient // it has two nodes for a while
	w.root = w.newZone("root", nil)
	w.timing = raftstore.Timing{}
	w.thief, w.cheat = w.rogueZone("thief"), w.rogueZone("cheat")
	w.root.serve(ownHosts, nil)
	for _, z := range []*zone{w.west, w.thief, w.cheat} {
		z.serve(ownHosts, map[string]string{"serial": secret})
	}
	w.root.isBelow(w.crown)
	w.west.isBelow(w.root)
	w.root.askAll()
	w.standing = w.stand() // before these are there: what runs in a zone is at its mercy
	w.thief.isBelow(w.root)
	w.cheat.isBelow(w.root)
	return w
}

// rogueZone starts a zone that can be made to lie.
func (w *world) rogueZone(name string) *zone {
	w.t.Helper()
	l := newLies()
	z := w.newZone(name, l.tap)
	w.lies[z] = l
	return z
}

// askAll lets the zone ask all its children for each boot, so that the rogue one is never left out
// because others are cheaper.
func (z *zone) askAll() {
	t := z.w.t
	t.Helper()
	admin := z.client(z.token)
	conf, err := admin.Config(z.w.ctx)
	require.NoError(t, err)
	conf.Fanout.Mode = api.FanoutAll
	_, err = admin.SetConfig(z.w.ctx, conf)
	require.NoError(t, err)
}

// newZone starts a zone. tap may take over connections with other zones.
func (w *world) newZone(name string, tap node.Tap) *zone {
	t := w.t
	t.Helper()
	const any0 = "127.0.0.1:0"
	z := &zone{w: w, name: name, dir: t.TempDir()}
	token, err := node.Init(node.InitOptions{
		Dir: z.dir, Name: name, Now: time.Now(),
		Placement: node.Placement{Listen: node.Addresses{API: any0, Gateway: any0, Node: any0, Agent: any0, Admin: any0}},
	})
	require.NoError(t, err)
	z.token = token
	z.run(tap)
	_, err = z.client(token).CreateFlavor(w.ctx, rest.FlavorSpec{Name: "small", ID: "small", VCPUs: new(int64(1)), RAM: new(int64(64))})
	require.NoError(t, err)
	return z
}

// run runs the node of z's directory.
func (z *zone) run(tap node.Tap) {
	w := z.w
	w.t.Helper()
	n, err := node.Open(node.Options{
		Dir: z.dir, Plain: true, Log: slog.New(slog.DiscardHandler), Now: time.Now, Tap: tap, Share: w.pressure.Share, Timing: w.timing,
		Fatal: func(err error) { assert.NoError(w.t, err) },
	})
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(w.ctx)
	done := make(chan struct{})
	w.wg.Go(func() {
		defer close(done)
		assert.NoError(w.t, n.Run(ctx))
	})
	z.node, z.stop = n, func() { stop(); <-done }
	require.NoError(w.t, n.Ready(w.ctx))
}

func (z *zone) isBelow(parent *zone) {
	t := z.w.t
	t.Helper()
	token, err := parent.node.Federation().LinkToken(z.w.ctx, z.name, 0, 1)
	require.NoError(t, err)
	_, err = z.node.Federation().Link(z.w.ctx, token, "parent")
	require.NoError(t, err)
}

// joined makes the directory of an agent.
func (z *zone) joined(name string, terms api.AgentTerms) (*node.AgentHome, *identity.Credentials) {
	home, wallet := z.joinedWallet(name, terms)
	return home, wallet.Get(identity.RoleAgent)
}

// joinedWallet is joined for an agent that runs for long.
func (z *zone) joinedWallet(name string, terms api.AgentTerms) (*node.AgentHome, *identity.Wallet) {
	t := z.w.t
	t.Helper()
	dir := t.TempDir()
	token, err := z.node.Federation().AgentToken(z.w.ctx, name, terms, time.Minute)
	require.NoError(t, err)
	_, err = node.JoinAgent(z.w.ctx, node.JoinOptions{Dir: dir, Token: token, Plain: true, Now: time.Now})
	require.NoError(t, err)
	home, wallet, err := node.LoadAgent(dir)
	require.NoError(t, err)
	return home, wallet
}

// serve runs an honest agent with so many hosts, and waits until they are up.
func (z *zone) serve(hosts int, attributes map[string]string) {
	t, ctx := z.w.t, z.w.ctx
	t.Helper()
	home, wallet := z.joinedWallet(z.name+"-agent", api.AgentTerms{})
	drv := fake.New(fake.Options{})
	var list []agent.Host
	for _, h := range agent.FakeHosts(z.name+"-host", hosts, agent.Inventory{api.VCPU: {Total: hostVCPUs}, api.MemoryMB: {Total: 64 * hostVCPUs}}) {
		h.Attributes = attributes
		list = append(list, agent.Host{AgentHost: h, Driver: drv})
	}
	a, err := agent.New(agent.Config{
		Addresses: home.Addresses, Hosts: list, Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Float64,
		TLS: identity.ClientTLS(wallet.Of(identity.RoleAgent), api.ALPNHTTP, wallet.Pins,
			identity.Subject{Zone: home.Zone, Role: identity.RoleNode}, time.Now), Wallet: wallet,
	})
	require.NoError(t, err)
	z.w.wg.Go(func() {
		err := a.Run(ctx)
		assert.True(t, err == nil || errors.Is(err, context.Canceled), "%v", err)
		assert.NoError(t, a.Close())
	})
	await.True(t, "the hosts of "+z.name+" are up", func() bool {
		up := 0
		for _, h := range z.node.Store().View().AllHosts() {
			if h.State == api.HostUp {
				up++
			}
		}
		return up == hosts
	})
}

// agentTLS is how somebody with the certificate of an agent dials its zone.
func agentTLS(home *node.AgentHome, creds *identity.Credentials) *tls.Config {
	return identity.ClientTLS(func() *identity.Credentials { return creds }, api.ALPNHTTP, identity.PinTo(creds.CA.Raw),
		identity.Subject{Zone: home.Zone, Role: identity.RoleNode}, time.Now)
}

// client calls the zone with a token.
func (z *zone) client(token string) *client.Client {
	z.w.t.Helper()
	c, err := client.New(client.Config{Addr: "http://" + z.node.Addresses().API, Token: token, Idle: 16, Timeout: await.Limit})
	require.NoError(z.w.t, err)
	z.w.t.Cleanup(c.Close)
	return c
}

// member makes a token of a project with a role.
func (z *zone) member(project string, role api.UserRole) string {
	z.w.t.Helper()
	made, err := z.client(z.token).CreateToken(z.w.ctx, rest.TokenSpec{
		User: api.UserID(project), Project: api.ProjectID(project), Roles: []api.UserRole{role},
	})
	require.NoError(z.w.t, err)
	return made.Token
}

// allow sets quotas of a project.
func (z *zone) allow(project api.ProjectID, limits map[quota.Item]int64) {
	z.w.t.Helper()
	all := map[string]*int64{}
	for i, n := range limits {
		all[string(i)] = &n
	}
	_, err := z.client(z.token).SetQuota(z.w.ctx, project, all)
	require.NoError(z.w.t, err)
}

// size is what a zone keeps.
type size struct {
	state int64 // estimated bytes of the state in a backup
	log   int64 // bytes of the files of the node
	index uint64
}

func (z *zone) size() size {
	v := z.node.Store().View()
	out := size{state: v.SizeBytes(), index: v.Index()}
	_ = filepath.WalkDir(z.dir, func(_ string, d fs.DirEntry, err error) error { // a file that goes meanwhile is not counted
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // the file is gone
		}
		if info, err := d.Info(); err == nil {
			out.log += info.Size()
		}
		return nil
	})
	return out
}

// String says a size for people.
func (s size) String() string {
	return fmt.Sprintf("state %d KB, files %d KB, index %d", s.state>>10, s.log>>10, s.index)
}

// minus returns by how much a zone has grown.
func (s size) minus(o size) size {
	return size{s.state - o.state, s.log - o.log, s.index - o.index}
}

// from dials from an address of its own, as another machine would: connections and rates are
// counted by address.
func from(addr string) func(ctx context.Context, to string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	return func(ctx context.Context, to string) (net.Conn, error) { return d.DialContext(ctx, "tcp", to) }
}

// rogueAddr is where all attacks come from.
const rogueAddr = "127.0.66.6"

// over is a transport of a rogue to a listener with mutual TLS.
func over(conf *tls.Config) *http.Transport {
	dial := from(rogueAddr)
	return &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialTLSContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			raw, err := dial(ctx, addr)
			if err != nil {
				return nil, err
			}
			c := tls.Client(raw, conf)
			if err := c.HandshakeContext(ctx); err != nil {
				_ = raw.Close() // the handshake's error is more useful
				return nil, err
			}
			return c, nil
		},
	}
}

// plain is a transport of a rogue to the public API.
func plain() *http.Transport {
	dial := from(rogueAddr)
	return &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext:         func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) },
	}
}

// gatewayTLS is how z, with its certificate, dials the gateway of another zone.
func (z *zone) gatewayTLS(to *zone, alpn string) *tls.Config {
	z.w.t.Helper()
	creds, err := identity.LoadDir(z.dir, identity.RoleGateway)
	require.NoError(z.w.t, err)
	v := to.node.Store().View()
	return identity.ClientTLS(func() *identity.Credentials { return creds }, alpn, identity.PinTo(v.CA),
		identity.Subject{Zone: v.Zone, Role: identity.RoleGateway}, time.Now)
}

// name returns a name that nobody has.
func name(prefix string) string { return prefix + strings.ReplaceAll(api.NewUUID(), "-", "")[:16] }
