package estimate_test

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
	"berth/zone/zonetest"
)

// TestOversizedPlanCostsItsOwnSlots: a child whose plan is larger than what it offers can
// take is not used; and where the plans of all are too large together, the largest is left
// out. Nobody else's slots are lost.
func TestOversizedPlanCostsItsOwnSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		for _, name := range []string{"east", "north", "west"} {
			w.Zone(name, root, 400)
		}
		size := func(n int) func(*api.SelectAnswer) {
			return func(a *api.SelectAnswer) { a.Blob = bytes.Repeat([]byte{1}, n) }
		}
		w.Twist("west", size(buildplan.BlobBound(2, 1, api.DepthMax)+1))
		a := root.Pick(2, time.Minute)
		assert.Len(t, a.Weights[0], 2)
		assert.Equal(t, "unusable answer", outcomeOf(t, a, "west").Reason)
		w.Twist("west", size(buildplan.BlobBound(2, 1, api.DepthMax)))
		assert.Equal(t, api.OutcomeAnswered, outcomeOf(t, root.Pick(2, time.Minute), "west").Outcome)

		w.Twist("west", size(api.BlobMaxBytes))
		w.Twist("north", size(api.BlobMaxBytes/2))
		a = root.Pick(1204, time.Minute)
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
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		w.Zone("west", root, 4)
		for lasts, want := range map[time.Duration]string{api.PlanTTLLeast: api.OutcomeAnswered, api.PlanTTLLeast - 1: api.OutcomeFailed} {
			w.Twist("west", func(a *api.SelectAnswer) { a.Expires = lasts })
			assert.Equal(t, want, outcomeOf(t, root.Pick(1, time.Minute), "west").Outcome)
		}
	})
}

// TestOffsetOutweighsAnyWeight: what a child says its slots cost cannot beat the offset
// that an operator has given its link.
func TestOffsetOutweighsAnyWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		w.Zone("west", root, 4)
		w.Twist("west", func(a *api.SelectAnswer) { a.Weights[0][0] = math.MinInt64 })
		assert.Equal(t, 1, outcomeOf(t, root.Pick(1, time.Minute), "west").Taken)
		l, _ := root.View().LinkByName("west")
		offset := int64(1) << 50
		root.Do(command.LinkSet{ID: l.ID, Offset: &offset})
		assert.Zero(t, outcomeOf(t, root.Pick(1, time.Minute), "west").Taken)
	})
}
