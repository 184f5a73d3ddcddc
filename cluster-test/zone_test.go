package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/node"
)

// anyPort lets a node take free ports at its first start and keep them.
var anyPort = []string{
	"--api-addr", "127.0.0.1:0", "--gateway-addr", "127.0.0.1:0", "--node-addr", "127.0.0.1:0",
	"--agent-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
}

// How long things may take on a machine that is busy.
const (
	startTimeout  = 20 * time.Second
	settleTimeout = 30 * time.Second
)

// Zone is a zone of real processes.
type Zone struct {
	*World
	Name   string
	Token  string // of its admin
	CACert []byte // PEM
	caPath string
	Nodes  []*NodeProc
	Agents []*AgentProc
}

// NodeProc is one node, running or not. Whether it runs may be asked while another
// goroutine starts it again.
type NodeProc struct {
	proc atomic.Pointer[Proc] // the newest
	zone *Zone
	ID   api.NodeID
	Dir  string
	At   node.Addresses // where it listens; set by the first Start
}

// Running reports whether the node's process has not ended.
func (n *NodeProc) Running() bool { return n.proc.Load().Running() }

// Signal signals the node's process.
func (n *NodeProc) Signal(s syscall.Signal) { n.proc.Load().Signal(s) }

// Kill ends the node as a power cut would.
func (n *NodeProc) Kill() { n.proc.Load().Kill() }

// Stop asks the node to end.
func (n *NodeProc) Stop(d time.Duration) error { return n.proc.Load().Stop(d) }

// Zone makes a zone of so many nodes and waits until all take part.
func (w *World) Zone(name string, nodes int) *Zone {
	w.t.Helper()
	z := &Zone{World: w, Name: name}
	w.zones = append(w.zones, z)
	dir := filepath.Join(w.dir, name+"-node-1")
	out := w.MustRun(nil, append([]string{"init", "--dir", dir, "--name", name}, anyPort...)...)
	z.Token = out[strings.LastIndexByte(out, '\n')+1:]
	z.caPath = filepath.Join(dir, "ca.pem")
	var err error
	z.CACert, err = os.ReadFile(z.caPath)
	require.NoError(w.t, err)
	first := &NodeProc{zone: z, ID: "node-1", Dir: dir}
	z.Nodes = append(z.Nodes, first)
	first.Start()
	first.Ready()
	for len(z.Nodes) < nodes {
		z.Join(fmt.Sprintf("node-%d", len(z.Nodes)+1))
	}
	return z
}

// Join makes one more node and waits until it votes and is ready.
func (z *Zone) Join(id string) *NodeProc {
	z.t.Helper()
	token := z.CLI("join-token", "create", "--kind", "node", "--name", id)
	file := z.File(z.Name+"-"+id+".token", token)
	n := &NodeProc{zone: z, ID: api.NodeID(id), Dir: filepath.Join(z.dir, z.Name+"-"+id)}
	n.Start(append([]string{"--join-file", file}, anyPort...)...)
	z.Nodes = append(z.Nodes, n)
	n.Ready()
	within(z.t, startTimeout, id+" votes", func(ctx context.Context) error {
		members, err := n.Client(z.Token).Members(ctx)
		for _, m := range members {
			if m.ID == n.ID && m.Voter && m.APIAddr == n.At.API {
				return nil
			}
		}
		return orElse(err, "it is not a voter yet")
	})
	return n
}

// orElse returns err, or an error with this text if there is none.
func orElse(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf(format, args...)
}

// Start starts the node from its directory and waits until it listens. A port
// that somebody took meanwhile is tried again.
func (n *NodeProc) Start(more ...string) {
	z := n.zone
	z.t.Helper()
	launch := func() {
		n.proc.Store(z.World.Start(z.Name+"-"+string(n.ID), append([]string{"node", "--dir", n.Dir}, more...)...)) //nolint:staticcheck // a zone cannot start
	}
	launch()
	within(z.t, startTimeout, string(n.ID)+" of "+z.Name+" listens", func(ctx context.Context) error {
		if !n.Running() {
			require.Contains(z.t, tail(n.proc.Load().log, 3), "address already in use", "%s of %s has ended", n.ID, z.Name)
			n.proc.Load().meant = true
			launch()
		}
		text, err := os.ReadFile(filepath.Join(n.Dir, "node.json"))
		if err != nil {
			return err
		}
		var rec struct {
			Advertise node.Addresses `json:"advertise"`
		}
		if err := json.Unmarshal(text, &rec); err != nil {
			return err
		}
		if n.At == (node.Addresses{}) {
			n.At = rec.Advertise
		}
		return n.admin(ctx, "/healthz")
	})
}

// Ready waits until the node knows its zone and a leader.
func (n *NodeProc) Ready() {
	n.zone.t.Helper()
	within(n.zone.t, startTimeout, string(n.ID)+" of "+n.zone.Name+" is ready", func(ctx context.Context) error {
		return n.admin(ctx, "/readyz")
	})
}

func (n *NodeProc) admin(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.At.Admin+path, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close() // its status says it all
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", path, res.StatusCode)
	}
	return nil
}

