// Package dev runs a whole federation in one process on loopback: real Raft files, real
// gateways with mutual TLS, real gossip, and simulated hosts. It is for trying Berth
// out and for tests; only the hosts are simulated.
package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/agent"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/httpd/rates"
	"berth/identity"
	"berth/node"
	"berth/raftstore/command"
)

// Options describe the federation that Start makes.
type Options struct {
	Dir   string // kept: a second start continues where the first one stopped
	Tree  Spec
	Nodes int             // default per zone; 1, 3 or 5
	Hosts int             // default per zone
	Shape agent.Inventory // of every host
	// StartDelay is how long a simulated host takes to start or stop an instance, at least 0.
	StartDelay time.Duration
	Version    string
	Insecure   bool
	Log        *slog.Logger
	Now        func() time.Time
	Share      func() float64 // of what a node may do at once that it should do now; nil for all: see turns.Pressure
	Tap        node.Tap       // sees the connections between zones; nil for none

	agentHosts int          // of one agent, at most; 0 means api.HostsPerAgentMax
	net        node.Network // of all nodes and agents; nil means TCP
}

// dialer returns how agents dial; nil for TCP.
func (o *Options) dialer() agent.Dialer {
	if o.net == nil {
		return nil
	}
	return func(ctx context.Context, _, addr string) (net.Conn, error) { return o.net.Dial(ctx, addr) }
}

// Federation is a tree of running zones, the root first.
type Federation struct {
	Zones []*Zone

	opts Options
	wg   sync.WaitGroup
	fail context.CancelCauseFunc
	why  func() error // what was given to fail first, or the end of the context of Start
}

// Zone is one running zone.
type Zone struct {
	Name  string
	Path  string // names from the root down, with slashes
	Token string // of its admin
	Nodes []*Process

	parent *Zone
	spec   Spec
}

// Process is one running node, which can be stopped and started again.
type Process struct {
	Node *node.Node
	dir  string
	opts node.Options
	stop context.CancelFunc
	done chan struct{}
}

// API returns the URL of the zone's public API, at its first node.
func (z *Zone) API() string { return "http://" + z.Nodes[0].Node.Addresses().API }

// Gateway returns the address of the zone's gateway, at its first node.
func (z *Zone) Gateway() string { return z.Nodes[0].Node.Addresses().Gateway }

// flavors are the initial flavors of every zone of a federation.
func flavors() []api.Flavor {
	return []api.Flavor{
		newFlavor("tiny", 1, 256, 1), newFlavor("small", 1, 1024, 10), newFlavor("medium", 2, 4096, 20), newFlavor("large", 8, 16384, 80),
	}
}

func newFlavor(name string, vcpus, ramMB, diskGB int64) api.Flavor {
	return api.Flavor{
		ID: api.FlavorID(name), Name: name,
		Resources: api.Resources{api.VCPU: vcpus, api.MemoryMB: ramMB, api.DiskGB: diskGB},
	}
}

// Start starts every zone of the tree, parents first, and links them. It returns
// when all hosts are up. The federation runs until ctx ends; Wait waits for that.
func Start(ctx context.Context, o Options) (*Federation, error) {
	if err := o.Tree.Validate(); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	f := &Federation{opts: o, fail: fail, why: func() error { return context.Cause(ctx) }}
	if err := f.growTree(ctx, o.Tree, nil); err != nil {
		fail(err)
		if why := f.Wait(); why != nil {
			err = why
		}
		return nil, err
	}
	return f, nil
}

// check returns an invalid-input error unless the numbers for every zone are in range.
func (o *Options) check() error {
	if o.StartDelay < 0 || o.StartDelay > startDelayMax {
		return api.Errorf(api.CodeInvalid, "the start delay must be 0s to %s, got %s", startDelayMax, o.StartDelay)
	}
	switch {
	case !slices.Contains([]int{0, 1, 3, 5}, o.Nodes):
		return api.Errorf(api.CodeInvalid, "a zone must have 1, 3 or 5 nodes, got %d", o.Nodes)
	case o.Hosts < 0 || o.Hosts > hostsMax:
		return api.Errorf(api.CodeInvalid, "a zone may have 0 to %d hosts, got %d", hostsMax, o.Hosts)
	}
	return nil
}

