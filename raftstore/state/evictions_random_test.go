package state

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"berth/api"
	"berth/raftstore/command"
)

// softDice draws lives of leases and of preemptible instances in their way.
type softDice struct{ wideDice }

// NewPreemptHistory returns a zone before its first command, for a history of preemptible instances
// and leases.
func NewPreemptHistory(rt *rapid.T) *History {
	h := NewHistory(rt)
	h.d.w.form = api.FormNewest
	h.soft = &softDice{wideDice{leaseDice{dice: h.d, seen: map[string]int{}}}}
	return h
}

// FirstOfPreempt returns the commands that every history of preemptible instances begins with.
func (h *History) FirstOfPreempt() []command.Command {
	out := h.soft.first()
	for i := range out {
		out[i] = h.d.w.reread(h.soft.withGrace(out[i]))
	}
	return out
}

// DrawPreempt draws from the commands that preemptible instances and leases are about.
func (h *History) DrawPreempt() command.Command {
	for {
		if c, ok := h.soft.next(); ok {
			return h.d.w.reread(h.soft.withGrace(c))
		}
	}
}

// withGrace gives the zone and its leases other graces, and lends some of their slots.
func (d *softDice) withGrace(c command.Command) command.Command {
	grace := time.Duration(d.n(12)) * time.Millisecond
	order := func(o *command.BootTerms) {
		if o == nil {
			return
		}
		o.Request.Grace = grace
		for g := range o.Request.Groups {
			o.Request.Groups[g].ShareIdle = d.chance(2)
		}
	}
	switch c := c.(type) {
	case command.ConfigSet:
		c.Config.Preemptibles.Grace = one(d.dice, []time.Duration{-1, 3 * time.Millisecond, 9 * time.Millisecond})
		return c
	case command.LeaseCreate:
		order(c.Order)
		return c
	case command.LeaseSet:
		order(c.Order)
		return c
	}
	return c
}

// next draws a command; false if there is nothing that it could be about.
func (d *softDice) next() (command.Command, bool) {
	if d.chance(3) {
		return d.wideDice.next()
	}
	if d.chance(4) {
		d.w.now += api.Instant(d.n(5))
	}
	at := d.w.stamp()
	switch d.n(11) {
	case 0, 1:
		return d.boot(at), true
	case 2, 3:
		return d.hold(at)
	case 4:
		return d.takeSlots(at)
	case 5:
		return d.useLent(at)
	case 6:
		return d.abroadSoft(at), true
	case 7:
		return d.told(at)
	case 8, 9:
		return d.gone(at)
	case 10:
		return d.requeue(at)
	default:
		return d.ended(at)
	}
}

// boot draws a boot outside leases: mostly preemptible, or firm and over preemptibles.
func (d *softDice) boot(at command.Stamp) command.BootCreate {
	d.made++
	n := 1 + d.n(2)
	c := create(at, fmt.Sprintf("v%d", d.made), n, d.n(n))
	c.Request.Groups[0].Resources = api.Resources{api.VCPU: int64(1 + d.n(2))}
	d.soften(&c.Request)
	if d.chance(4) {
		c.Request.Lifetime = time.Duration(1+d.n(60)) * time.Millisecond
	}
	return c
}

func (d *softDice) soften(r *api.Request) {
	if r.Preempt = d.chance(4); r.Preempt {
		return
	}
	r.Class, r.OnPreempt = api.Preemptible, one(d.dice, []api.PreemptAction{"", api.PreemptNotify, api.PreemptRequeue, api.PreemptRequeue})
}

// takeSlots draws a hold for a boot outside leases: on hosts, or within slots that are lent.
func (d *softDice) takeSlots(at command.Stamp) (command.Command, bool) {
	all := slices.DeleteFunc(d.w.s.UndecidedBoots(), func(b *Boot) bool { return b.Request.Reserves || b.Request.Within != "" })
	if len(all) == 0 {
		return nil, false
	}
	b := one(d.dice, all)
	d.made++
	c := hold(at, fmt.Sprintf("%s-k%d", b.Request.Reservation, d.made), "", d.slotsFor(&b.Request, b.Instances))
	c.Request, c.Commit = b.Request, !d.chance(3)
	c.Spares = d.spares()
	return c, true
}

// useLent draws that preemptibles come into a slot that is lent, or its owner into one with some.
func (d *softDice) useLent(at command.Stamp) (command.Command, bool) {
	for _, id := range leasedHosts {
		for _, i := range d.w.s.SlotsOn(api.HostID(id)) {
			if !i.ShareIdle || i.Status != api.StatusActive || i.Origin != "" {
				continue
			}
			d.made++
			if len(d.w.s.Within(i.ID)) == 0 {
				c := hold(at, fmt.Sprintf("up-l%d", d.made), fmt.Sprintf("l%d", d.made), slots(string(i.ID), fmt.Sprintf("l%d", d.made)))
				c.Origin, c.Commit, c.Request.Class = "up", true, api.Preemptible
				return c, true
			}
			return d.startWithin(at)
		}
	}
	return d.takeSlots(at)
}

