package estimate_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// TestAnOffsetIsWorthItsMemory: with the costs of a new zone, work goes to a child as if each of its hosts
// had less free memory by the offset of its link. One above the memory of any host makes it the last resort, one
// below 0 the first.
func TestAnOffsetIsWorthItsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gib = 1 << 10 // points
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		east, west := w.Zone("east", root, 64, 64, 64, 64), w.Zone("west", root, 64, 64, 64, 64)
		for _, m := range []*zonetest.Member{root, east, west} {
			m.Do(command.SchedulerSet{Stamp: m.Lead().Stamp()}) // the default
		}
		mem := west.View().AllHosts()[0].Inventory[api.MemoryMB].Total
		w.HearAll()
		for _, c := range []struct {
			fanout     api.FanoutMode
			offset     int64
			east, west int
		}{
			{api.FanoutAll, 0, 20, 20},
			{api.FanoutAll, 1 * gib, 28, 12}, // a host of the east takes 4 slots of 256 MiB more
			{api.FanoutAll, 2 * gib, 36, 4},
			{api.FanoutAll, -1 * gib, 12, 28},
			{api.FanoutAll, mem, 40, 0},
			{api.FanoutAll, -mem, 0, 40},
			// Those that are asked have enough, and what differs by the worth of a slot, 4 GiB for its processor, counts as alike.
			{api.FanoutLean, 8 * gib, 40, 0},
			{api.FanoutLean, -8 * gib, 0, 40},
		} {
			fanOut(root, c.fanout, 2)
			root.Do(command.LinkSet{ID: "link-west", Offset: &c.offset})
			took := map[string]int{}
			for _, z := range root.Pick(40, api.SelectTimeout).Zones {
				took[z.Zone] = z.Taken
			}
			assert.Equal(t, map[string]int{"root": 0, "east": c.east, "west": c.west}, took, "%s: offset %d", c.fanout, c.offset)
		}
	})
}
