// Package drivertest checks drivers against the contract of agent/driver with one table of
// cases. Features of a single driver are tested in its own package. Only tests may import
// it.
package drivertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver"
	"berth/api"
)

// Rig is a driver that runs nothing yet, with the functions that a test needs.
type Rig struct {
	Driver driver.Driver
	// Work returns an instance, a new one each time, that runs until it is stopped or
	// ended.
	Work func() api.Workload
	// Broken returns an instance, a new one each time, that cannot be started.
	Broken func() api.Workload
	// End lets a running instance end by itself with an exit code.
	End func(t *testing.T, id api.InstanceID, code int)
	// Rewind takes back what End has left for an instance, so that it can run again.
	Rewind func(t *testing.T, id api.InstanceID)
	// Notice returns the deadline that an instance can read in its notice, and whether it
	// has one.
	Notice func(t *testing.T, id api.InstanceID) (deadline time.Time, ok bool)
	// Copies returns how often an instance runs on this machine, started by any driver. Nil
	// if only the driver knows.
	Copies func(t *testing.T, id api.InstanceID) int
	// Restart ends the driver, as when its agent ends, and returns the next driver of the
	// same instances. Nil for a driver without persistent state.
	Restart func(t *testing.T) driver.Driver
}

// Run checks a driver with each case. open returns a new rig for each.
func Run(t *testing.T, open func(t *testing.T) Rig) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := &subject{Rig: open(t), t: t}
			if c.restarts && s.Restart == nil {
				t.Skip("the driver remembers nothing")
			}
			c.conduct(s)
			s.stopAll()
		})
	}
}

var cases = []struct {
	name     string
	restarts bool
	conduct  func(s *subject)
}{
	{"it says what it is", false, testDescribe},
	{"a start", false, testStart},
	{"a start twice", false, startsTwice},
	{"starts at once", false, startsAtOnce},
	{"a start on another host", false, startsElsewhere},
	{"a start that fails", false, testFailure},
	{"a start without what it needs", false, testNeeds},
	{"a start whose context has ended", false, startsTooLate},
	{"a stop", false, testStop},
	{"a stop whose context has ended", false, stopsTooLate},
	{"a kill", false, testKill},
	{"a halt", false, testHalt},
	{"a halt whose context has ended", false, haltsTooLate},
	{"a run after an end", false, runsAgain},
	{"a run after a start that fails", false, runsAtLast},
	{"a notice", false, testNotice},
	{"a quiet notice", false, testQuietNotice},
	{"a notice that comes too late", false, noticesTooLate},
	{"volumes", false, testVolumes},
	{"what is not known", false, testUnknown},
	{"several instances", false, testSeveral},
	{"calls at once", false, atOnce},
	{"an end by itself", false, testEnd},
	{"a failure by itself", false, endsBadly},
	{"a start after a stop", false, startsAnew},
	{"a fence", false, testFence},
	{"a restart", true, testRestart},
	{"a restart after an end", true, testRemember},
	{"a restart with a fence", true, testSever},
	{"a restart after a halt", true, testHalted},
	{"a restart with volumes", true, keepsVolumes},
}

func testDescribe(s *subject) {
	assert.NotEmpty(s.t, s.Driver.Describe())
	changed := s.Driver.Changed()
	assert.Empty(s.t, changed)
	assert.Equal(s.t, changed, s.Driver.Changed(), "it is the same in each call")
	assert.Empty(s.t, s.Driver.Severed())
	assert.Empty(s.t, s.listStates())
}

func testStart(s *subject) {
	w := s.Work()
	s.startWorkload(w)
	assert.Equal(s.t, []driver.State{{Host: host, Instance: w.Instance, Status: api.StatusActive}}, s.listStates())
	s.checkCopies(w, 1)
}

func startsTwice(s *subject) {
	w := s.Work()
	s.startWorkload(w)
	s.startWorkload(w)
	assert.Len(s.t, s.listStates(), 1)
	s.checkCopies(w, 1)
}