// Client returns a client of this node, over TLS with the zone's own CA.
func (n *NodeProc) Client(token string) *client.Client {
	n.zone.t.Helper()
	c, err := client.New(client.Config{
		Addr: "https://" + n.At.API, Token: token, CACert: n.zone.CACert, Timeout: 10 * time.Second,
	})
	require.NoError(n.zone.t, err)
	n.zone.t.Cleanup(c.Close)
	return c
}

// CLI runs a verb of the command line as the zone's admin, at its first running
// node. It is run again, as the manual says, while the zone has no leader.
func (z *Zone) CLI(args ...string) string {
	z.t.Helper()
	var out string
	within(z.t, settleTimeout, "berth "+strings.Join(args, " "), func(context.Context) error {
		var err error
		out, err = z.TryCLI(z.Running()[0], args...)
		if err != nil {
			require.Contains(z.t, err.Error(), "(unavailable", "berth %s", strings.Join(args, " "))
		}
		return err
	})
	return out
}

// TryCLI runs a verb as the zone's admin at one node.
func (z *Zone) TryCLI(n *NodeProc, args ...string) (string, error) {
	return z.Run([]string{"BERTH_ADDR=https://" + n.At.API, "BERTH_TOKEN=" + z.Token, "BERTH_CACERT=" + z.caPath},
		append(args, "--no-headers")...)
}

// Running returns the nodes that run.
func (z *Zone) Running() []*NodeProc {
	var out []*NodeProc
	for _, n := range z.Nodes {
		if n.Running() {
			out = append(out, n)
		}
	}
	return out
}

// Admin returns a client of the zone's first running node, with the admin's token.
func (z *Zone) Admin() *client.Client {
	z.t.Helper()
	return z.Running()[0].Client(z.Token)
}

// MemberToken makes a token of a project with the least role that may boot.
func (z *Zone) MemberToken(project string, role api.UserRole) string {
	z.t.Helper()
	tok, err := z.Admin().CreateToken(z.t.Context(), client.TokenSpec{
		User: "ada", Project: api.ProjectID(project), Roles: []api.UserRole{role},
	})
	require.NoError(z.t, err)
	return tok.Token
}

// passing reports whether another node, or this one later, may do better.
func passing(err error) bool {
	switch api.CodeOf(err) {
	case api.CodeUnavailable, api.CodeTimeout, api.CodeOverloaded:
		return true
	default:
		return errors.Is(err, context.DeadlineExceeded)
	}
}

// Leader returns the node that leads, once the zone's running nodes agree.
func (z *Zone) Leader() *NodeProc {
	z.t.Helper()
	var leader *NodeProc
	within(z.t, settleTimeout, z.Name+" has one leader", func(ctx context.Context) error {
		leader = nil
		for _, n := range z.Running() {
			members, err := n.Client(z.Token).Members(ctx)
			if err != nil {
				return err
			}
			led := false
			for _, m := range members {
				if !m.Leader {
					continue
				}
				led = true
				at := z.Node(m.ID)
				if leader != nil && leader != at {
					return errors.New("two nodes name different leaders")
				}
				leader = at
			}
			if !led || !leader.Running() {
				return fmt.Errorf("%s knows no leader that runs", n.ID)
			}
		}
		return nil
	})
	return leader
}

// Node returns a node by id.
func (z *Zone) Node(id api.NodeID) *NodeProc {
	z.t.Helper()
	for _, n := range z.Nodes {
		if n.ID == id {
			return n
		}
	}
	require.Failf(z.t, "no such node", "%s has no node %s", z.Name, id)
	return nil
}

// Link makes child a child of z, by the command line of both.
func (z *Zone) Link(child *Zone) {
	z.t.Helper()
	token := z.CLI("zone", "link-token", child.Name)
	child.CLI("zone", "link", "--link-token-file", z.File(child.Name+".link", token))
}

// Flavor defines a flavor of so much memory. command may be nil.
func (z *Zone) Flavor(name string, ram int64, command ...string) {
	z.t.Helper()
	_, err := z.Admin().CreateFlavor(z.t.Context(), client.FlavorSpec{Name: name, RAM: ram, Command: command})
	require.NoError(z.t, err)
}

// AgentProc is one agent, running or not.
type AgentProc struct {
	*Proc
	zone *Zone
	Name string
	Dir  string
	args []string
}

// FakeAgent runs an agent of so many simulated hosts with so much memory each.
func (z *Zone) FakeAgent(name string, hosts int, memoryMB int64) *AgentProc {
	z.t.Helper()
	return z.agent(name, hosts, "--driver", "fake", "--hosts", strconv.Itoa(hosts), "--prefix", z.Name+"-"+name,
		"--shape", fmt.Sprintf("memory_mb=%d", memoryMB))
}

// ProcessAgent runs an agent of this machine, of whose memory so much is kept
// for others.
func (z *Zone) ProcessAgent(name string, reserveMB int64) *AgentProc {
	z.t.Helper()
	return z.agent(name, 1, "--driver", "process", "--name", z.Name+"-"+name, "--cgroup", "",
		"--reserve", fmt.Sprintf("memory_mb=%d", reserveMB))
}

