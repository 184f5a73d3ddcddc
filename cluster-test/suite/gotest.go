package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// module is what import paths of our own packages start with.
const module = "berth/"

// stallsFile is the file, in the folder of a run, of the steps that tests repeated; see internal/await.
const stallsFile = "stalls"

// endMax is how long go test may take to end what it runs.
const endMax = 30 * time.Second

// eventMax is the length of a line of go test -json.
const eventMax = 16 << 20

// goTest runs the tests of packages. It returns an error if one failed.
func goTest(ctx context.Context, o options, packages, rest []string, dir string, r *report) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for this program: %w", err)
	}
	args := []string{"test", "-json", "-vet=off", "-ldflags=-w", "-timeout", "0", "-count", strconv.Itoa(o.count), "-p", strconv.Itoa(o.parallel), "-exec", self + " " + watchArg}
	if o.short {
		args = append(args, "-short")
	}
	if o.tags != "" {
		args = append(args, "-tags", o.tags)
	}
	args = append(append(args, packages...), rest...)
	c := exec.CommandContext(ctx, "go", args...)
	c.Env = append(os.Environ(), dirEnv+"="+dir, "BERTH_STALLS="+filepath.Join(dir, stallsFile))
	c.Stderr, c.WaitDelay = os.Stderr, endMax
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	pipe, err := c.StdoutPipe()
	if err != nil {
		return fmt.Errorf("running go test: %w", err)
	}
	if err = c.Start(); err != nil {
		return fmt.Errorf("running go test: %w", err)
	}
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, eventMax)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(r.out, lines.Text()) // what go test says of itself
			continue
		}
		r.add(e, func(pkg string) (cost, bool) { return readCost(dir, pkg) })
	}
	if err = errors.Join(lines.Err(), c.Wait()); err != nil {
		return fmt.Errorf("tests failed: %w", err)
	}
	return nil
}

// readCost returns what the tests of a package cost, if they ran, and forgets it.
func readCost(dir, pkg string) (c cost, ran bool) {
	at, err := filepath.Abs(pkg)
	if err != nil {
		return c, false
	}
	text, err := os.ReadFile(costFile(dir, at))
	if err != nil || json.Unmarshal(text, &c) != nil {
		return c, false
	}
	return c, os.Remove(costFile(dir, at)) == nil
}

// tryAgain runs a package alone that took more than its budget. It returns an error if it does so again.
func tryAgain(ctx context.Context, o options, pkg string, rest []string, dir string, r *report) error {
	fmt.Fprintf(r.out, "%s took more than its budget: it runs again, alone\n", pkg)
	o.count, o.parallel = 1, 1
	passed := r.tests["pass"]
	if err := goTest(ctx, o, []string{"./" + strings.TrimPrefix(pkg, "./")}, rest, dir, r); err != nil {
		return err
	}
	r.tests["pass"] = passed // they were counted before
	if r.isOver(pkg) {
		l := r.table.find(pkg)
		return fmt.Errorf("%s takes %.1f s of CPU, and its line in %s says %.1f: make it cheaper, or raise the line and say why",
			pkg, r.costs[pkg].scaled(r.table.unit), tableFile, l.cost(r.short))
	}
	return nil
}
