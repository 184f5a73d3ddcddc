package costs_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/costs"
)

func mem(mb int64) costs.Host { return costs.Host{FreeMemoryMB: mb} }

func set(t require.TestingT, name string, weight int64) costs.Set {
	s, err := costs.New([]api.CostWeight{{Name: name, Weight: weight}})
	require.NoError(t, err)
	return s
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		name       string
		weight, mb int64
		want       int64
	}{
		{costs.FillFirst, 1, 4096, 4096},
		{costs.FillFirst, -1, 4096, -4096},
		{costs.FillFirst, 1, -5, 0},
		{costs.FillFirst, 1, costs.ScaleMax, costs.ScaleMax},
		{costs.FillFirst, 1, costs.ScaleMax + 1, costs.ScaleMax},
		{costs.FillFirst, 1000, math.MaxInt64, 1000 * costs.ScaleMax},
		{costs.Spread, 1, 4096, costs.ScaleMax - 4096},
		{costs.Spread, 1, math.MaxInt64, 0},
		{costs.Spread, 1, math.MinInt64, costs.ScaleMax},
		{costs.Constant, 2, 4096, 2}, // acceptance case 31: a constant cost of weight 2
		{costs.Constant, 0, 4096, 0},
	} {
		assert.Equal(t, c.want, set(t, c.name, c.weight).Of(mem(c.mb)), "%+v", c)
	}
	assert.Zero(t, costs.Set{}.Of(mem(7)), "case 30: no cost is a defined result")
}

func TestNewNamesEverythingThatIsWrong(t *testing.T) {
	_, err := costs.New([]api.CostWeight{
		{Name: "luck", Weight: 1},
		{Name: costs.Spread, Weight: 1001},
		{Name: "moon", Weight: 1},
		{Name: costs.Constant, Weight: 1},
		{Name: costs.Constant, Weight: 1},
		{Name: costs.FillFirst, Weight: -1001},
	})
	require.Error(t, err)
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	for _, part := range []string{`"luck"`, `"moon"`, `1001`, `-1001`, `"constant" is given twice`, "fill_first"} {
		assert.ErrorContains(t, err, part)
	}
}

func TestWeightLimits(t *testing.T) {
	for weight, ok := range map[int64]bool{1000: true, -1000: true, 1001: false, -1001: false} {
		_, err := costs.New([]api.CostWeight{{Name: costs.Spread, Weight: weight}})
		assert.Equal(t, ok, err == nil, "weight %d", weight)
	}
}

func TestDefaultIsSpread(t *testing.T) {
	_, err := costs.New(costs.DefaultWeights())
	require.NoError(t, err)
	assert.Less(t, costs.Default().Of(mem(8192)), costs.Default().Of(mem(1024)))
}

func TestWithinTheScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(costs.Names()).Draw(t, "name")
		mb := rapid.Int64().Draw(t, "memory")
		one := set(t, name, 1).Of(mem(mb))
		require.GreaterOrEqual(t, one, int64(0))
		require.LessOrEqual(t, one, int64(costs.ScaleMax))
		w := rapid.Int64Range(-costs.WeightMax, costs.WeightMax).Draw(t, "weight")
		require.Equal(t, w*one, set(t, name, w).Of(mem(mb)))
	})
}

func ExampleNew() {
	s, _ := costs.New([]api.CostWeight{{Name: costs.FillFirst, Weight: 2}, {Name: costs.Constant, Weight: 10}})
	fmt.Println(s.Of(mem(512)), s.Of(mem(1024)))
	_, err := costs.New([]api.CostWeight{{Name: "luck", Weight: 1}})
	fmt.Println(err)
	// Output:
	// 1034 2058
	// costs: "luck" is unknown; known are constant, fill_first, spread, each once, with a weight from -1000 to 1000
}