// agent joins an agent and waits until its hosts are up.
func (z *Zone) agent(name string, hosts int, args ...string) *AgentProc {
	z.t.Helper()
	before := len(z.Hosts())
	token := z.CLI("join-token", "create", "--kind", "agent", "--name", name)
	a := &AgentProc{zone: z, Name: name, Dir: filepath.Join(z.dir, z.Name+"-"+name)}
	a.args = append([]string{"agent", "--dir", a.Dir, "--join-file", z.File(z.Name+"-"+name+".token", token)}, args...)
	z.Agents = append(z.Agents, a)
	a.Start()
	within(z.t, startTimeout, "hosts of "+a.Dir+" are up", func(context.Context) error {
		if !a.Running() {
			require.Fail(z.t, "the agent has ended", tail(a.log, 3))
		}
		if now := len(z.Hosts()); now < before+hosts {
			return fmt.Errorf("%d of %d", now-before, hosts)
		}
		return nil
	})
	return a
}

// Start starts the agent from its directory.
func (a *AgentProc) Start() {
	a.zone.t.Helper()
	a.Proc = a.zone.World.Start(a.zone.Name+"-"+a.Name, a.args...) //nolint:staticcheck // a zone cannot start
}

// Instances returns the processes that run in the agent's folders.
func (a *AgentProc) Instances() []RealInstance { return instancesUnder(a.zone.t, a.Dir) }

// Hosts returns all hosts of the zone as its operator sees them.
func (z *Zone) Hosts() []api.Host {
	z.t.Helper()
	return all(z, func(ctx context.Context, c *client.Client, o client.ListOptions) (client.Page[api.Host], error) {
		return c.Hosts(ctx, o)
	})
}

// Servers returns all servers that the zone's operator sees.
func (z *Zone) Servers() []client.Server {
	z.t.Helper()
	return all(z, func(ctx context.Context, c *client.Client, o client.ListOptions) (client.Page[client.Server], error) {
		return c.Servers(ctx, client.ServerQuery{AllProjects: true}, o)
	})
}

// all reads every page of a list, at the leader.
func all[T any](z *Zone, list func(context.Context, *client.Client, client.ListOptions) (client.Page[T], error)) []T {
	z.t.Helper()
	c := z.Leader().Client(z.Token)
	var out []T
	var o client.ListOptions
	for {
		p, err := list(z.t.Context(), c, o)
		require.NoError(z.t, err)
		out = append(out, p.Items...)
		if p.Next == "" {
			return out
		}
		o.Marker = p.Next
	}
}

// Do calls f with clients of the zone's running nodes in turn, until one answers
// with something else than that it cannot just now.
func (z *Zone) Do(token string, f func(ctx context.Context, c *client.Client) error) error {
	var final error
	turn := 0
	ctx, cancel := context.WithTimeout(z.t.Context(), settleTimeout)
	defer cancel()
	for {
		nodes := z.Running()
		if len(nodes) > 0 {
			n := nodes[turn%len(nodes)]
			c, err := client.New(client.Config{Addr: "https://" + n.At.API, Token: token, CACert: z.CACert, Timeout: 5 * time.Second})
			if err != nil {
				return err
			}
			one, stop := context.WithTimeout(ctx, 5*time.Second)
			final = f(one, c)
			stop()
			c.Close()
			if final == nil || !passing(final) {
				return final
			}
		}
		turn++
		timer := time.NewTimer(pollEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return orElse(final, "no node of %s runs", z.Name)
		}
	}
}

// Outcome waits at any node until a boot has come to an outcome.
func (z *Zone) Outcome(token string, id api.ReservationID, d time.Duration) api.Boot {
	z.t.Helper()
	var b api.Boot
	within(z.t, d, "reservation "+string(id)+" has an outcome", func(context.Context) error {
		err := z.Do(token, func(ctx context.Context, c *client.Client) error {
			var err error
			b, err = c.Reservation(ctx, id, 2*time.Second)
			return err
		})
		if err == nil && b.State.Outcome() {
			return nil
		}
		return orElse(err, "it is %s, %v", b.State, b.Instances)
	})
	return b
}

// ReleaseAll gives a reservation back and waits until nothing of it is left.
func (z *Zone) ReleaseAll(token string, id api.ReservationID) {
	z.t.Helper()
	require.NoError(z.t, z.Do(token, func(ctx context.Context, c *client.Client) error {
		_, err := c.Release(ctx, id, 0)
		return err
	}))
	var b api.Boot
	within(z.t, settleTimeout, "reservation "+string(id)+" is released", func(ctx context.Context) error {
		err := z.Do(token, func(ctx context.Context, c *client.Client) error {
			var err error
			b, err = c.Reservation(ctx, id, 2*time.Second)
			return err
		})
		if err == nil && b.State == api.BootReleased {
			return nil
		}
		return orElse(errors.Join(err, ctx.Err()), "it is %s, %v", b.State, b.Instances)
	})
}
