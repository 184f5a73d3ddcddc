package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
)

// Limits of one call: how long Do waits for one node at first, and how often that doubles.
const (
	callTimeout   = 5 * time.Second
	callDoublings = 2

	lookWait = 200 * time.Millisecond // of one look at a boot
)

// Zone is a zone of real processes.
type Zone struct {
	*World
	Name   string
	Token  string      // of its admin
	CACert []byte      // PEM
	Nodes  []*NodeProc // changed by Join and Forget alone; other goroutines ask Members
	Agents []*AgentProc

	caPath string
	many   bool          // it was made with several nodes
	turn   atomic.Uint64 // which node Do asks first

	mu      sync.Mutex // guards what follows, and changes of Nodes
	clients map[clientKey]*client.Client
}

// Zone makes a zone with a number of nodes, on a machine each, and waits until all take
// part.
func (w *World) Zone(name string, nodes int) *Zone {
	w.T.Helper()
	z := &Zone{World: w, Name: name, many: nodes > 1, clients: map[clientKey]*client.Client{}}
	w.Zones = append(w.Zones, z)
	w.T.Cleanup(z.hangUp)
	first := z.addNode("node-1")
	out := w.mustRun(nil, append([]string{"init", "--dir", first.Dir, "--name", name}, first.listenFlags()...)...)
	z.Token = out[strings.LastIndexByte(out, '\n')+1:]
	require.NoError(w.T, first.advertiseProxy())
	var err error
	z.CACert, err = os.ReadFile(filepath.Join(first.Dir, "ca.pem"))
	require.NoError(w.T, err)
	z.caPath = w.writePrivate(name+".ca.pem", string(z.CACert)) // also for when the node's disk is not there
	z.addMember(first)
	first.Start()
	first.Ready()
	for len(z.Nodes) < nodes {
		z.Join(fmt.Sprintf("node-%d", len(z.Nodes)+1))
	}
	return z
}

// Join makes one more node and waits until it votes and is ready.
func (z *Zone) Join(id string) *NodeProc {
	z.T.Helper()
	token := z.CLI("join-token", "create", "--kind", "node", "--name", id)
	n := z.addNode(id)
	n.joinZone(token)
	z.addMember(n)
	n.Ready()
	await.Until(z.T, id+" votes", func(ctx context.Context) error {
		members, err := n.Client(z.Token).Members(ctx)
		for _, m := range members {
			if m.ID == n.ID && m.Voter && m.APIAddr == n.At.API {
				return nil
			}
		}
		return OrElse(err, "it is not a voter yet")
	})
	return n
}

// CLI runs a verb of the command line as the zone's admin, at its first running
// node. It is run again, as the manual says, while the zone has no leader, or does not
// answer in time.
func (z *Zone) CLI(args ...string) string {
	z.T.Helper()
	var out string
	await.Until(z.T, "berth "+strings.Join(args, " "), func(context.Context) error {
		var err error
		out, err = z.TryCLI(z.Running()[0], args...)
		if err != nil {
			require.Regexp(z.T, `\((unavailable|timeout)`, err.Error(), "berth %s", strings.Join(args, " "))
		}
		return err
	})
	return out
}

// TryCLI runs a verb as the zone's admin at one node.
func (z *Zone) TryCLI(n *NodeProc, args ...string) (string, error) {
	return z.runCommand(z.T.Context(), []string{"BERTH_ADDR=https://" + n.At.API, "BERTH_TOKEN=" + z.Token, "BERTH_CACERT=" + z.caPath},
		append(args, "--no-headers")...)
}

func (z *Zone) addMember(n *NodeProc) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.Nodes = append(slices.Clone(z.Nodes), n)
}

// Forget removes a node from the list after it was removed from the zone.
func (z *Zone) Forget(gone *NodeProc) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.Nodes = slices.DeleteFunc(slices.Clone(z.Nodes), func(n *NodeProc) bool { return n == gone })
}

// Members returns the nodes that were not removed from the zone. It is safe for concurrent
// use.
func (z *Zone) Members() []*NodeProc {
	z.mu.Lock()
	defer z.mu.Unlock()
	return slices.Clone(z.Nodes)
}

// Running returns the nodes that run. It is safe for concurrent use.
func (z *Zone) Running() []*NodeProc {
	var out []*NodeProc
	for _, n := range z.Members() {
		if n.Running() {
			out = append(out, n)
		}
	}
	return out
}

// Node returns a node by id.
func (z *Zone) Node(id api.NodeID) *NodeProc {
	z.T.Helper()
	for _, n := range z.Nodes {
		if n.ID == id {
			return n
		}
	}
	require.Failf(z.T, "no such node", "%s has no node %s", z.Name, id)
	return nil
}

