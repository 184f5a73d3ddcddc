package sim

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/cluster-test/simnet"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/raftstore/state"
)

// What a call over a link may take when one of the other zone's gateways is bad, and
// within what time news of instances come.
const (
	calledWithin = 2 * time.Second
	newsWithin   = 5 * time.Second
)

// awayMax is how long a machine is away at the most.
const awayMax = 60 * time.Second

// leaves lets a machine be away for a while, in one of two ways.
func (w *world) leaves(h *simnet.Host, leave func(*simnet.Host)) bool {
	leave(h)
	w.after(time.Duration(1+w.dice.IntN(int(awayMax/time.Second)))*time.Second, h.Resume)
	return true
}

// freezeNode lets a machine stand still: its connections stay open, and nothing is
// read or written.
func (w *world) freezeNode() bool { return w.leaves(w.anyNode().host, (*simnet.Host).Freeze) }

// vanishNode lets a machine be gone without a word.
func (w *world) vanishNode() bool { return w.leaves(w.anyNode().host, (*simnet.Host).Vanish) }

// TestOneGatewayIsAway lets the gateway of a child that the parent uses, one of three,
// stand still or be gone. What users of the parent want there is done in time, and
// heard of. When the gateway led, its zone elects another leader first.
func TestOneGatewayIsAway(t *testing.T) {
	type story struct{ who, how, first string }
	var stories []story
	for _, who := range []string{"leader", "follower"} {
		for _, how := range []string{"frozen", "vanished"} {
			stories = append(stories, story{who, how, "delete"}, story{who, how, "boot"})
		}
	}
	leave := map[string]func(*simnet.Host){"frozen": (*simnet.Host).Freeze, "vanished": (*simnet.Host).Vanish}
	for _, s := range dice.Part(t, stories, 4) {
		t.Run(fmt.Sprint(s.who, " ", s.how, ", ", s.first), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { oneGatewayIsAway(t, leave[s.how], s.who == "leader", s.first) })
		})
	}
}

func oneGatewayIsAway(t *testing.T, leave func(*simnet.Host), leads bool, first string) {
	t.Helper()
	w := newWorld(t, dice.Seed(t), plot{"root", 1, nil, []plot{{"west", 3, []int{1, 1}, nil}}})
	root, west := w.root(), w.zone("west")
	away := west.leader()
	if !leads {
		away = west.nodes[(slices.Index(west.nodes, away)+1)%len(west.nodes)]
	}
	root.learns(west)
	west.meet(root, away)
	var old api.InstanceID
	for n := 0; old == ""; n++ { // a boot may fail while the parent finds the one gateway
		require.Less(t, n, 5)
		b := root.run(fmt.Sprint("old-", n), 2, 2)
		if b.State == api.BootActive {
			old = root.view().OfReservation(project, b.Reservation)[0].ID
			break
		}
		t.Logf("try %d: %s %+v", n, b.Reason, b.Attempts)
		await.Sleep(awayMax)
	}
	w.net.Heal()
	w.settle()

	began := time.Now()
	leave(away.host)
	second := "boot"
	if first == "boot" {
		second = "delete"
	}
	extra := time.Duration(0)
	if leads {
		extra = electedWithin
	}
	var heard []func()
	for _, what := range []string{first, second} {
		start := time.Now()
		heard = append(heard, root.begin(what, old))
		took := time.Since(start)
		t.Logf("%s: %s", what, took)
		assert.Less(t, took, calledWithin+extra, what)
		extra = 0
	}
	for _, f := range heard {
		f()
	}
	news := time.Since(began)
	t.Logf("news: %s", news)
	if leads {
		news -= electedWithin
	}
	assert.Less(t, news, newsWithin, "news of what became of it")
	away.host.Resume()
	w.heal()
	w.settle()
	w.check()
	w.empty()
}

// electedWithin is how long a zone may be without a leader after it has lost one.
var electedWithin = 2*timing.Heartbeat + timing.Election

// begin lets the one child of a zone boot or delete something, and waits until it is
// decided there. What it returns waits until the zone has heard what became of it.
func (z *zone) begin(what string, old api.InstanceID) (heard func()) {
	z.w.t.Helper()
	c, child := z.client(z.nodes[0]), z.w.zone("west")
	if what == "delete" {
		require.NoError(z.w.t, c.DeleteServer(z.w.ctx, old))
		z.note(func(t *told) { t.deleted = append(t.deleted, old) })
		gone := func(at *zone, is ...api.Status) func() bool {
			return func() bool {
				l := at.leader()
				if l == nil {
					return false
				}
				i, ok := l.node.Store().View().Instance(old)
				return ok && slices.Contains(is, i.Status)
			}
		}
		soon(z.w.t, "the child ends it", gone(child, api.StatusDeleting, api.StatusDeleted))
		return func() { soon(z.w.t, "it is gone", gone(z, api.StatusDeleted)) }
	}
	_, err := c.Boot(z.w.ctx, order("fresh", 1, 1), "")
	require.NoError(z.w.t, err)
	z.note(func(t *told) { t.booted = append(t.booted, "fresh") })
	is := func(good func(b *state.Boot) bool) func() bool {
		return func() bool { b, ok := z.view().Boot(project, "fresh"); return ok && good(b) }
	}
	soon(z.w.t, "it is decided", is(func(b *state.Boot) bool { return b.Decision == api.DecisionCommit }))
	return func() {
		soon(z.w.t, "it runs", is(func(b *state.Boot) bool { return b.State() == api.BootActive }))
	}
}

// soon waits for something, and notices it within 10 ms.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); await.Sleep(10 * time.Millisecond) {
		require.Less(t, time.Since(began), patience, what)
	}
}
