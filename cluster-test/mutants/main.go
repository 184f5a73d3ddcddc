// Mutants shows that the tests find every deliberate fault of internal/mutant: it
// builds them with the tag "mutants", switches one fault on after the other, and
// runs suites until one fails. It must never call a fault found that a suite
// reports without any fault as well, so a test that fails runs again: without the
// fault, when it must pass, and with it, when it must fail again.
//
//	go run ./cluster-test/mutants               # all faults, a few minutes
//	go run ./cluster-test/mutants fsync-off     # one
//	go run ./cluster-test/mutants -blackbox     # also by suites that see a zone from outside alone
//	go run ./cluster-test/mutants -list         # say which there are
//
// With -random it makes faults of its own instead: it changes one place of the
// code of a few packages at a time, drawn by a seed, and looks whether their tests
// or those of their neighbours fail.
//
//	go run ./cluster-test/mutants -random 200 -seed 1
//	go run ./cluster-test/mutants -random 200 -seed 1 -list   # say which would be tried first
//	go run ./cluster-test/mutants -random 20 agent zone       # in these packages alone
//
// It tells on standard error how it gets on, and prints a table at the end. It
// returns 1 if a fault of internal/mutant, or a tenth of the random ones, was not found.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/internal/mutant"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(progress)
	list := flags.Bool("list", false, "say which faults there are")
	both := flags.Bool("blackbox", false, "also look which suites find a fault that see a zone from outside alone")
	random := flags.Int("random", 0, "make so many faults at random places instead")
	seed := flags.Uint64("seed", 1, "what the places are drawn by")
	jobs := flags.Int("jobs", 2, "how many random faults are looked for at a time")
	if err = flags.Parse(args); err != nil {
		return err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	var faults []mutant.Fault
	var sites []site
	if *random > 0 {
		sites, err = draw(root, flags.Args(), *seed)
	} else {
		faults, err = pick(flags.Args())
	}
	if err != nil {
		return err
	}
	if *list {
		return tell(out, faults, sites[:min(*random, len(sites))])
	}
	if err = toolchain(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "berth-mutants-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if *random > 0 {
		h := &hunter{root: root, dir: dir, out: out, progress: progress}
		return h.random(ctx, sites, *seed, *random, max(1, *jobs))
	}
	r := &runner{root: root, dir: dir, timeout: suiteTimeout, progress: progress, absent: map[suite]bool{}}
	searches := [][]suite{suites}
	if *both {
		searches = append(searches, blackBox)
	}
	found, err := r.all(ctx, faults, searches)
	if err != nil {
		return err
	}
	if err = table(out, found); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	return verdict(found)
}

// tell says which faults there are, or which random ones would be tried first.
func tell(out io.Writer, faults []mutant.Fault, sites []site) error {
	var text strings.Builder
	for _, s := range sites {
		fmt.Fprintln(&text, &s)
	}
	for _, f := range faults {
		fmt.Fprintf(&text, "%-22s %s\n", f.Name, f.Does)
	}
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("printing the list: %w", err)
	}
	return nil
}

// pick returns the faults of these names, all if there are none.
func pick(names []string) ([]mutant.Fault, error) {
	all := mutant.Faults()
	if len(names) == 0 {
		return all, nil
	}
	var out []mutant.Fault
	for _, n := range names {
		i := slices.IndexFunc(all, func(f mutant.Fault) bool { return string(f.Name) == n })
		if i < 0 {
			return nil, fmt.Errorf("no fault is called %q; -list says which there are", n)
		}
		out = append(out, all[i])
	}
	return out, nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// toolchain lets suites that read code find that of Go, as "go test" does.
func toolchain(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("finding the code of Go: %w", err)
	}
	return os.Setenv("GOROOT", strings.TrimSpace(string(out)))
}

// all runs the searches for every fault. The first of them begins with the test
// that is known to find it.
func (r *runner) all(ctx context.Context, faults []mutant.Fault, searches [][]suite) ([]finding, error) {
	known := make([]suite, 0, len(first))
	for _, s := range first {
		known = append(known, s)
	}
	if err := r.build(ctx, slices.Concat(slices.Concat(searches...), known)); err != nil {
		return nil, err
	}
	var out []finding
	for _, f := range faults {
		one := finding{fault: f}
		for n, s := range searches {
			if hint, ok := first[f.Name]; ok && n == 0 {
				s = slices.Concat([]suite{hint}, s)
			}
			h, err := r.hunt(ctx, f.Name, s)
			if err != nil {
				return nil, err
			}
			r.say("%s: %s", f.Name, h)
			one.hunts = append(one.hunts, h)
		}
		out = append(out, one)
	}
	return out, nil
}

// hunt runs suites until one finds the fault.
func (r *runner) hunt(ctx context.Context, m mutant.Name, all []suite) (hunt, error) {
	if s, alone := only[m]; alone {
		all = []suite{s}
	}
	began, ran := time.Now(), false
	for _, s := range all {
		if r.absent[s] {
			continue
		}
		by, err := r.look(ctx, s, m)
		if err != nil {
			return hunt{}, err
		}
		if by != "" {
			return hunt{by: s.pkg + " " + by, took: time.Since(began)}, nil
		}
		ran = ran || !r.absent[s]
	}
	return hunt{took: time.Since(began), untried: !ran}, nil
}
