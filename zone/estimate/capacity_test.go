package estimate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// capacityOf asks m at its latest view.
func capacityOf(m *zonetest.Member, at api.Instant, name string) (*rest.Capacity, error) {
	return m.Lead().CapacityOf(m.View(), at, name)
}

func TestCapacityIsExactHereAndRoundedBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4, 8)
		east, west := w.Zone("east", root), w.Zone("west", root)
		w.Zone("north", root) // has said nothing
		cpus := func(total, free int64) api.Digest {
			return api.Digest{Classes: map[api.ResourceClass]api.ClassTotals{api.VCPU: {Total: total, Free: free}}}
		}
		w.Tell(east.Name, cpus(64, 32), time.Second)
		w.Tell(west.Name, cpus(16, 16), digestAgeMax+1)
		root.Run(zonetest.Order("b", 3, 3))
		at := api.InstantOf(time.Now()).Add(time.Hour)
		c, err := capacityOf(root, at, "")
		require.NoError(t, err)
		assert.Equal(t, at, c.At)
		require.Len(t, c.Zones, 4)
		n := func(i int64) *int64 { return &i }
		assert.Equal(t, "root", c.Zones[0].Name)
		assert.Equal(t, rest.ClassCapacity{Total: n(12), Reserved: n(0), Capacity: 12, Used: n(3), Free: 9, FreeAt: n(9)}, c.Zones[0].Classes[api.VCPU])
		byName := map[string]rest.ZoneCapacity{}
		for _, one := range c.Zones {
			byName[one.Name] = one
		}
		assert.True(t, byName["root"].Exact)
		assert.Equal(t, rest.ZoneCapacity{
			Name: "east", Heard: true, AgeMS: 1000, Classes: map[api.ResourceClass]rest.ClassCapacity{api.VCPU: {Capacity: 64, Free: 32}},
		}, byName["east"], "reserved and later are not made up")
		assert.Equal(t, rest.ZoneCapacity{
			Name: "west", Heard: true, AgeMS: (digestAgeMax + 1).Milliseconds(), Partial: true, Silent: true,
			Classes: map[api.ResourceClass]rest.ClassCapacity{api.VCPU: {Capacity: 16}},
		}, byName["west"], "what it has cannot be had")
		assert.Equal(t, rest.ZoneCapacity{Name: "north", Partial: true, Classes: map[api.ResourceClass]rest.ClassCapacity{}}, byName["north"])
		assert.Equal(t, rest.ClassCapacity{Capacity: 76, Free: 41}, c.Sum.Classes[api.VCPU], "nor what does not answer")
		assert.True(t, c.Sum.Rounded && c.Sum.Partial)

		paused := api.LinkPaused
		root.Do(command.LinkSet{ID: "link-east", State: &paused})
		c, err = capacityOf(root, 0, "")
		require.NoError(t, err)
		assert.Equal(t, rest.ClassCapacity{Capacity: 12, Free: 9}, c.Sum.Classes[api.VCPU], "what is paused is not in the sum")
	})
}

func TestCapacityOfALeafIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("leaf", nil, 4)
		c, err := capacityOf(m, 0, "")
		require.NoError(t, err)
		assert.Len(t, c.Zones, 1)
		assert.False(t, c.Sum.Rounded || c.Sum.Partial)
		assert.Equal(t, rest.ClassCapacity{Capacity: 4, Free: 4}, c.Sum.Classes[api.VCPU])
	})
}

func TestCapacityLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		w.Zone("east", root)
		now := api.InstantOf(time.Now())
		for at, ok := range map[api.Instant]bool{
			now: true, now - 1: false, now.Add(api.WindowMax): true, now.Add(api.WindowMax) + 1: false, api.Forever: false,
		} {
			_, err := capacityOf(root, at, "")
			assert.Equal(t, !ok, api.CodeOf(err) == api.CodeInvalid, "%s: %v", at, err)
		}
		for name, ok := range map[string]bool{"root": true, "east": true, "parent": false, "zone-east": false} {
			c, err := capacityOf(root, 0, name)
			if !ok {
				assert.Equal(t, api.CodeNotFound, api.CodeOf(err), name)
				continue
			}
			require.NoError(t, err, name)
			require.Len(t, c.Zones, 1, name)
			assert.Equal(t, name, c.Zones[0].Name)
			assert.Nil(t, c.Sum)
		}
	})
}

// A pool is counted once, however many hosts draw from it, and a part of a host
// beside the host.
func TestCapacityCountsEveryProviderOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 4, 4)
		host := m.View().AllHosts()[0].ID
		give := func(id, name string, parent api.ProviderID, class api.ResourceClass, total int64, traits ...string) {
			stock := map[api.ResourceClass]api.Inventory{class: {Total: total, Reserved: 10}}
			m.Do(command.ProviderCreate{ID: api.ProviderID(id), Name: name, Parent: parent})
			m.Do(command.ProviderSet{ID: api.ProviderID(id), Inventory: &stock, Traits: &traits})
		}
		give("00000000-0000-4000-8000-000000000001", "pool", "", api.DiskGB, 100, api.TraitShares)
		give("00000000-0000-4000-8000-000000000002", "numa0", host, api.VCPU, 16)
		c, err := capacityOf(m, 0, "")
		require.NoError(t, err)
		n := func(i int64) *int64 { return &i }
		assert.Equal(t, rest.ClassCapacity{Total: n(100), Reserved: n(10), Capacity: 90, Used: n(0), Free: 90, FreeAt: n(90)}, c.Zones[0].Classes[api.DiskGB])
		assert.Equal(t, int64(4+4+6), c.Zones[0].Classes[api.VCPU].Capacity)
	})
}
