package raftstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Timings of nodes. One that is alone never loses its lead, so it may be quick to take it; three of a
// benchmark, which runs in real time, must be patient.
var (
	quick  = Timing{50 * time.Millisecond, 50 * time.Millisecond, 25 * time.Millisecond, 5 * time.Millisecond}
	steady = Timing{time.Second, time.Second, 500 * time.Millisecond, 5 * time.Millisecond}
)

// tcp is a Stream over loopback, for benchmarks.
type tcp struct{ net.Listener }

func (tcp) Dial(_ api.NodeID, addr string, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", addr, timeout)
}

// network is a Stream between stores of one process, with nothing under it, so
// that it works in virtual time. Nodes can be cut off.
type network struct {
	mu    sync.Mutex
	nodes map[string]*port
}

type port struct {
	net  *network
	addr string
	in   chan net.Conn
	shut chan struct{}
	cut  bool // guarded by net.mu
	open []net.Conn
}

func newNetwork() *network { return &network{nodes: map[string]*port{}} }

func (n *network) listen(addr string) *port {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := &port{net: n, addr: addr, in: make(chan net.Conn), shut: make(chan struct{})}
	n.nodes[addr] = p
	return p
}

// cut cuts a node off, or heals the cut.
func (n *network) cut(addr string, off bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.nodes[addr]
	p.cut = off
	for _, q := range n.nodes {
		if q == p || off {
			for _, c := range q.open {
				_ = c.Close()
			}
			q.open = nil
		}
	}
}

func (p *port) Accept() (net.Conn, error) {
	select {
	case c := <-p.in:
		return c, nil
	case <-p.shut:
		return nil, net.ErrClosed
	}
}

func (p *port) Addr() net.Addr { return addr(p.addr) }

func (p *port) Close() error {
	close(p.shut)
	return nil
}

func (p *port) Dial(_ api.NodeID, to string, timeout time.Duration) (net.Conn, error) {
	p.net.mu.Lock()
	q := p.net.nodes[to]
	reachable := q != nil && !q.cut && !p.cut
	var mine, theirs net.Conn
	if reachable {
		mine, theirs = net.Pipe()
		p.open, q.open = append(p.open, mine), append(q.open, theirs)
	}
	p.net.mu.Unlock()
	if !reachable {
		return nil, errors.New("unreachable")
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case q.in <- theirs:
		return mine, nil
	case <-q.shut:
	case <-late.C:
	}
	return nil, errors.Join(errors.New("refused"), mine.Close())
}

// networks holds the network of each running test whose nodes need no other.
var networks sync.Map

func networkOf(tb testing.TB) *network {
	tb.Helper()
	n, loaded := networks.LoadOrStore(tb, newNetwork())
	if !loaded {
		tb.Cleanup(func() { networks.Delete(tb) })
	}
	return n.(*network)
}

// connect gives a node a stream: over the network of its test, or over loopback in a benchmark.
func (c *Config) connect(tb testing.TB) {
	tb.Helper()
	if _, real := tb.(*testing.B); real {
		l, err := net.Listen("tcp", cmpOr(c.Advertise, "127.0.0.1:0"))
		require.NoError(tb, err)
		c.Stream, c.Advertise = tcp{l}, l.Addr().String()
		return
	}
	c.Advertise = cmpOr(c.Advertise, string(c.ID)+":1")
	c.Stream = networkOf(tb).listen(c.Advertise)
}

// node is a running store.
type node struct {
	*Store
	t    testing.TB
	cfg  Config
	stop func() // ends Run and closes
}

