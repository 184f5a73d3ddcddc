package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"berth/internal/mutant"
)

// Limits of running suites.
const (
	suiteTimeout = 4 * time.Minute // of one run; a suite that a fault hangs has found it
	endTimeout   = 5 * time.Second // for a suite that ran out of time to say where it hangs, and to go

	looksMax     = 2                // runs of a suite, if what it reports was not the fault
	againMax     = 3                // runs of a test that failed, until it fails again: some draw at random
	againTimeout = 20 * time.Second // of each of them, or againTimes what it takes without the fault
	againTimes   = 10
)

// suite is the tests of one package, or some of them.
type suite struct {
	pkg string // within the module
	run string // the tests to run, as a regular expression; "" for all
}

// String names the suite.
func (s suite) String() string { return strings.TrimSpace(s.pkg + " " + s.run) }

// powerCuts is the one suite that runs real nodes on disks that lose what was not
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
	{"zone/resources", ""},
	{"httpd/openstack", ""},
	{"httpd/placement", ""},
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
	powerCuts,
}

// blackBox are suites that see zones as their clients, peers and operators do:
// what they answer, log and let out.
var blackBox = []suite{
	{"cluster-test/check", "^TestCleanLogs$"},
	{"cluster-test/leak", "^TestNothingLeavesAZone$"},
	{"cluster-test/sim", ""},
	powerCuts,
}

// only has the faults that one suite alone can find.
var only = map[mutant.Name]suite{mutant.FsyncOff: powerCuts}

