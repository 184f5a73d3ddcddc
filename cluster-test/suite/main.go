// Suite runs the tests of packages, and says what they cost and why they failed: the CPU seconds of each
// package beside its budget, and in its last lines the first failure, with its message, its seed and the
// command that repeats it alone. It must never run a failed test again to see whether it
// passes, and must never end a package because a machine is slow: only one that stands still.
//
//	go run ./cluster-test/suite -suite test -short   # what make test runs
//	go run ./cluster-test/suite -suite cluster       # what make cluster runs
//	go run ./cluster-test/suite ./zone/saga          # one package
//	go run ./cluster-test/suite -suite test -write   # measure, and write packages.txt
//
// Which package is in which suite, and what it may cost, is in packages.txt. Arguments after -- go to
// the test binaries.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == watchArg {
		os.Exit(watch(os.Args[2:], os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	suite    string
	short    bool
	write    bool
	tags     string
	count    int
	parallel int
	args     []string // packages, and arguments for their tests after "--"
}

// tableFile is the list of packages, from the root of the module.
const tableFile = "cluster-test/suite/packages.txt"

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("suite", flag.ContinueOnError)
	var o options
	flags.StringVar(&o.suite, "suite", "", "run the packages of this suite: test or cluster")
	flags.BoolVar(&o.short, "short", false, "run a drawn part of what takes long")
	flags.BoolVar(&o.write, "write", false, "write what each package cost into "+tableFile)
	flags.StringVar(&o.tags, "tags", "", "build tags")
	flags.IntVar(&o.count, "count", 1, "run each test so often")
	flags.IntVar(&o.parallel, "p", runtime.NumCPU()+1, "packages at a time; many tests wait")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.args = flags.Args()
	table, err := readTable(tableFile)
	if err != nil {
		return err
	}
	packages, rest, err := o.packages(table)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "berth-suite-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // only temporary files would be left
	began := time.Now()
	r := newReport(table, o.short, out)
	failure := goTest(ctx, o, packages, rest, dir, r)
	if o.write && failure == nil {
		failure = table.write(tableFile, o.short, r.costs)
	}
	if failure == nil && !o.write {
		for _, over := range r.overBudget() { // a noisy machine is no reason: it must be dear again, alone
			failure = errors.Join(failure, tryAgain(ctx, o, over, rest, dir, r))
		}
	}
	return r.finish(time.Since(began), filepath.Join(dir, stallsFile), failure)
}

// packages returns the packages to test as arguments of go test, and the arguments of their tests.
func (o options) packages(table *table) (packages, rest []string, err error) {
	for i, a := range o.args {
		if a == "--" {
			rest = o.args[i+1:]
			break
		}
		packages = append(packages, a)
	}
	switch {
	case o.suite != "" && len(packages) > 0:
		return nil, nil, errors.New("name a suite or packages, not both")
	case o.suite != "":
		packages, err = table.packagesOf(o.suite)
	case len(packages) == 0:
		err = errors.New("name a suite with -suite, or packages")
	}
	return packages, rest, err
}
