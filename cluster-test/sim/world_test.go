package sim

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/agent"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/api/client"
	"berth/cluster-test/simnet"
	"berth/internal/await"
	"berth/node"
	"berth/raftstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

type conn = net.Conn

// shape is what every simulated host has. The processors are what runs out.
var shape = agent.Inventory{
	api.VCPU: {Total: 4}, api.MemoryMB: {Total: 1 << 20}, api.DiskGB: {Total: 1 << 12},
}

// The flavors of every zone, which are of the same size.
const (
	fixed   api.FlavorID = "tiny"
	roaming api.FlavorID = "roaming" // it may be started elsewhere when its host is lost
)

// plot is what federation to build.
type plot struct {
	name     string
	nodes    int
	hosts    []int // of each agent
	children []plot
}

// family is the federation of the seeds: zones of three and of one, on three levels.
var family = plot{"root", 3, []int{1, 1}, []plot{
	{"west", 3, []int{1, 1}, []plot{{"edge", 1, []int{2, 1}, nil}}},
	{"east", 1, []int{1}, nil},
}}

// world is a federation in a bubble.
type world struct {
	t     *testing.T
	dir   string
	ctx   context.Context //nolint:containedctx // of all processes; it ends with the world
	log   *slog.Logger
	net   *simnet.Network
	dice  *rand.Rand
	books *books
	zones []*zone // parents first
	http  *http.Transport
	ops   sync.WaitGroup // calls of clients
	tasks sync.WaitGroup // faults that are under way
	tally tally
	began time.Time
	form  api.Form      // of nodes that are made
	ttl   time.Duration // of certificates; 0 for that of the product

	bursts  int  // boots that were made for a moment
	resting bool // clients may ask for nothing

	mu    sync.Mutex // guards what follows
	wrong []string
}

// zone is one zone of a world.
type zone struct {
	w      *world
	name   string
	id     api.ZoneID
	number int
	token  string
	nodes  []*process
	crews  []*crew
	parent *zone
	joined int  // nodes that were ever made
	hired  int  // agents that were ever made
	lost   bool // for good

	memo    memo
	witness *witness
	handed  atomic.Int32 // handovers of the lead that were asked for
	drained atomic.Bool  // somebody has asked that instances move
	pool    api.ProviderID

	mu   sync.Mutex // guards told, and changes of nodes, which the world's own goroutine makes
	told told
}

// newWorld builds a federation and waits until it is ready. Call it in a bubble.
func newWorld(t *testing.T, seed uint64, p plot) *world {
	t.Helper()
	return newWorldOf(t, seed, p, api.FormNewest)
}

// newWorldOf is newWorld with nodes of a release whose newest form is form.
func newWorldOf(t *testing.T, seed uint64, p plot, form api.Form) *world {
	t.Helper()
	return newWorldWith(t, seed, p, form, 0)
}

// newWorldWith is newWorldOf with certificates that are valid for ttl.
func newWorldWith(t *testing.T, seed uint64, p plot, form api.Form, ttl time.Duration) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{
		t: t, dir: t.TempDir(), ctx: ctx, log: slog.New(slog.DiscardHandler), net: simnet.New(seed),
		dice: rand.New(rand.NewPCG(seed, 7)), tally: newTally(), began: time.Now(), form: form, ttl: ttl,
	}
	if *logFlag {
		w.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	w.books = newBooks(w.fail)
	w.books.late, w.books.left = w.late, w.moves
	from := w.net.Host(clientHost)
	w.http = &http.Transport{
		DialContext:         func(ctx context.Context, _, addr string) (net.Conn, error) { return from.Dial(ctx, addr) },
		MaxIdleConnsPerHost: 8,
	}
	t.Cleanup(func() { w.end(cancel) })
	w.grow(p, nil)
	return w
}

const clientHost = "127.9.0.1"

