package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"berth/bench/load"
	"berth/bench/score"
	"berth/bench/zones"
	"berth/internal/sysinfo"
)

// Times of one row.
const (
	rowDuration = 5 * time.Second
	rowWarmup   = 2 * time.Second
	rowShort    = time.Second // of both, in a short run
	rowTimeout  = 30 * time.Second
)

// row is one row of the table: a federation, load on it, and what is taken from the result.
type row struct {
	name, title string
	size        load.Federation
	plan        load.Plan
	measures    []taken
	// measure, if set, is how the row is measured instead: it returns the values of measures.
	measure func(context.Context, *bencher) ([]float64, error)
}

// taken is a measure, and where it is in the result of a load.
type taken struct {
	score.Measure
	of func(*load.Result) float64
}

// The measures that rows have.
func rateOf(before, goal float64, floor string) taken {
	return taken{score.Measure{Name: "rate", Unit: "/s", Before: before, Goal: goal, Floor: floor}, func(r *load.Result) float64 { return r.Rate }}
}

func instancesOf(before, goal float64, floor string) taken {
	return taken{score.Measure{Name: "instances", Unit: "/s", Before: before, Goal: goal, Floor: floor}, func(r *load.Result) float64 { return r.InstanceRate }}
}

func p50Of(before, goal float64, floor string) taken {
	m := score.Measure{Name: "p50", Unit: "ms", Lower: true, Before: before, Goal: goal, Floor: floor}
	return taken{m, func(r *load.Result) float64 { return r.Latency.P50Ms }}
}

func p99() taken {
	return taken{score.Measure{Name: "p99", Unit: "ms", Lower: true}, func(r *load.Result) float64 { return r.Latency.P99Ms }}
}

func cpuOf(before, goal float64, floor string) taken {
	m := score.Measure{Name: "CPU", Unit: "ms", Lower: true, Before: before, Goal: goal, Floor: floor}
	return taken{m, func(r *load.Result) float64 { return r.CPUMsOperation }}
}

func cpuInstanceOf(before, goal float64, floor string) taken {
	m := score.Measure{Name: "CPU an instance", Unit: "ms", Lower: true, Before: before, Goal: goal, Floor: floor}
	return taken{m, func(r *load.Result) float64 { return r.CPUMsPerInstance }}
}

// lower is a measure of a row that measures itself.
func lower(name, unit string, before, goal float64, floor string) taken {
	return taken{Measure: score.Measure{Name: name, Unit: unit, Lower: true, Before: before, Goal: goal, Floor: floor}}
}

// Hosts of each zone of a row.
const (
	rowHosts = 1000
	rowZones = 10
)

// rows returns the table. "Before" and goals are those that the work on speed began with.
func (b *bencher) rows() []row {
	one := load.Federation{Nodes: 1, Zones: 1, Hosts: rowHosts}
	three := load.Federation{Nodes: 3, Zones: 1, Hosts: rowHosts}
	tree := load.Federation{Nodes: 1, Zones: rowZones, Hosts: rowHosts}
	boots := func(count, callers int) load.Plan { return b.planOf(load.Boots, count, callers) }
	federated := func(callers int) load.Plan { return b.planOf(load.Federated, 10, callers) }
	return []row{
		// The first, before others leave anything behind.
		{name: "memory", title: "memory for an instance: node, agent and simulated host", measures: []taken{lower("memory", "B", 6500, 700, "")}, measure: measureMemory},
		{
			"boot-1", "1 zone of 1 node, 1,000 hosts, boots of 1, 256 callers", one, boots(1, 256),
			[]taken{rateOf(3690, 10_000, floorHTTP), p50Of(65, 0, ""), p99(), cpuOf(0.40, 0.12, floorHTTPCPU)},
			nil,
		},
		{
			"boot-1-nodes-3", "the same, 3 nodes", three, boots(1, 256),
			[]taken{rateOf(2620, 7000, floorRaft3), p50Of(88, 0, ""), p99(), cpuOf(0.63, 0.2, floorRaft3CPU)},
			nil,
		},
		{
			"boot-100", "1 node, boots of 100, 16 callers", one, boots(100, 16),
			[]taken{instancesOf(8100, 60_000, floorRaft1), p50Of(0, 0, ""), cpuInstanceOf(0.15, 0.02, floorRaft1CPU)},
			nil,
		},
		{
			"boot-100-nodes-3", "3 nodes, boots of 100, 16 callers", three, boots(100, 16),
			[]taken{instancesOf(8700, 50_000, floorRaft3), p50Of(0, 0, ""), cpuInstanceOf(0.17, 0.03, floorRaft3CPU)},
			nil,
		},
		{"alone", "boot of 1, one caller, 1 node", one, boots(1, 1), []taken{p50Of(11.6, 3, floorRaft1P50), p99(), cpuOf(2.4, 0, floorRaft1CPU)}, nil},
		{"alone-nodes-3", "boot of 1, one caller, 3 nodes", three, boots(1, 1), []taken{p50Of(12.0, 4, floorRaft3P50), p99(), cpuOf(5.3, 0, floorRaft3CPU)}, nil},
		{
			"federated-alone", "root and 10 children of 1,000 hosts, all-or-nothing boots of 10 over at least 2 zones, 1 caller", tree, federated(1),
			[]taken{rateOf(74, 0, ""), p50Of(11.5, 6, floorRaft1P50), cpuOf(12, 0, floorRaft1CPU)},
			nil,
		},
		{"federated-32", "the same, 32 callers", tree, federated(32), []taken{rateOf(148, 700, floorRaft1), p50Of(215, 0, ""), cpuOf(11, 2, floorRaft1CPU)}, nil},
		{"federated-128", "the same, 128 callers", tree, federated(128), []taken{rateOf(126, 700, floorRaft1), p50Of(1000, 0, ""), cpuOf(14, 0, floorRaft1CPU)}, nil},
		{"federated-512", "the same, 512 callers", tree, federated(512), []taken{rateOf(0, 700, floorRaft1), p50Of(0, 0, ""), cpuOf(0, 0, floorRaft1CPU)}, nil},
		{"tree-boot-1", "the same tree, boots of 1, 64 callers", tree, boots(1, 64), []taken{rateOf(134, 3000, floorRaft1), p50Of(0, 0, ""), cpuOf(13, 0, floorRaft1CPU)}, nil},
		{
			name: "plan", title: "plan 1 and 1,000 instances over 10,000 hosts", measure: measurePlans,
			measures: []taken{lower("of 1", "ms", 0.14, 0.05, floorScan1), lower("of 1,000", "ms", 0.28, 0.2, floorScan1000)},
		},
	}
}

