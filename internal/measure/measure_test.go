package measure

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// TestBuckets: for any values each bucket has those at most its bound, as counting them one by one finds.
func TestBuckets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 60), rapid.SampledFrom(seconds)), 0, 50).Draw(t, "values")
		h := NewSeconds()
		want := Distribution{Below: map[float64]uint64{}}
		for _, b := range seconds {
			want.Below[b] = 0
		}
		for _, v := range values {
			h.Note(v)
			want.Count++
			want.Sum += v
			for b := range want.Below {
				if v <= b {
					want.Below[b]++
				}
			}
		}
		assert.Equal(t, want, h.Read())
	})
}

func TestBoundsRise(t *testing.T) {
	t.Parallel()
	assert.True(t, slices.IsSorted(seconds) && slices.IsSorted(sizes), "the search needs it")
}

// TestNothingIsCounted: whoever measures need not ask whether anybody wants to know.
func TestNothingIsCounted(t *testing.T) {
	t.Parallel()
	var h *Histogram
	var f *Family[string]
	var c *Counts[string]
	h.NoteTime(1)
	f.NoteTime("a", 1)
	c.Add("a")
	assert.Zero(t, h.Read().Count)
	assert.Empty(t, f.Read())
	assert.Empty(t, c.Read())
}

// TestKeysAreBounded: what has one key too many is counted under the zero key.
func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	f, c := NewFamily[int](), NewCounts[int]()
	note := func(k int) {
		f.NoteTime(k, time.Second)
		c.Add(k)
	}
	for k := 1; k <= KeysMax; k++ {
		note(k)
	}
	assert.NotContains(t, c.Read(), 0)
	assert.NotContains(t, f.Read(), 0)
	for range 2 {
		note(KeysMax + 1)
	}
	note(KeysMax)
	assert.Equal(t, uint64(2), c.Read()[0])
	assert.Equal(t, uint64(2), f.Read()[0].Count)
	assert.Equal(t, uint64(2), c.Read()[KeysMax])
	assert.Equal(t, uint64(2), f.Read()[KeysMax].Count)
	assert.NotContains(t, f.Read(), KeysMax+1)
}

// TestManyAtOnce: nothing is lost when many count at once, and a clock that is set back counts as no time.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	f, c, s := NewFamily[int](), NewCounts[int](), NewSizes()
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for range 100 {
				f.NoteTime(n%2, -time.Second)
				c.Add(n % 2)
				s.Note(3)
			}
		})
	}
	wg.Wait()
	assert.Equal(t, map[int]uint64{0: 400, 1: 400}, c.Read())
	assert.Equal(t, uint64(400), f.Read()[1].Below[.0005])
	assert.Equal(t, uint64(800), s.Read().Below[4])
	assert.Zero(t, s.Read().Below[2])
	assert.InDelta(t, 2400, s.Read().Sum, 0)
}
