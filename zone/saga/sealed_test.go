package saga_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone/zonetest"
)

// TestSealedPlanIsUsedOnce gives the same hold the same answer, and refuses every
// other one.
func TestSealedPlanIsUsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		kid, link, r := zonetest.SelectedHold(w, 2)
		first, err := kid.Lead().Hold(t.Context(), link, r)
		require.NoError(t, err)
		assert.Equal(t, api.HoldHeld, first.State)
		index := kid.View().Index()
		second, err := kid.Lead().Hold(t.Context(), link, r)
		require.NoError(t, err)
		assert.Equal(t, first, second)
		assert.Equal(t, index, kid.View().Index(), "the repeat is not even logged")

		other := *r
		other.ID = "other"
		_, err = kid.Lead().Hold(t.Context(), link, &other)
		assert.Equal(t, api.CodePlanRefused, api.CodeOf(err))
		again, err := kid.Lead().Select(t.Context(), link.Zone, &r.Request)
		require.NoError(t, err)
		swapped := *r
		swapped.Blob = again.Blob
		_, err = kid.Lead().Hold(t.Context(), link, &swapped)
		assert.Equal(t, api.CodePlanRefused, api.CodeOf(err), "a hold takes one plan")
		assert.Equal(t, int64(2), kid.Used())
	})
}

// TestHoldIsCheckedFirst refuses malformed holds before anything is opened.
func TestHoldIsCheckedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		kid, link, good := zonetest.SelectedHold(w, 2)
		for name, twist := range map[string]func(r *api.HoldRequest){
			"no id":         func(r *api.HoldRequest) { r.ID = "" },
			"attempt 0":     func(r *api.HoldRequest) { r.Attempt = 0 },
			"attempt large": func(r *api.HoldRequest) { r.Attempt = api.HoldsPerBootMax + 1 },
			"groups":        func(r *api.HoldRequest) { r.Instances = nil },
			"an id twice":   func(r *api.HoldRequest) { r.Instances[0][1] = r.Instances[0][0] },
			"an empty id":   func(r *api.HoldRequest) { r.Instances[0][0].ID = "" },
		} {
			r := zonetest.Spelt(good)
			twist(r)
			_, err := kid.Lead().Hold(t.Context(), link, r)
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err), name)
		}
		good.Attempt = api.HoldsPerBootMax
		_, err := kid.Lead().Hold(t.Context(), link, good)
		require.NoError(t, err)
	})
}
