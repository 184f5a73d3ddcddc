// Mutants shows that the tests find every deliberate fault of internal/mutant: it
// builds them with the tag "mutants", switches one fault on after the other, and
// runs suites until one fails. It must never call a fault found that a suite
// reports without any fault as well, so every suite runs once without.
//
//	go run ./cluster-test/mutants               # all faults, a few minutes
//	go run ./cluster-test/mutants fsync-off     # one
//	go run ./cluster-test/mutants -blackbox     # also by suites that see a zone from outside alone
//	go run ./cluster-test/mutants -list         # say which there are
//
// It tells on standard error how it gets on, and prints a table at the end. It
// returns 1 if a fault was not found, or if a suite fails without a fault.
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
	if err = flags.Parse(args); err != nil {
		return err
	}
	faults, err := pick(flags.Args())
	if err != nil {
		return err
	}
	if *list {
		for _, f := range faults {
			if _, err = fmt.Fprintf(out, "%-22s %s\n", f.Name, f.Does); err != nil {
				return fmt.Errorf("printing the list: %w", err)
			}
		}
		return nil
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "berth-mutants-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
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

// all runs the searches for every fault, after every suite has passed without one.
func (r *runner) all(ctx context.Context, faults []mutant.Fault, searches [][]suite) ([]finding, error) {
	used := slices.Concat(searches...)
	if err := r.build(ctx, used); err != nil {
		return nil, err
	}
	if err := r.baseline(ctx, used); err != nil {
		return nil, err
	}
	var out []finding
	for _, f := range faults {
		one := finding{fault: f}
		for _, s := range searches {
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

// baseline runs every suite without a fault.
func (r *runner) baseline(ctx context.Context, all []suite) error {
	done := map[suite]bool{}
	for _, s := range all {
		if done[s] {
			continue
		}
		done[s] = true
		began := time.Now()
		o, err := r.try(ctx, s, "")
		if err != nil {
			return err
		}
		switch o.end {
		case failed:
			return fmt.Errorf("%s fails without a fault, in %s:\n%s", s, o.test, o.about())
		case skipped:
			r.absent[s] = true
			r.say("%s is skipped here: %s", s, o.reason)
		case passed:
			r.say("%s passes in %.1f s", s, time.Since(began).Seconds())
		}
	}
	return nil
}

// hunt runs suites until one fails.
func (r *runner) hunt(ctx context.Context, m mutant.Name, all []suite) (hunt, error) {
	if s, alone := only[m]; alone {
		if r.absent[s] {
			return hunt{untried: true}, nil
		}
		all = []suite{s}
	}
	began := time.Now()
	for _, s := range all {
		if r.absent[s] {
			continue
		}
		o, err := r.try(ctx, s, m)
		if err != nil {
			return hunt{}, err
		}
		if o.end == failed {
			return hunt{by: s.pkg + " " + o.test, took: time.Since(began)}, nil
		}
	}
	return hunt{took: time.Since(began)}, nil
}
