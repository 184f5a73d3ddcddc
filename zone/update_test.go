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
)

// wholeUpdate prolongs a lease that one child has, with a zone below it, while instances run in it. It
// is as it was then, or as it was to be, has all of its slots, and what runs in it goes on.
func wholeUpdate(w *world) {
	const slots = 4
	root, mid := w.zones[0], w.zones[1]
	root.run(order("own", 2, 2)) // all that root has
	w.settle()
	var id api.LeaseID
	require.NoError(w.t, w.retry(func() (err error) {
		ctx, cancel := root.within(2 * time.Minute)
		defer cancel()
		id, err = root.lead().Create(ctx, who, leaseOf("l", 0, 20*time.Minute, slots), "l")
		return err
	}))
	l := root.untilLease(id, api.LeaseActive)
	boot := order("in", slots, slots)
	boot.Request.Within = l.Terms.Reservations[0].ID
	root.run(boot)
	w.settle()
	in := len(root.instances("in"))
	was := l.Terms.Window.End
	later := was.Add(time.Hour)
	ctx, cancel := root.within(2 * time.Minute)
	err := root.lead().Update(ctx, who, id, api.LeaseChange{End: &later})
	cancel()
	w.settle()
	l = root.untilLease(id, api.LeaseActive)
	if err == nil && l.Reason == "" {
		assert.Equal(w.t, later, l.Terms.Window.End)
	} else {
		assert.Contains(w.t, []api.Instant{was, later}, l.Terms.Window.End, "%v, %s", err, l.Reason)
	}
	assert.Len(w.t, root.view().LeaseSlots(l), slots, "as its zone knows")
	assert.Equal(w.t, slots, mid.slots(), "as the zones below know")
	assert.Equal(w.t, []int{in, in}, []int{len(root.instances("in")), len(mid.instances("in"))}, "what runs in it")
}

// updateSteps are the entries of an update.
var updateSteps = []command.Kind{
	command.KindLeaseSet, command.KindHold, command.KindHoldParts, command.KindHoldDecide, command.KindBootDecide, command.KindPartAck,
	command.KindInstanceChanges,
}

// TestEveryStepOfAnUpdateGoesWrongOnce runs an update once for every call between zones and every
// entry of it, and every way in which these can go wrong; a new leader is among them. Whatever
// becomes of the update, the lease keeps all of its slots.
func TestEveryStepOfAnUpdateGoesWrongOnce(t *testing.T) {
	var made []call
	var counts []map[command.Kind]int
	run := func(name string, prepare func(*world)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				three(w)
				prepare(w)
				wholeUpdate(w)
				if name == "nothing" {
					made = tries(w.allMade())
					for _, m := range w.zones {
						counts = append(counts, m.log.counts())
					}
				}
			})
		})
	}
	run("nothing", func(*world) {})
	for _, c := range made {
		for _, f := range []fault{refused, vanished, silenced, cutOff, repeated, ghost} {
			run(fmt.Sprintf("%s %s to %s %d %s", c.op, c.from, c.to, c.n, f), func(w *world) {
				w.when(func(now call) fault {
					if now == c {
						return f
					}
					return ""
				})
			})
		}
	}
	for i, kinds := range counts {
		for _, k := range updateSteps {
			for n := 1; n <= min(kinds[k], callsTried); n++ {
				for _, what := range []mishap{notLeader, unapplied, unconfirmed, doubled, deposed, delayed} {
					run(fmt.Sprintf("zone %d kind %d entry %d %s", i, k, n, what), func(w *world) { w.entryGoesWrong(w.zones[i], k, n, what) })
				}
			}
		}
	}
}
