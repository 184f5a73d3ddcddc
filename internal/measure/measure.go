// Package measure counts what a process does and how long that takes, for its metrics. It has no
// clock and knows no library of metrics: httpd/admin shows what it has counted.
//
// All methods may be called concurrently, and on nil, which counts nothing.
package measure

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// KeysMax is how many keys a family or counts have; what has another key is counted under the zero key.
const KeysMax = 4096

// seconds and sizes are the upper bounds of the buckets, in seconds and in pieces.
var (
	seconds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	sizes   = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)

// Distribution is what a histogram has counted: for each bound how many values were at most that.
type Distribution struct {
	Below map[float64]uint64
	Count uint64
	Sum   float64
}

// Histogram counts values in buckets.
type Histogram struct {
	bounds []float64

	mu     sync.Mutex // guards what follows
	counts []uint64   // by bucket, the last of which has no bound
	sum    float64
}

// NewSeconds returns a histogram of times, in seconds.
func NewSeconds() *Histogram { return newHistogram(seconds) }

// NewSizes returns a histogram of numbers of things.
func NewSizes() *Histogram { return newHistogram(sizes) }

func newHistogram(bounds []float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

// Note counts a value.
func (h *Histogram) Note(v float64) {
	if h == nil {
		return
	}
	at, _ := slices.BinarySearch(h.bounds, v)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[at]++
	h.sum += v
}

// NoteTime counts a time. One below 0, by a clock that was set back, counts as 0.
func (h *Histogram) NoteTime(d time.Duration) { h.Note(max(d, 0).Seconds()) }

// Read returns what was counted so far.
func (h *Histogram) Read() Distribution {
	if h == nil {
		return Distribution{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	d := Distribution{Below: make(map[float64]uint64, len(h.bounds)), Sum: h.sum}
	for i, n := range h.counts {
		d.Count += n
		if i < len(h.bounds) {
			d.Below[h.bounds[i]] = d.Count
		}
	}
	return d
}

// Family is a histogram of times for each key.
type Family[K comparable] struct {
	mu sync.Mutex // guards of
	of map[K]*Histogram
}

// NewFamily returns a family without keys.
func NewFamily[K comparable]() *Family[K] { return &Family[K]{of: map[K]*Histogram{}} }

// NoteTime counts a time of a key.
func (f *Family[K]) NoteTime(k K, d time.Duration) {
	if f != nil {
		f.find(k).NoteTime(d)
	}
}

func (f *Family[K]) find(k K) *Histogram {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.of[k]; h != nil {
		return h
	}
	if len(f.of) >= KeysMax {
		var rest K
		k = rest
		if h := f.of[k]; h != nil {
			return h
		}
	}
	h := NewSeconds()
	f.of[k] = h
	return h
}

// Read returns what was counted so far, by key.
func (f *Family[K]) Read() map[K]Distribution {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	all := maps.Clone(f.of)
	f.mu.Unlock()
	out := make(map[K]Distribution, len(all))
	for k, h := range all {
		out[k] = h.Read()
	}
	return out
}

// Counts counts what has happened, by key.
type Counts[K comparable] struct {
	mu sync.Mutex // guards of
	of map[K]uint64
}

// NewCounts returns counts without keys.
func NewCounts[K comparable]() *Counts[K] { return &Counts[K]{of: map[K]uint64{}} }

// Add counts one more of a key.
func (c *Counts[K]) Add(k K) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.of[k]; !known && len(c.of) >= KeysMax {
		var rest K
		k = rest
	}
	c.of[k]++
}

// Read returns what was counted so far, by key.
func (c *Counts[K]) Read() map[K]uint64 {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.of)
}