func startsAtOnce(s *subject) {
	w := s.Work()
	failures := make(chan error)
	const calls = 8
	for range calls {
		go func() { failures <- s.Driver.Start(s.t.Context(), host, w) }()
	}
	for range calls {
		require.NoError(s.t, <-failures, "calls for one instance wait for each other")
	}
	s.checkCopies(w, 1)
}

func startsElsewhere(s *subject) {
	w := s.Work()
	s.startWorkload(w)
	require.Error(s.t, s.Driver.Start(s.t.Context(), "host-2", w), "an instance has one host")
	assert.Equal(s.t, api.HostID(host), s.stateOf(w).Host)
	s.checkCopies(w, 1)
}

func testFailure(s *subject) {
	w := s.Broken()
	require.Error(s.t, s.Driver.Start(s.t.Context(), host, w))
	state := s.stateOf(w)
	assert.Equal(s.t, api.StatusError, state.Status)
	assert.NotEmpty(s.t, state.Fault)
	assert.Equal(s.t, driver.Clip(state.Fault), state.Fault, "a fault is one line of bounded length")
	s.checkCopies(w, 0)

	good := s.Work()
	good.Instance = w.Instance
	require.Error(s.t, s.Driver.Start(s.t.Context(), host, good), "it is not tried again by itself")
	s.stopWorkload(w)
	s.startWorkload(good)
	s.checkCopies(good, 1)
}

func testNeeds(s *subject) {
	needs := s.Driver.Needs()
	assert.Equal(s.t, needs, s.Driver.Needs(), "they are the same in each call")
	w := s.Work()
	w.Command = nil
	if err := s.Driver.Start(s.t.Context(), host, w); needs.Command {
		require.Error(s.t, err)
	} else {
		require.NoError(s.t, err)
	}
}

func startsTooLate(s *subject) {
	w := s.Work()
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	require.ErrorIs(s.t, s.Driver.Start(ctx, host, w), context.Canceled)
	assert.Empty(s.t, s.listStates())
	s.checkCopies(w, 0)
	s.startWorkload(w)
}

func testStop(s *subject) {
	w := s.Work()
	s.startWorkload(w)
	s.stopWorkload(w)
	s.checkGone(w)
	assert.Empty(s.t, s.listStates())
	s.stopWorkload(w)
}

func stopsTooLate(s *subject) {
	w := s.Work()
	s.startWorkload(w)
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	require.Error(s.t, s.Driver.Stop(ctx, w.Instance), "it is not known to have ended")
	require.Error(s.t, s.Driver.Kill(ctx, w.Instance))
	assert.Len(s.t, s.listStates(), 1, "it is not forgotten")
	s.stopWorkload(w)
	s.checkCopies(w, 0)
}

func testKill(s *subject) {
	w := s.Work()
	s.startWorkload(w)
	require.NoError(s.t, s.Driver.Kill(s.t.Context(), w.Instance))
	s.checkGone(w)
	assert.Empty(s.t, s.listStates())
	require.NoError(s.t, s.Driver.Kill(s.t.Context(), w.Instance), "what is already so is a success")
}

// noticeUntil returns a notice with a deadline some time from now.
func noticeUntil(left time.Duration, quiet bool) driver.Notice {
	return driver.Notice{
		Deadline:      time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(left),
		PreemptNotice: api.PreemptNotice{Left: left, Quiet: quiet, For: "r", Lease: true, Action: api.PreemptStop},
	}
}

func (s *subject) checkNotice(w api.Workload, n driver.Notice) {
	s.t.Helper()
	deadline, ok := s.Notice(s.t, w.Instance)
	assert.True(s.t, ok, "it has no notice")
	assert.True(s.t, n.Deadline.Equal(deadline), "%s, not %s", deadline, n.Deadline)
}

