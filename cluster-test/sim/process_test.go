package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"berth/agent"
	"berth/agent/driver"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/cluster-test/simnet"
	"berth/identity"
	"berth/internal/crash"
	"berth/node"
	"berth/raftstore"
)

// patience bounds each wait for something that must come, in virtual time.
const patience = 10 * time.Minute

// bomb ends a process, or does something else, when it reaches a point.
type bomb struct {
	mu      sync.Mutex // guards charges
	charges map[crash.Point]*charge
}

type charge struct {
	left int // how often the point must still be reached; 0 for every time
	do   func()
}

func newBomb() *bomb { return &bomb{charges: map[crash.Point]*charge{}} }

// arm lets the n-th time that the process reaches p do something, once; with 0
// every time does.
func (b *bomb) arm(p crash.Point, n int, do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.charges[p] = &charge{n, do}
}

// disarm takes back every arm.
func (b *bomb) disarm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.charges)
}

// at is a crash.Hook. The goroutine goes on afterwards, in a process that can no
// longer change anything: its disk is frozen, its network is gone.
func (b *bomb) at(p crash.Point) {
	b.mu.Lock()
	c := b.charges[p]
	due := c != nil && c.left <= 1
	switch {
	case c == nil:
	case c.left == 1:
		delete(b.charges, p)
	case c.left > 1:
		c.left--
	}
	b.mu.Unlock()
	if due {
		c.do()
	}
}

// process is one node: its directory, its disk and its clock outlive it.
type process struct {
	z     *zone
	id    api.NodeID
	dir   string
	host  *simnet.Host
	mem   *raftstore.Memory
	clock *clock
	bomb  *bomb
	form  api.Form    // the newest that its release reads
	past  atomic.Bool // it was deposed and cannot know

	mu   sync.Mutex // guards what follows
	node *node.Node // nil while it is down
	stop context.CancelFunc
	done chan struct{}
	dead bool // it was killed; what it says no longer matters
}

// start runs the node from what its disk holds.
func (p *process) start() {
	w := p.z.w
	p.host.Up()
	p.mem.Thaw()
	p.mu.Lock()
	p.dead = false
	p.mu.Unlock()
	n, err := node.Open(node.Options{
		Dir: p.dir, Version: "sim", Plain: true, Log: w.log, Now: p.clock.now, Timing: timing, Compact: compact,
		Fatal: p.fatal, Form: p.form, CertificateTTL: w.ttl,
		Net: nic{p.host, p.clock}, Memory: p.mem, Crash: p.bomb.at,
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	p.mu.Lock()
	p.node, p.stop, p.done = n, cancel, done
	p.mu.Unlock()
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { p.z.witness.follow(ctx, n) })
		if err := n.Run(ctx); err != nil && ctx.Err() == nil && !p.killed() {
			w.fail("node %s of %s ended: %v", p.id, p.z.name, err)
		}
	}()
}

// fatal is told why the process ends itself. After a handover of the lead it may:
// Raft can be stuck in one for good. It may also when its log contradicts a snapshot of
// its zone. Then it is started again, as a supervisor does, once for each handover that
// somebody asked for.
func (p *process) fatal(err error) {
	w := p.z.w
	switch {
	case p.killed():
	case errors.Is(err, raftstore.ErrDiverged):
		w.tally.fault("ended to drop its log")
		p.down(time.Second)
	case api.CodeOf(err) != api.CodeConflict && p.z.handed.Add(-1) >= 0: // a damaged disk is a conflict
		w.tally.fault("ended after a handover")
		p.down(time.Second)
	default:
		w.fail("node %s of %s: %v", p.id, p.z.name, err)
	}
}

// timing is slower than that of a LAN: the heartbeats of idle zones are most of
// what a simulation costs.
var timing = raftstore.Timing{
	Heartbeat: 2 * time.Second, Election: 2 * time.Second, LeaderLease: 1500 * time.Millisecond, Commit: 500 * time.Millisecond,
}

// compact makes snapshots often, so that nodes that were away are sent one.
var compact = raftstore.Compaction{Threshold: 40, Interval: 5 * time.Second, Trailing: 20}

func (p *process) killed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// running returns the node, nil while it is down.
func (p *process) running() *node.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return nil
	}
	return p.node
}

// kill ends the process as kill -9 does: from now on it changes nothing. It may be
// called from a goroutine of the process.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.node == nil || p.dead {
		return
	}
	p.dead = true
	p.mem.Freeze()
	p.host.Crash()
	p.stop()
}

