package sim

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/raftstore/state"
	"berth/zone/fleet"
)

// moveAll gives the root a host of another agent, and moves all that is on its first
// one there.
func (w *world) moveAll(round int) {
	w.t.Helper()
	root := w.root()
	root.hire(1)
	from := root.hostBy(root.crews[round].name)
	before := len(root.view().OnHost(from))
	require.NotZero(w.t, before)
	root.drained.Store(true)
	root.insist("drain", func(ctx context.Context, c *client.Client) error {
		_, err := c.DrainHost(ctx, string(from), api.DrainMove, "its turn")
		return err
	})
	to := root.hostBy(root.crews[round+1].name)
	root.until("all run elsewhere", func(v *state.State) bool {
		n := 0
		for _, i := range v.OnHost(to) {
			if i.Status == api.StatusActive {
				n++
			}
		}
		return n == before && len(v.OnHost(from)) == 0
	})
	root.undrain(from)
}

// hostBy returns the first host of an agent.
func (z *zone) hostBy(a api.AgentID) api.HostID {
	z.w.t.Helper()
	for _, h := range z.view().AllHosts() {
		if h.Agent == a {
			return h.ID
		}
	}
	require.Fail(z.w.t, "no such host", a)
	return ""
}

// TestAgentIsLost takes one of two agents away, in each way, for shorter and for
// longer than the zone waits. What may be started elsewhere runs there then, and
// never in two places; what may not stays.
func TestAgentIsLost(t *testing.T) {
	ways := map[string]func(c *crew, d time.Duration){
		"cut off": func(c *crew, d time.Duration) { c.z.w.apart(c.z.w.net.Cut, d, c.wires()...) },
		"killed":  func(c *crew, d time.Duration) { c.down(d) },
	}
	for name, lose := range ways {
		for _, d := range []time.Duration{fleet.FenceAfter + 5*time.Second, 90 * time.Second} {
			t.Run(fmt.Sprint(name, " ", d), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { agentLost(t, lose, d) })
			})
		}
	}
}

func agentLost(t *testing.T, lose func(*crew, time.Duration), d time.Duration) {
	t.Helper()
	w := newWorld(t, dice.Seed(t), plot{"root", 3, []int{1, 1}, nil})
	root := w.root()
	for _, f := range []api.FlavorID{fixed, roaming} {
		o := order(string(f), 3, 3)
		o.FlavorRef = string(f)
		root.boot(root.nodes[0], root.nodes[0], o)
	}
	w.ops.Wait()
	w.settle()
	from, other := root.hostBy("agent-1"), root.hostBy("agent-2")
	mine := root.running(from)
	if len(mine[true]) == 0 {
		from, other, mine = other, from, root.running(other)
	}
	require.NotEmpty(t, mine[true])
	c := root.crews[0]
	if h, _ := root.view().Host(from); h.Agent != c.name {
		c = root.crews[1]
	}
	goes := 0
	if room := int(shape[api.VCPU].Total) - len(root.view().OnHost(other)); d > time.Minute {
		goes = min(len(mine[true]), room)
	}
	lose(c, d)
	await.Sleep(d)
	w.heal()
	w.settle()
	w.check()
	w.journals()
	for _, id := range mine[false] {
		i, _ := root.view().Instance(id)
		assert.Equal(t, from, i.Host, "it may not be started elsewhere")
	}
	assert.Equal(t, goes, w.books.moved)
	assert.Equal(t, len(mine[true])-goes, w.books.again, "each has ended, and runs where it was")
	w.empty()
}

// running returns what runs on a host, by whether it may be started elsewhere.
func (z *zone) running(h api.HostID) map[bool][]api.InstanceID {
	out := map[bool][]api.InstanceID{}
	for _, i := range z.view().OnHost(h) {
		out[i.Movable] = append(out[i.Movable], i.ID)
	}
	return out
}