func testNotice(s *subject) {
	w, other := s.Work(), s.Work()
	w.Fence = time.Minute
	s.startWorkload(w)
	s.startWorkload(other)
	n := noticeUntil(time.Hour, false)
	require.NoError(s.t, s.Driver.Notify(s.t.Context(), w.Instance, n))
	assert.NotEqual(s.t, api.StatusActive, s.awaitEnd(w).Status, "it was asked to end")
	require.NoError(s.t, s.Driver.Notify(s.t.Context(), w.Instance, n), "what has ended needs none")
	s.checkCopies(w, 0)
	assert.Equal(s.t, api.StatusActive, s.stateOf(other).Status)
	s.stopWorkload(w)
	assert.Len(s.t, s.listStates(), 1)
}

func testQuietNotice(s *subject) {
	w := s.Work()
	s.startWorkload(w)
	_, ok := s.Notice(s.t, w.Instance)
	assert.False(s.t, ok)
	for _, n := range []driver.Notice{noticeUntil(time.Hour, true), noticeUntil(time.Minute, true)} {
		require.NoError(s.t, s.Driver.Notify(s.t.Context(), w.Instance, n))
		s.checkNotice(w, n)
	}
	assert.Equal(s.t, api.StatusActive, s.stateOf(w).Status)
	s.checkCopies(w, 1)
	require.NoError(s.t, s.Driver.Kill(s.t.Context(), w.Instance))
	s.checkGone(w)
	s.startWorkload(w)
	_, ok = s.Notice(s.t, w.Instance)
	assert.False(s.t, ok, "a notice ends with its instance")
}

func noticesTooLate(s *subject) {
	w := s.Work()
	require.NoError(s.t, s.Driver.Notify(s.t.Context(), w.Instance, noticeUntil(time.Hour, false)), "it is not known")
	s.startWorkload(w)
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	require.ErrorIs(s.t, s.Driver.Notify(ctx, w.Instance, noticeUntil(time.Hour, false)), context.Canceled)
	assert.Equal(s.t, api.StatusActive, s.stateOf(w).Status)
	_, ok := s.Notice(s.t, w.Instance)
	assert.False(s.t, ok)
}

func testUnknown(s *subject) {
	w := s.Work()
	s.stopWorkload(w)
	require.NoError(s.t, s.Driver.Kill(s.t.Context(), w.Instance))
	assert.Empty(s.t, s.listStates())
}

func testSeveral(s *subject) {
	all := []api.Workload{s.Work(), s.Work(), s.Work()}
	all[1].Instance = all[0].Instance + "0" // its id begins alike
	for _, w := range all {
		s.startWorkload(w)
	}
	list := s.listStates()
	require.Len(s.t, list, 3)
	assert.True(s.t, slices.IsSortedFunc(list, byInstance), "by id")
	s.stopWorkload(all[0])
	s.checkCopies(all[0], 0)
	s.checkCopies(all[1], 1)
	s.checkCopies(all[2], 1)
	assert.Len(s.t, s.listStates(), 2)
}

func atOnce(s *subject) {
	all := []api.Workload{s.Work(), s.Work()}
	failures := make(chan error)
	const calls = 4
	for range calls {
		for _, w := range all {
			go func() { failures <- s.Driver.Start(s.t.Context(), host, w) }()
			go func() { failures <- s.Driver.Stop(s.t.Context(), w.Instance) }()
			go func() { _, err := s.Driver.List(s.t.Context()); failures <- err }()
		}
	}
	for range 3 * calls * len(all) {
		require.NoError(s.t, <-failures)
	}
	for _, w := range all {
		s.stopWorkload(w)
		s.checkCopies(w, 0)
	}
	assert.Empty(s.t, s.listStates())
}

