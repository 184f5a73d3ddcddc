package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/bench/load"
	"berth/internal/sysinfo"
)

// Federate starts a federation of this process to be measured, and returns a client of its
// root that serves so many callers at once, and what stops it.
type Federate func(ctx context.Context, f load.Federation, callers int) (root *client.Client, stop func() error, err error)

const benchHelp = `Put load on a zone and measure it: rates, latencies, errors by code, and processor time.

WORK is what one operation does:

  boots      boots --count instances, all or none
  federated  the same over at least --min-zones zones
  leases     creates a lease of one slot, for an hour of the next 30 days
  claims     allocates from a resource provider for a new consumer (needs the role admin)
  mixed      of ten operations five boots, two leases and three claims

With --hosts it starts a federation of its own in this process, with simulated hosts that
start instances at once, measures that, and deletes it. With --zones above 1 the hosts are in
that many children of a root, and the root is called. Without --hosts it calls the zone of
--addr, asks for confirmation, and releases what it made after the measurement; the zone's
agents do start the instances.

Without --rate the loop is closed: each of --callers starts its next operation when the one
before has ended. That measures how much a zone can do. With --rate the loop is open:
operations are due at that rate whatever the zone does, and a latency counts from the time at
which an operation was due. Operations that begin more than 5ms after they were due, because
all callers were busy or the machine was, are counted as late.

A closed loop begins an operation when one ends, so its rate is that at which measured
operations begin: what is still under way at the end counts for what was at the begin. The rate
of an open loop counts the time until the last of them has ended.

Latencies are those of operations that succeeded. The client repeats calls that are refused
for a passing reason, so that shows as latency first. Processor time is that of this process:
the load generator, and with --hosts all nodes and agents too.`

const benchExamples = `  berth bench boots --hosts 1000 --callers 256
  berth bench boots --hosts 1000 --nodes 3 --count 100 --callers 16 --duration 20s
  berth bench federated --hosts 1000 --zones 10 --count 10 --callers 32
  berth bench boots --hosts 1000 --rate 500 --until decided -o json
  berth bench mixed --addr https://zone.example:7600 --flavor small --rate 50 --yes`

// Defaults of a measurement.
const (
	benchCallers  = 16
	benchDuration = 10 * time.Second
	benchWarmup   = 2 * time.Second
	benchTimeout  = time.Minute
	benchMinZones = 2
)

// benchFlags are the flags of berth bench.
type benchFlags struct {
	plan load.Plan
	own  load.Federation
	sure sure
}

func benchCommand(e *env) *cobra.Command {
	var b benchFlags
	c := &cobra.Command{
		Use: "bench WORK", Short: "Measure a zone, or a federation of its own, under load",
		Long: benchHelp, Example: benchExamples, Args: exactArgs("a WORK"),
		ValidArgs: textsOf(load.Works),
		RunE: func(c *cobra.Command, args []string) error {
			if err := b.checkFlags(c, load.Work(args[0])); err != nil {
				return err
			}
			return e.runBench(c, &b)
		},
	}
	f := c.Flags()
	f.StringVar((*string)(&b.plan.Flavor), "flavor", "", "flavor of booted instances (default with --hosts: a small one)")
	f.IntVar(&b.plan.Count, "count", 1, fmt.Sprintf("instances of one boot, 1 to %d", api.CountMax))
	f.IntVar(&b.plan.MinZones, "min-zones", benchMinZones, fmt.Sprintf("smallest number of zones of one federated boot, 1 to %d", load.MinZonesMax))
	f.StringVar((*string)(&b.plan.Until), "until", string(load.UntilActive), "when a boot counts as done: recorded, decided or active")
	f.IntVar(&b.plan.Callers, "callers", benchCallers, fmt.Sprintf("largest number of operations at the same time, 1 to %d", load.CallersMax))
	f.Float64Var(&b.plan.Rate, "rate", 0, fmt.Sprintf("operations per second that are due, up to %d; 0 for a closed loop", load.RateMax))
	f.DurationVar(&b.plan.Warmup, "warmup", benchWarmup, "how long to put load on before measuring")
	f.DurationVar(&b.plan.Duration, "duration", benchDuration, "how long to measure")
	f.DurationVar(&b.plan.Timeout, "timeout", benchTimeout, "how long one operation may take")
	f.IntVar(&b.own.Hosts, "hosts", 0, fmt.Sprintf("start a federation with so many hosts in each zone, 1 to %d; 0 for none", load.HostsMax))
	f.IntVar(&b.own.Nodes, "nodes", 1, "nodes of each zone of that federation: 1, 3 or 5")
	f.IntVar(&b.own.Zones, "zones", 1, fmt.Sprintf("zones with hosts of that federation, 1 to %d", load.ZonesMax))
	f.IntVar(&b.own.Standing, "standing", 0, fmt.Sprintf("instances that run there already, 0 to %d", load.StandingMax))
	b.sure.addFlag(c)
	mustFlag(c.RegisterFlagCompletionFunc("until", cobra.FixedCompletions(textsOf(load.Untils), cobra.ShellCompDirectiveNoFileComp)))
	return c
}

func textsOf[T ~string](all []T) []string {
	var names []string
	for _, t := range all {
		names = append(names, string(t))
	}
	return names
}

