package turns

import (
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestShareFollowsPressure: it falls by a part when too many are late, rises by a step when not, and keeps its bounds.
func TestShareFollowsPressure(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all, late uint64
	p := NewPressure(func() time.Time { return now })
	p.read = func() (uint64, uint64) { return all, late }
	assert.InDelta(t, 1, p.Share(), 0)
	look := func(after time.Duration, began, lateOnes uint64) float64 {
		now, all, late = now.Add(after), all+began, late+lateOnes
		return p.Share()
	}
	const many = 8 * pressureLeast
	assert.InDelta(t, 1, look(pressureEvery-1, many, many), 0, "too early for another look")
	assert.InDelta(t, shareFall, look(1, 0, 0), 0, "which finds them later")
	assert.InDelta(t, shareFall, look(pressureEvery, pressureLeast-1, pressureLeast-1), 0, "too few to tell")
	assert.InDelta(t, shareFall+shareRise, look(pressureEvery, many, many/latePart), 0, "a part may be late")
	assert.InDelta(t, (shareFall+shareRise)*shareFall, look(pressureEvery, many, many/latePart+1), 0)
	for range 100 {
		look(pressureEvery, many, many)
	}
	assert.InDelta(t, shareMin, p.Share(), 0)
	for range 100 {
		look(pressureEvery, many, 0)
	}
	assert.InDelta(t, 1, p.Share(), 0)
	look(pressureEvery, many, many)
	assert.InDelta(t, shareFall, look(pressureStale, pressureLeast-1, 0), 0)
	assert.InDelta(t, 1, look(pressureStale+1, many, many), 0, "nobody has asked for long")
}

// TestWaitsAreMeasured: the runtime has the histogram that the pressure is read from.
func TestWaitsAreMeasured(t *testing.T) {
	sample := []metrics.Sample{{Name: waits}}
	metrics.Read(sample)
	require.Equal(t, metrics.KindFloat64Histogram, sample[0].Value.Kind())
	before, _ := readWaits()
	for range 10_000 {
		done := make(chan struct{})
		go close(done)
		<-done
	}
	after, late := readWaits()
	assert.Greater(t, after, before, "one in eight is measured")
	assert.LessOrEqual(t, late, after)
}
