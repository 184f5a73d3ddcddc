package sim

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/internal/dice"
	"berth/node"
	"berth/raftstore/state"
)

// TestAllNodesAreReplaced replaces every node of a parent and of its child, one by
// one and twice, each by one at another address, and starts the agents again with
// what they kept. The link follows on both sides, and so do the agents: what runs
// runs on, and boots go through the link to the hosts of old. All are the child's.
func TestAllNodesAreReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dice.Seed(t), plot{"root", 1, nil, []plot{{"west", 3, []int{1, 1}, nil}}})
		root, west := w.root(), w.zone("west")
		require.Equal(t, api.BootActive, root.run("stays", 2, 2).State)
		for round := range 3 {
			if round > 0 {
				w.replaceNodes()
			}
			if round == 2 {
				west.restartAgents()
			}
			res := fmt.Sprint("round-", round)
			require.Equal(t, api.BootActive, root.run(res, 6, 6).State, "on all hosts there ever were")
			root.insist("release", func(ctx context.Context, c *client.Client) error {
				_, err := c.Release(ctx, api.ReservationID(res), 0)
				return err
			})
			w.settle()
		}
		w.check()
		w.empty()
	})
}

// restartAgents ends the zone's agents, until the zone takes their hosts for down,
// and starts them again from what their directories hold.
func (z *zone) restartAgents() {
	z.w.t.Helper()
	for _, c := range z.crews {
		c.kill()
		c.reap()
	}
	z.until("its hosts are down", func(v *state.State) bool {
		return !slices.ContainsFunc(v.AllHosts(), func(h *state.Host) bool { return h.State == api.HostUp })
	})
	for _, c := range z.crews {
		c.start()
		c.awaitUp()
	}
}

// replaceNodes replaces every node of every zone, and waits until the links show it.
func (w *world) replaceNodes() {
	w.t.Helper()
	for _, z := range w.zones {
		for range len(z.nodes) {
			z.replaceNode()
		}
	}
	for _, z := range w.zones {
		if z.parent == nil {
			continue
		}
		z.learns(z.parent)
		z.parent.learns(z)
	}
}

// learns waits until a zone's link to another one has all gateways of that.
func (z *zone) learns(to *zone) {
	z.w.t.Helper()
	z.until("it knows where "+to.name+" is", func(v *state.State) bool {
		l, ok := v.LinkByZone(to.id)
		return ok && slices.Equal(slices.Sorted(slices.Values(l.Endpoints)), to.gatewayAddrs())
	})
}

// gatewayAddrs returns where the gateways of the zone's nodes are, sorted.
func (z *zone) gatewayAddrs() []string {
	var out []string
	for _, p := range z.nodes {
		out = append(out, node.DefaultAddresses(p.host.Name()).Gateway)
	}
	slices.Sort(out)
	return out
}

// replaceNode takes the oldest node of the zone out, after another one has joined
// where none was before.
func (z *zone) replaceNode() {
	z.w.t.Helper()
	old := z.nodes[0]
	z.addNodeAt(len(z.nodes), z.joined)
	z.until("the new node votes", func(*state.State) bool {
		voters := 0
		for _, m := range z.leads().Federation().Members() {
			if m.Voter {
				voters++
			}
		}
		return voters == len(z.nodes)
	})
	z.insist("transfer", func(ctx context.Context, c *client.Client) error {
		if old.running() == nil || !old.running().Leads() {
			return nil
		}
		return c.Transfer(ctx, "")
	})
	z.insistElsewhere(0, func(ctx context.Context, c *client.Client) error { return c.RemoveMember(ctx, old.id) })
	old.kill()
	old.reap()
	z.mu.Lock()
	z.nodes = slices.Delete(slices.Clone(z.nodes), 0, 1)
	z.mu.Unlock()
}