func testEnd(s *subject) {
	w, other := s.Work(), s.Work()
	s.startWorkload(w)
	s.startWorkload(other)
	s.End(s.t, w.Instance, 0)
	state := s.awaitEnd(w)
	assert.Equal(s.t, driver.State{Host: host, Instance: w.Instance, Status: api.StatusShutoff}, state)
	assert.Equal(s.t, api.StatusActive, s.stateOf(other).Status)
	require.ErrorIs(s.t, s.Driver.Start(s.t.Context(), host, w), driver.ErrEnded)
	s.checkCopies(w, 0)
	s.stopWorkload(w)
	assert.Len(s.t, s.listStates(), 1, "it is forgotten")
}

func endsBadly(s *subject) {
	w := s.Work()
	s.startWorkload(w)
	s.End(s.t, w.Instance, 3)
	state := s.awaitEnd(w)
	assert.Equal(s.t, api.StatusError, state.Status)
	assert.Contains(s.t, state.Fault, "3")
	err := s.Driver.Start(s.t.Context(), host, w)
	require.Error(s.t, err)
	require.NotErrorIs(s.t, err, driver.ErrEnded)
	s.checkCopies(w, 0)
	s.stopWorkload(w)
	assert.Empty(s.t, s.listStates())
}

func startsAnew(s *subject) {
	w := s.Work()
	s.startWorkload(w)
	s.stopWorkload(w)
	s.startWorkload(w)
	assert.Equal(s.t, api.StatusActive, s.stateOf(w).Status, "what was stopped is forgotten")
	s.checkCopies(w, 1)
}

func testFence(s *subject) {
	w := s.Work()
	w.Fence = time.Minute
	s.startWorkload(w)
	s.startWorkload(w)
	assert.True(s.t, s.stateOf(w).Fenced)
	assert.Len(s.t, s.listStates(), 1)
	s.stopWorkload(w)
	assert.Empty(s.t, s.listStates())
	s.checkCopies(w, 0)
}

func testRestart(s *subject) {
	stays, goes := s.Work(), s.Work()
	s.startWorkload(stays)
	s.startWorkload(goes)
	before := s.listStates()
	s.restartDriver()
	assert.Equal(s.t, before, s.listStates())
	assert.Empty(s.t, s.Driver.Severed())
	s.startWorkload(stays)
	s.checkCopies(stays, 1)
	s.stopWorkload(goes)
	s.checkCopies(goes, 0)
	s.End(s.t, stays.Instance, 7)
	assert.Equal(s.t, api.StatusError, s.awaitEnd(stays).Status, "the end of what was taken over is seen")
}

func testRemember(s *subject) {
	good, bad, broken := s.Work(), s.Work(), s.Broken()
	s.startWorkload(good)
	s.startWorkload(bad)
	require.Error(s.t, s.Driver.Start(s.t.Context(), host, broken))
	s.End(s.t, good.Instance, 0)
	s.End(s.t, bad.Instance, 3)
	s.awaitEnd(good)
	s.awaitEnd(bad)
	before := s.listStates()
	s.restartDriver()
	assert.Equal(s.t, before, s.listStates(), "how each ended is remembered")
	require.ErrorIs(s.t, s.Driver.Start(s.t.Context(), host, good), driver.ErrEnded)
	require.EqualError(s.t, s.Driver.Start(s.t.Context(), host, bad), s.stateOf(bad).Fault)
	require.Error(s.t, s.Driver.Start(s.t.Context(), host, broken))
}

func testSever(s *subject) {
	fenced, free := s.Work(), s.Work()
	fenced.Fence = time.Minute
	s.startWorkload(fenced)
	s.startWorkload(free)
	s.restartDriver()
	s.checkCopies(fenced, 0)
	s.checkCopies(free, 1)
	severed := s.Driver.Severed()
	require.Len(s.t, severed, 1, "it has ended with its driver")
	assert.Equal(s.t, fenced.Instance, severed[0].Instance)
	assert.Equal(s.t, severed, s.Driver.Severed(), "it is the same in each call")
	assert.Len(s.t, s.listStates(), 1, "and is forgotten")
	s.startWorkload(fenced)
	s.checkCopies(fenced, 1)
}
