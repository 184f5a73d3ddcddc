package sim

import (
	"context"
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
	"berth/raftstore/state"
)

// couple is a parent and a child of three nodes each. A boot of five needs the child.
var couple = plot{"root", 3, []int{1}, []plot{{"west", 3, []int{1}, nil}}}

// stand makes the leader of a zone one of the past, as at the story of a leader of
// the past, and returns it once another node leads. Neither the other nodes of the
// zone nor its agents reach it before thaw is called.
func (z *zone) stand() (old, next *process, thaw func()) {
	w := z.w
	z.leads()
	old = z.leader()
	goOn, stands := make(chan struct{}), make(chan struct{})
	old.bomb.arm(crash.LogWriting, 1, func() {
		old.past.Store(true)
		for _, p := range z.nodes {
			if p != old {
				w.net.Cut(old.host.Name(), p.host.Name())
			}
		}
		for _, c := range z.crews {
			w.net.Refuse(c.host.Name(), old.host.Name())
		}
		close(stands)
		<-goOn
	})
	z.call("flavor", old, func(ctx context.Context, c *client.Client) error { // it is what the leader stalls at
		_, err := c.CreateFlavor(ctx, rest.FlavorSpec{Name: "stall", VCPUs: new(int64(1)), RAM: new(int64(64)), Disk: new(int64(1))})
		return err
	})
	<-stands
	for next = z.leader(); next == nil || next == old; next = z.leader() {
		await.Sleep(100 * time.Millisecond)
	}
	thaw = sync.OnceFunc(func() {
		close(goOn)
		for _, p := range z.nodes {
			w.net.Mend(old.host.Name(), p.host.Name())
		}
		for _, c := range z.crews {
			w.net.Mend(c.host.Name(), old.host.Name())
		}
		w.after(aware, func() { old.past.Store(false) })
	})
	assert.True(w.t, old.node.Leads(), "it must not know that it leads no more")
	w.t.Cleanup(thaw) // a test that fails leaves nobody waiting
	return old, next, thaw
}

// standLeader makes the leader of any zone one of the past for a while, at the next
// entry that it writes. Users and other zones go on to ask it.
func (w *world) standLeader() bool {
	z, d := w.anyZone(), time.Duration(1+w.dice.IntN(30))*time.Second
	old := z.leader()
	if w.resting || len(z.nodes) < 3 || old == nil {
		return false
	}
	old.bomb.arm(crash.LogWriting, 1, func() {
		if n := old.running(); n != nil && n.Leads() && old.past.CompareAndSwap(false, true) {
			w.tally.fault("stood still")
			old.standStill(d)
			w.after(aware, func() { old.past.Store(false) })
		}
	})
	return true
}

// standStill keeps a node apart from the other nodes of its zone, and from its agents,
// while so much time passes. Other faults that end meanwhile do not bring them
// together: a zone promises nothing of instances whose agent is told for longer than
// a fence lasts, by a leader of the past, that it is heard.
func (p *process) standStill(d time.Duration) {
	z, net := p.z, p.z.w.net
	for began := time.Now(); time.Since(began) < d; await.Sleep(100 * time.Millisecond) {
		for _, o := range z.nodes {
			if o != p {
				net.Cut(p.host.Name(), o.host.Name())
			}
		}
		for _, c := range z.crews {
			net.Refuse(c.host.Name(), p.host.Name())
		}
	}
	for _, o := range z.nodes {
		if o != p {
			net.Mend(p.host.Name(), o.host.Name())
		}
	}
	for _, c := range z.crews {
		net.Mend(c.host.Name(), p.host.Name())
	}
}

// meet lets one node of a zone, and no other, be reached by another zone.
func (z *zone) meet(other *zone, alone *process) {
	for _, p := range z.nodes {
		for _, o := range other.nodes {
			if p == alone {
				z.w.net.Mend(p.host.Name(), o.host.Name())
			} else {
				z.w.net.Refuse(p.host.Name(), o.host.Name())
			}
		}
	}
}

