package load

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"berth/api"
)

// Range and precision of latencies. One histogram takes 270 kB.
const (
	latencyMax    = TimeoutMax + time.Minute
	latencyDigits = 3 // significant
)

// Latency is the distribution of the latencies of all operations that succeeded, in
// milliseconds. Values are exact to three significant digits.
type Latency struct {
	MeanMs float64 `json:"mean_ms"`
	P50Ms  float64 `json:"p50_ms"`
	P90Ms  float64 `json:"p90_ms"`
	P99Ms  float64 `json:"p99_ms"`
	P999Ms float64 `json:"p999_ms"`
	MaxMs  float64 `json:"max_ms"`
}

// WorkResult is the result of the operations of one kind.
type WorkResult struct {
	Work       Work    `json:"work"`
	Operations int64   `json:"operations"` // that succeeded
	Failed     int64   `json:"failed"`
	Latency    Latency `json:"latency"`
}

// ErrorCount is the number of operations that failed with one code.
type ErrorCount struct {
	Code    api.Code `json:"code"`
	Count   int64    `json:"count"`
	Example string   `json:"example"` // the message of the first
}

// recorder collects what operations came to. It is safe for concurrent use.
type recorder struct {
	mu     sync.Mutex // guards what follows
	works  map[Work]*workRecord
	errors map[api.Code]*ErrorCount
	size   int64 // of all that succeeded
	late   int64
}

type workRecord struct {
	latency *hdrhistogram.Histogram // in microseconds
	failed  int64
}

func newRecorder() *recorder {
	return &recorder{works: map[Work]*workRecord{}, errors: map[api.Code]*ErrorCount{}}
}

// newHistogram returns an empty histogram of microseconds.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, latencyMax.Microseconds(), latencyDigits)
}

// addOperation records one operation: when it was due, how late it began, and when it ended.
func (r *recorder) addOperation(o *Outcome, due time.Time, late bool, ended time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.works[o.Work]
	if w == nil {
		w = &workRecord{latency: newHistogram()}
		r.works[o.Work] = w
	}
	if late {
		r.late++
	}
	if o.Err != nil {
		w.failed++
		r.countError(o.Err)
		return
	}
	took := min(max(ended.Sub(due), time.Microsecond), latencyMax)
	_ = w.latency.RecordValue(took.Microseconds()) // in range, so it never fails
	r.size += int64(o.Size)
}

func (r *recorder) countError(err error) {
	code := api.CodeOf(err)
	e := r.errors[code]
	if e == nil {
		e = &ErrorCount{Code: code, Example: err.Error()}
		r.errors[code] = e
	}
	e.Count++
}

// count returns how many operations succeeded and failed until now.
func (r *recorder) count() (done, failed int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.works {
		done += w.latency.TotalCount()
		failed += w.failed
	}
	return done, failed
}

// result returns all that was recorded, with the rates and the processor time of a window.
func (r *recorder) result(p *Plan, window, cpu time.Duration) *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &Result{
		Work: p.Work, Callers: p.Callers, RateWanted: p.Rate, Late: r.late, Instances: r.size,
		Seconds: window.Seconds(), CPUSeconds: cpu.Seconds(), Errors: []ErrorCount{}, Works: []WorkResult{},
	}
	all := newHistogram()
	for _, name := range slices.Sorted(maps.Keys(r.works)) {
		w := r.works[name]
		all.Merge(w.latency)
		out.Failed += w.failed
		out.Works = append(out.Works, WorkResult{name, w.latency.TotalCount(), w.failed, latencyOf(w.latency)})
	}
	out.Operations, out.Latency = all.TotalCount(), latencyOf(all)
	for _, code := range slices.Sorted(maps.Keys(r.errors)) {
		out.Errors = append(out.Errors, *r.errors[code])
	}
	slices.SortStableFunc(out.Errors, func(a, b ErrorCount) int { return cmp.Compare(b.Count, a.Count) })
	out.divide()
	return out
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	at := func(percent float64) float64 { return float64(h.ValueAtPercentile(percent)) / 1000 }
	return Latency{
		MeanMs: h.Mean() / 1000, P50Ms: at(50), P90Ms: at(90), P99Ms: at(99), P999Ms: at(99.9), MaxMs: float64(h.Max()) / 1000,
	}
}
