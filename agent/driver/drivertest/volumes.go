package drivertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver"
	"berth/api"
)

// volumeNamed returns a volume.
func volumeNamed(id string) api.Workload {
	return api.Workload{Instance: api.InstanceID(id), Name: id, Volume: api.VolumeTypeDefault, Resources: api.Resources{api.DiskGB: 1}}
}

func (s *subject) attachVolumes(w api.Workload, volumes ...api.InstanceID) {
	s.t.Helper()
	require.NoError(s.t, s.Driver.Attach(s.t.Context(), w.Instance, volumes))
	assert.Equal(s.t, volumes, s.stateOf(w).Volumes)
}

func testVolumes(s *subject) {
	a, b, w := volumeNamed("volume-a"), volumeNamed("volume-b"), s.Work()
	for _, one := range []api.Workload{a, b, a, w} { // a repeat makes nothing new
		s.startWorkload(one)
	}
	assert.Equal(s.t, driver.State{Host: host, Instance: a.Instance, Status: api.StatusActive}, s.stateOf(a))
	require.ErrorContains(s.t, s.Driver.Start(s.t.Context(), "other", a), "the instance is on host")
	assert.Empty(s.t, s.stateOf(w).Volumes)

	s.attachVolumes(w, a.Instance, b.Instance)
	s.attachVolumes(w, a.Instance, b.Instance) // a repeat
	s.attachVolumes(w, b.Instance)
	require.Error(s.t, s.Driver.Attach(s.t.Context(), w.Instance, []api.InstanceID{a.Instance, "volume-c"}))
	assert.Equal(s.t, []api.InstanceID{a.Instance}, s.stateOf(w).Volumes, "those that are here")
	require.NoError(s.t, s.Driver.Attach(s.t.Context(), "nobody", nil))
	s.attachVolumes(w)

	s.stopWorkload(a)
	s.stopWorkload(a)
	assert.Zero(s.t, s.stateOf(a))
	s.startWorkload(a) // it is a new one
	s.stopWorkload(w)
	require.NoError(s.t, s.Driver.Attach(s.t.Context(), w.Instance, nil))
}

func keepsVolumes(s *subject) {
	a, w := volumeNamed("volume-a"), s.Work()
	s.startWorkload(a)
	s.startWorkload(w)
	s.attachVolumes(w, a.Instance)
	s.restartDriver()
	assert.Equal(s.t, api.StatusActive, s.stateOf(a).Status)
	assert.Equal(s.t, []api.InstanceID{a.Instance}, s.stateOf(w).Volumes)
	s.startWorkload(a)
	s.attachVolumes(w)
}
