package agent

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver/fake"
	"berth/api"
)

// attachedTo returns the volumes that an instance can use.
func attachedTo(t *testing.T, d *fake.Driver, id api.InstanceID) []api.InstanceID {
	t.Helper()
	all, err := d.List(t.Context())
	require.NoError(t, err)
	for _, s := range all {
		if s.Instance == id {
			return s.Volumes
		}
	}
	return nil
}

// TestVolumesFollowTheList: an instance can use the volumes of the newest list, whether it runs
// already or is started, whenever the volumes come, and across agents.
func TestVolumesFollowTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		end := run(t, config(z, d, 1))
		volume, with := work("v"), func(volumes ...api.InstanceID) api.Workload {
			w := work("a")
			w.Volumes = volumes
			return w
		}
		volume.Volume = "standard"
		z.set("host-0001", volume, with("v"))
		settle()
		assert.Equal(t, []api.InstanceID{"v"}, attachedTo(t, d, "a"))
		assert.Equal(t, api.StatusActive, z.of("v"))

		z.set("host-0001", volume, with())
		settle()
		assert.Empty(t, attachedTo(t, d, "a"))
		z.set("host-0001", volume, with("v", "w")) // one is late
		settle()
		assert.Equal(t, []api.InstanceID{"v"}, attachedTo(t, d, "a"))
		assert.Equal(t, api.StatusActive, z.of("a"))
		late := work("w")
		late.Volume = "standard"
		z.set("host-0001", volume, late, with("v", "w"))
		settle()
		assert.Equal(t, []api.InstanceID{"v", "w"}, attachedTo(t, d, "a"))

		end()
		z.set("host-0001", volume, late, with("w"))
		defer run(t, config(z, d, 1))()
		settle()
		assert.Equal(t, []api.InstanceID{"w"}, attachedTo(t, d, "a"), "the next agent takes off what is not listed")
		z.set("host-0001", stopping("v"), late, stopping("a"))
		settle()
		assert.Equal(t, api.StatusDeleted, z.of("v"))
		assert.Equal(t, api.StatusDeleted, z.of("a"))
	})
}