// reap waits until nothing of a process that was killed or stopped is left.
func (p *process) reap() {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	<-done
	p.mu.Lock()
	p.node = nil
	p.mu.Unlock()
}

// crew is an agent and the hosts that it serves. The hosts live on when the agent
// is killed.
type crew struct {
	z     *zone
	name  api.AgentID
	dir   string
	host  *simnet.Host
	clock *clock
	bomb  *bomb
	fake  *fake.Driver
	books *books
	hosts int

	severed []driver.State // what ended with the agent that was killed last

	mu   sync.Mutex // guards what follows
	stop context.CancelFunc
	done chan struct{}
	gate *gate
}

// gate lets an agent reach its hosts until it is killed.
type gate struct {
	*fake.Driver
	severed []driver.State // what had a fence and ended with the agent before
	shut    atomic.Bool
}

var (
	_       driver.Driver = (*gate)(nil)
	errShut               = errors.New("the agent was killed")
)

// Start implements driver.Driver.
func (g *gate) Start(ctx context.Context, host api.HostID, w api.Workload) error {
	if g.shut.Load() {
		return errShut
	}
	return g.Driver.Start(ctx, host, w)
}

// Stop implements driver.Driver.
func (g *gate) Stop(ctx context.Context, id api.InstanceID) error {
	if g.shut.Load() {
		return errShut
	}
	return g.Driver.Stop(ctx, id)
}

// Halt implements driver.Driver.
func (g *gate) Halt(ctx context.Context, id api.InstanceID) error {
	if g.shut.Load() {
		return errShut
	}
	return g.Driver.Halt(ctx, id)
}

// Notify implements driver.Driver.
func (g *gate) Notify(ctx context.Context, id api.InstanceID, n driver.Notice) error {
	if g.shut.Load() {
		return errShut
	}
	return g.Driver.Notify(ctx, id, n)
}

// Kill implements driver.Driver.
func (g *gate) Kill(ctx context.Context, id api.InstanceID) error {
	if g.shut.Load() {
		return errShut
	}
	return g.Driver.Kill(ctx, id)
}

// Severed implements driver.Driver.
func (g *gate) Severed() []driver.State { return g.severed }

func (c *crew) start() {
	w := c.z.w
	c.host.Up()
	home, wallet, err := node.LoadAgent(c.dir)
	require.NoError(w.t, err)
	g := &gate{Driver: c.fake, severed: c.severed}
	var list []agent.Host
	for _, h := range agent.FakeHosts(fmt.Sprintf("%s-%s-host", c.z.name, c.name), c.hosts, shape) {
		list = append(list, agent.Host{AgentHost: h, Driver: g})
	}
	want := identity.Subject{Zone: home.Zone, Role: identity.RoleNode}
	net := nic{c.host, c.clock}
	a, err := agent.New(agent.Config{
		Addresses: home.Addresses, Hosts: list, Dir: filepath.Join(c.dir, "state"), Log: w.log, Now: c.clock.now, Rand: rand.Float64,
		TLS: identity.ClientTLS(wallet.Of(identity.RoleAgent), api.ALPNHTTP, wallet.Pins, want, c.clock.now), Wallet: wallet,
		Dial: func(ctx context.Context, _, addr string) (conn, error) { return net.Dial(ctx, addr) }, Crash: c.bomb.at,
		Keep: func(addresses []string) error { return node.KeepAddresses(c.dir, addresses) },
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	c.mu.Lock()
	c.stop, c.done, c.gate = cancel, done, g
	c.mu.Unlock()
	go func() {
		defer close(done)
		if err := errors.Join(a.Run(ctx), a.Close()); err != nil && ctx.Err() == nil {
			w.fail("%s of %s ended: %v", c.name, c.z.name, err)
		}
	}()
}

// kill ends the agent. It may be called from a goroutine of it.
func (c *crew) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate.shut.Store(true)
	c.host.Crash()
	c.stop()
}

// reap waits until nothing of the agent is left, and ends what has a fence, as the
// kernel does with the agent.
func (c *crew) reap() {
	c.mu.Lock()
	done := c.done
	c.mu.Unlock()
	<-done
	all, err := c.fake.List(c.z.w.ctx)
	c.severed = slices.DeleteFunc(all, func(s driver.State) bool { return !s.Fenced || s.Status != api.StatusActive })
	for _, s := range c.severed {
		err = errors.Join(err, c.fake.Kill(c.z.w.ctx, s.Instance))
	}
	if err != nil && c.z.w.ctx.Err() == nil {
		c.z.w.fail("agent %s of %s: what has a fence does not end: %v", c.name, c.z.name, err)
	}
}
