// Mutants shows that the tests find every deliberate fault: it compiles the faults of
// the folder faults into suites (go build -overlay), all that can be into one program, which makes the one
// that its environment names, and runs them for one fault after the other until a test fails. It must never count a fault
// as found because of a test that also fails without it, so a failing test runs again:
// without the fault, when it must pass, and with it, when it must fail again. It must
// never change a file of the module.
//
//	go run ./cluster-test/mutants               # all faults, about half an hour
//	go run ./cluster-test/mutants fsync-off     # one
//	go run ./cluster-test/mutants -blackbox     # also with suites that see a zone only from outside
//	go run ./cluster-test/mutants -list         # list them
//	go run ./cluster-test/mutants -ledger docs/ledger.md fsync-off   # and write what was found
//
// With -random it makes faults of its own instead: it changes one place at a time in the
// code of a few packages, drawn with a seed, and checks whether their tests or those of
// their neighbours fail.
//
//	go run ./cluster-test/mutants -random 200 -seed 1
//	go run ./cluster-test/mutants -random 200 -seed 1 -list   # list those to be tried first
//	go run ./cluster-test/mutants -random 20 agent zone       # only in these packages
//	go run ./cluster-test/mutants -random 20 -own agent       # only the tests of the package itself: quick, to see what they miss
//
// It prints its progress on standard error, and a table at the end. It returns 1 if a
// deliberate fault, or more than a tenth of the random ones, was not found.
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

	"golang.org/x/sync/errgroup"
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
	own := flags.Bool("own", false, "look for random faults with the tests of their own package alone")
	ledger := flags.String("ledger", "", "write what was found into the table of this document")
	jobs := flags.Int("jobs", 2, "how many faults are looked for at a time")
	if err = flags.Parse(args); err != nil {
		return err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	var chosen []fault
	var sites []site
	if *random > 0 {
		sites, err = draw(root, flags.Args(), *seed)
	} else if chosen, err = readFaults(faults); err == nil {
		chosen, err = pick(chosen, flags.Args())
	}
	if err != nil {
		return err
	}
	if *list {
		return tell(out, chosen, sites[:min(*random, len(sites))])
	}
	if err = toolchain(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "berth-mutants-")
	if err == nil {
		err = os.Chmod(dir, passable)
	}
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	h := newHunter(root, dir, max(1, *jobs), out, progress)
	h.own = *own
	if *random > 0 {
		return h.random(ctx, sites, *seed, *random)
	}
	searches := [][]suite{suites}
	if *both {
		searches = append(searches, blackBox)
	}
	return h.deliberate(ctx, chosen, searches, *ledger)
}

// tell lists the faults, or the random ones that would be tried first.
func tell(out io.Writer, faults []fault, sites []site) error {
	var text strings.Builder
	for _, s := range sites {
		fmt.Fprintln(&text, &s)
	}
	for _, f := range faults {
		fmt.Fprintf(&text, "%-22s %s\n", f.name, f.does)
	}
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("printing the list: %w", err)
	}
	return nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// toolchain makes suites that read code find that of Go, as "go test" does.
func toolchain(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("finding the code of Go: %w", err)
	}
	return os.Setenv("GOROOT", strings.TrimSpace(string(out)))
}

// deliberate runs the searches for every fault and prints the results. The first search
// starts with the test that is known to find the fault. With a ledger it writes them there as well. It returns
// an error if a fault was not found, or does not fit the code.
func (h *hunter) deliberate(ctx context.Context, all []fault, searches [][]suite, ledger string) error {
	joined := map[string]change{}
	for _, f := range all {
		c, err := f.change(h.root)
		if err != nil {
			return err // TestFaults reports all of them
		}
		joined[f.name] = c
	}
	if err := h.join(ctx, newJoint(h.root), joined); err != nil {
		return err
	}
	found := make([]finding, len(all))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(h.jobs)
	for n, f := range all {
		g.Go(func() (err error) {
			found[n], err = h.find(ctx, f, joined[f.name], searches)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := table(h.out, found); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	if ledger != "" {
		every, err := readFaults(faults)
		if err == nil {
			err = updateLedger(ledger, every, found)
		}
		if err != nil {
			return err
		}
	}
	return verdict(found)
}

// find runs the searches for one fault.
func (h *hunter) find(ctx context.Context, f fault, c change, searches [][]suite) (finding, error) {
	found := finding{fault: f}
	for n, s := range searches {
		switch {
		case f.only:
			s = []suite{f.test}
		case n == 0 && f.test.pkg != "":
			s = slices.Concat([]suite{f.test}, s)
		}
		one, err := h.hunt(ctx, f.name, c, s)
		if broken := (*compileError)(nil); errors.As(err, &broken) { // the search for the others continues
			one, err = hunt{broken: broken.Error()}, nil
		}
		if err != nil {
			return finding{}, fmt.Errorf("%s: %w", f.name, err)
		}
		h.say("%s: %s", f.name, one)
		found.hunts = append(found.hunts, one)
	}
	return found, nil
}
