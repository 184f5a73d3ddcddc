package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// wholeDrain is everything that preemptibles leave for, in two zones: a lease that is announced, an
// owner who comes back to what he has lent, and a firm boot. They ask to be booted again, and are.
func wholeDrain(w *zonetest.World) {
	root := w.Zones[0]
	soft := zonetest.Order("soft", 1, 6)
	soft.Request.Class, soft.Request.OnPreempt, soft.Instances = api.Preemptible, api.PreemptRequeue, zonetest.Specs("soft", 6)
	root.Run(soft)
	terms := zonetest.LeaseOf("l", 2*time.Minute, time.Hour, 3)
	terms.Reservations[0].ShareIdle = true
	var id api.LeaseID
	require.NoError(w.T, w.Retry(func() (err error) {
		ctx, cancel := root.Within(2 * time.Minute)
		defer cancel()
		id, err = root.Lead().Create(ctx, zonetest.Caller, terms, "l")
		return err
	}))
	l := root.UntilLease(id, api.LeaseActive)
	await.Sleep(3 * time.Minute) // what had to leave has come back into what is lent
	own := zonetest.Order("own", 1, 1)
	own.Request.Within, own.Instances = l.Terms.Reservations[0].ID, zonetest.Specs("own", 1)
	root.Run(own)
	firm := zonetest.Order("firm", 2, 2)
	firm.Request.Preempt, firm.Instances = true, zonetest.Specs("firm", 2)
	root.Run(firm)
	w.Settle()
	for _, res := range []string{"own", "firm"} {
		assert.Equal(w.T, api.BootActive, root.Outcome(res).State(), "boot %s", res)
	}
	for _, m := range w.Zones {
		m.Until("nothing waits for its room", func(v *state.State) bool {
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
func drainWorld(t *testing.T) *zonetest.World {
	t.Helper()
	w := zonetest.NewWorld(t)
	root := w.Zone("root", nil, 3)
	w.Zone("kid", root, 3)
	for _, m := range w.Zones {
		w.Go(func() { watchRoom(m) })
	}
	return w
}

// watchRoom checks at every entry that what runs by the word of agents, and the active slots of
// leases, have room together.
func watchRoom(m *zonetest.Member) {
	for v := m.View(); ; {
		ran := m.World.AllRan() // at one moment: an instance may end, and the next one start, between two looks
		for _, h := range v.AllHosts() {
			use := int64(0)
			for _, i := range v.SlotsOn(h.ID) {
				if i.Status == api.StatusActive {
					use += i.Resources[api.VCPU]
				}
			}
			for _, i := range v.OnHost(h.ID) {
				if i.Within == "" && ran[i.ID] == m.Name+"/"+string(h.ID) {
					use += i.Resources[api.VCPU]
				}
			}
			assert.LessOrEqual(m.World.T, use, h.Inventory[api.VCPU].Capacity(), "zone %s: host %s at index %d", m.Name, h.Name, v.Index())
		}
		next, err := m.Log.Wait(m.World.Ctx, v.Index())
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
		for _, m := range w.Zones {
			counts = append(counts, m.Log.Counts())
		}
	})
	cases := zonetest.EachEntry(counts, drainSteps, drainTries, agentGone)
	assert.Greater(t, len(cases), 200, "the drain is too short")
	for _, e := range dice.Part(t, cases, 30) {
		t.Run(e.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := drainWorld(t)
				drainGoesWrong(w, e)
				wholeDrain(w)
			})
		})
	}
}

// agentGone is no mishap of a proposal: the agent of the zone is cut off when it is made.
const agentGone zonetest.Mishap = "agent cut off"

func drainGoesWrong(w *zonetest.World, e zonetest.EntryMishap) {
	if e.Mishap != agentGone {
		w.EntryGoesWrong(e)
		return
	}
	m := w.Zones[e.Zone]
	m.Log.Recount()
	gone := make(chan struct{}, 1)
	m.Log.When(func(kind command.Kind, count int) zonetest.Mishap {
		if kind == e.Kind && count == e.N {
			gone <- struct{}{}
		}
		return ""
	})
	w.Go(func() {
		select {
		case <-gone:
			m.Silence(true)
			await.Sleep(time.Minute)
			m.Silence(false)
		case <-w.Ctx.Done():
		}
	})
}
