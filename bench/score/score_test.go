package score

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRatio(t *testing.T) {
	for _, c := range []struct {
		value, floor float64
		lower        bool
		want         float64
	}{
		{50, 100, false, 0.5},
		{100, 100, false, 1},
		{200, 100, false, 2},
		{4, 1, true, 0.25},
		{1, 4, true, 4},
		{0, 4, true, 0},
		{4, 0, false, 0},
		{-1, 4, false, 0},
	} {
		assert.InDelta(t, c.want, Ratio(c.value, c.floor, c.lower), 1e-12, "%+v", c)
	}
}

func TestSlope(t *testing.T) {
	curve := func(f func(x float64) float64, xs ...float64) (ps []Point) {
		for _, x := range xs {
			ps = append(ps, Point{X: x, Y: f(x)})
		}
		return ps
	}
	for name, c := range map[string]struct {
		points []Point
		want   float64
	}{
		"none":              {nil, 0},
		"one point":         {curve(math.Sqrt, 10), 0},
		"one X":             {[]Point{{X: 3, Y: 1}, {X: 3, Y: 9}}, 0},
		"constant":          {curve(func(float64) float64 { return 7 }, 1, 10, 100), 0},
		"linear":            {curve(func(x float64) float64 { return 3 * x }, 1000, 10_000, 100_000), 1},
		"square":            {curve(func(x float64) float64 { return x * x }, 1, 2, 5), 2},
		"falling":           {curve(func(x float64) float64 { return 1 / x }, 1, 2, 5), -1},
		"root":              {curve(math.Sqrt, 4, 16, 400), 0.5},
		"zero is left out":  {append(curve(func(x float64) float64 { return x }, 10, 100), Point{}, Point{X: 1000}), 1},
		"zero X, then one":  {[]Point{{X: 0, Y: 5}, {X: 10, Y: 5}}, 0},
		"around a line":     {[]Point{{X: 1, Y: 1}, {X: math.E, Y: math.E * math.E}, {X: math.E * math.E, Y: math.E * math.E}}, 1},
		"negative left out": {append(curve(math.Sqrt, 4, 16), Point{X: -1, Y: 2}), 0.5},
	} {
		assert.InDelta(t, c.want, Slope(c.points), 1e-9, name)
	}
}

func TestBetter(t *testing.T) {
	for _, c := range []struct {
		a, b  float64
		lower bool
		want  float64
	}{{1, 2, false, 2}, {1, 2, true, 1}, {0, 2, true, 2}, {3, 0, true, 3}, {0, 2, false, 2}} {
		assert.InDelta(t, c.want, better(c.a, c.b, c.lower), 0, "%+v", c)
	}
}

// of is a report of one row with one ratio.
func of(ratio float64) *Report {
	return &Report{Rows: []Row{{Name: "r", Measures: []Measure{{Name: "rate", Ratio: ratio}}}}}
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		was, now *Report
		want     []Fall
	}{
		"the same":            {of(0.5), of(0.5), nil},
		"better":              {of(0.5), of(0.9), nil},
		"at the limit":        {of(1), of(1 - FallMax), nil},
		"beyond the limit":    {of(1), of(0.8499), []Fall{{"r", "rate", 1, 0.8499}}},
		"small ratios":        {of(0.01), of(0.008), []Fall{{"r", "rate", 0.01, 0.008}}},
		"gone":                {of(0.5), &Report{}, []Fall{{"r", "rate", 0.5, 0}}},
		"no ratio before":     {of(0), of(0), nil},
		"new":                 {&Report{}, of(0.5), nil},
		"another measure":     {of(0.5), &Report{Rows: []Row{{Name: "r", Measures: []Measure{{Name: "cpu", Ratio: 1}}}}}, []Fall{{"r", "rate", 0.5, 0}}},
		"another row as well": {of(0.5), &Report{Rows: append([]Row{{Name: "s"}}, of(0.5).Rows...)}, nil},
	} {
		assert.Equal(t, c.want, Compare(c.was, c.now), name)
	}
	assert.Equal(t, "r rate: was 1.0000 of its floor, is 0.7500: 25 % less", Fall{"r", "rate", 1, 0.75}.String())
	assert.Contains(t, Fall{"r", "rate", 1, 0}.String(), "missing")
}

func TestFill(t *testing.T) {
	r := &Report{
		Floors: []Floor{{Name: "f", Value: 10}},
		Rows: []Row{{Name: "r", Measures: []Measure{
			{Name: "rate", Value: 5, Floor: "f"}, {Name: "cpu", Value: 40, Lower: true, Floor: "f"}, {Name: "p50", Value: 1},
		}}},
		Curves: []Curve{{Points: []Point{{X: 1, Y: 1}, {X: 10, Y: 10}}}},
	}
	require.NoError(t, r.Fill())
	ms := r.Rows[0].Measures
	assert.InDelta(t, 0.5, ms[0].Ratio, 0)
	assert.InDelta(t, 0.25, ms[1].Ratio, 0)
	assert.Zero(t, ms[2].Ratio)
	assert.InDelta(t, 1, r.Curves[0].Slope, 1e-9)
	r.Rows[0].Measures[0].Floor = "none"
	assert.ErrorContains(t, r.Fill(), `no floor "none"`)
}

