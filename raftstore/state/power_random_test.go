package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// power draws an order for an instance, mostly one on a host of the zone and at its present run.
func (d dice) power(at command.Stamp) command.InstancePower {
	c := command.InstancePower{
		Stamp: at, ID: api.InstanceID(one(d, someInstances)), Run: 1,
		Order: one(d, []api.PowerOrder{api.PowerStop, api.PowerStop, api.PowerStart, api.PowerRestart, "sleep"}),
	}
	if on := d.w.s.OnHost(api.HostID(one(d, someHosts))); len(on) > 0 && !d.chance(6) {
		c.ID = one(d, on).ID
	}
	if i, ok := d.w.s.Instance(c.ID); ok {
		c.Run = i.Run()
		switch {
		case d.chance(8):
			c.Run++
		case d.chance(4):
			c.Run--
		}
	}
	return c
}