// end stops everything; nothing may be left in the bubble.
func (w *world) end(cancel context.CancelFunc) {
	for _, z := range w.zones {
		for _, p := range z.nodes {
			p.kill()
		}
		for _, c := range z.crews {
			if c.stop != nil {
				c.kill()
			}
		}
	}
	cancel()
	w.net.Host(clientHost).Crash()
	w.net.Heal()
	for _, z := range w.zones {
		for _, p := range z.nodes {
			if p.done != nil {
				<-p.done
			}
		}
		for _, c := range z.crews {
			if c.done != nil {
				<-c.done
			}
		}
	}
	w.ops.Wait()
	w.tasks.Wait()
	w.http.CloseIdleConnections()
	await.Sleep(farewell)
}

// farewell is longer than any timer that may be left.
const farewell = 2 * time.Minute

// fail notes that a promise was broken. It may be called from any goroutine.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, time.Since(w.began).Round(time.Millisecond).String()+" "+fmt.Sprintf(format, args...))
}

// holds reports what was broken so far, and ends the test if that is anything.
func (w *world) holds() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(w.t, w.wrong)
}

func (w *world) grow(p plot, parent *zone) {
	z := &zone{w: w, name: p.name, number: len(w.zones) + 1, parent: parent, witness: newWitness()}
	w.zones = append(w.zones, z)
	for i := range p.nodes {
		z.addNode(i)
	}
	n := z.leads()
	z.id = n.Store().View().Zone
	for flavor, specs := range map[api.FlavorID]map[string]string{fixed: nil, roaming: {api.SpecEvacuate: "true"}} {
		z.flavor(flavor, specs, nil)
	}
	for _, hosts := range p.hosts {
		z.hire(hosts)
	}
	if parent != nil {
		token, err := parent.leads().Federation().LinkToken(w.ctx, z.name, 0, 1)
		require.NoError(w.t, err)
		_, err = z.leads().Federation().Link(w.ctx, token, "parent")
		require.NoError(w.t, err)
	}
	for _, c := range p.children {
		w.grow(c, z)
	}
}

// flavor gives the zone a flavor of the usual size, and more.
func (z *zone) flavor(id api.FlavorID, specs map[string]string, more api.Resources) {
	z.w.t.Helper()
	r := api.Resources{api.VCPU: 1, api.MemoryMB: 64, api.DiskGB: 1}
	maps.Copy(r, more)
	z.propose(func(at command.Stamp) command.Command {
		return command.FlavorPut{Stamp: at, Flavor: api.Flavor{ID: id, Name: string(id), Resources: r, ExtraSpecs: specs}}
	})
}

// addNode makes one more node of the zone, at the place of an earlier one if there
// was one, and runs it.
func (z *zone) addNode(place int) { z.addNodeAt(place, place) }

// addNodeAt is addNode on the host of a number.
func (z *zone) addNodeAt(place, number int) {
	w := z.w
	z.joined++
	p := &process{
		z: z, id: api.NodeID(fmt.Sprintf("node-%d", z.joined)), host: w.net.Host(fmt.Sprintf("127.%d.0.%d", z.number, number+1)),
		mem: raftstore.NewMemory(), clock: newClock(), bomb: newBomb(), form: w.form,
	}
	p.dir = filepath.Join(w.dir, z.name, string(p.id))
	p.host.Up()
	listen := node.DefaultAddresses(p.host.Name())
	var err error
	if z.joined == 1 {
		z.token, err = node.Init(node.InitOptions{Dir: p.dir, Name: z.name, Node: p.id, Placement: node.Placement{Listen: listen}, Now: p.clock.now(), CertificateTTL: w.ttl})
	} else {
		token := z.joinToken(api.JoinNode, string(p.id))
		err = node.JoinNode(w.ctx, node.JoinOptions{
			Dir: p.dir, Token: token, Placement: node.Placement{Listen: listen}, Plain: true, Now: p.clock.now, Net: nic{p.host, p.clock},
		})
	}
	require.NoError(w.t, err)
	p.start()
	z.mu.Lock()
	if z.nodes = slices.Clone(z.nodes); place < len(z.nodes) {
		z.nodes[place] = p
	} else {
		z.nodes = append(z.nodes, p)
	}
	z.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	require.NoError(w.t, p.node.Ready(ctx))
}

// joinToken gets a token from the zone.
func (z *zone) joinToken(kind api.JoinKind, name string) (token string) {
	z.w.t.Helper()
	z.askLeader(func(n *node.Node) (err error) {
		token, err = n.Federation().JoinToken(z.w.ctx, kind, name, patience)
		return err
	})
	return token
}