// Leader returns the leader, once the zone's running nodes agree on it.
func (z *Zone) Leader() *NodeProc {
	z.T.Helper()
	var leader *NodeProc
	await.Until(z.T, z.Name+" has one leader", func(ctx context.Context) error {
		var err error
		leader, err = z.AskLeader(ctx)
		return err
	})
	return leader
}

// AskLeader asks some nodes once for the leader, or all running ones if none is given, and
// returns an error unless they agree on a running one.
func (z *Zone) AskLeader(ctx context.Context, of ...*NodeProc) (*NodeProc, error) {
	if len(of) == 0 {
		of = z.Running()
	}
	var leader *NodeProc
	for _, n := range of {
		members, err := n.Client(z.Token).Members(ctx)
		if err != nil {
			return nil, err
		}
		var led *NodeProc
		for _, m := range members {
			for _, at := range z.Members() {
				if m.Leader && at.ID == m.ID {
					led = at
				}
			}
		}
		if led == nil || !led.Running() {
			return nil, fmt.Errorf("%s knows no leader that runs", n.ID)
		}
		if leader != nil && leader != led {
			return nil, errors.New("two nodes name different leaders")
		}
		leader = led
	}
	return leader, orNil(leader != nil, "no node of %s runs", z.Name)
}

// orNil returns nil if all is well, or an error with this text.
func orNil(well bool, format string, args ...any) error {
	if well {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// Link makes child a child of z, by the command line of both.
func (z *Zone) Link(child *Zone) {
	z.T.Helper()
	await.Until(z.T, z.Name+" is linked with "+child.Name, func(ctx context.Context) error {
		token := z.CLI("zone", "link-token", child.Name)
		_, err := child.TryCLI(child.Running()[0], "zone", "link", "--link-token-file", z.writePrivate(child.Name+".link", token))
		page, e := child.Admin().Zones(ctx, client.ListOptions{})
		if e == nil && slices.ContainsFunc(page.Items, func(l rest.Zone) bool { return l.Role == api.LinkParent }) {
			return nil // also if the answer was lost
		}
		return OrElse(err, "%s has no parent", child.Name)
	})
}

// Flavor defines a flavor with an amount of memory in MiB. command may be nil.
func (z *Zone) Flavor(name string, ram int64, command ...string) {
	z.T.Helper()
	z.CreateFlavor(rest.FlavorSpec{Name: name, RAM: new(ram), Command: command})
}

// CreateFlavor defines a flavor, even if the zone's leader changes during the call.
func (z *Zone) CreateFlavor(s rest.FlavorSpec) {
	z.T.Helper()
	err := z.Do(z.T.Context(), z.Token, func(ctx context.Context, c *client.Client) error {
		_, err := c.CreateFlavor(ctx, s)
		return err
	})
	if unsure, ok := errors.AsType[*client.RefusedError](err); ok && unsure.Unsure && api.CodeOf(err) == api.CodeConflict {
		return // an attempt whose answer was lost
	}
	require.NoError(z.T, err)
}

// Admin returns a client of the zone's first running node, with the admin's token.
func (z *Zone) Admin() *client.Client {
	z.T.Helper()
	return z.Running()[0].Client(z.Token)
}

// MemberToken creates a token of a project with the lowest role that may boot.
func (z *Zone) MemberToken(project string, role api.UserRole) string {
	z.T.Helper()
	var token string
	require.NoError(z.T, z.Do(z.T.Context(), z.Token, func(ctx context.Context, c *client.Client) error {
		made, err := c.CreateToken(ctx, rest.TokenSpec{User: "ada", Project: api.ProjectID(project), Roles: []api.UserRole{role}})
		token = made.Token
		return err
	}))
	return token
}

// Hosts returns all hosts of the zone, as shown to its operator.
func (z *Zone) Hosts() []rest.Host {
	z.T.Helper()
	return z.Leader().hosts()
}

// hosts returns all hosts that this node knows.
func (n *NodeProc) hosts() []rest.Host {
	n.Zone.T.Helper()
	return readAllAt(n, func(ctx context.Context, c *client.Client, o client.ListOptions) (client.Page[rest.Host], error) {
		return c.Hosts(ctx, o)
	})
}

// Servers returns all servers that the zone's operator sees.
func (z *Zone) Servers() []rest.Server {
	z.T.Helper()
	return readAll(z, func(ctx context.Context, c *client.Client, o client.ListOptions) (client.Page[rest.Server], error) {
		return c.Servers(ctx, client.ServerQuery{AllProjects: true}, o)
	})
}

// Volumes returns all volumes that the zone's operator sees.
func (z *Zone) Volumes() []rest.Volume {
	z.T.Helper()
	return readAll(z, func(ctx context.Context, c *client.Client, o client.ListOptions) (client.Page[rest.Volume], error) {
		return c.Volumes(ctx, client.VolumeQuery{AllProjects: true}, o)
	})
}

// readAll reads every page of a list, at the leader.
func readAll[T any](z *Zone, list func(context.Context, *client.Client, client.ListOptions) (client.Page[T], error)) []T {
	z.T.Helper()
	return readAllAt(z.Leader(), list)
}

// readAllAt is readAll at one node.
func readAllAt[T any](n *NodeProc, list func(context.Context, *client.Client, client.ListOptions) (client.Page[T], error)) []T {
	z := n.Zone
	z.T.Helper()
	c := n.Client(z.Token)
	var out []T
	var o client.ListOptions
	for {
		var p client.Page[T]
		await.Until(z.T, z.Name+" answers", func(ctx context.Context) (err error) {
			p, err = list(ctx, c, o)
			return err
		})
		out = append(out, p.Items...)
		if p.Next == "" {
			return out
		}
		o.Marker = p.Next
	}
}

// isPassing reports whether another node, or this one later, may succeed.
func isPassing(err error) bool {
	later := []api.Code{api.CodeUnavailable, api.CodeTimeout, api.CodeOverloaded}
	return slices.Contains(later, api.CodeOf(err)) || errors.Is(err, context.DeadlineExceeded)
}

// Do calls f with clients of the zone's running nodes in turn, until one answers with anything but a
// temporary failure, or ctx ends. Each has 5 s, and twice as long when all have had their turn. It returns the last result of
// f, as a client.RefusedError with Unsure if an earlier attempt may have been carried
// out.
func (z *Zone) Do(ctx context.Context, token string, f func(ctx context.Context, c *client.Client) error) error {
	var final error
	turn, tries := z.turn.Load(), 0
	unsure := false // an attempt before the last may have been carried out
	never := await.Wait(ctx, func(ctx context.Context) error {
		n := z.nodeAt(turn)
		if n != nil {
			c, err := n.TryClient(token)
			if err != nil {
				final = err
				return nil
			}
			unsure = unsure || final != nil && !client.Undone(final)
			one, stop := context.WithTimeout(ctx, callTimeout<<min(tries/max(1, len(z.Members())), callDoublings))
			final = f(one, c)
			stop()
			if final == nil || !isPassing(final) {
				return nil
			}
		}
		tries++
		turn = z.turnAfter(turn, n)
		return OrElse(final, "no node of %s runs", z.Name)
	})
	if final == nil {
		final = never
	}
	return orUnsure(final, unsure)
}

// orUnsure returns the error of a repeated call after err.
func orUnsure(err error, unsure bool) error {
	if err == nil || !unsure {
		return err
	}
	return api.Wrap(api.CodeOf(err), "lab.Do", "an attempt before may have been carried out; then: "+err.Error(), &client.RefusedError{Unsure: true})
}

// nodeAt returns the node that a turn stands for, nil if none runs: the members in
// turn, without those that do not run.
func (z *Zone) nodeAt(turn uint64) *NodeProc {
	nodes := z.Members()
	for i := range nodes {
		if n := nodes[(turn+uint64(i))%uint64(len(nodes))]; n.Running() {
			return n
		}
	}
	return nil
}

// turnAfter returns the turn after one whose node failed, for all callers: callers that
// failed at the same node at the same time continue together, so that they do not return
// to it.
func (z *Zone) turnAfter(turn uint64, failed *NodeProc) uint64 {
	next := turn + 1
	for range z.Members() {
		if z.nodeAt(next) != failed {
			break
		}
		next++
	}
	if z.turn.CompareAndSwap(turn, next) {
		return next
	}
	if now := z.turn.Load(); z.nodeAt(now) != failed {
		return now
	}
	return next
}

// Outcome waits at any node until a boot has reached an outcome.
func (z *Zone) Outcome(token string, id api.ReservationID) rest.Boot {
	z.T.Helper()
	return z.awaitState(token, id, "has an outcome", api.BootState.Outcome)
}

// ReleaseAll deletes a reservation and waits until nothing of it is left.
func (z *Zone) ReleaseAll(token string, id api.ReservationID) {
	z.T.Helper()
	require.NoError(z.T, z.Do(z.T.Context(), token, func(ctx context.Context, c *client.Client) error {
		_, err := c.Release(ctx, id, 0)
		return err
	}))
	z.awaitState(token, id, "is released", func(s api.BootState) bool { return s == api.BootReleased })
}

// awaitState waits until a reservation is as it should be.
func (z *Zone) awaitState(token string, id api.ReservationID, what string, as func(api.BootState) bool) rest.Boot {
	z.T.Helper()
	var b rest.Boot
	await.Until(z.T, "reservation "+string(id)+" "+what, func(ctx context.Context) error {
		err := z.Do(ctx, token, func(ctx context.Context, c *client.Client) error {
			var err error
			b, err = c.Reservation(ctx, id, lookWait)
			return err
		})
		if err == nil && as(b.State) {
			return nil
		}
		return OrElse(err, "it is %s, %v", b.State, b.Instances)
	})
	return b
}