// Wait returns when everything that Start started has stopped, with the error that
// ended it, if any.
func (f *Federation) Wait() error {
	f.wg.Wait()
	f.fail(nil)
	if err := f.why(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// growTree starts a zone, links it to its parent, and then starts the zones below.
func (f *Federation) growTree(ctx context.Context, s Spec, parent *Zone) error {
	z := &Zone{Name: s.Name, Path: s.Name, parent: parent, spec: s}
	if parent != nil {
		z.Path = parent.Path + "/" + s.Name
	}
	f.Zones = append(f.Zones, z)
	if err := f.startZone(ctx, z); err != nil {
		return fmt.Errorf("starting zone %s: %w", z.Path, err)
	}
	if parent != nil {
		if err := linkZones(ctx, parent, z); err != nil {
			return fmt.Errorf("linking zone %s: %w", z.Path, err)
		}
	}
	for _, c := range s.Children {
		if err := f.growTree(ctx, c, z); err != nil {
			return err
		}
	}
	return nil
}

func (f *Federation) zoneDir(z *Zone) string {
	return filepath.Join(f.opts.Dir, strings.ReplaceAll(z.Path, "/", "."))
}

const tokenFile = "admin.token"

func (f *Federation) startZone(ctx context.Context, z *Zone) error {
	nodes := max(z.spec.Nodes, 1)
	if z.spec.Nodes == 0 {
		nodes = max(f.opts.Nodes, 1)
	}
	for i := range nodes {
		dir := filepath.Join(f.zoneDir(z), fmt.Sprintf("node-%d", i+1))
		if err := f.makeNode(ctx, z, i, dir); err != nil {
			return err
		}
		p := &Process{dir: dir, opts: node.Options{
			Dir: dir, Version: f.opts.Version, Plain: true, Insecure: f.opts.Insecure, Log: f.opts.Log, Now: f.opts.Now,
			Fatal: func(err error) { f.fail(err) }, Tap: f.opts.Tap, Share: f.opts.Share,
			ConnsPerAddress: node.ConnsMax, Rates: rates.Off(), // all of it is on this machine
			Net: f.opts.net,
		}}
		if err := f.startNode(ctx, p); err != nil {
			return err
		}
		z.Nodes = append(z.Nodes, p)
		if hasState(dir) { // the others must also run to form a majority
			continue
		}
		if err := awaitReady(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range z.Nodes {
		if err := awaitReady(ctx, p); err != nil {
			return err
		}
	}
	return f.furnishZone(ctx, z)
}

// hasState reports whether a node has run before.
func hasState(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, startedFile))
	return err == nil
}

const startedFile = "started"

func awaitReady(ctx context.Context, p *Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := p.Node.Ready(ctx); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.dir, startedFile), nil, 0o600)
}

// readyTimeout bounds each wait of Start.
const readyTimeout = 60 * time.Second

// makeNode makes the directory of a new node.
func (f *Federation) makeNode(ctx context.Context, z *Zone, i int, dir string) error {
	tokenPath := filepath.Join(f.zoneDir(z), tokenFile)
	if _, err := os.Stat(filepath.Join(dir, "node.json")); err == nil {
		b, err := os.ReadFile(tokenPath)
		z.Token = strings.TrimSpace(string(b))
		return err
	}
	listen := node.Addresses{API: any0, Gateway: any0, Node: any0, Agent: any0, Admin: any0}
	if i > 0 {
		token, err := z.leaderNode().Federation().JoinToken(ctx, api.JoinNode, fmt.Sprintf("node-%d", i+1), time.Minute)
		if err != nil {
			return err
		}
		return node.JoinNode(ctx, node.JoinOptions{Dir: dir, Token: token, Placement: node.Placement{Listen: listen}, Plain: true, Now: f.opts.Now, Net: f.opts.net})
	}
	token, err := node.Init(node.InitOptions{Dir: dir, Name: z.Name, Placement: node.Placement{Listen: listen}, Now: f.opts.Now()})
	if err != nil {
		return err
	}
	z.Token = token
	return os.WriteFile(tokenPath, []byte(token+"\n"), 0o600)
}

const any0 = "127.0.0.1:0"

// leaderNode returns the leader, or the first node.
func (z *Zone) leaderNode() *node.Node {
	for _, p := range z.Nodes {
		if p.Node.Leads() {
			return p.Node
		}
	}
	return z.Nodes[0].Node
}

// startNode opens a node and runs it until ctx or its own stop ends it.
func (f *Federation) startNode(ctx context.Context, p *Process) error {
	n, err := node.Open(p.opts) //nolint:contextcheck // it only opens; Run has the context
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(ctx)
	p.Node, p.stop, p.done = n, stop, make(chan struct{})
	f.wg.Go(func() {
		defer close(p.done)
		defer stop()
		if err := n.Run(run); err != nil && run.Err() == nil {
			f.fail(err)
		}
	})
	return nil
}