// propose applies a command in the zone. It is made anew for each try.
func (z *zone) propose(made func(at command.Stamp) command.Command) {
	z.w.t.Helper()
	z.askLeader(func(n *node.Node) error {
		_, err := n.Zone().Propose(z.w.ctx, made(n.Zone().Stamp()))
		return err
	})
}

// askLeader asks the leader of the zone, and who leads after it, until one does it.
func (z *zone) askLeader(ask func(n *node.Node) error) {
	z.w.t.Helper()
	for began := time.Now(); ; await.Sleep(100 * time.Millisecond) {
		err := ask(z.leads())
		if err == nil {
			return
		}
		require.Less(z.w.t, time.Since(began), patience, err)
	}
}

// hire gives the zone hosts, and one more agent for them.
func (z *zone) hire(hosts int) { z.hireAs(fmt.Sprint("agent-", len(z.crews)+1), hosts) }

// hireAs is hire of an agent of that name.
func (z *zone) hireAs(name string, hosts int) {
	w := z.w
	z.hired++
	n := z.hired
	c := &crew{
		z: z, name: api.AgentID(name), dir: filepath.Join(w.dir, z.name, name),
		host: w.net.Host(fmt.Sprintf("127.%d.1.%d", z.number, n)), hosts: hosts,
		clock: newClock(), bomb: newBomb(), books: w.books,
		fake: fake.New(fake.Options{
			StartDelay: 50 * time.Millisecond, StopDelay: 50 * time.Millisecond, FailStart: w.books.started, FailStop: w.books.stopped,
		}),
	}
	token := z.joinToken(api.JoinAgent, name)
	_, err := node.JoinAgent(w.ctx, node.JoinOptions{Dir: c.dir, Token: token, Plain: true, Now: c.clock.now, Net: nic{c.host, c.clock}})
	require.NoError(w.t, err)
	z.crews = append(z.crews, c)
	c.start()
	c.awaitUp()
}

// awaitUp waits until every host of the agent is up.
func (c *crew) awaitUp() {
	c.z.w.t.Helper()
	c.z.until("its hosts are up", func(v *state.State) bool {
		up := 0
		for _, h := range v.AllHosts() {
			if h.Agent == c.name && h.State == api.HostUp {
				up++
			}
		}
		return up == c.hosts
	})
}

// leader returns the process that leads, nil if none does. If several believe that
// they do, it is the newest.
func (z *zone) leader() *process {
	var best *process
	for _, p := range z.nodes {
		if n := p.running(); n != nil && n.Leads() && (best == nil || n.Store().Term() > best.node.Store().Term()) {
			best = p
		}
	}
	return best
}

// leads waits for a leader and returns it.
func (z *zone) leads() *node.Node {
	z.w.t.Helper()
	for began := time.Now(); time.Since(began) < patience; await.Sleep(100 * time.Millisecond) {
		if p := z.leader(); p != nil {
			if n := p.running(); n != nil {
				return n
			}
		}
	}
	require.Fail(z.w.t, "no leader", "zone %s", z.name)
	return nil
}

// view returns what the leader knows.
func (z *zone) view() *state.State { return z.leads().Store().View() }

func (z *zone) until(what string, is func(*state.State) bool) {
	z.w.t.Helper()
	for began := time.Now(); time.Since(began) < patience; await.Sleep(250 * time.Millisecond) {
		if is(z.view()) {
			return
		}
	}
	require.Fail(z.w.t, "it never came", "zone %s: %s", z.name, what)
}

// root is the zone that most clients call.
func (w *world) root() *zone { return w.zones[0] }

func (w *world) zone(name string) *zone {
	return w.zones[slices.IndexFunc(w.zones, func(z *zone) bool { return z.name == name })]
}

// client returns a client of one node of the zone.
func (z *zone) client(p *process) *client.Client {
	c, err := client.New(client.Config{
		Addr: "http://" + node.DefaultAddresses(p.host.Name()).API, Token: z.token,
		HTTP: &http.Client{
			Transport:     z.w.http,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	require.NoError(z.w.t, err)
	return c
}
