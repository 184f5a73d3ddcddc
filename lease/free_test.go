package lease_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/lease"
)

// countAt returns the count of the last step that is not after at.
func countAt(steps []lease.Step, at api.Instant) int {
	n := 0
	for _, s := range steps {
		if s.At <= at {
			n = s.Count
		}
	}
	return n
}

func drawSteps(rt *rapid.T) []lease.Step {
	var steps []lease.Step
	at := api.Instant(rapid.IntRange(0, 5).Draw(rt, "first"))
	for range rapid.IntRange(0, 12).Draw(rt, "steps") {
		steps = append(steps, lease.Step{At: at, Count: rapid.IntRange(0, 4).Draw(rt, "count")})
		at += api.Instant(rapid.IntRange(1, 9).Draw(rt, "length"))
	}
	return steps
}

// TestFreeAgreesWithEveryInstant asks about every start.
func TestFreeAgreesWithEveryInstant(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		truth := drawSteps(rt)
		s := &lease.Search{
			Over: api.Window{Start: api.Instant(rapid.IntRange(0, 30).Draw(rt, "from"))}, Need: rapid.IntRange(1, 4).Draw(rt, "need"),
			Unit: api.Instant(rapid.SampledFrom([]int{0, 1, 7}).Draw(rt, "unit")), Windows: rapid.IntRange(0, 3).Draw(rt, "windows"),
			Questions: rapid.IntRange(0, 12).Draw(rt, "questions"),
		}
		s.Over.End = s.Over.Start + api.Instant(rapid.IntRange(1, 90).Draw(rt, "length"))
		for _, step := range truth {
			s.Turns = append(s.Turns, step.At)
		}
		asked := 0
		f := lease.Free(s, func(start api.Instant) int {
			asked++
			require.True(rt, s.Over.Contains(start))
			require.True(rt, s.Unit == 0 || start%s.Unit == 0)
			return countAt(truth, start)
		})
		for at := s.Over.Start; at < f.Until; at++ {
			inside := slices.ContainsFunc(f.Windows, func(w api.Window) bool { return w.Contains(at) })
			if s.Unit <= 1 || at%s.Unit == 0 {
				require.Equal(rt, countAt(truth, at) >= s.Need, inside, "at %d of %v: %v", at, f, truth)
			}
		}
		for i, w := range f.Windows {
			assert.True(rt, w.Valid() && w.Start >= s.Over.Start && w.End <= f.Until)
			assert.True(rt, s.Unit <= 1 || w.Start%s.Unit == 0, "a window begins with a start")
			assert.True(rt, i == 0 || f.Windows[i-1].End < w.Start, "windows are as long as possible")
		}
		full := s.Windows > 0 && len(f.Windows) == s.Windows
		out := s.Questions > 0 && asked == s.Questions
		assert.True(rt, f.Until == s.Over.End || full || out, "it looks at all that it may")
		assert.True(rt, s.Windows == 0 || len(f.Windows) <= s.Windows)
		assert.True(rt, s.Questions == 0 || asked <= s.Questions)
		at, found := lease.Earliest(f.Windows, s.Unit)
		assert.Equal(rt, len(f.Windows) > 0, found)
		if found {
			assert.Equal(rt, f.Windows[0].Start, at)
		}
	})
}

func TestSumStepsAgreesWithEveryInstant(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b, c := drawSteps(rt), drawSteps(rt), drawSteps(rt)
		sum := lease.SumSteps(a, b, c)
		for at := range api.Instant(150) {
			require.Equal(rt, countAt(a, at)+countAt(b, at)+countAt(c, at), countAt(sum, at), "at %d", at)
		}
		for i := range sum {
			assert.True(rt, i == 0 || sum[i-1].At < sum[i].At && sum[i-1].Count != sum[i].Count)
		}
	})
	assert.Empty(t, lease.SumSteps())
}

// TestASearchIsBounded: as many questions and windows as there may be, and one more.
func TestASearchIsBounded(t *testing.T) {
	search := func(turns int, count func(api.Instant) int) (*lease.Found, int) {
		s, asked := &lease.Search{Over: api.Window{Start: 0, End: api.Forever}, Need: 1, Windows: 2 * lease.FreeWindowsMax, Questions: 2 * lease.QuestionsMax}, 0
		for i := range turns {
			s.Turns = append(s.Turns, api.Instant(i+1))
		}
		return lease.Free(s, func(at api.Instant) int { asked++; return count(at) }), asked
	}
	never := func(api.Instant) int { return 0 }
	f, asked := search(lease.QuestionsMax-1, never)
	assert.Equal(t, lease.QuestionsMax, asked)
	assert.Equal(t, api.Forever, f.Until)
	f, asked = search(lease.QuestionsMax, never)
	assert.Equal(t, lease.QuestionsMax, asked)
	assert.Equal(t, api.Instant(lease.QuestionsMax), f.Until)
	odd := func(at api.Instant) int { return int(at % 2) }
	f, _ = search(2*lease.FreeWindowsMax-1, odd)
	assert.Len(t, f.Windows, lease.FreeWindowsMax)
	assert.Equal(t, api.Forever, f.Until)
	f, _ = search(2*lease.FreeWindowsMax+1, odd)
	assert.Len(t, f.Windows, lease.FreeWindowsMax)
	assert.Equal(t, api.Instant(2*lease.FreeWindowsMax), f.Until)
}

func TestEarliestIsAMultiple(t *testing.T) {
	windows := []api.Window{{Start: 61, End: 119}, {Start: 121, End: 181}}
	at, found := lease.Earliest(windows, 60)
	assert.True(t, found)
	assert.Equal(t, api.Instant(180), at)
	at, _ = lease.Earliest(windows, 0)
	assert.Equal(t, api.Instant(61), at)
	_, found = lease.Earliest(windows[:1], 60)
	assert.False(t, found)
	_, found = lease.Earliest(nil, 60)
	assert.False(t, found)
}
