package gossip

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"berth/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a network in memory: endpoints, and which of them can talk.
type world struct {
	t    *testing.T
	work sync.WaitGroup

	mu    sync.Mutex // guards what follows
	nodes map[string]*node
	cuts  map[[2]string]cut
	pipes map[*wire][2]string
	taped bytes.Buffer // every byte that anybody wrote
}

// cut is what happens to what two endpoints send each other.
type cut int

const (
	cutRefuse cut = iota + 1 // dials fail at once
	cutHang                  // dials hang, and bytes vanish
)

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, nodes: map[string]*node{}, cuts: map[[2]string]cut{}, pipes: map[*wire][2]string{}}
}

// node is a pool at an endpoint.
type node struct {
	*Pool
	endpoint string
	store    *memory
	say      func(*api.Digest)
	kill     func() // stops the pool and waits
}

// memory is a PeerStore.
type memory struct {
	mu    sync.Mutex
	peers []string
	err   error
}

func (m *memory) Load() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.peers), m.err
}

func (m *memory) Save(peers []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peers = slices.Clone(peers)
	return m.err
}

// start runs a pool at endpoint; others is what Endpoints returns.
func (w *world) start(endpoint, id string, others []string, change func(*Config)) *node {
	w.t.Helper()
	n := &node{endpoint: endpoint, store: &memory{}}
	var mu sync.Mutex // guards own
	var own *api.Digest
	cfg := Config{
		Name: "zone", Self: SyntheticName("zone", "z1", id),
		Endpoints: func() []string { return others },
		Dial:      func(ctx context.Context, to string) (net.Conn, error) { return w.dial(ctx, endpoint, to) },
		Digest: func() *api.Digest {
			mu.Lock()
			defer mu.Unlock()
			return own
		},
		Peers: n.store, Logger: slog.New(slog.DiscardHandler), Now: time.Now, Drain: true,
	}
	n.say = func(d *api.Digest) {
		mu.Lock()
		defer mu.Unlock()
		own = d
	}
	if change != nil {
		change(&cfg)
	}
	p, err := New(cfg)
	require.NoError(w.t, err)
	n.Pool = p
	w.mu.Lock()
	w.nodes[endpoint] = n
	w.mu.Unlock()
	ctx, stop := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	w.work.Go(func() {
		defer close(done)
		assert.NoError(w.t, p.Run(ctx))
	})
	n.kill = func() {
		stop()
		<-done
	}
	return n
}

// stop ends all pools and waits for what the world has started.
func (w *world) stop() {
	w.mu.Lock()
	nodes := make([]*node, 0, len(w.nodes))
	for _, n := range w.nodes {
		nodes = append(nodes, n)
	}
	w.mu.Unlock()
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(n.kill)
	}
	all.Wait()
	w.work.Wait()
}

// crash makes an endpoint vanish without a goodbye, then stops its pool.
func (w *world) crash(n *node) {
	w.mu.Lock()
	others := make([]string, 0, len(w.nodes))
	for e := range w.nodes {
		others = append(others, e)
	}
	w.mu.Unlock()
	for _, e := range others {
		w.set(n.endpoint, e, cutRefuse)
	}
	n.kill()
	w.mu.Lock()
	delete(w.nodes, n.endpoint)
	w.mu.Unlock()
	for _, e := range others {
		w.set(n.endpoint, e, 0)
	}
}

func pair(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

// set cuts or heals what is between two endpoints.
func (w *world) set(a, b string, c cut) {
	w.mu.Lock()
	w.cuts[pair(a, b)] = c
	var open []*wire
	for p, ends := range w.pipes {
		if ends == pair(a, b) && c == cutRefuse {
			open = append(open, p)
		}
	}
	w.mu.Unlock()
	for _, p := range open {
		_ = p.Close()
	}
}

func (w *world) state(a, b string) cut {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts[pair(a, b)]
}

func (w *world) dial(ctx context.Context, from, to string) (net.Conn, error) {
	w.mu.Lock()
	n := w.nodes[to]
	c := w.cuts[pair(from, to)]
	w.mu.Unlock()
	if c == cutHang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if n == nil || c == cutRefuse {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: endpointAddr(to), Err: os.ErrNotExist}
	}
	near, far := net.Pipe()
	w.work.Go(func() {
		conn := w.wrap(far, to, from)
		h, err := ReadHello(conn, time.Now().Add(HelloTimeout))
		if err != nil {
			_ = conn.Close()
			return
		}
		n.Accept(h, conn)
	})
	return w.wrap(near, from, to), nil
}

// wire is one end of a connection: it tapes what is written and names its
// endpoints in addresses and errors, as the system does.
type wire struct {
	net.Conn
	w        *world
	from, to string
}

func (w *world) wrap(c net.Conn, from, to string) *wire {
	x := &wire{Conn: c, w: w, from: from, to: to}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pipes[x] = pair(from, to)
	return x
}

type endpointAddr string

func (endpointAddr) Network() string  { return "tcp" }
func (a endpointAddr) String() string { return string(a) }

func (x *wire) LocalAddr() net.Addr  { return endpointAddr(x.from) }
func (x *wire) RemoteAddr() net.Addr { return endpointAddr(x.to) }

func (x *wire) fail(op string, err error) error {
	if err == nil || err.Error() == "EOF" {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: x.LocalAddr(), Addr: x.RemoteAddr(), Err: err}
}

func (x *wire) Read(p []byte) (int, error) {
	n, err := x.Conn.Read(p)
	return n, x.fail("read", err)
}

func (x *wire) Write(p []byte) (int, error) {
	x.w.mu.Lock()
	x.w.taped.Write(p)
	x.w.mu.Unlock()
	if x.w.state(x.from, x.to) == cutHang {
		return len(p), nil
	}
	n, err := x.Conn.Write(p)
	return n, x.fail("write", err)
}

func (x *wire) Close() error {
	x.w.mu.Lock()
	delete(x.w.pipes, x)
	x.w.mu.Unlock()
	return x.Conn.Close()
}

// digestOf returns a digest as zones make them.
func digestOf(zone api.ZoneID, sequence uint64) *api.Digest {
	return &api.Digest{
		Zone: zone, Sequence: sequence, At: api.InstantOf(time.Now()), Health: "up", Tags: []string{"blue"},
		Classes:  map[api.ResourceClass]api.ClassTotals{api.VCPU: {Total: 64, Free: 32, SlotMin: 1, SlotMax: 16}},
		Sketches: []api.FitSketch{{Flavor: "small", Resources: api.Resources{api.VCPU: 1}, Fits: 30}},
	}
}

// alive returns how many members a pool counts as alive.
func alive(p *Pool) int {
	n := 0
	for _, m := range p.Members() {
		if m.State == memberAlive {
			n++
		}
	}
	return n
}

// inBubble runs f in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		f(t, w)
		w.stop()
	})
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	<-time.NewTimer(d).C
	synctest.Wait()
}

var errDisk = errors.New("disk is full")

func (w *world) dialer() Dialer {
	return func(ctx context.Context, to string) (net.Conn, error) { return w.dial(ctx, "", to) }
}

func testLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }
