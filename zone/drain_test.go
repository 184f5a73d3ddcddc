package zone_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// wholeDrain is everything that preemptibles leave for, in two zones: a lease that is announced, an
// owner who comes back to what he has lent, and a firm boot. They ask to be booted again, and are.
func wholeDrain(w *world) {
	root := w.zones[0]
	soft := order("soft", 1, 6)
	soft.Request.Class, soft.Request.OnPreempt, soft.Instances = api.Preemptible, api.PreemptRequeue, specs("soft", 6)
	root.run(soft)
	terms := leaseOf("l", 2*time.Minute, time.Hour, 3)
	terms.Reservations[0].ShareIdle = true
	var id api.LeaseID
	require.NoError(w.t, w.retry(func() (err error) {
		ctx, cancel := root.within(2 * time.Minute)
		defer cancel()
		id, err = root.lead().Create(ctx, who, terms, "l")
		return err
	}))
	l := root.untilLease(id, api.LeaseActive)
	time.Sleep(3 * time.Minute) // what had to leave has come back into what is lent
	own := order("own", 1, 1)
	own.Request.Within, own.Instances = l.Terms.Reservations[0].ID, specs("own", 1)
	root.run(own)
	firm := order("firm", 2, 2)
	firm.Request.Preempt, firm.Instances = true, specs("firm", 2)
	root.run(firm)
	w.settle()
	for _, res := range []string{"own", "firm"} {
		assert.Equal(w.t, api.BootActive, root.outcome(res).State(), "boot %s", res)
	}
	for _, m := range w.zones {
		m.until("nothing waits for its room", func(v *state.State) bool {
			for _, h := range v.AllHosts() {
				for _, i := range v.OnHost(h.ID) {
					if i.Waits {
						return false
					}
				}
			}
			return true
		})
	}
}

// drainWorld is two zones with room for six instances, in which everything is watched.
func drainWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	root := w.zone("root", nil, 3)
	w.zone("kid", root, 3)
	for _, m := range w.zones {
		w.run(func() { m.watchRoom() })
	}
	return w
}

// watchRoom checks at every entry that what runs by the word of agents, and the active slots of
// leases, have room together.
func (m *member) watchRoom() {
	for v := m.view(); ; {
		for _, h := range v.AllHosts() {
			use := int64(0)
			for _, i := range v.SlotsOn(h.ID) {
				if i.Status == api.StatusActive {
					use += i.Resources[api.VCPU]
				}
			}
			for _, i := range v.OnHost(h.ID) {
				if i.Within == "" && m.w.ranAt(i.ID) == m.name+"/"+string(h.ID) {
					use += i.Resources[api.VCPU]
				}
			}
			assert.LessOrEqual(m.w.t, use, h.Inventory[api.VCPU].Capacity(), "zone %s: host %s at index %d", m.name, h.Name, v.Index())
		}
		next, err := m.log.wait(m.w.ctx, v.Index())
		if err != nil {
			return
		}
		v = next
	}
}

// drainSteps are the entries of a drain.
var drainSteps = []command.Kind{
	command.KindTick, command.KindInstanceReport, command.KindInstanceChanges, command.KindHold, command.KindHoldParts, command.KindHoldDecide,
	command.KindBootDecide, command.KindLeaseCreate, command.KindRequeue, command.KindPartAck,
}

// drainTries bounds how often an entry of one kind is disturbed.
const drainTries = 4

// TestEveryStepOfADrainGoesWrongOnce runs a drain once for every entry of it in each zone and every
// way in which its proposal can go wrong, a new leader among them, and once with the agent of the
// zone cut off at that moment for a minute. Nothing runs in the room of others, and nothing waits for ever.
func TestEveryStepOfADrainGoesWrongOnce(t *testing.T) {
	var counts []map[command.Kind]int
	synctest.Test(t, func(t *testing.T) {
		w := drainWorld(t)
		wholeDrain(w)
		for _, m := range w.zones {
			counts = append(counts, m.log.counts())
		}
	})
	ran := 0
	for i, kinds := range counts {
		for _, k := range drainSteps {
			for n := 1; n <= min(kinds[k], drainTries); n++ {
				for _, what := range []mishap{notLeader, unapplied, unconfirmed, doubled, deposed, delayed, agentGone} {
					ran++
					t.Run(fmt.Sprintf("zone %d kind %d entry %d %s", i, k, n, what), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							w := drainWorld(t)
							w.drainGoesWrong(w.zones[i], k, n, what)
							wholeDrain(w)
						})
					})
				}
			}
		}
	}
	assert.Greater(t, ran, 200, "the drain is too short")
}

// agentGone is no mishap of a proposal: the agent of the zone is cut off when it is made.
const agentGone mishap = "agent cut off"

func (w *world) drainGoesWrong(m *member, k command.Kind, n int, what mishap) {
	m.log.recount()
	if what != agentGone {
		w.entryGoesWrong(m, k, n, what)
		return
	}
	gone := make(chan struct{}, 1)
	m.log.when(func(kind command.Kind, count int) mishap {
		if kind == k && count == n {
			gone <- struct{}{}
		}
		return ""
	})
	w.run(func() {
		select {
		case <-gone:
			m.silence(true)
			time.Sleep(time.Minute)
			m.silence(false)
		case <-w.ctx.Done():
		}
	})
}
