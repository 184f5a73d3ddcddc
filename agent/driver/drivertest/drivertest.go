// Package drivertest holds drivers to what agent/driver says of all of them: one
// table of cases that each driver runs through. What is particular to one driver is
// tested beside it. Only tests may import it.
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

// patience bounds every wait.
const patience = 20 * time.Second

// Rig is a driver that runs nothing yet, and what a test needs to know of it.
type Rig struct {
	Driver driver.Driver
	// Work returns an instance, a new one each time, that runs until it is stopped or
	// ended.
	Work func() api.Workload
	// Broken returns an instance, a new one each time, that cannot be started.
	Broken func() api.Workload
	// End lets a running instance end by itself with an exit code.
	End func(t *testing.T, id api.InstanceID, code int)
	// Copies returns how often an instance runs on this machine, whichever driver has
	// started it. Nil where nothing but the driver can tell.
	Copies func(t *testing.T, id api.InstanceID) int
	// Restart ends the driver, as when its agent ends, and returns the next driver of
	// the same instances. Nil for a driver that remembers nothing.
	Restart func(t *testing.T) driver.Driver
}

// Run holds a driver to each case. open returns a rig of its own for each.
func Run(t *testing.T, open func(t *testing.T) Rig) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := &subject{Rig: open(t), t: t}
			if c.restarts && s.Restart == nil {
				t.Skip("the driver remembers nothing")
			}
			c.conduct(s)
			s.clear()
		})
	}
}

var cases = []struct {
	name     string
	restarts bool
	conduct  func(s *subject)
}{
	{"it says what it is", false, describes},
	{"a start", false, starts},
	{"a start twice", false, startsTwice},
	{"starts at once", false, startsAtOnce},
	{"a start on another host", false, startsElsewhere},
	{"a start that fails", false, fails},
	{"a start without what it needs", false, needs},
	{"a start whose context has ended", false, startsTooLate},
	{"a stop", false, stops},
	{"a stop whose context has ended", false, stopsTooLate},
	{"a kill", false, kills},
	{"what is not known", false, unknown},
	{"several instances", false, several},
	{"calls at once", false, atOnce},
	{"an end by itself", false, ends},
	{"a failure by itself", false, endsBadly},
	{"a start after a stop", false, startsAnew},
	{"a fence", false, fences},
	{"a restart", true, restarts},
	{"a restart after an end", true, remembers},
	{"a restart with a fence", true, severs},
}

func describes(s *subject) {
	assert.NotEmpty(s.t, s.Driver.Describe())
	changed := s.Driver.Changed()
	assert.Empty(s.t, changed)
	assert.Equal(s.t, changed, s.Driver.Changed(), "it is the same in each call")
	assert.Empty(s.t, s.Driver.Severed())
	assert.Empty(s.t, s.list())
}

func starts(s *subject) {
	w := s.Work()
	s.start(w)
	assert.Equal(s.t, []driver.State{{Host: host, Instance: w.Instance, Status: api.StatusActive}}, s.list())
	s.copies(w, 1)
}

func startsTwice(s *subject) {
	w := s.Work()
	s.start(w)
	s.start(w)
	assert.Len(s.t, s.list(), 1)
	s.copies(w, 1)
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
	s.copies(w, 1)
}

func startsElsewhere(s *subject) {
	w := s.Work()
	s.start(w)
	require.Error(s.t, s.Driver.Start(s.t.Context(), "host-2", w), "an instance has one host")
	assert.Equal(s.t, api.HostID(host), s.state(w).Host)
	s.copies(w, 1)
}

func fails(s *subject) {
	w := s.Broken()
	require.Error(s.t, s.Driver.Start(s.t.Context(), host, w))
	state := s.state(w)
	assert.Equal(s.t, api.StatusError, state.Status)
	assert.NotEmpty(s.t, state.Fault)
	assert.Equal(s.t, driver.Clip(state.Fault), state.Fault, "a fault is one line of bounded length")
	s.copies(w, 0)

	good := s.Work()
	good.Instance = w.Instance
	require.Error(s.t, s.Driver.Start(s.t.Context(), host, good), "it is not tried again by itself")
	s.stop(w)
	s.start(good)
	s.copies(good, 1)
}

func needs(s *subject) {
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
	assert.Empty(s.t, s.list())
	s.copies(w, 0)
	s.start(w)
}

func stops(s *subject) {
	w := s.Work()
	s.start(w)
	s.stop(w)
	s.gone(w)
	assert.Empty(s.t, s.list())
	s.stop(w)
}

func stopsTooLate(s *subject) {
	w := s.Work()
	s.start(w)
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	require.Error(s.t, s.Driver.Stop(ctx, w.Instance), "it is not known to have ended")
	require.Error(s.t, s.Driver.Kill(ctx, w.Instance))
	assert.Len(s.t, s.list(), 1, "it is not forgotten")
	s.stop(w)
	s.copies(w, 0)
}