// reach lets every node of a zone but one be reached by another zone.
func (z *zone) reach(other *zone, but *process) {
	for _, p := range z.nodes {
		for _, o := range other.nodes {
			if p == but {
				z.w.net.Refuse(p.host.Name(), o.host.Name())
			} else {
				z.w.net.Mend(p.host.Name(), o.host.Name())
			}
		}
	}
}

// TestParentAsksAChildOfThePast deletes, at the root, servers of a child whose
// leader of the past is the only node that the root can reach. It does not know
// them; they are not gone.
func TestParentAsksAChildOfThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dice.Seed(t), couple)
		root, west := w.root(), w.zone("west")
		old, _, thaw := west.stand()
		west.reach(root, old)
		require.Equal(t, api.BootActive, root.run("wide", 5, 5).State)
		there := west.view()
		require.NotEmpty(t, all(there), "some of them are in the child")
		victim := all(there)[0].ID

		west.meet(root, old)
		root.insist("delete", func(ctx context.Context, c *client.Client) error { return c.DeleteServer(ctx, victim) })
		root.note(func(t *told) { t.deleted = append(t.deleted, victim) })
		await.Sleep(stall)
		i, ok := root.view().Instance(victim)
		require.True(t, ok)
		assert.Equal(t, api.StatusDeleting, i.Status, "nobody who knows says that it is gone")
		thaw()
		w.heal()
		w.settle()
		w.check()
		west.until("it ends", func(v *state.State) bool { i, _ := v.Instance(victim); return i.Status == api.StatusDeleted })
		w.empty()
	})
}

// TestChildAsksAParentOfThePast lets a child that holds slots ask, what became of
// the hold, a leader of the past: it has never heard of the boot, which its
// successor has committed.
func TestChildAsksAParentOfThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dice.Seed(t), couple)
		root, west := w.root(), w.zone("west")
		old, next, thaw := root.stand()
		root.reach(west, old)
		next.bomb.arm(crash.DecisionLogging, 1, func() { root.meet(west, old) }) // logged, it is told at once
		ctx, cancel := context.WithTimeout(w.ctx, patience)
		defer cancel()
		_, err := root.client(next).Boot(ctx, order("wide", 5, 5), "")
		require.NoError(t, err)
		root.note(func(t *told) { t.booted = append(t.booted, "wide") })
		await.Sleep(2 * stall) // until the child has asked
		b, _ := root.view().Boot(project, "wide")
		require.Equal(t, api.DecisionCommit, b.Decision)
		assert.Len(t, west.view().PreparedHolds(), 1, "nobody who knows says that it was given up")
		thaw()
		w.heal()
		w.settle()
		w.check()
		b, _ = root.view().Boot(project, "wide")
		assert.Equal(t, api.BootActive, b.State())
		w.empty()
	})
}

// TestUserAsksALeaderOfThePast deletes what was made since at a leader of the past.
func TestUserAsksALeaderOfThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dice.Seed(t), plot{"root", 3, []int{1}, nil})
		root := w.root()
		old, next, thaw := root.stand()
		ctx, cancel := context.WithTimeout(w.ctx, stall)
		defer cancel()
		_, err := root.client(next).Boot(ctx, order("one", 1, 1), "")
		require.NoError(t, err)
		root.note(func(t *told) { t.booted = append(t.booted, "one") })
		root.until("it runs", func(v *state.State) bool { b, _ := v.Boot(project, "one"); return b.State() == api.BootActive })
		c := root.client(old)
		for _, err := range []error{c.DeleteServer(ctx, root.own()), func() error { _, err := c.Release(ctx, "one", 0); return err }()} {
			assert.Contains(t, []api.Code{api.CodeUnavailable, api.CodeTimeout}, api.CodeOf(err), "%v", err)
		}
		thaw()
		w.heal()
		w.settle()
		w.check()
		w.empty()
	})
}