// Restart stops a node and starts it again from its directory. It runs until ctx
// ends, so ctx must be that of Start or end with it.
func (f *Federation) Restart(ctx context.Context, p *Process) error {
	p.stop()
	<-p.done
	if err := f.startNode(ctx, p); err != nil {
		return err
	}
	return awaitReady(ctx, p)
}

// furnishZone creates the flavors and hosts of a zone.
func (f *Federation) furnishZone(ctx context.Context, z *Zone) error {
	n := z.leaderNode()
	for _, fl := range flavors() {
		c := command.FlavorPut{Stamp: n.Zone().Stamp(), Flavor: fl}
		if _, err := n.Zone().Propose(ctx, c); err != nil && api.CodeOf(err) != api.CodeConflict {
			return err
		}
	}
	hosts := f.opts.Hosts
	if z.spec.Hosts != nil {
		hosts = *z.spec.Hosts
	}
	if hosts == 0 {
		return nil
	}
	if err := f.startAgents(ctx, z, hosts); err != nil {
		return err
	}
	return hostsUp(ctx, z, hosts)
}

// startAgents runs the agents of a zone: one that serves all simulated hosts, or as many as
// these need.
func (f *Federation) startAgents(ctx context.Context, z *Zone, hosts int) error {
	described := agent.FakeHosts(z.Name+"-host", hosts, f.opts.Shape)
	if err := z.spec.describeHosts(described); err != nil {
		return err
	}
	n := 1
	for part := range slices.Chunk(described, cmp.Or(f.opts.agentHosts, api.HostsPerAgentMax)) {
		if err := f.startAgent(ctx, z, n, part); err != nil {
			return err
		}
		n++
	}
	return nil
}

// startAgent runs the n-th agent of a zone.
func (f *Federation) startAgent(ctx context.Context, z *Zone, n int, hosts []api.AgentHost) error {
	name := fmt.Sprintf("agent-%d", n)
	dir := filepath.Join(f.zoneDir(z), name)
	if n == 1 {
		dir = filepath.Join(f.zoneDir(z), "agent")
	}
	home, wallet, err := node.LoadAgent(dir)
	if errors.Is(err, os.ErrNotExist) {
		var token string
		if token, err = z.leaderNode().Federation().JoinToken(ctx, api.JoinAgent, name, time.Minute); err != nil {
			return err
		}
		if _, err = node.JoinAgent(ctx, node.JoinOptions{Dir: dir, Token: token, Plain: true, Now: f.opts.Now, Net: f.opts.net}); err != nil {
			return err
		}
		home, wallet, err = node.LoadAgent(dir)
	}
	if err != nil {
		return err
	}
	drv := fake.New(fake.Options{StartDelay: f.opts.StartDelay, StopDelay: f.opts.StartDelay})
	var list []agent.Host
	for _, h := range hosts {
		list = append(list, agent.Host{AgentHost: h, Driver: drv})
	}
	want := identity.Subject{Zone: home.Zone, Role: identity.RoleNode}
	a, err := agent.New(agent.Config{
		Addresses: home.Addresses, Hosts: list, Log: f.opts.Log.With("zone", z.Name), Now: f.opts.Now,
		Rand: rand.Float64, //nolint:forbidigo // only spreads retries
		TLS:  identity.ClientTLS(wallet.Of(identity.RoleAgent), api.ALPNHTTP, wallet.Pins, want, f.opts.Now), Wallet: wallet,
		Dial: f.opts.dialer(),
	})
	if err != nil {
		return err
	}
	f.wg.Go(func() {
		if err := errors.Join(a.Run(ctx), a.Close()); err != nil && ctx.Err() == nil {
			f.fail(err)
		}
	})
	return nil
}

// hostsUp waits until a zone knows all of its hosts, and all are up.
func hostsUp(ctx context.Context, z *Zone, want int) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	v := z.leaderNode().Store().View()
	for {
		up := 0
		for _, h := range v.AllHosts() {
			if h.State == api.HostUp {
				up++
			}
		}
		if up >= want {
			return nil
		}
		next, err := z.leaderNode().Store().Wait(ctx, v.Index())
		if err != nil {
			return fmt.Errorf("%d of %d hosts are up: %w", up, want, err)
		}
		v = next
	}
}

// linkZones enrols a child with its parent, unless it is enrolled.
func linkZones(ctx context.Context, parent, child *Zone) error {
	if _, has := child.leaderNode().Store().View().Parent(); has {
		return nil
	}
	token, err := parent.leaderNode().Federation().LinkToken(ctx, child.Name, 0, 1)
	if err != nil {
		return err
	}
	_, err = child.leaderNode().Federation().Link(ctx, token, "parent")
	return err
}
