package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// filling returns samples of a disk that loses so much in each pause.
func filling(n int, every time.Duration, free, loses int64) (out []diskSample) {
	at := time.Date(2030, 6, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		out = append(out, diskSample{at.Add(time.Duration(i) * every), free - int64(i)*loses})
	}
	return out
}

// TestWhenADiskIsFull: from a line through enough samples over enough time, and never for a disk that does not fill.
func TestWhenADiskIsFull(t *testing.T) {
	const gib = int64(1) << 30
	noisy := filling(36, diskEvery, 100*gib, gib)
	for i := range noisy {
		noisy[i].free += []int64{0, 3 * gib, -3 * gib}[i%3]
	}
	sawtooth := filling(36, diskEvery, 100*gib, 0)
	for i := range sawtooth {
		sawtooth[i].free -= int64(i%4) * gib
	}
	for name, c := range map[string]struct {
		samples []diskSample
		want    time.Duration // 0 for none
	}{
		"none":                    {nil, 0},
		"one sample too few":      {filling(diskSamplesMin-1, time.Hour, 100*gib, gib), 0},
		"as few as may be":        {filling(diskSamplesMin, time.Hour, 100*gib, gib), 89 * time.Hour},
		"too short":               {filling(36, diskEvery, 100*gib, gib), 0},
		"as short as may be":      {filling(37, diskEvery, 100*gib, gib), 64 * diskEvery},
		"all at once":             {filling(37, 0, 100*gib, gib), 0},
		"as it was":               {filling(100, diskEvery, 100*gib, 0), 0},
		"more room":               {filling(100, diskEvery, 100*gib, -gib), 0},
		"full":                    {filling(100, diskEvery, 99*gib, gib), 0},
		"beyond what is foreseen": {filling(37, time.Hour, 36*gib+14*24*gib+gib, gib), 0},
		"as far as is foreseen":   {filling(37, time.Hour, 36*gib+14*24*gib, gib), diskHorizon},
		"a log that is truncated": {sawtooth, 0},
	} {
		got, ok := foreseeFull(c.samples)
		assert.Equal(t, c.want > 0, ok && got > 0, name)
		assert.InDelta(t, c.want.Seconds(), got.Seconds(), 1, name)
	}
	got, ok := foreseeFull(append(noisy, filling(37, diskEvery, 100*gib, gib)[36]))
	assert.True(t, ok)
	assert.InDelta(t, (64 * diskEvery).Hours(), got.Hours(), 1, "noise moves the line little")
}

// TestADiskThatFillsIsToldOnce, and again after it had room. Another disk begins anew, and so does a clock that was set back.
func TestADiskThatFillsIsToldOnce(t *testing.T) {
	var d diskWatch
	told := 0
	take := func(samples []diskSample, total int64) {
		for _, s := range samples {
			if _, warn := d.note(s.at, s.free, total); warn {
				told++
			}
		}
	}
	fills := filling(60, diskEvery, 100_000, 1000)
	take(fills, 200_000)
	assert.Equal(t, 1, told)
	_, total, full := d.vitals()
	assert.EqualValues(t, 200_000, total)
	assert.InDelta(t, (41 * diskEvery).Hours(), full.Hours(), 0.1)
	take(fills[:1], 200_000)
	assert.Len(t, d.samples, 1, "the clock was set back")
	take(fills[1:], 200_000)
	assert.Equal(t, 2, told)
	take([]diskSample{{fills[59].at.Add(diskEvery), 1 << 40}}, 1<<41)
	assert.Len(t, d.samples, 1, "it is another disk")
	long := filling(1000, diskEvery, 1<<40, 0)
	for i := range long {
		long[i].at = long[i].at.Add(30 * 24 * time.Hour)
	}
	take(long, 1<<41)
	assert.Len(t, d.samples, int(diskWindow/diskEvery)+1, "older ones are forgotten")
	assert.Equal(t, 2, told)
}
