// Command report measures Berth in one run: the rows of a table and the floors under them, and
// how figures grow. It writes the tables into docs/performance.md, the curves into docs/img and
// everything into docs/performance.json. With -check it writes nothing and fails when a ratio
// has fallen against that file.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"

	"berth/bench/score"
	"berth/internal/goruntime"
	"berth/internal/sysinfo"
)

func main() {
	goruntime.Tune(os.Getenv)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runReport(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// options are the flags of the command.
type options struct {
	short, check  bool
	docs          string // folder
	fresh, commit string
	only          *regexp.Regexp
}

func parseFlags(args []string, errOut io.Writer) (*options, error) {
	var o options
	var only string
	f := flag.NewFlagSet("report", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.BoolVar(&o.short, "short", false, "measure for a second each, and smaller curves")
	f.BoolVar(&o.check, "check", false, "compare with performance.json instead of writing it")
	f.StringVar(&o.docs, "docs", "docs", "`folder` of performance.md, performance.json and img")
	f.StringVar(&o.fresh, "fresh", "", "with -check: `file` with a report to compare, instead of measuring")
	f.StringVar(&o.commit, "commit", "unknown", "`commit` that is measured")
	f.StringVar(&only, "only", "", "measure rows and curves that match this `pattern`, and write nothing")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if o.fresh != "" && !o.check {
		return nil, errors.New("-fresh goes with -check")
	}
	if o.check && only != "" {
		return nil, errors.New("-check measures all rows; -only does not go with it")
	}
	var err error
	if only != "" {
		o.only, err = regexp.Compile(only)
	}
	return &o, err
}

func runReport(ctx context.Context, args []string, errOut io.Writer) error {
	o, err := parseFlags(args, errOut)
	if err != nil {
		return err
	}
	b := &bencher{short: o.short, only: o.only, errOut: errOut, now: time.Now} //nolint:forbidigo // the clock comes from here
	if o.check {
		return b.checkReport(ctx, o)
	}
	r, err := b.measureAll(ctx, o.commit)
	if err != nil {
		return err
	}
	if o.only != nil {
		_, err = fmt.Fprintln(errOut, score.Markdown(r, "img/"))
		return err
	}
	return writeReport(r, o.docs)
}

// writeReport puts r into the documents.
func writeReport(r *score.Report, docs string) error {
	path := filepath.Join(docs, "performance.md")
	doc, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	text, err := score.Splice(string(doc), score.Markdown(r, "img/"))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for i := range r.Curves {
		if err = drawCurve(&r.Curves[i], filepath.Join(docs, "img")); err != nil {
			return err
		}
	}
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(docs, "performance.json"), append(body, '\n'), 0o644), //nolint:gosec // documents are for everybody
		os.WriteFile(path, []byte(text), 0o644),                                          //nolint:gosec // documents are for everybody
	)
}

func readReport(path string) (*score.Report, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a report: %w", err)
	}
	var r score.Report
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return &r, nil
}

// checkTries is how often what has fallen is measured again: a busy machine is not a fault.
const checkTries = 2

// checkReport compares a fresh report, or a new measurement, with the committed one.
func (b *bencher) checkReport(ctx context.Context, o *options) error {
	was, err := readReport(filepath.Join(o.docs, "performance.json"))
	if err != nil {
		return err
	}
	if o.fresh != "" {
		fresh, failed := readReport(o.fresh)
		if failed != nil {
			return failed
		}
		return b.judge(was, fresh)
	}
	now := b.newReport(o.commit)
	if err = b.measureRows(ctx, now); err != nil {
		return err
	}
	for range checkTries {
		fallen := map[string]bool{}
		for _, f := range score.Compare(was, now) {
			b.note("%s; once more", f)
			fallen[f.Row] = true
		}
		if len(fallen) == 0 {
			break
		}
		again := b.newReport(o.commit)
		b.fallen = fallen
		if err = b.measureRows(ctx, again); err != nil {
			return err
		}
		score.KeepBetter(now, again)
	}
	return b.judge(was, now)
}

// judge returns an error if a ratio of now has fallen.
func (b *bencher) judge(was, now *score.Report) error {
	falls := score.Compare(was, now)
	for _, f := range falls {
		b.note("%s", f)
	}
	if len(falls) > 0 {
		return fmt.Errorf("%d ratios have fallen by more than %.0f %%", len(falls), 100*score.FallMax)
	}
	b.note("no ratio has fallen by more than %.0f %%", 100*score.FallMax)
	return nil
}

// bencher measures.
type bencher struct {
	short  bool
	only   *regexp.Regexp  // nil for all
	fallen map[string]bool // rows to measure again; nil for all
	errOut io.Writer
	now    func() time.Time
}

func (b *bencher) note(format string, args ...any) {
	_, _ = fmt.Fprintf(b.errOut, format+"\n", args...) // a failure could not be reported
}

func (b *bencher) newReport(commit string) *score.Report {
	return &score.Report{
		At: b.now().UTC().Format(time.DateOnly), Commit: commit, Go: runtime.Version(), CPUs: sysinfo.CPUs(), Short: b.short,
	}
}

// wants reports whether a row or curve is to be measured.
func (b *bencher) wants(name string) bool {
	return (b.only == nil || b.only.MatchString(name)) && (b.fallen == nil || b.fallen[name])
}

// measureAll measures everything.
func (b *bencher) measureAll(ctx context.Context, commit string) (*score.Report, error) {
	r := b.newReport(commit)
	before, err := readUsage()
	if err != nil {
		return nil, err
	}
	if err = b.measureRows(ctx, r); err != nil {
		return nil, err
	}
	for _, c := range b.curves() {
		if !b.wants(c.Name) {
			continue
		}
		if err = b.measureCurve(ctx, &c); err != nil {
			return nil, err
		}
		r.Curves = append(r.Curves, c.Curve)
	}
	after, err := readUsage()
	if err != nil {
		return nil, err
	}
	if r.Others = after.others(&before); r.Others > othersMax {
		b.note("other processes used %.0f %% of the machine's processor time: the figures are too low", 100*r.Others)
	}
	return r, r.Fill()
}

// othersMax is the part of the machine that others may use in a run that says anything.
const othersMax = 0.05

// usage is the processor time of the machine and of this process until some instant.
type usage struct{ busy, idle, own time.Duration }

func readUsage() (u usage, err error) {
	if u.busy, u.idle, err = sysinfo.MachineTime(); err == nil {
		u.own, err = sysinfo.ProcessTime()
	}
	return u, err
}

// others returns the part of the machine that other processes used since before.
func (u *usage) others(before *usage) float64 {
	busy, idle, own := u.busy-before.busy, u.idle-before.idle, u.own-before.own
	if busy+idle <= 0 {
		return 0
	}
	return max(0, float64(busy-own)/float64(busy+idle))
}

// measureRows measures all rows, and the floors after every few of them: of the values of a
// floor the best counts.
func (b *bencher) measureRows(ctx context.Context, r *score.Report) error {
	var wanted []row
	for _, w := range b.rows() {
		if b.wants(w.name) {
			wanted = append(wanted, w)
		}
	}
	for i := range wanted {
		row, err := b.measureRow(ctx, &wanted[i])
		if err != nil {
			return err
		}
		r.Rows = append(r.Rows, row)
		if i%floorEvery != 0 && i != len(wanted)-1 {
			continue
		}
		floors, err := b.measureFloors(ctx)
		if err != nil {
			return err
		}
		r.Floors = score.BestFloors(r.Floors, floors)
	}
	return r.Fill()
}

// floorEvery is after how many rows the floors are measured again.
const floorEvery = 6
