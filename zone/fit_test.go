package zone_test

import (
	"bytes"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan"
	"berth/raftstore/command"
)

func (w *world) twistOf(id api.LinkID) func(*api.SelectAnswer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.twists[id]
}

// tellOfRoom makes a child say something else about its room over time.
func (w *world) tellOfRoom(l api.LinkID, twist func(*api.RoomAnswer)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rooms = map[api.LinkID]func(*api.RoomAnswer){l: twist}
}

func (w *world) roomLieOf(l api.LinkID) func(*api.RoomAnswer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rooms[l]
}

func (w *world) twist(name string, f func(*api.SelectAnswer)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.twists == nil {
		w.twists = map[api.LinkID]func(*api.SelectAnswer){}
	}
	w.twists[api.LinkID("link-"+name)] = f
}

// TestOversizedPlanCostsItsOwnSlots: a child whose plan is larger than what it offers can
// take is not used; and where the plans of all are too large together, the largest is left
// out. Nobody else's slots are lost.
func TestOversizedPlanCostsItsOwnSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 4)
		for _, name := range []string{"east", "north", "west"} {
			w.zone(name, root, 400)
		}
		size := func(n int) func(*api.SelectAnswer) {
			return func(a *api.SelectAnswer) { a.Blob = bytes.Repeat([]byte{1}, n) }
		}
		w.twist("west", size(buildplan.BlobBound(2, 1, api.DepthMax)+1))
		a := root.pick(2, time.Minute)
		assert.Len(t, a.Weights[0], 2)
		assert.Equal(t, "unusable answer", outcomeOf(t, a, "west").Reason)
		w.twist("west", size(buildplan.BlobBound(2, 1, api.DepthMax)))
		assert.Equal(t, api.OutcomeAnswered, outcomeOf(t, root.pick(2, time.Minute), "west").Outcome)

		w.twist("west", size(api.BlobMaxBytes))
		w.twist("north", size(api.BlobMaxBytes/2))
		a = root.pick(1204, time.Minute)
		assert.Len(t, a.Weights[0], 804, "all but those of the largest plan")
		assert.Equal(t, "its plan is too large", outcomeOf(t, a, "west").Reason)
		assert.Equal(t, 400, outcomeOf(t, a, "north").Taken)
	})
}

func outcomeOf(t *testing.T, a *api.SelectAnswer, name string) *api.ZoneOutcome {
	t.Helper()
	for i := range a.Zones {
		if a.Zones[i].Zone == name {
			return &a.Zones[i]
		}
	}
	require.Fail(t, "no outcome of "+name)
	return nil
}

// TestOffersMustLastALittle: an offer that expires before a boot could take it up is
// not counted on.
func TestOffersMustLastALittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil)
		w.zone("west", root, 4)
		for lasts, want := range map[time.Duration]string{api.PlanTTLLeast: api.OutcomeAnswered, api.PlanTTLLeast - 1: api.OutcomeFailed} {
			w.twist("west", func(a *api.SelectAnswer) { a.Expires = lasts })
			assert.Equal(t, want, outcomeOf(t, root.pick(1, time.Minute), "west").Outcome)
		}
	})
}

// TestOffsetOutweighsAnyWeight: what a child says its slots cost cannot beat the offset
// that an operator has given its link.
func TestOffsetOutweighsAnyWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 4)
		w.zone("west", root, 4)
		w.twist("west", func(a *api.SelectAnswer) { a.Weights[0][0] = math.MinInt64 })
		assert.Equal(t, 1, outcomeOf(t, root.pick(1, time.Minute), "west").Taken)
		l, _ := root.view().LinkByName("west")
		offset := int64(1) << 50
		root.do(command.LinkSet{ID: l.ID, Offset: &offset})
		assert.Zero(t, outcomeOf(t, root.pick(1, time.Minute), "west").Taken)
	})
}