// start opens and runs a store until the test ends or stop is called. A test does so in virtual time.
func start(tb testing.TB, cfg Config) *node {
	tb.Helper()
	if _, real := tb.(*testing.B); !real {
		await.Sleep(0) // panics in real time
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Stream == nil {
		cfg.connect(tb)
	}
	if cfg.Timing == (Timing{}) {
		cfg.Timing = quick
	}
	s, err := Open(cfg)
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	n := &node{Store: s, t: tb, cfg: cfg}
	n.stop = sync.OnceFunc(func() {
		cancel()
		<-ran
		require.NoError(tb, s.Close())
	})
	tb.Cleanup(n.stop)
	return n
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// restart stops the node and opens it again on the same disk.
func (n *node) restart() *node {
	n.t.Helper()
	n.stop()
	cfg := n.cfg
	if p, ok := cfg.Stream.(*port); ok {
		cfg.Stream = p.net.listen(p.addr)
	} else {
		cfg.Stream = nil
	}
	return start(n.t, cfg)
}

// patience is more virtual time than any step needs; it ends a test that hangs.
const patience = 20 * time.Second

// within returns a context that ends after patience; a benchmark takes as long as it takes.
func within(tb testing.TB) context.Context {
	tb.Helper()
	if b, real := tb.(*testing.B); real {
		return b.Context()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// leads returns when the node leads and has caught up.
func (n *node) leads() *node {
	n.t.Helper()
	require.NotNil(n.t, leaderOf(n.t, n))
	return n
}

// leaderOf waits until one of nodes leads.
func leaderOf(tb testing.TB, nodes ...*node) *node {
	tb.Helper()
	ctx, cancel := context.WithCancel(within(tb))
	defer cancel()
	found := make(chan *node, len(nodes))
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(func() {
			n.Leading(ctx, func(ctx context.Context) {
				found <- n
				<-ctx.Done()
			})
		})
	}
	var first *node
	select {
	case first = <-found:
	case <-ctx.Done():
		tb.Fatal("nobody leads")
	}
	cancel()
	wg.Wait()
	return first
}

func initZone() command.Command { return command.Init{Zone: "z", Name: "zone"} }

// put is a command that can be seen in a view: node id gets an address.
func put(id, addr string) command.Command {
	return command.NodePut{Node: api.Node{ID: api.NodeID(id), APIAddr: addr, Form: api.FormNewest}}
}

// refusable is a command that the state refuses.
func refusable() command.Command { return command.TokenDelete{ID: "none"} }

func addrOf(st *state.State, id string) string {
	n, ok := st.Node(api.NodeID(id))
	if !ok {
		return ""
	}
	return n.APIAddr
}

func (n *node) must(cmds ...command.Command) []state.Result {
	n.t.Helper()
	r, err := n.Propose(within(n.t), cmds...)
	require.NoError(n.t, err)
	return r
}

// sees waits until the node's view has an address for id.
func (n *node) sees(id, addr string) {
	n.t.Helper()
	ctx := within(n.t)
	st := n.View()
	for addrOf(st, id) != addr {
		var err error
		st, err = n.Wait(ctx, st.Index())
		require.NoError(n.t, err)
	}
}

// join starts a node in memory that is no member yet.
func (n *network) join(tb testing.TB, id api.NodeID) *node {
	tb.Helper()
	at := string(id) + ":1"
	return start(tb, Config{ID: id, Memory: NewMemory(), Advertise: at, Stream: n.listen(at), Timing: defaultTiming()})
}

// catchUp waits until n has applied all that from has.
func (n *node) catchUp(from *node) {
	n.t.Helper()
	from.must(put("mark", string(n.ID())))
	n.sees("mark", string(n.ID()))
}

// solo starts a zone of one node on a disk.
func solo(tb testing.TB, change func(*Config)) *node {
	tb.Helper()
	cfg := Config{ID: "n1", Dir: tb.TempDir(), Bootstrap: true}
	if change != nil {
		change(&cfg)
	}
	n := start(tb, cfg).leads()
	n.must(initZone())
	return n
}

// trio starts a zone of three voters. With a network it is in memory, else on disk.
func trio(tb testing.TB, over *network, change func(*Config)) []*node {
	tb.Helper()
	var nodes []*node
	for i := range 3 {
		cfg := Config{ID: api.NodeID(fmt.Sprintf("n%d", i+1)), Bootstrap: i == 0}
		if over != nil {
			cfg.Memory = NewMemory()
			cfg.Advertise = fmt.Sprintf("n%d:1", i+1)
			cfg.Stream = over.listen(cfg.Advertise)
			cfg.Timing = defaultTiming()
		} else {
			cfg.Dir = tb.TempDir()
			cfg.Timing = steady
		}
		if change != nil {
			change(&cfg)
		}
		n := start(tb, cfg)
		if nodes = append(nodes, n); i == 0 {
			n.leads().must(initZone())
			continue
		}
		require.NoError(tb, nodes[0].AddVoter(within(tb), n.ID(), n.cfg.Advertise))
	}
	for _, n := range nodes[1:] { // one that has not heard of another would not vote for it
		n.catchUp(nodes[0])
	}
	return nodes
}

func others(nodes []*node, but *node) []*node {
	var rest []*node
	for _, n := range nodes {
		if n != but {
			rest = append(rest, n)
		}
	}
	return rest
}

// guardOf returns a guard that ends nothing.
func guardOf(node api.NodeID) *guard {
	return newGuard(Config{ID: node}.withDefaults(), func(error) {}, func() bool { return false })
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func logEntry(index uint64, data []byte) *raft.Log {
	return &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: data}
}

func logEntries(entries ...[]byte) []*raft.Log {
	var logs []*raft.Log
	for i, e := range entries {
		logs = append(logs, logEntry(uint64(i+1), e))
	}
	return logs
}
