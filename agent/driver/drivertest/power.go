package drivertest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver"
	"berth/api"
)

func (s *subject) haltWorkload(w api.Workload) {
	s.t.Helper()
	require.NoError(s.t, s.Driver.Halt(s.t.Context(), w.Instance))
}

func (s *subject) checkHalted(w api.Workload) {
	s.t.Helper()
	assert.Equal(s.t, driver.State{Host: host, Instance: w.Instance, Status: api.StatusShutoff, Runs: w.Runs, Fenced: w.Fence > 0}, s.stateOf(w))
	s.checkGone(w)
}

func testHalt(s *subject) {
	w, other := s.Work(), s.Work()
	s.startWorkload(w)
	s.startWorkload(other)
	s.haltWorkload(w)
	s.checkHalted(w)
	s.haltWorkload(w)
	require.ErrorIs(s.t, s.Driver.Start(s.t.Context(), host, w), driver.ErrEnded, "nobody has ordered another run")
	s.checkHalted(w)
	for range 2 {
		w.Runs++
		s.startWorkload(w)
		s.startWorkload(w)
		assert.Equal(s.t, driver.State{Host: host, Instance: w.Instance, Status: api.StatusActive, Runs: w.Runs}, s.stateOf(w))
		s.checkCopies(w, 1)
		s.haltWorkload(w)
		s.checkHalted(w)
	}
	assert.Equal(s.t, api.StatusActive, s.stateOf(other).Status)
	s.haltWorkload(s.Work()) // it is not known
	s.stopWorkload(w)
	assert.Len(s.t, s.listStates(), 1, "it is forgotten")
}

func haltsTooLate(s *subject) {
	w := s.Work()
	s.startWorkload(w)
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	require.Error(s.t, s.Driver.Halt(ctx, w.Instance), "it is not known to have ended")
	assert.Equal(s.t, api.StatusActive, s.stateOf(w).Status)
	s.haltWorkload(w)
	s.checkHalted(w)
}

func runsAgain(s *subject) {
	good, bad := s.Work(), s.Work()
	for _, w := range []api.Workload{good, bad} {
		s.startWorkload(w)
	}
	s.End(s.t, good.Instance, 0)
	s.End(s.t, bad.Instance, 3)
	s.awaitEnd(good)
	s.awaitEnd(bad)
	s.haltWorkload(bad)
	assert.Equal(s.t, api.StatusError, s.stateOf(bad).Status, "how it ended stays")
	require.Error(s.t, s.Driver.Start(s.t.Context(), "host-2", later(good)), "an instance has one host")
	for _, w := range []api.Workload{good, bad} {
		s.Rewind(s.t, w.Instance)
		s.startWorkload(later(w))
		assert.Equal(s.t, driver.State{Host: host, Instance: w.Instance, Status: api.StatusActive, Runs: 1}, s.stateOf(w))
		s.checkCopies(w, 1)
	}
	s.End(s.t, bad.Instance, 3)
	assert.Equal(s.t, uint64(1), s.awaitEnd(bad).Runs)
}

func later(w api.Workload) api.Workload {
	w.Runs++
	return w
}

func runsAtLast(s *subject) {
	broken, good := s.Broken(), s.Work()
	require.Error(s.t, s.Driver.Start(s.t.Context(), host, broken))
	good.Instance, good.Runs = broken.Instance, 2
	s.startWorkload(good)
	s.checkCopies(good, 1)
	s.haltWorkload(good)
	s.checkHalted(good)
	broken.Runs = 3
	require.Error(s.t, s.Driver.Start(s.t.Context(), host, broken))
	state := s.stateOf(broken)
	assert.Equal(s.t, api.StatusError, state.Status)
	assert.Equal(s.t, uint64(3), state.Runs, "this run has failed")
	good.Runs = 4
	s.startWorkload(good)
}

func testHalted(s *subject) {
	w, runs := s.Work(), s.Work()
	runs.Runs = 5
	s.startWorkload(w)
	s.startWorkload(runs)
	s.haltWorkload(w)
	before := s.listStates()
	s.restartDriver()
	assert.Equal(s.t, before, s.listStates())
	s.checkHalted(w)
	s.startWorkload(runs)
	s.checkCopies(runs, 1)
	w.Runs++
	s.startWorkload(w)
	s.checkCopies(w, 1)
	s.restartDriver()
	assert.Equal(s.t, api.StatusActive, s.stateOf(w).Status)
	s.checkCopies(w, 1)
}
