package backoff_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/internal/backoff"
)

func TestDouble(t *testing.T) {
	var got []time.Duration
	for tries := range 6 {
		got = append(got, backoff.Double(50*time.Millisecond, time.Second, tries)/time.Millisecond)
	}
	assert.Equal(t, []time.Duration{50, 100, 200, 400, 800, 1000}, got)
	assert.Equal(t, time.Second, backoff.Double(time.Millisecond, time.Second, math.MaxInt), "it does not overflow")
	assert.Equal(t, time.Second, backoff.Double(time.Minute, time.Second, 0))
}

func TestJitter(t *testing.T) {
	assert.Equal(t, time.Second/2, backoff.Jitter(time.Second, 0))
	assert.Equal(t, 3*time.Second/4, backoff.Jitter(time.Second, 0.5))
	assert.Less(t, backoff.Jitter(time.Second, math.Nextafter(1, 0)), time.Second+1)
	a, b := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 2))
	for range 100 {
		assert.Equal(t, backoff.Jitter(time.Hour, a.Float64()), backoff.Jitter(time.Hour, b.Float64()), "the same seed, the same pauses")
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		assert.True(t, backoff.Sleep(t.Context(), time.Hour))
		assert.Equal(t, time.Hour, time.Since(began))
		assert.True(t, backoff.Sleep(t.Context(), 0))
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		assert.False(t, backoff.Sleep(ctx, time.Hour))
		assert.Equal(t, time.Hour+time.Minute, time.Since(began), "it ends with its context")
		assert.False(t, backoff.Sleep(ctx, 0), "it is over already")
	})
}