func (d *softDice) spares() [][]api.HostID {
	out := make([][]api.HostID, 1)
	for _, id := range leasedHosts {
		out[0] = append(out[0], api.HostID(id))
	}
	return out
}

// slotsFor draws where instances may be.
func (d *softDice) slotsFor(r *api.Request, specs []api.InstanceSpec) (out []command.Slot) {
	var lent []*api.Instance
	for _, id := range leasedHosts {
		for _, i := range d.w.s.SlotsOn(api.HostID(id)) {
			if i.ShareIdle || d.chance(9) {
				lent = append(lent, i)
			}
		}
	}
	for _, spec := range specs {
		sl := command.Slot{Instance: spec, Host: api.HostID(one(d.dice, leasedHosts))}
		sl.Instance.ID += api.InstanceID(fmt.Sprint("x", d.made))
		if len(lent) > 0 && r.Class == api.Preemptible && d.chance(2) {
			sl.Host = api.HostID(one(d.dice, lent).ID)
		}
		out = append(out, sl)
	}
	return out
}

// abroadSoft draws a hold of a parent for preemptible instances, or over them.
func (d *softDice) abroadSoft(at command.Stamp) command.Command {
	d.made++
	c := hold(at, fmt.Sprintf("up-v%d", d.made), fmt.Sprintf("w%d", d.made), nil)
	c.Origin, c.Commit = "up", d.chance(2)
	d.soften(&c.Request)
	c.Request.Groups[0].Count = 2
	c.Slots = d.slotsFor(&c.Request, specs(fmt.Sprintf("u%d", d.made), fmt.Sprintf("t%d", d.made)))
	c.Spares = d.spares()
	return c
}

// instances returns the live instances outside leases, those first that match.
func (d *softDice) instances(match func(*api.Instance) bool) (out []*api.Instance) {
	for _, id := range leasedHosts {
		out = append(out, d.w.s.OnHost(api.HostID(id))...)
	}
	if some := slices.DeleteFunc(slices.Clone(out), func(i *api.Instance) bool { return !match(i) }); len(some) > 0 && !d.chance(5) {
		return some
	}
	return out
}

// told draws that an agent reports that instances run.
func (d *softDice) told(at command.Stamp) (command.Command, bool) {
	all := d.instances(func(i *api.Instance) bool { return i.Status == api.StatusBuild })
	if len(all) == 0 {
		return nil, false
	}
	i := one(d.dice, all)
	return reports(at, "a1", string(i.Host), api.StatusActive, string(i.ID)), true
}

// gone draws that an agent reports that instances which must leave are gone.
func (d *softDice) gone(at command.Stamp) (command.Command, bool) {
	all := d.instances(func(i *api.Instance) bool { return i.Status == api.StatusDeleting })
	if len(all) == 0 {
		return nil, false
	}
	i := one(d.dice, all)
	ids := []string{string(i.ID)}
	for _, o := range all {
		if o.Host == i.Host && o.Status == api.StatusDeleting && d.chance(2) {
			ids = append(ids, string(o.ID))
		}
	}
	return reports(at, "a1", string(i.Host), api.StatusDeleted, ids...), true
}

// requeue draws that instances are booted again, or that there is no room for them.
func (d *softDice) requeue(at command.Stamp) (command.Command, bool) {
	var all []*Requeued
	d.w.s.queue.Scan(func(_ string, r *Requeued) bool {
		all = append(all, r)
		return true
	})
	if len(all) == 0 {
		return nil, false
	}
	r := one(d.dice, all)
	c := command.Requeue{Stamp: at, Project: r.Project, Reservation: r.Reservation, Seen: r.ModIndex}
	d.made++
	if !d.chance(3) {
		b, _ := d.w.s.Boot(r.Project, r.Reservation)
		c.Refill = b.Refills + 1
		c.Instances = specs(numbered(fmt.Sprintf("y%d-", d.made), len(r.Instances))...)
	}
	switch d.n(9) {
	case 0:
		c.Seen--
	case 1:
		c.Reservation = "nobody's"
	case 2:
		c.Instances = append(c.Instances, specs("one more")...)
	case 3:
		if len(c.Instances) > 0 {
			c.Instances[0].ID = r.Instances[0].ID
		}
	}
	return c, true
}

// ended draws that an owner ends an instance or a boot.
func (d *softDice) ended(at command.Stamp) (command.Command, bool) {
	all := d.instances(func(i *api.Instance) bool { return i.Eviction != nil })
	if len(all) == 0 {
		return command.Tick{Stamp: at}, true
	}
	i := one(d.dice, all)
	if i.Origin == "" && !i.Reserved && d.chance(2) {
		return command.BootRelease{Stamp: at, Project: i.Project, Reservation: i.Reservation}, true
	}
	return command.InstanceDelete{Stamp: at, ID: i.ID}, true
}