// first has the test that was seen to find a fault, to be tried before any suite.
// A fault that is not here, or that its test does not find, is looked for by all.
var first = map[mutant.Name]suite{
	mutant.AddressesKept:       {"cluster-test/sim", "^TestAllNodesAreReplaced$"},
	mutant.ChecksumSkipped:     {"raftstore", "^TestRandomDamage$"},
	mutant.AckBeforeApply:      {"raftstore", "^TestBackupAndRestore$"},
	mutant.WatchdogOff:         {"raftstore", "^TestHungDiskEndsTheProcess$"},
	mutant.ViewShared:          {"raftstore", "^TestOneNode$"},
	mutant.MapOrder:            {"raftstore/state", "^TestOracle$"},
	mutant.ClockInApply:        {"raftstore/state", "^TestConversations$"},
	mutant.PlansForgotten:      {"raftstore/state", "^TestRestoreInAHistory$"},
	mutant.GenerationUnchecked: {"httpd/native", "^TestHosts$"},
	mutant.GenerationKept:      {"raftstore/state", "^TestConversations$"},
	mutant.CapacityUnchecked:   {"httpd/native", "^TestAPlanIsTakenUpExactlyOrNotAtAll$"},
	mutant.RepeatUnchecked:     {"httpd/native", "^TestARepeatedBootIsOneBoot$"},
	mutant.FreedEarly:          {"raftstore/state", "^TestOracle$"},
	mutant.HoldExpires:         {"zone", "^TestChildAsksForTheDecision$"},
	mutant.DecisionUnlogged:    {"zone", "^TestParentLostForGood$"},
	mutant.SagaNotResumed:      {"zone", "^TestAttemptLoggedAfterAll$"},
	mutant.TermIgnored:         {"agent", "^TestLowerTermIsRefused$"},
	mutant.PlanReused:          {"raftstore/state", "^TestConversations$"},
	mutant.BlobExpiryUnchecked: {"httpd/native", "^TestAPlanThatCannotBeUsedIsRefusedWithoutAWord$"},
	mutant.BlobUnbound:         {"buildplan/seal", "^TestForgedBlobsAreRefused$"},
	mutant.BlobUnpadded:        {"buildplan/seal", "^TestSizes$"},
	mutant.CommitmentUnchecked: {"buildplan/seal", "^TestBlobOfTwoKeys$"},
	mutant.HostInError:         {"httpd/native", "^TestAPlanIsTakenUp$"},
	mutant.HostInDigest:        {"httpd/native", "^TestGoldenAnswers$"},
	mutant.TenantUnchecked:     {"httpd/native", "^TestWhatIsNotYoursIsNotThere$"},
	mutant.RoleUnchecked:       {"identity", "^TestServerRefusesPeers$"},
	mutant.PinUnchecked:        {"identity", "^TestServerRefusesPeers$"},
	mutant.BodyUnbounded:       {"httpd/wire", "^TestReadCBORLimits$"},
	mutant.RuleUnchecked:       {"raftstore/state", "^TestRules$"},
	mutant.GroupMinUnchecked:   {"raftstore/state", "^TestRules$"},
	mutant.MoveDouble:          {"raftstore/state", "^TestRules$"},
	mutant.FenceIgnored:        {"agent", "^TestFenceStrikesAtItsLimit$"},
	mutant.EvacuatedEarly:      {"zone", "^TestLostHostIsLeft$"},
	mutant.ClaimUnchecked:      {"raftstore/state", "^TestClaimRules$"},
	mutant.ConsumerUnchecked:   {"raftstore/state", "^TestConsumerRefusals$"},
	mutant.PoolUncounted:       {"capacity", "^TestPlaceKeepsClassesTogether$"},
	mutant.SharesKept:          {"raftstore/state", "^TestInstancesGiveBackWhatTheyDraw$"},
	mutant.ReshapeHalf:         {"httpd/placement", "^TestClaimConversations$"},
	mutant.PlanLoserTakes:      {"zone/saga", "^TestPlanUsedAtOnce$"},
	mutant.SilenceUntold:       {"raftstore/state", "^TestSilenceIsNews$"},
	mutant.ReachUntold:         {"raftstore/state", "^TestReachIsNews$"},
	mutant.TextReplaced:        {"httpd/wire", "^TestReadJSONRefuses$"},
	mutant.JoinLogged:          {"federation", "^TestUnknownJoinsLeaveTheLogAlone$"},
	mutant.ReadUnverified:      {"raftstore", "^TestDeposedReadIsNeverStale$"},
	mutant.FreshLocal:          {"httpd/native", "^TestReadsSayHowFreshTheyAre$"},
	mutant.DecisionLocal:       {"httpd/gateway", "^TestNothingIsGoneInThePast$"},
	mutant.EndLocal:            {"httpd/gateway", "^TestNothingIsGoneInThePast$"},
	mutant.RefusalLocal:        {"httpd/native", "^TestNoWriteIsAnsweredFromThePast$"},
	mutant.KeyDropped:          {"node", "^TestFollowersPassRequestsOn$"},
	mutant.LeaderLostUntold:    {"node", "^TestFollowersPassRequestsOn$"},
	mutant.CurrentSkipped:      {"node", "^TestANodeThatHasJustStartedKnowsNothing$"},
	mutant.LateCommitAcked:     {"raftstore/state", "^TestALateCommitAcksNoAbort$"},
	mutant.UnknownIsNothing:    {"zone", "^TestAskerGivesUp$"},
	mutant.ChildDecides:        {"zone", "^TestNobodyDecidesForOthers$"},
	mutant.ListedWhileLeft:     {"zone", "^TestAgentIsBackBeforeItsHost$"},
	mutant.LeftThoughHeard:     {"zone/fleet", "^TestNothingIsLeftThatIsHeard$"},
	mutant.OriginIgnored:       {"zone", "^TestIsolatedHostsAreNotForAParentsProject$"},
	mutant.TenantsMixed:        {"raftstore/state", "^TestRules$"},
	mutant.StayIgnored:         {"raftstore/state", "^TestWordOnAnEarlierStay$"},
}

// runner runs suites. It is for one goroutine.
type runner struct {
	root     string // of the module
	dir      string // of the compiled suites, and of what they leave
	timeout  time.Duration
	progress io.Writer
	absent   map[suite]bool // those that skip themselves here
}

// say tells how it gets on.
func (r *runner) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.progress, format+"\n", args...) // the table at the end has it all
}

// binary is the compiled suite of a package.
func binary(dir, pkg string) string { return filepath.Join(dir, path.Base(pkg)+".test") }

// build compiles every suite once.
func (r *runner) build(ctx context.Context, all []suite) error {
	began := time.Now()
	var pkgs []string
	for _, s := range all {
		pkgs = append(pkgs, "berth/"+s.pkg)
	}
	slices.Sort(pkgs)
	pkgs = slices.Compact(pkgs)
	c := exec.CommandContext(ctx, "go", append([]string{"test", "-c", "-tags", "mutants", "-o", r.dir + "/"}, pkgs...)...)
	c.Dir = r.root
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("building the suites: %w\n%s", err, text)
	}
	r.say("tests of %d packages built in %.1f s", len(pkgs), time.Since(began).Seconds())
	return nil
}