func TestReached(t *testing.T) {
	for want, m := range map[string]Measure{
		"":                  {Value: 1},
		"yes":               {Value: 5, Goal: 5},
		"no: 2.0 times off": {Value: 5, Goal: 10},
		"no: 4.0 times off": {Value: 8, Goal: 2, Lower: true},
		"not measured":      {Goal: 2, Value: -1, Lower: true},
	} {
		assert.Equal(t, want, Reached(&m))
	}
}

func TestNumber(t *testing.T) {
	for want, v := range map[string]float64{
		"0": 0, "0.00052": 0.00052, "0.0123": 0.0123, "0.5": 0.5, "1": 1, "9.87": 9.874, "12.3": 12.34, "100": 100, "1,234": 1234.4, "12,345,678": 12345678, "-5": -5,
	} {
		assert.Equal(t, want, Number(v))
	}
}

func TestSplice(t *testing.T) {
	got, err := Splice("a\n"+Begin+"\nold\n"+End+"\nb\n", "\nnew\n")
	require.NoError(t, err)
	assert.Equal(t, "a\n"+Begin+"\nnew\n"+End+"\nb\n", got)
	again, err := Splice(got, "new")
	require.NoError(t, err)
	assert.Equal(t, got, again)
	for _, bad := range []string{"", Begin, End, End + Begin, Begin + End + End, Begin + End + Begin + End, Begin + Begin + End} {
		_, err := Splice(bad, "x")
		assert.Error(t, err, "%q", bad)
	}
}

func TestMarkdown(t *testing.T) {
	r := &Report{
		At: "2026-01-02", Commit: "abc", Go: "go1", CPUs: 2, Short: true, Others: 0.125,
		Floors: []Floor{{Name: "f", Title: "a floor", Unit: "/s", Value: 10_000}},
		Rows: []Row{{Name: "r", Title: "some work", Failed: 3, Measures: []Measure{
			{Name: "rate", Unit: "/s", Value: 2500, Before: 1000, Goal: 5000, Floor: "f"}, {Name: "CPU", Unit: "ms", Value: 2, Goal: 2, Lower: true},
		}}},
		Curves: []Curve{{Name: "hosts", Title: "Growth", X: "hosts", Y: "boots/s", Goal: "flat", Points: []Point{{X: 10, Y: 5, CPU: 0.25}, {X: 100, Y: 5}}}},
	}
	require.NoError(t, r.Fill())
	got := Markdown(r, "img/")
	for _, want := range []string{
		"| some work (3 failed) | rate 2,500 /s | rate 1,000 /s | rate 5,000 /s | no: 2.0 times off | 0.25 of `f` |\n|  | CPU 2 ms |  | CPU 2 ms | yes |  |\n",
		"| `f`: a floor | 10,000 /s |\n", "![Growth](img/hosts.svg)", "| 10 | 5 | 0.25 |\n| 100 | 5 |  |\n", "Slope of the logarithms: 0.00. Goal: flat.", "short", "used 12 %",
	} {
		assert.Contains(t, got, want)
	}
}

func TestKeepBetter(t *testing.T) {
	r := &Report{Rows: []Row{{Name: "a", Measures: []Measure{{Name: "rate", Ratio: 0.5}, {Name: "cpu", Ratio: 0.5}}}}}
	KeepBetter(r, &Report{Rows: []Row{
		{Name: "a", Measures: []Measure{{Name: "rate", Ratio: 0.6}, {Name: "cpu", Ratio: 0.4}, {Name: "p50", Ratio: 1}}}, {Name: "b"},
	}})
	assert.Equal(t, []Row{{Name: "a", Measures: []Measure{{Name: "rate", Ratio: 0.6}, {Name: "cpu", Ratio: 0.5}}}, {Name: "b"}}, r.Rows)
}

func TestBestFloors(t *testing.T) {
	a := []Floor{{Name: "rate", Value: 5}, {Name: "cpu", Value: 5, Lower: true}, {Name: "gone", Value: 1}}
	b := []Floor{{Name: "cpu", Value: 7, Lower: true}, {Name: "rate", Value: 7}, {Name: "new", Value: 1}}
	assert.Equal(t, []Floor{{Name: "cpu", Value: 5, Lower: true}, {Name: "rate", Value: 7}, {Name: "new", Value: 1}}, BestFloors(a, b))
	assert.Equal(t, a, BestFloors(nil, a))
}
