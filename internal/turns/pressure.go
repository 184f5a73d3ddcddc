package turns

import (
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// How the share of work follows the waits for a processor.
const (
	pressureEvery = 20 * time.Millisecond // between two looks
	pressureStale = time.Second           // a look back over more than that says nothing of now
	pressureLeast = 16                    // goroutines that began to run since the last look; fewer say nothing

	lateAfter = 2 * time.Millisecond // a goroutine that could run, and waited so long for a processor, was late
	latePart  = 8                    // the share falls when one in so many was late

	shareMin  = 1.0 / 64
	shareRise = 1.0 / 64 // added to the share at each look without pressure
	shareFall = 0.75     // of the share is left at each look with pressure
)

// Pressure tells how much of what a process may do at once it should do now, by how long its goroutines wait for a
// processor: less when many are late, and more again when they are not (additive increase and multiplicative decrease, as
// TCP does for a link whose room is not known). It looks when it is asked, and needs no goroutine. Its methods may be called
// concurrently.
type Pressure struct {
	now  func() time.Time
	read func() (all, late uint64)

	mu        sync.Mutex // guards what follows
	at        time.Time  // of the last look
	all, late uint64     // at the last look
	share     float64
}

// NewPressure returns the pressure on the processors of this process.
func NewPressure(now func() time.Time) *Pressure {
	return &Pressure{now: now, read: readWaits, share: 1}
}

// Share returns how much of what it may do at once the process should do now, from shareMin to 1.
func (p *Pressure) Share() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	past := now.Sub(p.at)
	if past < pressureEvery {
		return p.share
	}
	all, late := p.read()
	began, lateOnes := all-p.all, late-p.late
	p.at, p.all, p.late = now, all, late
	switch {
	case past > pressureStale:
		p.share = 1
	case began < pressureLeast:
	case lateOnes*latePart > began:
		p.share = max(p.share*shareFall, shareMin)
	default:
		p.share = min(p.share+shareRise, 1)
	}
	return p.share
}

// waits is the histogram of the times that goroutines of this process have waited for a processor.
const waits = "/sched/latencies:seconds"

// readWaits returns how many goroutines have begun to run since the process began, about, and how many of them were late.
func readWaits() (all, late uint64) {
	sample := []metrics.Sample{{Name: waits}}
	metrics.Read(sample)
	h := sample[0].Value.Float64Histogram()
	i, _ := slices.BinarySearch(h.Buckets, lateAfter.Seconds())
	for n, c := range h.Counts {
		all += c
		if n >= i {
			late += c
		}
	}
	return all, late
}