// end is how one run of a suite ended.
type end int

const (
	passed end = iota
	skipped
	failed
)

// outcome is what one run of a suite said.
type outcome struct {
	end    end
	test   string // the first that failed
	reason string // why it was skipped
	text   string
}

// try runs a suite with a fault, "" for none. It returns an error if the run says
// nothing about the fault.
func (r *runner) try(ctx context.Context, s suite, m mutant.Name) (outcome, error) {
	tmp := filepath.Join(r.dir, "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return outcome{}, fmt.Errorf("making a folder: %w", err)
	}
	timed, cancel := context.WithTimeout(ctx, r.timeout+endTimeout)
	defer cancel()
	c := exec.CommandContext(timed, binary(r.dir, s.pkg),
		"-test.v", "-test.failfast", "-test.timeout", r.timeout.String(), "-test.run", s.run)
	c.Dir = filepath.Join(r.root, s.pkg)
	c.Env = append(os.Environ(), "BERTH_MUTANT="+string(m), "TMPDIR="+tmp,
		"RAPID_NOFAILFILE=1", "RAPID_SHRINKTIME=1ms") // a failure need not be kept, nor be made small
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

// look runs a suite with a fault, and returns the test that finds it: one that
// fails with it and passes without.
func (r *runner) look(ctx context.Context, s suite, m mutant.Name) (string, error) {
	for range looksMax {
		o, err := r.try(ctx, s, m)
		switch {
		case err != nil:
			return "", err
		case o.end == skipped:
			r.absent[s] = true
			r.say("%s is skipped here: %s", s, o.reason)
			return "", nil
		case o.end == passed:
			return "", nil
		}
		meant, err := confirm(ctx, r, r, s, m, o.test)
		if err != nil {
			return "", err
		}
		if meant {
			return o.test, nil
		}
		r.say("%s: %s failed, but not because of %q", s, o.test, m)
	}
	return "", nil
}

// confirm reports whether a test failed because of a fault: alone it passes
// without it, and fails with it again. with and without run suites with and
// without what is compiled into them.
func confirm(ctx context.Context, with, without *runner, s suite, m mutant.Name, test string) (bool, error) {
	name, _, _ := strings.Cut(test, " ")
	alone := suite{s.pkg, "^" + name + "$"}
	began := time.Now()
	if o, err := without.try(ctx, alone, ""); err != nil || o.end == failed {
		return false, err
	}
	again := *with
	again.timeout = max(againTimeout, againTimes*time.Since(began))
	for range againMax {
		if o, err := again.try(ctx, alone, m); err != nil || o.end == failed {
			return err == nil, err
		}
	}
	return false, nil
}

// about returns what the run printed from where the test that failed began.
func (o outcome) about() string {
	name, _, _ := strings.Cut(o.test, " ")
	return o.text[max(strings.Index(o.text, "=== RUN   "+name+"\n"), 0):]
}

// What go test -v says of a test and of how it ended.
var (
	failLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	passLine = regexp.MustCompile(`(?m)^--- PASS: `)
	skipLine = regexp.MustCompile(`(?m)^--- SKIP: `)
	whyLine  = regexp.MustCompile(`(?m)^ +\S+\.go:\d+: (.+)$`)
	runLine  = regexp.MustCompile(`(?m)^=== (?:RUN|CONT|NAME) +([^/\s]+)`)
)

// judge reads what a run printed. A run of no tests at all is an error: it would
// pass with any fault.
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

// earlyError is the error of a run that ended before its first test, with what it
// printed.
type earlyError struct{ text string }

// Error implements error.
func (e *earlyError) Error() string { return "it ended before its first test:\n" + e.text }

// lastWhy returns the last thing that a test said, which for one that skipped
// itself is why.
func lastWhy(text string) string {
	said := whyLine.FindAllStringSubmatch(text, -1)
	if said == nil {
		return "it does not say why"
	}
	return said[len(said)-1][1]
}
