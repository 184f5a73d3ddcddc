// Mutants shows that the tests find every deliberate fault of internal/mutant: it
// builds them with the tag "mutants", switches one fault on after the other, and
// runs the suites until one fails. It must never call a fault found that a suite
// without any fault would have reported as well, so every suite runs once without.
//
//	go run ./cluster-test/mutants               # all of them
//	go run ./cluster-test/mutants fsync-off     # one
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/internal/mutant"
)

// suiteTimeout bounds one run of one suite. A suite that a fault hangs has found it.
const suiteTimeout = 2 * time.Minute

// suite is the tests of one package, or some of them.
type suite struct {
	pkg string
	run string // the tests to run; "" for all
}

// suites are tried in this order: fast ones first.
var suites = []suite{
	{"buildplan/seal", ""},
	{"agent", ""},
	{"raftstore/state", ""},
	{"zone", ""},
	{"raftstore", ""},
	{"cluster-test/leak", ""},
	{"cluster-test/lab", "Power"},
	{"cluster-test/sim", ""},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	chosen := mutant.Names()
	if len(args) > 0 {
		chosen = nil
		for _, a := range args {
			if !slices.Contains(mutant.Names(), mutant.Name(a)) {
				return fmt.Errorf("no fault is called %q; there are %v", a, mutant.Names())
			}
			chosen = append(chosen, mutant.Name(a))
		}
	}
	dir, err := os.MkdirTemp("", "berth-mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // only a temporary folder would be left
	if err := build(ctx, dir); err != nil {
		return err
	}
	for _, s := range suites {
		if v := s.try(ctx, dir, ""); v.failed {
			return fmt.Errorf("suite %s fails without a fault:\n%s", s.pkg, v.output)
		}
	}
	var missed []string
	for _, m := range chosen {
		line, found := hunt(ctx, dir, m)
		fmt.Fprintln(out, line)
		if !found {
			missed = append(missed, string(m))
		}
	}
	fmt.Fprintf(out, "%d of %d faults found\n", len(chosen)-len(missed), len(chosen))
	if len(missed) > 0 {
		return fmt.Errorf("not found: %s", strings.Join(missed, ", "))
	}
	return ctx.Err()
}

// build compiles every suite once.
func build(ctx context.Context, dir string) error {
	for _, s := range suites {
		c := exec.CommandContext(ctx, "go", "test", "-c", "-tags", "mutants", "-o", s.binary(dir), "berth/"+s.pkg)
		if text, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("building the tests of %s: %w\n%s", s.pkg, err, text)
		}
	}
	return nil
}

// hunt runs suites until one fails, and says which, with the test and the time
// that passed since the first began.
func hunt(ctx context.Context, dir string, m mutant.Name) (line string, found bool) {
	began := time.Now()
	for _, s := range suites {
		if v := s.try(ctx, dir, m); v.failed {
			return fmt.Sprintf("%-22s found in %6.2f s by %s %s", m, time.Since(began).Seconds(), s.pkg, v.test), true
		}
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Sprintf("%-22s NOT FOUND in %.0f s", m, time.Since(began).Seconds()), false
}

func (s suite) binary(dir string) string {
	return filepath.Join(dir, strings.ReplaceAll(s.pkg, "/", "-")+".test")
}

// verdict is what one run of a suite said.
type verdict struct {
	failed bool
	test   string // the first that failed
	output string
}

var failedTest = regexp.MustCompile(`--- FAIL: (\S+)`)

func (s suite) try(ctx context.Context, dir string, m mutant.Name) verdict {
	ctx, cancel := context.WithTimeout(ctx, suiteTimeout)
	defer cancel()
	args := []string{"-test.failfast", "-test.timeout", (suiteTimeout - 5*time.Second).String()}
	if s.run != "" {
		args = append(args, "-test.run", s.run)
	}
	c := exec.CommandContext(ctx, s.binary(dir), args...)
	c.Dir = s.pkg
	c.Env = append(os.Environ(), "BERTH_MUTANT="+string(m), "RAPID_NOFAILFILE=1")
	text, err := c.CombinedOutput()
	if err == nil {
		return verdict{}
	}
	v := verdict{failed: true, test: "(did not end)", output: string(text)}
	if found := failedTest.FindStringSubmatch(v.output); found != nil {
		v.test = found[1]
	} else if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		v.output += err.Error()
	}
	return v
}