func kills(s *subject) {
	w := s.Work()
	s.start(w)
	require.NoError(s.t, s.Driver.Kill(s.t.Context(), w.Instance))
	s.gone(w)
	assert.Empty(s.t, s.list())
	require.NoError(s.t, s.Driver.Kill(s.t.Context(), w.Instance), "what is already so is a success")
}

func unknown(s *subject) {
	w := s.Work()
	s.stop(w)
	require.NoError(s.t, s.Driver.Kill(s.t.Context(), w.Instance))
	assert.Empty(s.t, s.list())
}

func several(s *subject) {
	all := []api.Workload{s.Work(), s.Work(), s.Work()}
	all[1].Instance = all[0].Instance + "0" // its id begins alike
	for _, w := range all {
		s.start(w)
	}
	list := s.list()
	require.Len(s.t, list, 3)
	assert.True(s.t, slices.IsSortedFunc(list, byInstance), "by id")
	s.stop(all[0])
	s.copies(all[0], 0)
	s.copies(all[1], 1)
	s.copies(all[2], 1)
	assert.Len(s.t, s.list(), 2)
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
		s.stop(w)
		s.copies(w, 0)
	}
	assert.Empty(s.t, s.list())
}

func ends(s *subject) {
	w, other := s.Work(), s.Work()
	s.start(w)
	s.start(other)
	s.End(s.t, w.Instance, 0)
	state := s.ended(w)
	assert.Equal(s.t, driver.State{Host: host, Instance: w.Instance, Status: api.StatusShutoff}, state)
	assert.Equal(s.t, api.StatusActive, s.state(other).Status)
	require.ErrorIs(s.t, s.Driver.Start(s.t.Context(), host, w), driver.ErrEnded)
	s.copies(w, 0)
	s.stop(w)
	assert.Len(s.t, s.list(), 1, "it is forgotten")
}

func endsBadly(s *subject) {
	w := s.Work()
	s.start(w)
	s.End(s.t, w.Instance, 3)
	state := s.ended(w)
	assert.Equal(s.t, api.StatusError, state.Status)
	assert.Contains(s.t, state.Fault, "3")
	err := s.Driver.Start(s.t.Context(), host, w)
	require.Error(s.t, err)
	require.NotErrorIs(s.t, err, driver.ErrEnded)
	s.copies(w, 0)
	s.stop(w)
	assert.Empty(s.t, s.list())
}

func startsAnew(s *subject) {
	w := s.Work()
	s.start(w)
	s.stop(w)
	s.start(w)
	assert.Equal(s.t, api.StatusActive, s.state(w).Status, "what was stopped is forgotten")
	s.copies(w, 1)
}

func fences(s *subject) {
	w := s.Work()
	w.Fence = time.Minute
	s.start(w)
	s.start(w)
	assert.True(s.t, s.state(w).Fenced)
	assert.Len(s.t, s.list(), 1)
	s.stop(w)
	assert.Empty(s.t, s.list())
	s.copies(w, 0)
}

func restarts(s *subject) {
	stays, goes := s.Work(), s.Work()
	s.start(stays)
	s.start(goes)
	before := s.list()
	s.restart()
	assert.Equal(s.t, before, s.list())
	assert.Empty(s.t, s.Driver.Severed())
	s.start(stays)
	s.copies(stays, 1)
	s.stop(goes)
	s.copies(goes, 0)
	s.End(s.t, stays.Instance, 7)
	assert.Equal(s.t, api.StatusError, s.ended(stays).Status, "the end of what was taken over is seen")
}

func remembers(s *subject) {
	good, bad, broken := s.Work(), s.Work(), s.Broken()
	s.start(good)
	s.start(bad)
	require.Error(s.t, s.Driver.Start(s.t.Context(), host, broken))
	s.End(s.t, good.Instance, 0)
	s.End(s.t, bad.Instance, 3)
	s.ended(good)
	s.ended(bad)
	before := s.list()
	s.restart()
	assert.Equal(s.t, before, s.list(), "how each ended is remembered")
	require.ErrorIs(s.t, s.Driver.Start(s.t.Context(), host, good), driver.ErrEnded)
	require.EqualError(s.t, s.Driver.Start(s.t.Context(), host, bad), s.state(bad).Fault)
	require.Error(s.t, s.Driver.Start(s.t.Context(), host, broken))
}

func severs(s *subject) {
	fenced, free := s.Work(), s.Work()
	fenced.Fence = time.Minute
	s.start(fenced)
	s.start(free)
	s.restart()
	s.copies(fenced, 0)
	s.copies(free, 1)
	severed := s.Driver.Severed()
	require.Len(s.t, severed, 1, "it has ended with its driver")
	assert.Equal(s.t, fenced.Instance, severed[0].Instance)
	assert.Equal(s.t, severed, s.Driver.Severed(), "it is the same in each call")
	assert.Len(s.t, s.list(), 1, "and is forgotten")
	s.start(fenced)
	s.copies(fenced, 1)
}
