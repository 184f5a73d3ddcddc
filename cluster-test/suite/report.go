package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Limits of what is printed of a failure.
const (
	failureLinesMax = 60
	failureLineMax  = 400 // characters
)

// Limits of a package: it fails if it takes budgetTimes its line in the table, and budgetMore seconds more.
const (
	budgetTimes = 2
	budgetMore  = 3
)

// event is one line of go test -json.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// failure is a test that failed, or a package that failed outside of its tests.
type failure struct {
	pkg, test string
	output    []string
}

// report follows a run and prints it.
type report struct {
	table   *table
	short   bool
	out     io.Writer
	costs   map[string]cost
	tests   map[string]int      // by their outcome
	output  map[string][]string // of tests and packages that have not passed yet; the last lines
	builds  map[string][]string // output of the compiler
	first   *failure
	unknown []string // packages that are not in the table
}

func newReport(t *table, short bool, out io.Writer) *report {
	return &report{table: t, short: short, out: out, costs: map[string]cost{}, tests: map[string]int{}, output: map[string][]string{}, builds: map[string][]string{}}
}

// outputMax is the number of lines that are kept of a test.
const outputMax = 400

// add takes one event. costOf returns what the tests of a package cost, if they ran.
func (r *report) add(e event, costOf func(pkg string) (cost, bool)) {
	pkg := strings.TrimPrefix(e.Package, module)
	key := pkg + " " + e.Test
	switch e.Action {
	case "build-output":
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
	case "output":
		kept := append(r.output[key], e.Output)
		r.output[key] = kept[max(0, len(kept)-outputMax):]
	case "pass", "skip", "fail":
		if e.Action == "fail" {
			r.fail(pkg, e, r.output[key])
		}
		delete(r.output, key)
		if e.Test == "" {
			r.endPackage(pkg, e, costOf)
		} else if !strings.Contains(e.Test, "/") {
			r.tests[e.Action]++
		}
	}
}

// fail keeps the first failure, of a test rather than of those around it.
func (r *report) fail(pkg string, e event, output []string) {
	if e.FailedBuild != "" {
		output = append(slices.Clone(r.builds[e.FailedBuild]), output...)
	}
	f := &failure{pkg, e.Test, slices.Clone(output)}
	switch {
	case r.first == nil:
		r.first = f
	case r.first.pkg == pkg && e.Test != "" && strings.HasPrefix(r.first.test, e.Test+"/"): // what the test above a subtest said, such as its seed
		r.first.output = append(r.first.output, output...)
	}
	if e.Test == "" && e.FailedBuild == "" && r.tests["fail"] > 0 {
		return
	}
	fmt.Fprintf(r.out, "%s\n", strings.TrimRight(f.text(), "\n"))
}

// text returns the failure as it is printed.
func (f *failure) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "FAILED %s %s\n", f.pkg, f.test)
	var lines []string
	for line := range strings.Lines(strings.Join(f.output, "")) {
		if line = strings.TrimRight(line, "\n"); !strings.HasPrefix(line, "=== ") {
			lines = append(lines, line[:min(len(line), failureLineMax)])
		}
	}
	for _, line := range cutLines(lines) {
		fmt.Fprintln(&b, "  "+line)
	}
	return b.String()
}

// messageLine is where a test says what is wrong, among what else it prints.
var messageLine = regexp.MustCompile(`^\s+Error Trace:|: await: |^panic: |^fatal error: |DATA RACE`)

// cutLines leaves the begin, the end, and the first message of a long output.
func cutLines(lines []string) []string {
	if len(lines) <= failureLinesMax {
		return lines
	}
	const part = failureLinesMax / 3
	parts := [][2]int{{0, part}, {len(lines) - part, len(lines)}}
	if i := slices.IndexFunc(lines, messageLine.MatchString); i > 0 {
		parts = slices.Insert(parts, 1, [2]int{i - 1, min(i-1+part, len(lines))}) // with the line that says where
	}
	var out []string
	at := 0
	for _, p := range parts {
		from := max(p[0], at)
		if from > at {
			out = append(out, fmt.Sprintf("... %d lines ...", from-at))
		}
		if from < p[1] {
			out = append(out, lines[from:p[1]]...)
			at = p[1]
		}
	}
	return out
}

// repeat returns the command that runs what failed alone.
func (f *failure) repeat(tags string) string {
	command := "go test -count=1"
	if tags != "" {
		command += " -tags " + tags
	}
	if f.test != "" {
		command += fmt.Sprintf(" -run '^%s$'", strings.ReplaceAll(f.test, "/", "$/^"))
	}
	return command + " ./" + f.pkg
}

// endPackage prints what a package cost.
func (r *report) endPackage(pkg string, e event, costOf func(string) (cost, bool)) {
	word := map[string]string{"pass": "ok", "skip": "--", "fail": "FAIL"}[e.Action]
	c, ran := costOf(pkg)
	l := r.table.find(pkg)
	switch {
	case !ran:
		fmt.Fprintf(r.out, "%-4s %-34s\n", word, pkg)
	default:
		r.costs[pkg] = c
		budget := "not in the table"
		if l != nil {
			budget = fmt.Sprintf("of %5.1f", l.cost(r.short))
		} else {
			r.unknown = append(r.unknown, pkg)
		}
		fmt.Fprintf(r.out, "%-4s %-34s %6.1f s, CPU %6.1f s, scaled %6.1f %s\n", word, pkg, e.Elapsed, c.Seconds, c.scaled(r.table.unit), budget)
	}
}

// isOver reports whether a package took more than its budget.
func (r *report) isOver(pkg string) bool {
	l, c := r.table.find(pkg), r.costs[pkg]
	if l == nil || c.Unit == 0 {
		return false
	}
	limit := max(budgetTimes*l.cost(r.short), l.cost(r.short)+budgetMore)
	return c.scaled(r.table.unit) > limit
}

// overBudget returns the packages that took more than their budgets.
func (r *report) overBudget() []string {
	var over []string
	for pkg := range r.costs {
		if r.isOver(pkg) {
			over = append(over, pkg)
		}
	}
	slices.Sort(over)
	return over
}

// finish prints the end of a run: what was repeated, the first failure, and how many tests passed.
func (r *report) finish(took time.Duration, stalls string, err error) error {
	var cpu float64
	for _, c := range r.costs {
		cpu += c.Seconds
	}
	fmt.Fprintf(r.out, "\n%d packages in %s, tests took %.0f s of CPU\n", len(r.costs), took.Round(time.Second), cpu)
	if text, failed := os.ReadFile(stalls); failed == nil {
		fmt.Fprintf(r.out, "%d steps were repeated, because the machine stood still:\n%s", strings.Count(string(text), "\n"), text)
	}
	if len(r.unknown) > 0 && err == nil {
		err = fmt.Errorf("add to %s a line for %s", tableFile, strings.Join(r.unknown, ", "))
	}
	if r.first != nil {
		fmt.Fprintf(r.out, "\nfirst failure: %s\n  alone: %s\n\n", strings.TrimRight(r.first.text(), "\n"), r.first.repeat(""))
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.tests["pass"], r.tests["fail"], r.tests["skip"])
	return err
}
