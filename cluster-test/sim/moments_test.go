package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
	"berth/internal/crash"
	"berth/internal/dice"
)

// moments are the points of a boot at which it is dangerous to be cut off: some of
// those who take part know something, and others do not.
var moments = []crash.Point{
	crash.HoldLogged, crash.HoldAsking, crash.HoldAsked, crash.PartsLogging, crash.PartsLogged, crash.HoldAnswering,
	crash.DecisionLogging, crash.DecisionLogging, crash.DecisionLogging, crash.DecisionLogged, crash.DecisionTelling,
	crash.DecisionTold, crash.AttemptAborting,
}

// inSuspense lets something happen to a zone with children at one of the moments,
// and sees to it that boots over all zones come to that moment.
func (w *world) inSuspense() bool {
	parents := slices.DeleteFunc(slices.Clone(w.zones), func(z *zone) bool { return len(z.children()) == 0 })
	z := parents[w.dice.IntN(len(parents))]
	if w.resting || z.leader() == nil {
		return false
	}
	at, s, what := moments[w.dice.IntN(len(moments))], &shot{left: 1 + w.dice.IntN(2)}, w.dice.IntN(6)
	d := time.Duration(15+w.dice.IntN(40)) * time.Second // longer than a child waits before it asks
	for _, p := range z.nodes {
		p.bomb.arm(at, 0, func() {
			s.hit(func() { p.suffer(what, at, d) })
		})
	}
	w.burst(z)
	return true
}

// suffer is what happens to a process at a moment; it may wait in it.
func (p *process) suffer(what int, at crash.Point, d time.Duration) {
	w := p.z.w
	switch what {
	case 0, 1:
		w.tally.fault("killed at " + string(at))
		p.down(d / 10)
	case 2:
		w.tally.fault("children cut off at " + string(at))
		w.apart(w.net.Cut, d, p.z.down()...)
	case 3:
		w.tally.fault("stalled at " + string(at))
		await.Sleep(d)
	case 4, 5:
		w.tally.fault("stalled and killed at " + string(at))
		await.Sleep(d)
		p.down(time.Second)
	}
}

// burst makes some boots at once, most of them wider than the zone itself. Now and
// then they are all of one server group.
func (w *world) burst(z *zone) {
	group := []api.Policy{"", "", api.AntiAffinity, api.Affinity}[w.dice.IntN(4)]
	for range 2 + w.dice.IntN(2) {
		w.bursts++
		o := order(fmt.Sprintf("burst%d", w.bursts), 1+w.dice.IntN(3), 5+w.dice.IntN(8))
		if group != "" {
			o.Hints = &rest.SchedulerHints{Group: string(group)}
		}
		if group == api.Affinity {
			o.MinCount = nil
			*o.MaxCount = 1 + w.dice.IntN(2)
		}
		w.soften(&o)
		z.boot(w.nodeOf(z), w.nodeOf(z), o)
	}
}

func (w *world) nodeOf(z *zone) *process { return z.nodes[w.dice.IntN(len(z.nodes))] }

func (z *zone) children() []*zone {
	return slices.DeleteFunc(slices.Clone(z.w.zones), func(o *zone) bool { return o.parent != z })
}

// down returns all pairs of nodes of a zone and its children.
func (z *zone) down() [][2]string {
	var pairs [][2]string
	for _, c := range z.children() {
		pairs = append(pairs, between(c)...)
	}
	return pairs
}

// The story of a leader of the past. A process that is stopped by its machine for a
// while may answer somebody before it learns that it was deposed. Here that moment
// is long: its Raft waits, and its doors are open. It is not longer than what a zone
// adds to a fence before it starts anything elsewhere, counted from its new leader.
const (
	stall     = 18 * time.Second // how long it does not know
	successor = 5 * time.Second  // after which another node leads
	turn      = 11 * time.Second // after which the agent can reach the old leader alone
	aware     = 5 * time.Second  // after the end, until it has certainly learned of it
)

// past makes the leader of a zone one of the past: the zone goes on without it, an
// instance ends, and then its agent can ask only the old leader. It reports
// false if the zone has no such leader or no such instance just now.
func (z *zone) past() bool {
	w, old := z.w, z.leader()
	if len(z.nodes) < 3 || old == nil || slices.ContainsFunc(z.nodes, func(o *process) bool { return o.running() == nil }) {
		return false
	}
	victim := z.own()
	if victim == "" {
		return false
	}
	others := slices.DeleteFunc(z.hostsOf(), func(h string) bool { return h == old.host.Name() })
	agent := z.crewOf(victim).host.Name()
	var once sync.Once
	old.bomb.arm(crash.LogWriting, 1, func() {
		once.Do(func() {
			old.past.Store(true)
			w.net.Isolate(old.host.Name(), others...)
			w.net.Refuse(agent, old.host.Name())
			await.Sleep(stall)
			w.after(aware, func() { old.past.Store(false) })
		})
	})
	place := slices.Index(z.nodes, old)
	z.call("flavor", old, func(ctx context.Context, c *client.Client) error { // it is what the leader stalls at
		_, err := c.CreateFlavor(ctx, rest.FlavorSpec{Name: "stall-" + string(victim), VCPUs: new(int64(1)), RAM: new(int64(64)), Disk: new(int64(1))})
		return err
	})
	w.after(successor, func() {
		z.call("delete", z.nodes[(place+1)%len(z.nodes)], func(ctx context.Context, c *client.Client) error {
			err := c.DeleteServer(ctx, victim)
			if err == nil {
				z.note(func(t *told) { t.deleted = append(t.deleted, victim) })
			}
			return err
		})
	})
	w.after(turn, func() {
		w.net.Mend(agent, old.host.Name())
		for _, o := range others {
			w.net.Refuse(agent, o)
		}
	})
	w.after(stall, func() {
		for _, o := range others {
			w.net.Mend(agent, o)
			w.net.Mend(old.host.Name(), o)
		}
	})
	return true
}

// crewOf returns the agent that serves the host of an instance.
func (z *zone) crewOf(id api.InstanceID) *crew {
	v := z.newest()
	i, _ := v.Instance(id)
	h, _ := v.Host(i.Host)
	return z.crews[slices.IndexFunc(z.crews, func(c *crew) bool { return c.name == h.Agent })]
}

// own returns an instance that runs in the zone and was made there, or "".
func (z *zone) own() api.InstanceID {
	v := z.newest()
	if v == nil {
		return ""
	}
	for _, i := range all(v) {
		if i.Origin == "" && i.Host != "" && i.Status == api.StatusActive {
			return i.ID
		}
	}
	return ""
}

func (w *world) leaderOfThePast() bool {
	for _, z := range w.zones {
		if !w.resting && z.past() {
			return true
		}
	}
	return false
}

// TestLeaderOfThePast lets an agent stop an instance, and then ask a leader that
// does not know that it was deposed, nor that the instance should stop.
func TestLeaderOfThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dice.Seed(t), line)
		root := w.root()
		require.Equal(t, api.BootActive, root.run("one", 1, 1).State)
		w.settle()
		victim := root.own()
		require.True(t, root.past())
		await.Sleep(turn - time.Second)
		i, ok := root.view().Instance(victim)
		require.True(t, ok)
		require.Equal(t, api.StatusDeleted, i.Status, "it must have ended under the new leader")
		await.Sleep(stall)
		w.heal()
		w.settle()
		w.check()
		assert.NotZero(t, w.journals().Stale, "the agent has refused nothing that the old leader said")
		w.empty()
	})
}
