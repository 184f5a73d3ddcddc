package estimate

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/costs"
)

// TestNoZoneIsNamedToAParent: advice on which zones would do stays in this zone.
func TestNoZoneIsNamedToAParent(t *testing.T) {
	advice := []api.Advice{{Change: api.AdviceCount, Value: 1}, {Change: api.AdviceZone, Name: "east"}, {Change: api.AdviceDrop, Name: "query"}}
	p := &Plan{Refusals: []api.Refusals{{Advice: advice}}}
	assert.Equal(t, []api.Advice{advice[0], advice[2]}, foldRefusals(p)[0].Advice)
	assert.Len(t, p.Refusals[0].Advice, 3, "what is kept for this zone's own operator stays whole")
}

// TestDigitsThatAreTold: what is told of hosts has three leading binary digits.
func TestDigitsThatAreTold(t *testing.T) {
	assert.Equal(t, [4]int64{7, 8, 8, 16}, [4]int64{api.RoundDown(7), api.RoundDown(8), api.RoundDown(9), api.RoundDown(17)})
	assert.Equal(t, [4]int64{7, 8, 10, 20}, [4]int64{api.RoundUp(7), api.RoundUp(8), api.RoundUp(9), api.RoundUp(17)})
}

// TestWeightsAreTempered: whatever a child says, an offset can outweigh it.
func TestWeightsAreTempered(t *testing.T) {
	weights := [][]int64{{math.MinInt64, -costs.TotalMax - 1, -costs.TotalMax, costs.TotalMax, costs.TotalMax + 1, math.MaxInt64}}
	limitWeights(weights)
	assert.Equal(t, []int64{-costs.TotalMax, -costs.TotalMax, -costs.TotalMax, costs.TotalMax, costs.TotalMax, costs.TotalMax}, weights[0])
}
