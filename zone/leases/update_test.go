package leases_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// wholeUpdate prolongs a lease that one child has, with a zone below it, while instances run in it. It
// is as it was then, or as it was to be, has all of its slots, and what runs in it goes on.
func wholeUpdate(w *zonetest.World) {
	const slots = 4
	root, mid := w.Zones[0], w.Zones[1]
	root.Run(zonetest.Order("own", 2, 2)) // all that root has
	w.Settle()
	var id api.LeaseID
	require.NoError(w.T, w.Retry(func() (err error) {
		ctx, cancel := root.Within(2 * time.Minute)
		defer cancel()
		id, err = root.Lead().Create(ctx, zonetest.Caller, zonetest.LeaseOf("l", 0, 20*time.Minute, slots), "l")
		return err
	}))
	l := root.UntilLease(id, api.LeaseActive)
	boot := zonetest.Order("in", slots, slots)
	boot.Request.Within = l.Terms.Reservations[0].ID
	root.Run(boot)
	w.Settle()
	in := len(root.Instances("in"))
	was := l.Terms.Window.End
	later := was.Add(time.Hour)
	ctx, cancel := root.Within(2 * time.Minute)
	err := root.Lead().Update(ctx, zonetest.Caller, id, api.LeaseChange{End: &later})
	cancel()
	w.Settle()
	l = root.UntilLease(id, api.LeaseActive)
	if err == nil && l.Reason == "" {
		assert.Equal(w.T, later, l.Terms.Window.End)
	} else {
		assert.Contains(w.T, []api.Instant{was, later}, l.Terms.Window.End, "%v, %s", err, l.Reason)
	}
	assert.Len(w.T, root.View().LeaseSlots(l), slots, "as its zone knows")
	assert.Equal(w.T, slots, countSlots(mid), "as the zones below know")
	assert.Equal(w.T, []int{in, in}, []int{len(root.Instances("in")), len(mid.Instances("in"))}, "what runs in it")
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
	var made []zonetest.Call
	var counts []map[command.Kind]int
	run := func(name string, prepare func(*zonetest.World)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				zonetest.Three(w)
				prepare(w)
				wholeUpdate(w)
				if name == "nothing" {
					made = zonetest.Tries(w.AllMade())
					for _, m := range w.Zones {
						counts = append(counts, m.Log.Counts())
					}
				}
			})
		})
	}
	run("nothing", func(*zonetest.World) {})
	for _, c := range dice.Part(t, zonetest.EachCall(made), 20) {
		run(c.String(), func(w *zonetest.World) { w.CallGoesWrong(c) })
	}
	for _, e := range dice.Part(t, zonetest.EachEntry(counts, updateSteps, zonetest.CallsTried), 20) {
		run(e.String(), func(w *zonetest.World) { w.EntryGoesWrong(e) })
	}
}