// planOf returns the load of a row.
func (b *bencher) planOf(w load.Work, count, callers int) load.Plan {
	p := load.Plan{
		Work: w, Until: load.UntilActive, Flavor: load.OwnFlavor, Count: count, MinZones: 1, Callers: callers,
		Warmup: rowWarmup, Duration: rowDuration, Timeout: rowTimeout,
	}
	if w == load.Federated {
		p.MinZones = 2
	}
	if b.short {
		p.Warmup, p.Duration = rowShort, rowShort
	}
	return p
}

// measureRow measures one row in a federation of its own.
func (b *bencher) measureRow(ctx context.Context, w *row) (score.Row, error) {
	out := score.Row{Name: w.name, Title: w.title}
	values := make([]float64, len(w.measures))
	if w.measure != nil {
		var err error
		if values, err = w.measure(ctx, b); err != nil {
			return out, fmt.Errorf("row %s: %w", w.name, err)
		}
	} else {
		result, err := b.loadFederation(ctx, w.size, w.plan)
		if err != nil {
			return out, fmt.Errorf("row %s: %w", w.name, err)
		}
		out.Failed = result.Failed
		for i, m := range w.measures {
			values[i] = m.of(result)
		}
	}
	line := w.name + ":"
	for i, m := range w.measures {
		m.Value = values[i]
		out.Measures = append(out.Measures, m.Measure)
		line += fmt.Sprintf(" %s %s %s", m.Name, score.Number(m.Value), m.Unit)
	}
	b.note("%s", line)
	return out, nil
}

// loadFederation puts load on a new federation, and stops it.
func (b *bencher) loadFederation(ctx context.Context, size load.Federation, p load.Plan) (*load.Result, error) {
	r, err := zones.Start(ctx, size, p.Callers, "", b.now)
	if err != nil {
		return nil, err
	}
	result, err := b.loadZone(ctx, r, p)
	if stopped := r.Stop(); err == nil {
		err = stopped
	}
	runtime.GC() // what is left of it is no burden on the next
	return result, err
}

func (b *bencher) loadZone(ctx context.Context, r *zones.Running, p load.Plan) (*load.Result, error) {
	z, err := load.NewZone(ctx, r.Root, &p, b.now)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	result, _, err := load.Measure(ctx, &p, b.meter(), z.Do)
	if err != nil {
		return nil, err
	}
	for _, e := range result.Errors {
		b.note("  %d failed: %s: %s", e.Count, e.Code, e.Example)
	}
	return result, nil
}

func (b *bencher) meter() *load.Meter {
	return &load.Meter{Now: b.now, CPU: sysinfo.ProcessTime}
}

// Standing instances whose memory is measured, beside a tenth of them that are there before.
const (
	memoryInstances      = 50_000
	memoryInstancesShort = 5_000
)

// measureMemory returns the bytes of live memory that an instance takes.
func measureMemory(ctx context.Context, b *bencher) ([]float64, error) {
	r, err := zones.Start(ctx, load.Federation{Nodes: 1, Zones: 1, Hosts: rowHosts}, 1, "", b.now)
	if err != nil {
		return nil, err
	}
	n := memoryInstances
	if b.short {
		n = memoryInstancesShort
	}
	var live [2]float64 // after the first tenth, and after the rest
	for i, part := range []int{n / 10, n} {
		if err = load.Fill(ctx, r.Root, load.OwnFlavor, part); err != nil {
			return nil, errors.Join(err, r.Stop())
		}
		live[i] = liveBytes()
	}
	return []float64{(live[1] - live[0]) / float64(n)}, r.Stop()
}

// liveBytes returns how much memory is in use after a collection.
func liveBytes() float64 {
	runtime.GC()
	runtime.GC() // also what finalizers held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
