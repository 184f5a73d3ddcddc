package state

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"berth/api"
	"berth/raftstore/command"
)

// shareDice draws what a parent takes of a zone, and how much of it the zone lends.
type shareDice struct{ softDice }

// NewShareHistory returns a zone before its first command, for a history of what it lends a parent.
func NewShareHistory(rt *rapid.T) *History {
	h := NewPreemptHistory(rt)
	h.shares = &shareDice{*h.soft}
	return h
}

// DrawShare draws from the commands that change what a parent has, or may have.
func (h *History) DrawShare() command.Command {
	for {
		if c, ok := h.shares.next(); ok {
			return h.d.w.reread(h.shares.withGrace(c))
		}
	}
}

// next draws a command; false if there is nothing that it could be about.
func (d *shareDice) next() (command.Command, bool) {
	if d.chance(3) {
		return d.softDice.next()
	}
	if d.chance(4) {
		d.w.now += api.Instant(d.n(20))
	}
	at := d.w.stamp()
	switch d.n(12) {
	case 11:
		c := d.w.s.Config
		c.HidesLayout = d.chance(2)
		return command.ConfigSet{Stamp: at, Config: c}, true
	case 0:
		percent := []int{0, 20, 40, 60, 80, 100, 100}
		c := command.LinkSet{Stamp: at, ID: "up", ShareHeld: new(one(d.dice, percent)), ShareCommitted: new(one(d.dice, percent))}
		if d.chance(2) {
			c.ShareHeld = nil
		}
		return c, true
	case 1, 2, 3:
		return d.abroad(at), true
	case 4, 5:
		return d.abroadSoft(at), true
	case 6, 7:
		return d.abroadPlain(at), true
	case 8:
		return hostPut(at, "a1", one(d.dice, leasedHosts), int64(leasedCPUs-3+d.n(4))), true
	case 9:
		return d.report(at)
	default:
		all := d.w.s.PreparedHolds()
		if len(all) == 0 {
			return nil, false
		}
		return command.HoldDecide{Stamp: at, ID: one(d.dice, all).ID, Origin: "up", Decision: one(d.dice, someDecisions)}, true
	}
}

// abroadPlain draws a hold of a parent for a boot of its own.
func (d *shareDice) abroadPlain(at command.Stamp) command.Command {
	d.made++
	c := hold(at, fmt.Sprintf("up-n%d", d.made), fmt.Sprintf("n%d", d.made), nil)
	c.Origin, c.Commit = "up", d.chance(3)
	c.Request.Groups[0].Resources = api.Resources{api.VCPU: int64(d.n(3))}
	if d.chance(3) {
		c.Request.Groups[0].Resources[api.DiskGB] = int64(1 + d.n(2))
	}
	for n := range 1 + d.n(2) {
		c.Slots = append(c.Slots, slots(one(d.dice, leasedHosts), fmt.Sprintf("n%d-%d", d.made, n))...)
	}
	c.Request.Groups[0].Count = len(c.Slots)
	c.Spares = d.spares()
	if d.chance(2) {
		c.Request.Lifetime = time.Duration(1+d.n(60)) * time.Millisecond
	}
	return c
}
