package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/bench/score"
	"berth/internal/dice"
)

func TestParseFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		ok   bool
	}{
		"none":               {nil, true},
		"check a file":       {[]string{"-check", "-fresh", "f"}, true},
		"a file alone":       {[]string{"-fresh", "f"}, false},
		"an argument":        {[]string{"x"}, false},
		"only":               {[]string{"-only", "^boot"}, true},
		"a broken pattern":   {[]string{"-only", "("}, false},
		"check only a part":  {[]string{"-check", "-only", "x"}, false},
		"what there is none": {[]string{"-nothing"}, false},
	} {
		_, err := parseFlags(c.args, &bytes.Buffer{})
		assert.Equal(t, c.ok, err == nil, "%s: %v", name, err)
	}
}

// sample is a report with one row, one curve and a ratio.
func sample(value float64) *score.Report {
	r := &score.Report{
		Commit: "abc", Floors: []score.Floor{{Name: "f", Value: 100}},
		Rows: []score.Row{{Name: "r", Title: "some work", Measures: []score.Measure{{Name: "rate", Value: value, Floor: "f"}}}},
		Curves: []score.Curve{
			{Name: "flat", Title: "Flat", X: "x", Y: "y", Points: []score.Point{{X: 1, Y: 50}, {X: 1000, Y: 50}, {X: 0, Y: 1}}},
			{Name: "empty", Title: "Empty", X: "x", Y: "y"},
			{Name: "nothing", Title: "Nothing", X: "x", Y: "y", Points: []score.Point{{}}},
		},
	}
	if err := r.Fill(); err != nil {
		panic(err)
	}
	return r
}

func TestWriteReportAndCheckIt(t *testing.T) {
	docs := t.TempDir()
	path := filepath.Join(docs, "performance.md")
	require.Error(t, writeReport(sample(50), docs), "there is no document")
	require.NoError(t, os.WriteFile(path, []byte("no place"), 0o600))
	require.Error(t, writeReport(sample(50), docs))
	require.NoError(t, os.WriteFile(path, []byte("# P\n"+score.Begin+"\n"+score.End+"\nmore\n"), 0o600))
	for range 2 {
		require.NoError(t, writeReport(sample(50), docs))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Contains(t, string(text), "some work")
	assert.Contains(t, string(text), "\nmore\n")
	image, err := os.ReadFile(filepath.Join(docs, "img", "flat.svg"))
	require.NoError(t, err)
	assert.Contains(t, string(image), "<svg")
	assert.NoFileExists(t, filepath.Join(docs, "img", "empty.svg"))
	assert.NoFileExists(t, filepath.Join(docs, "img", "nothing.svg"))

	for value, ok := range map[float64]bool{50: true, 43: true, 42: false} {
		fresh := filepath.Join(t.TempDir(), "fresh.json")
		body, err := json.Marshal(sample(value))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(fresh, body, 0o600))
		var said bytes.Buffer
		err = runReport(t.Context(), []string{"-check", "-docs", docs, "-fresh", fresh}, &said)
		assert.Equal(t, ok, err == nil, "%v: %v", value, err)
		if !ok {
			assert.Contains(t, said.String(), "r rate: was 0.5000 of its floor, is 0.4200")
		}
	}
	require.Error(t, runReport(t.Context(), []string{"-check", "-docs", docs, "-fresh", path}, &bytes.Buffer{}), "not a report")
	require.Error(t, runReport(t.Context(), []string{"-check", "-docs", t.TempDir()}, &bytes.Buffer{}), "nothing to compare with")
}

// TestRowsAreSound checks every plan and size, and that names are not used twice.
func TestRowsAreSound(t *testing.T) {
	for _, short := range []bool{false, true} {
		b := &bencher{short: short}
		seen := map[string]bool{}
		for _, w := range b.rows() {
			assert.False(t, seen[w.name], w.name)
			seen[w.name] = true
			if w.measure == nil {
				assert.NoError(t, w.plan.Check(), w.name)
				assert.NoError(t, w.size.Check(), w.name)
			}
		}
		for _, c := range b.curves() {
			assert.False(t, seen[c.Name], c.Name)
			seen[c.Name] = true
			assert.Greater(t, len(c.xs), 1, c.Name)
		}
	}
}