// checkFlags refuses what contradicts itself or is out of range, before anything starts.
func (b *benchFlags) checkFlags(c *cobra.Command, w load.Work) error {
	b.plan.Work = w
	for _, name := range []string{"nodes", "zones", "standing"} {
		if c.Flags().Changed(name) && b.own.Hosts == 0 {
			return usageError(c, "--%s goes with --hosts", name)
		}
	}
	boots := w != load.Leases && w != load.Claims
	for _, name := range []string{"addr", "token", "token-file", "cacert"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed && b.own.Hosts != 0 {
			return usageError(c, "--%s names a zone, and --hosts starts one; give one of them", name)
		}
	}
	if boots && b.plan.Flavor == "" && b.own.Hosts == 0 {
		return usageError(c, "--flavor is required without --hosts")
	}
	if err := b.plan.Check(); err != nil {
		return usageError(c, "%s", api.MessageOf(err))
	}
	if b.own.Hosts == 0 {
		return nil
	}
	if err := b.own.Check(); err != nil {
		return usageError(c, "%s", api.MessageOf(err))
	}
	return nil
}

// runBench measures, and shows the result.
func (e *env) runBench(c *cobra.Command, b *benchFlags) error {
	if err := e.checkFormat(); err != nil {
		return err
	}
	ctx := c.Context()
	root, stop, err := e.benchTarget(ctx, b)
	if err != nil {
		return err
	}
	result, err := e.measureLoad(ctx, root, b)
	if stopped := stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	body, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("printing the result: %w", err)
	}
	return e.printAnswer(body, func() []table { return benchTables(result) })
}

// benchTarget returns a client of the zone to measure, and what ends it.
func (e *env) benchTarget(ctx context.Context, b *benchFlags) (*client.Client, func() error, error) {
	if b.own.Hosts > 0 {
		if e.federate == nil {
			return nil, nil, exitError(exitUsage, "give --addr instead", "this program cannot start a federation")
		}
		e.printNote("starting %s of %s and %s each ...", countThings(int64(b.own.Zones), "zone"), countThings(int64(b.own.Nodes), "node"), countThings(int64(b.own.Hosts), "host"))
		return e.federate(ctx, b.own, b.plan.Callers)
	}
	cfg, err := e.clientConfig()
	if err != nil {
		return nil, nil, err
	}
	cfg.Idle = b.plan.Callers
	if err = e.confirmAction(ctx, b.sure, fmt.Sprintf("put load on the zone at %s for %s", e.calling, b.plan.Warmup+b.plan.Duration)); err != nil {
		return nil, nil, err
	}
	root, err := client.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	return root, func() error { root.Close(); return nil }, nil
}

// measureLoad measures the zone of root. It releases what that made, unless the zone is
// deleted anyway.
func (e *env) measureLoad(ctx context.Context, root *client.Client, b *benchFlags) (*load.Result, error) {
	if b.plan.Flavor == "" {
		b.plan.Flavor = load.OwnFlavor
	}
	z, err := load.NewZone(ctx, root, &b.plan, e.now)
	if err != nil {
		return nil, err
	}
	told := benchProgress{e: e}
	result, undo, err := load.Measure(ctx, &b.plan, &load.Meter{Now: e.now, CPU: sysinfo.ProcessTime, Progress: told.show}, z.Do)
	told.clearLine()
	z.Close()
	if b.own.Hosts > 0 {
		return result, err
	}
	e.printNote("releasing what %s made ...", countThings(int64(len(undo)), "operation"))
	// Also after an interrupt.
	if missed := load.CallAll(context.WithoutCancel(ctx), b.plan.Callers, undo); missed != nil && err == nil {
		err = withHint(missed, "the result is lost; what is left has a name that begins with "+z.Name())
	}
	return result, err
}

// benchProgress shows the progress of a measurement on a terminal, as one line that is
// overwritten.
type benchProgress struct {
	e     *env
	shown bool
}

func (p *benchProgress) show(at load.Progress) {
	if !p.e.errTTY {
		return
	}
	printText(p.e.errOut, "\r\x1b[K%s of %s: %d done, %d failed", at.Elapsed.Truncate(time.Second), at.Total, at.Done, at.Failed)
	p.shown = true
}

func (p *benchProgress) clearLine() {
	if p.shown {
		printText(p.e.errOut, "\r\x1b[K")
		p.shown = false
	}
}

// benchTables shows a result.
func benchTables(r *load.Result) []table {
	var t table
	t.addRow("WORK", r.Work)
	t.addRow("CALLERS", r.Callers)
	if r.RateWanted > 0 {
		t.addRow("WANTED", fmt.Sprintf("%g/s", r.RateWanted))
		t.addRow("LATE", r.Late)
	}
	t.addRow("OPERATIONS", fmt.Sprintf("%d in %.1f s, %d failed", r.Operations, r.Seconds, r.Failed))
	t.addRow("RATE", fmt.Sprintf("%.1f/s", r.Rate))
	if r.Instances > r.Operations {
		t.addRow("INSTANCES", fmt.Sprintf("%.1f/s", r.InstanceRate))
	}
	t.addRow("CPU", fmt.Sprintf("%.3f ms per operation, with the load generator", r.CPUMsOperation))
	latency := table{header: []string{"WORK", "OPERATIONS", "FAILED", "MEAN MS", "P50", "P90", "P99", "P99.9", "MAX"}}
	for _, w := range r.Works {
		l := w.Latency
		latency.addRow(w.Work, w.Operations, w.Failed, showMs(l.MeanMs), showMs(l.P50Ms), showMs(l.P90Ms), showMs(l.P99Ms), showMs(l.P999Ms), showMs(l.MaxMs))
	}
	tables := []table{t, latency}
	if len(r.Errors) > 0 {
		errs := table{header: []string{"ERROR", "COUNT", "FIRST MESSAGE"}}
		for _, c := range r.Errors {
			errs.addRow(c.Code, c.Count, c.Example)
		}
		tables = append(tables, errs)
	}
	return tables
}

func showMs(ms float64) string { return strings.TrimSuffix(fmt.Sprintf("%.2f", ms), ".00") }
