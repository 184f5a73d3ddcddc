package rates

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
)

var (
	begin = time.Unix(1_800_000_000, 0)
	ann   = Party{User, "p/ann"}
	bob   = Party{User, "p/bob"}
	both  = Party{Project, "p"}
)

// takes returns how many of so many calls at one time are taken.
func takes(l *Limiter, at time.Time, calls int, c Class, parties ...Party) (taken int) {
	for range calls {
		if l.Take(at, c, parties...) == nil {
			taken++
		}
	}
	return taken
}

func TestAtTheLimitAndOneAbove(t *testing.T) {
	l := New(Rates{Writes: 10})
	for n := range 10 * burst {
		require.Nil(t, l.Take(begin, Writes, ann), "call %d", n)
	}
	assert.Equal(t, &Over{Writes, ann, 10, 100 * time.Millisecond}, l.Take(begin, Writes, ann))
	assert.NotNil(t, l.Take(begin.Add(100*time.Millisecond-1), Writes, ann))
	assert.Nil(t, l.Take(begin.Add(100*time.Millisecond), Writes, ann))
	assert.Equal(t, uint64(2), l.Refused()[Writes])
	assert.Equal(t, 10*burst, takes(l, begin.Add(time.Hour), 100, Writes, ann), "no more than a burst is saved")
}

// TestEachHasItsOwnRoom: another class, and another party, are not touched by a flood.
func TestEachHasItsOwnRoom(t *testing.T) {
	l := New(Rates{Writes: 10, Releases: 5})
	assert.Equal(t, 10*burst, takes(l, begin, 1000, Writes, ann, both))
	assert.Equal(t, 5*burst, takes(l, begin, 1000, Releases, ann, both))
	assert.Equal(t, 10*burst, takes(l, begin, 1000, Writes, bob, both), "the project has twice the room of a user")
	assert.Zero(t, takes(l, begin, 10, Writes, Party{User, "p/eve"}, both), "and no more")
	assert.Equal(t, 10*burst, takes(l, begin, 1000, Writes, Party{User, "q/ann"}, Party{Project, "q"}))
	assert.Equal(t, 1000, takes(l, begin, 1000, Reads, ann), "a class without a rate has no limit")
	assert.Equal(t, 1000, takes(l, begin, 1000, Writes), "nobody has no limit")
	var none *Limiter
	assert.Equal(t, 1000, takes(none, begin, 1000, Writes, ann))
	assert.Len(t, none.Refused(), len(Classes()))
}

// TestARefusalTakesNothing from any party, also not from those that had room.
func TestARefusalTakesNothing(t *testing.T) {
	l := New(Rates{Writes: 10})
	assert.Equal(t, 10*burst, takes(l, begin, 1000, Writes, ann, both))
	assert.Equal(t, 10*burst, takes(l, begin, 1000, Writes, both), "the calls that ann was refused cost her project nothing")
}

// TestAClockThatIsSetBack costs a party at most its burst.
func TestAClockThatIsSetBack(t *testing.T) {
	l := New(Rates{Writes: 10})
	takes(l, begin, 1000, Writes, ann)
	before := begin.Add(-time.Hour)
	assert.Equal(t, 100*time.Millisecond, l.Take(before, Writes, ann).Wait)
	assert.Nil(t, l.Take(before.Add(100*time.Millisecond), Writes, ann))
}

// TestWhatIsRememberedIsBounded: whoever has not called for longest is forgotten, which gives him
// a burst, and nobody else.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	l := newLimiter(Rates{Writes: 1}, 3)
	for n := range 3 {
		takes(l, begin, burst, Writes, Party{User, strconv.Itoa(n)})
	}
	takes(l, begin, 1, Writes, Party{User, "3"})
	assert.NotNil(t, l.Take(begin, Writes, Party{User, "1"}))
	assert.NotNil(t, l.Take(begin, Writes, Party{User, "2"}))
	assert.Nil(t, l.Take(begin, Writes, Party{User, "0"}))
}

// bucket is the oracle: tokens that drip in, in billionths.
type bucket struct {
	tokens int64
	at     time.Time
}

func (b *bucket) fill(now time.Time, per int64) {
	b.tokens = min(b.tokens+int64(now.Sub(b.at))*per, burst*per*int64(time.Second))
	b.at = now
}

// TestAsABucket compares with a bucket of tokens, over random calls of several parties.
func TestAsABucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		per := rapid.SampledFrom([]int64{1, 2, 5, 10, 1000}).Draw(t, "per second") // their multiples divide a second
		l, model, now := New(Rates{Writes: per}), map[Party]*bucket{}, begin
		refused := 0
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Second)/per).Draw(t, "pause")))
			parties := []Party{rapid.SampledFrom([]Party{ann, bob}).Draw(t, "user"), both}
			may := true
			for _, p := range parties {
				rate := per * times[p.Kind]
				if model[p] == nil {
					model[p] = &bucket{burst * rate * int64(time.Second), now}
				}
				model[p].fill(now, rate)
				may = may && model[p].tokens >= int64(time.Second)
			}
			over := l.Take(now, Writes, parties...)
			if may != (over == nil) {
				t.Fatalf("at %s: got %+v, want a refusal: %v", now.Sub(begin), over, !may)
			}
			if !may {
				refused++
				continue
			}
			for _, p := range parties {
				model[p].tokens -= int64(time.Second)
			}
		}
		if got := l.Refused()[Writes]; got != uint64(refused) {
			t.Fatalf("counted %d refusals of %d", got, refused)
		}
	})
}

func TestRatesAreRead(t *testing.T) {
	r, err := Defaults().With(map[string]int64{"writes": 7, "joins": 0})
	require.NoError(t, err)
	assert.Equal(t, []int64{7, 0, Defaults()[Reads]}, []int64{r[Writes], r[Joins], r[Reads]})
	assert.Equal(t, int64(5_000), Defaults()[Writes], "the defaults are left alone")
	for _, bad := range []map[string]int64{{"boots": 1}, {"writes": -1}, {"writes": PerSecondMax + 1}} {
		_, err := Defaults().With(bad)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), fmt.Sprint(bad))
	}
	_, err = Defaults().With(map[string]int64{"writes": PerSecondMax})
	require.NoError(t, err)
	for c, n := range Off() {
		assert.Zero(t, n, c)
	}
	assert.Len(t, Off(), len(Classes()))
}
