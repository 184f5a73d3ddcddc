package state

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// fullHosts is how many hosts the instances of a full zone are on.
const fullHosts = 10_000

// BenchmarkFull fills a zone of 10,000 hosts with running instances, in boots of 100, and measures what
// they cost: live memory for each host and instance (B/host, B/instance), the bytes of the snapshot for an
// instance (B/saved), how long boots take beside a snapshot that is written (pause-p50-ms, pause-p99-ms,
// and the longest, which other processes on the machine prolong: pause-ms), and how long it takes to load that again, as at a restart (load-s).
func BenchmarkFull(b *testing.B) {
	for _, instances := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("instances=%d", instances), func(b *testing.B) { benchmarkFull(b, instances) })
	}
}

func benchmarkFull(b *testing.B, instances int) {
	b.Helper()
	empty := liveBytes()
	f := &fullZone{s: New(), stamp: stampIn(b, api.FormNewest)}
	f.s.Apply(1, initial())
	for i := range fullHosts {
		f.s.Apply(1, hostPut(f.stamp, "a1", hostNamed(i), int64(2*instances)))
	}
	hosts := liveBytes()
	for range instances / benchInstances {
		f.boot(b)
	}
	full := liveBytes()
	var saved bytes.Buffer
	var pauses []time.Duration
	var load time.Duration
	for b.Loop() {
		saved.Reset()
		view := f.s.Clone()
		done := make(chan error, 1)
		go func() { done <- view.Save(yieldingBuffer{&saved}) }()
		for waiting := true; waiting; {
			begun := time.Now()
			f.boot(b)
			pauses = append(pauses, time.Since(begun))
			select {
			case err := <-done:
				require.NoError(b, err)
				waiting = false
			default:
			}
		}
		begun := time.Now()
		again, err := LoadAhead(&saved, api.FormNewest, readAhead)
		require.NoError(b, err)
		load += time.Since(begun)
		require.Equal(b, view.Index(), again.Index())
		b.StopTimer()
		require.NoError(b, view.Save(&saved)) // for its length; Load has read it
		b.StartTimer()
	}
	b.ReportMetric((hosts-empty)/fullHosts, "B/host")
	b.ReportMetric((full-hosts)/float64(instances), "B/instance")
	b.ReportMetric(float64(saved.Len())/float64(instances), "B/saved")
	slices.Sort(pauses)
	for name, n := range map[string]int{"pause-p50-ms": len(pauses) / 2, "pause-p99-ms": len(pauses) * 99 / 100, "pause-ms": len(pauses) - 1} {
		b.ReportMetric(float64(pauses[n].Microseconds())/1000, name)
	}
	b.ReportMetric(load.Seconds()/float64(b.N), "load-s")
	runtime.KeepAlive(f)
}

// yieldingBuffer lets others run between its writes, as what a node saves to does.
type yieldingBuffer struct{ *bytes.Buffer }

func (b yieldingBuffer) Write(part []byte) (int, error) {
	runtime.Gosched()
	return b.Buffer.Write(part)
}

// readAhead reads records on a goroutine, in batches, as a node does.
func readAhead(read func() (any, error)) (next func() (any, error), stop func()) {
	type result struct {
		record any
		err    error
	}
	batches := make(chan []result, 8)
	go func() {
		for err := error(nil); err == nil; {
			batch := make([]result, 0, 256)
			for len(batch) < cap(batch) && err == nil {
				var r any
				r, err = read()
				batch = append(batch, result{r, err})
			}
			batches <- batch
		}
		close(batches)
	}()
	var now []result
	next = func() (any, error) {
		if len(now) == 0 {
			now = <-batches
		}
		r := now[0]
		now = now[1:]
		return r.record, r.err
	}
	return next, func() {
		for range batches { // until it has ended
		}
	}
}

// fullZone is a zone that boots.
type fullZone struct {
	s     *State
	stamp command.Stamp
	index uint64
	boots int
}

// boot boots on the next hosts, reports all instances running, and publishes a view.
func (f *fullZone) boot(b *testing.B) {
	b.Helper()
	res := fmt.Sprintf("r%d", f.boots)
	ids := numbered(res, benchInstances)
	h := hold(f.stamp, "k-"+res, res, nil)
	h.Commit = true
	active := reports(f.stamp, "a1", "", api.StatusActive)
	for i, id := range ids {
		host := hostNamed((f.boots*benchInstances + i) % fullHosts)
		h.Slots = append(h.Slots, slots(host, id)...)
		active.Items = append(active.Items, reports(f.stamp, "a1", host, api.StatusActive, id).Items...)
	}
	f.boots++
	f.index += 3
	f.s.Apply(f.index, create(f.stamp, res, benchInstances, benchInstances))
	if r := f.s.Apply(f.index+1, h); r.Err != nil || len(r.Hold.Refused) > 0 {
		b.Fatal(r.Err, r.Hold)
	}
	if r := f.s.Apply(f.index+2, active); r.Err != nil {
		b.Fatal(r.Err)
	}
	f.s.Clone()
}

func hostNamed(i int) string { return fmt.Sprintf("h%05d", i) }

// liveBytes returns how much memory is in use after a collection.
func liveBytes() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
