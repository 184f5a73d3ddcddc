package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of running suites.
const (
	suiteTimeout = 4 * time.Minute // of one run; a suite that a fault hangs has found it
	endTimeout   = 5 * time.Second // for a suite that ran out of time to say where it hangs, and to go

	looksMax     = 2                // runs of a suite, if its failure was not due to the fault
	againMax     = 3                // runs of a test that failed, until it fails again: some draw at random
	againTimeout = 20 * time.Second // of each of them, or againTimes its duration without the fault
	againTimes   = 10
)

// suite is the tests of one package, or some of them.
type suite struct {
	pkg string // within the module
	run string // the tests to run, as a regular expression; "" for all
}

// String names the suite.
func (s suite) String() string { return strings.TrimSpace(s.pkg + " " + s.run) }

// powerCuts is the only suite that runs real nodes on disks that lose data which was not
// made durable. It needs root.
var powerCuts = suite{"cluster-test", "^TestPowerCutOfAllNodes$"}

// suites are tried in this order: fast ones first.
var suites = []suite{
	{"buildplan/seal", ""},
	{"identity", ""},
	{"httpd/wire", ""},
	{"agent", ""},
	{"capacity", ""},
	{"httpd/gateway", ""},
	{"httpd/native", ""},
	{"zone/intake", ""},
	{"zone/estimate", ""},
	{"zone/fleet", ""},
	{"zone/saga", ""},
	{"zone/leases", ""},
	{"zone/resources", ""},
	{"httpd/openstack", ""},
	{"httpd/placement", ""},
	{"httpd/tricircle", ""},
	{"httpd/agents", ""},
	{"api/client", ""},
	{"cluster-test/check", ""},
	{"zone", ""},
	{"raftstore/state", ""},
	{"raftstore", ""},
	{"federation", ""},
	{"node", ""},
	{"cluster-test/leak", ""},
	{"cluster-test/sim", ""},
	{"cluster-test/rogue", "^TestFewMeetAChildThatHoldsNothing$"},
	powerCuts,
}

// blackBox are suites that see zones like their clients, peers and operators: by answers,
// logs and outgoing bytes.
var blackBox = []suite{
	{"cluster-test/check", "^TestCleanLogs$"},
	{"cluster-test/leak", "^TestNothingLeavesAZone$"},
	{"cluster-test/sim", ""},
	powerCuts,
}

// runner runs the suites that are compiled into a folder. Several may share that, if
// each has its own folder for leftover files.
type runner struct {
	root    string // of the module
	dir     string // with the compiled suites
	tmp     string // for their leftover files
	timeout time.Duration
	short   bool
	env     []string // additions to the environment of the suites
}

// binary is the compiled suite of a package.
func binary(dir, pkg string) string {
	return filepath.Join(dir, strings.ReplaceAll(pkg, "/", "-")+".test") // some have the same last name
}

// end is the outcome of one run of a suite.
type end int

const (
	passed end = iota
	skipped
	failed
)

// passable is the mode of folders for what suites make: some run commands as other users, which
// must get through.
const passable = 0o711

// outcome is the result of one run of a suite.
type outcome struct {
	end    end
	test   string // the first that failed
	reason string // why it was skipped
	text   string
}

// try runs a suite. It returns an error if the run proves nothing about the fault compiled
// into it.
func (r *runner) try(ctx context.Context, s suite) (outcome, error) {
	if err := os.MkdirAll(r.tmp, passable); err != nil {
		return outcome{}, fmt.Errorf("making a folder: %w", err)
	}
	timed, cancel := context.WithTimeout(ctx, r.timeout+endTimeout)
	defer cancel()
	c := exec.CommandContext(timed, binary(r.dir, s.pkg),
		"-test.v", "-test.failfast", "-test.short="+strconv.FormatBool(r.short), "-test.timeout", r.timeout.String(), "-test.run", s.run)
	c.Dir = filepath.Join(r.root, s.pkg)
	c.Env = slices.Concat(os.Environ(), r.env, []string{
		"TMPDIR=" + r.tmp,
		"RAPID_NOFAILFILE=1", "RAPID_SHRINKTIME=1ms", // a failure need not be kept, nor be made small
	})
	c.WaitDelay = endTimeout // for what a suite leaves running and that has its output
	text, err := c.CombinedOutput()
	if ctx.Err() != nil {
		return outcome{}, context.Cause(ctx)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && timed.Err() == nil {
		return outcome{}, fmt.Errorf("running %s: %w", s, err)
	}
	o, err := judge(string(text), err != nil)
	if err != nil {
		return o, fmt.Errorf("%s: %w", s, err)
	}
	return o, nil
}

// about returns the output of the run from the start of the failed test.
func (o outcome) about() string {
	name, _, _ := strings.Cut(o.test, " ")
	return o.text[max(strings.Index(o.text, "=== RUN   "+name+"\n"), 0):]
}

// Lines of go test -v about a test and its outcome.
var (
	failLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	passLine = regexp.MustCompile(`(?m)^--- PASS: `)
	skipLine = regexp.MustCompile(`(?m)^--- SKIP: `)
	whyLine  = regexp.MustCompile(`(?m)^ +\S+\.go:\d+: (.+)$`)
	runLine  = regexp.MustCompile(`(?m)^=== (?:RUN|CONT|NAME) +([^/\s]+)`)
)

// judge reads the output of a run. A run without tests is an error: it would pass with any
// fault.
func judge(text string, bad bool) (outcome, error) {
	first := failLine.FindStringSubmatch(text)
	running := runLine.FindAllStringSubmatch(text, -1)
	switch {
	case bad && first != nil:
		return outcome{end: failed, test: first[1], text: text}, nil
	case bad && running != nil: // it crashed, or ran out of time
		return outcome{end: failed, test: running[len(running)-1][1] + " (did not end)", text: text}, nil
	case bad:
		return outcome{}, &earlyError{text}
	case passLine.MatchString(text):
		return outcome{end: passed}, nil
	case skipLine.MatchString(text):
		return outcome{end: skipped, reason: lastWhy(text)}, nil
	}
	return outcome{}, errors.New("it has no tests")
}

// earlyError is the error of a run that ended before its first test, with its output.
type earlyError struct{ text string }

// Error implements error.
func (e *earlyError) Error() string { return "it ended before its first test:\n" + e.text }

// lastWhy returns the last message of a test, which is the reason if it skipped itself.
func lastWhy(text string) string {
	messages := whyLine.FindAllStringSubmatch(text, -1)
	if messages == nil {
		return "it does not say why"
	}
	return messages[len(messages)-1][1]
}
