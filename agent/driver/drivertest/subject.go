package drivertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver"
	"berth/api"
	"berth/internal/await"
)

// host is where the instances of a test are.
const host = "host-1"

// subject is a driver under test.
type subject struct {
	Rig
	t *testing.T
}

func (s *subject) startWorkload(w api.Workload) {
	s.t.Helper()
	require.NoError(s.t, s.Driver.Start(s.t.Context(), host, w))
}

func (s *subject) stopWorkload(w api.Workload) {
	s.t.Helper()
	require.NoError(s.t, s.Driver.Stop(s.t.Context(), w.Instance))
}

func (s *subject) restartDriver() {
	s.t.Helper()
	s.Driver = s.Restart(s.t)
}

func (s *subject) listStates() []driver.State {
	s.t.Helper()
	list, err := s.Driver.List(s.t.Context())
	require.NoError(s.t, err)
	return list
}

// stateOf returns the listed state of an instance, the zero State for one that is not
// listed.
func (s *subject) stateOf(w api.Workload) driver.State {
	s.t.Helper()
	for _, state := range s.listStates() {
		if state.Instance == w.Instance {
			return state
		}
	}
	return driver.State{}
}

// awaitEnd waits until an instance has ended by itself and returns its listed state.
func (s *subject) awaitEnd(w api.Workload) driver.State {
	s.t.Helper()
	for {
		if state := s.stateOf(w); state.Status != api.StatusActive {
			return state
		}
		await.Received(s.t, "the driver tells that an instance has changed", s.Driver.Changed())
	}
}

// checkCopies checks how often an instance runs.
func (s *subject) checkCopies(w api.Workload, want int) {
	s.t.Helper()
	if s.Copies == nil {
		return
	}
	await.True(s.t, fmt.Sprintf("copies: %d", want), func() bool { return s.Copies(s.t, w.Instance) == want })
}

// checkGone checks that nothing of an instance runs at this moment: it was stopped.
func (s *subject) checkGone(w api.Workload) {
	s.t.Helper()
	if s.Copies != nil {
		assert.Zero(s.t, s.Copies(s.t, w.Instance), "copies")
	}
}

// stopAll stops all remaining instances.
func (s *subject) stopAll() {
	s.t.Helper()
	for _, state := range s.listStates() {
		require.NoError(s.t, s.Driver.Kill(s.t.Context(), state.Instance))
	}
	assert.Empty(s.t, s.listStates())
}

func byInstance(a, b driver.State) int {
	return strings.Compare(string(a.Instance), string(b.Instance))
}
