package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/internal/backoff"
	"berth/internal/sysinfo"
)

// How the disk of a node is foreseen.
const (
	diskEvery      = 10 * time.Minute    // between two samples
	diskWindow     = 24 * time.Hour      // in which samples count
	diskWindowMin  = 6 * time.Hour       // that they must span
	diskSamplesMin = 12                  // that there must be
	diskHorizon    = 14 * 24 * time.Hour // beyond which nothing is foreseen
	diskWarn       = 3 * 24 * time.Hour  // before it is full, that is a warning in the log
)

// diskSample is how much room a disk had at a time.
type diskSample struct {
	at   time.Time
	free int64 // bytes
}

// foreseeFull returns after which time from the newest sample a disk is full if it goes on to fill as fast as the samples, the
// oldest first, say: as the straight line that is nearest to them. It is false for fewer than diskSamplesMin, for those that span
// less than diskWindowMin, for a disk that does not fill, and for one that lasts longer than diskHorizon.
func foreseeFull(samples []diskSample) (time.Duration, bool) {
	n := len(samples)
	if n < diskSamplesMin || samples[n-1].at.Sub(samples[0].at) < diskWindowMin {
		return 0, false
	}
	var meanAt, meanFree float64 // seconds since the first sample, and bytes more than in it: small numbers stay exact
	for _, s := range samples {
		meanAt += s.at.Sub(samples[0].at).Seconds() / float64(n)
		meanFree += float64(s.free-samples[0].free) / float64(n)
	}
	var both, square float64
	for _, s := range samples {
		at := s.at.Sub(samples[0].at).Seconds() - meanAt
		both += at * (float64(s.free-samples[0].free) - meanFree)
		square += at * at
	}
	if square <= 0 || both >= 0 {
		return 0, false
	}
	left := float64(samples[n-1].free) / (-both / square)
	if left > diskHorizon.Seconds() {
		return 0, false
	}
	return time.Duration(left * float64(time.Second)), true
}

// diskWatch knows the disk with the folder of a node. Its methods may be called concurrently.
type diskWatch struct {
	mu          sync.Mutex // guards all
	samples     []diskSample
	free, total int64
	warned      bool
}

// note takes a sample, and reports whether it is the first by which the disk is full within diskWarn.
func (d *diskWatch) note(now time.Time, free, total int64) (full time.Duration, warn bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.total != total || len(d.samples) > 0 && !now.After(d.samples[len(d.samples)-1].at) {
		d.samples = nil // another disk, or a clock that was set back
	}
	d.samples = append(d.samples, diskSample{now, free})
	d.samples = slices.DeleteFunc(d.samples, func(s diskSample) bool { return now.Sub(s.at) > diskWindow })
	d.free, d.total = free, total
	full, foreseen := foreseeFull(d.samples)
	soon := foreseen && full < diskWarn
	warn = soon && !d.warned
	d.warned = soon
	return full, warn
}

// vitals returns what is known of the disk.
func (d *diskWatch) vitals() (free, total int64, full time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	full, _ = foreseeFull(d.samples)
	return d.free, d.total, full
}

// watchDisk takes samples of the disk of this node until ctx ends.
func (n *Node) watchDisk(ctx context.Context) {
	for ctx.Err() == nil {
		free, total, err := sysinfo.Disk(n.dir)
		if err != nil {
			n.log.DebugContext(ctx, "the room on the disk is unknown", "error", err)
		} else if full, warn := n.disk.note(n.now(), free, total); warn {
			n.log.WarnContext(ctx, "the disk of this node will be full soon if it goes on to fill as it does", "dir", n.dir, "full_in", full.Round(time.Hour), "free_mib", free>>20)
		}
		backoff.Sleep(ctx, diskEvery)
	}
}