// TestMeasureCurveLeavesOut a point that cannot be measured.
func TestMeasureCurveLeavesOut(t *testing.T) {
	var said bytes.Buffer
	b := &bencher{errOut: &said}
	c := curve{Curve: score.Curve{Name: "c"}, xs: []int{1, 2, 3}, point: func(_ context.Context, x int) (score.Point, error) {
		if x == 2 {
			return score.Point{}, os.ErrDeadlineExceeded
		}
		return score.Point{Y: 7}, nil
	}}
	require.NoError(t, b.measureCurve(t.Context(), &c))
	assert.Equal(t, []score.Point{{X: 1, Y: 7}, {X: 3, Y: 7}}, c.Points)
	assert.Contains(t, said.String(), "c at 2: left out")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, b.measureCurve(ctx, &c), context.Canceled)
}

// TestScanChoosesTheCheapest compares the scan with a plain choice of the cheapest host, slot by slot.
func TestScanChoosesTheCheapest(t *testing.T) {
	for _, seed := range dice.Seeds(t, 50) {
		dice := rand.New(rand.NewPCG(seed, 1))
		var c columns
		for range 1 + dice.IntN(20) {
			total := 2 + dice.Int64N(20)
			c.total, c.vcpus = append(c.total, total), append(c.vcpus, dice.Int64N(total+1))
			c.memoryMB, c.diskGB = append(c.memoryMB, dice.Int64N(5*slotMB)), append(c.diskGB, dice.Int64N(5*slotGB))
		}
		count := 2 + dice.IntN(20)
		got, want := make([]int64, len(c.total)), make([]int64, len(c.total))
		slots := c.choose(count, nil, nil, got)
		var prices, cheapest []int64
		for range slots {
			row, price := c.cheapest(want)
			require.GreaterOrEqual(t, row, 0, "seed %d: the scan found more than fits", seed)
			cheapest = append(cheapest, price)
			want[row]++
		}
		if len(slots) < count {
			row, _ := c.cheapest(want)
			require.Negative(t, row, "seed %d: there is room left", seed)
		}
		clear(got)
		for _, row := range slots {
			prices = append(prices, c.price(int(row), got[row]))
			got[row]++
		}
		require.Equal(t, cheapest, prices, "seed %d", seed)
		if row, price := c.cheapest(make([]int64, len(c.total))); row >= 0 {
			one := c.choose(1, nil, nil, nil)
			require.Equal(t, price, c.price(int(one[0]), 0), "seed %d", seed)
		}
	}
}

// cheapest returns the cheapest row with room for one more slot, -1 for none.
func (c *columns) cheapest(taken []int64) (row int, price int64) {
	var fits []int
	for i := range c.total {
		n := taken[i] + 1
		if c.vcpus[i] >= n*slotVCPUs && c.memoryMB[i] >= n*slotMB && c.diskGB[i] >= n*slotGB {
			fits = append(fits, i)
		}
	}
	if len(fits) == 0 {
		return -1, 0
	}
	best := slices.MinFunc(fits, func(a, b int) int { return cmp.Compare(c.price(a, taken[a]), c.price(b, taken[b])) })
	return best, c.price(best, taken[best])
}

func TestOthers(t *testing.T) {
	before := usage{busy: 10 * time.Second, idle: 10 * time.Second, own: time.Second}
	after := usage{busy: 16 * time.Second, idle: 14 * time.Second, own: 4 * time.Second}
	assert.InDelta(t, 0.3, after.others(&before), 1e-9, "3 of 10 s")
	assert.Zero(t, before.others(&before))
}
