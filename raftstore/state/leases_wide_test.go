package state

import (
	"fmt"
	"slices"
	"time"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

// wideDice draws leases whose room is also in children and in a pool, and all else that meets
// them: hosts that fail and change, boots and consumers beside them, time that passes, records
// that are pruned.
type wideDice struct{ leaseDice }

// first returns what the histories begin with: h1 and h2 draw disk from p1.
func (d *wideDice) first() []command.Command {
	out := d.leaseDice.first()
	for _, l := range someChildren {
		out = append(out, command.LinkPut{Stamp: d.w.stamp(), Link: linkOf(l, api.LinkChild)})
	}
	return append(out,
		d.w.aggregate(aggregate(uuid(1), "", "h1", "h2"), false), providerCreate(d.w.stamp(), "p1", ""),
		command.ProviderSet{Stamp: d.w.stamp(), ID: "p1", Inventory: &inventory{api.DiskGB: {Total: 6}}},
		d.w.traits("p1", api.TraitShares), d.w.aggregates("p1", uuid(1)))
}

// next draws a command; false if there is nothing that it could be about.
func (d *wideDice) next() (command.Command, bool) {
	at := d.w.stamp()
	if len(d.waiting()) > 4 && d.chance(2) {
		return d.further(at)
	}
	if d.chance(30) {
		return d.unlink(at), true
	}
	switch d.n(41) {
	case 24, 25:
		return d.moved(at)
	case 26, 27, 28:
		return d.update(at)
	case 29:
		return d.edit(at)
	case 30, 31:
		return d.series(at)
	case 0, 1:
		return d.spread(at)
	case 2, 3, 4:
		return d.answered(at)
	case 5:
		return d.ack(at, one(d.dice, someDecisions)), true
	case 6, 7:
		return d.followed(at), true
	case 8:
		if d.chance(3) {
			return d.loseLeased(at), true
		}
		st := one(d.dice, []api.HostState{api.HostUp, api.HostUp, api.HostUp, api.HostUp, api.HostDown})
		return command.HostsState{Stamp: at, State: st, Hosts: []api.HostID{api.HostID(one(d.dice, leasedHosts))}}, true
	case 9:
		return hostPut(at, "a1", one(d.dice, leasedHosts), int64(leasedCPUs-2+d.n(3))), true
	case 10:
		return command.HostSet{Stamp: at, ID: api.HostID(one(d.dice, leasedHosts)), Maintenance: new(one(d.dice, []string{"", "", "", "", "disk"}))}, true
	case 11, 12:
		return d.edit(at)
	case 13, 14:
		return d.plain(at)
	case 15:
		return d.consume(at), true
	case 16:
		return d.remove(at)
	case 17:
		return d.prune(at), true
	case 18, 19, 20:
		return d.disk(at), true
	case 21:
		return d.again(at)
	case 22:
		return command.InstanceTold{Stamp: at, Gone: idsOf(d.w.s.UnendedInstances())}, true
	case 23:
		return d.decideLate(at)
	}
	return d.leaseDice.next()
}

// further draws what takes an order that is not decided further.
func (d *wideDice) further(at command.Stamp) (command.Command, bool) {
	if c, ok := d.answered(at); ok && d.chance(2) {
		return c, true
	}
	c, ok := d.hold(at)
	c.Commit = true
	return c, ok
}

// spread draws a hold of which children get a part.
func (d *wideDice) spread(at command.Stamp) (command.Command, bool) {
	c, ok := d.hold(at)
	if !ok || c.Request.Within != "" {
		return nil, false
	}
	p := command.Part{Link: api.LinkID(one(d.dice, someChildren)), Instances: make([][]api.InstanceSpec, 1)}
	for range 1 + d.n(1) {
		if n := len(c.Slots); n > 0 {
			p.Instances[0] = append(p.Instances[0], c.Slots[n-1].Instance)
			c.Slots = c.Slots[:n-1]
		}
	}
	c.Parts = append(c.Parts, p)
	return c, true
}

// answered draws what a child holds of what it was asked for, mostly all.
func (d *wideDice) answered(at command.Stamp) (command.Command, bool) {
	h, p := d.part(func(h *Hold) bool { return h.State == api.HoldAsking })
	a := command.PartAnswer{Link: p.Link, Committed: d.chance(6)}
	for _, i := range p.Instances {
		if !d.chance(5) {
			a.Held = append(a.Held, i.Spec.ID)
		}
	}
	return command.HoldParts{Stamp: at, ID: h.ID, Origin: h.Origin, Answers: []command.PartAnswer{a}}, len(h.Parts) > 0
}

// followed draws what a child reports of what it has.
func (d *wideDice) followed(at command.Stamp) command.InstanceChanges {
	c := command.InstanceChanges{Stamp: at, Link: api.LinkID(one(d.dice, someChildren))}
	if l, ok := d.w.s.Link(c.Link); ok {
		c.After, c.Next = l.ChangesNext, l.ChangesNext
	}
	for _, i := range d.w.s.instances.Values() {
		if i.Link != c.Link || d.chance(3) {
			continue
		}
		st := api.StatusActive
		if i.Status == api.StatusDeleting || d.chance(8) {
			st = one(d.dice, []api.Status{api.StatusDeleted, api.StatusDeleted, api.StatusError, api.StatusDeleting})
		}
		c.Next++
		c.Items = append(c.Items, api.InstanceChange{ID: i.ID, Status: st, Index: c.Next, Replaced: d.chance(6)})
	}
	return c
}

// edit draws an update that needs no room: another name or event, or an end that is now.
func (d *wideDice) edit(at command.Stamp) (command.Command, bool) {
	all := d.w.s.Leases("")
	if len(all) == 0 {
		return nil, false
	}
	l := one(d.dice, all)
	c := command.LeaseSet{Stamp: at, ModIndex: l.ModIndex - uint64(d.n(4)/4), Terms: l.Terms, Events: slices.Clone(l.Events)}
	c.Terms.Name += "n"
	if l.Status == api.LeaseActive && d.chance(2) {
		c.Terms.Window.End = max(at.At, c.Terms.Window.Start+1)
		(&Lease{Events: c.Events}).Event(api.EventEndLease).Time = c.Terms.Window.End
		return c, true
	}
	for _, t := range []api.LeaseEventType{api.EventBeforeEndLease, api.EventBeforeStartLease} {
		e := (&Lease{Events: c.Events}).Event(t)
		if e == nil {
			c.Events = append(c.Events, api.LeaseEvent{ID: "e" + string(t), Type: t})
			e = &c.Events[len(c.Events)-1]
		}
		if e.Time = at.At + api.Instant(d.n(30)) - 5; l.Status != api.LeaseTerminated {
			e.Status = api.EventUndone
		}
	}
	return c, true
}

// plain draws a boot beside the leases: a preemptible, or one that ends by itself.
func (d *wideDice) plain(at command.Stamp) (command.Command, bool) {
	for _, b := range d.w.s.UndecidedBoots() {
		if r := b.Request; r.Reserves || r.Within != "" {
			continue
		}
		d.made++
		c := hold(at, fmt.Sprintf("%s-k%d", b.Request.Reservation, d.made), "", slots(one(d.dice, leasedHosts), fmt.Sprintf("w%d", d.made)))
		c.Request, c.Commit = b.Request, !d.chance(3)
		return c, true
	}
	d.made++
	c := create(at, fmt.Sprintf("b%d", d.made), 1, 1)
	c.Instances = specs(fmt.Sprintf("i%d", d.made))
	c.Request.Groups[0].Resources = api.Resources{api.VCPU: int64(1 + d.n(2))}
	switch d.n(3) {
	case 0, 1:
		c.Request.Class = api.Preemptible
	case 2:
		c.Request.Lifetime = time.Duration(1+d.n(60)) * time.Millisecond
	}
	if leases := d.w.s.Leases(""); len(leases) > 0 && d.chance(3) {
		c.Request.Class, c.Request.Within, c.Request.Lifetime = api.Firm, one(d.dice, leases).Terms.Reservations[0].ID, 20*time.Millisecond
	}
	return c, true
}

// consume draws a consumer of the placement API, or the end of one.
func (d *wideDice) consume(at command.Stamp) command.Command {
	e := command.ConsumerEntry{ID: api.ConsumerID(one(d.dice, []string{"c1", "c2"})), Project: "p", User: "u"}
	if d.chance(2) {
		sh := api.Share{Provider: api.ProviderID(one(d.dice, leasedHosts)), Resources: api.Resources{api.VCPU: 1}}
		if d.chance(2) {
			sh = api.Share{Provider: "p1", Resources: api.Resources{api.DiskGB: 1}}
		}
		e.Shares = []api.Share{sh}
	}
	return command.ConsumersPut{Stamp: at, Consumers: []command.ConsumerEntry{e}}
}

// series draws leases that are made together, the end of some, or a limit of the project.
func (d *wideDice) series(at command.Stamp) (command.Command, bool) {
	all := d.w.s.AllSeries("")
	switch {
	case d.chance(4):
		return d.limit(at), true
	case len(all) > 0 && d.chance(3):
		return command.SeriesDelete{Stamp: at, Project: "p", ID: one(d.dice, all).ID}, true
	}
	d.made++
	c := command.SeriesCreate{Stamp: at, ID: api.SeriesID(fmt.Sprint("x", d.made)), Project: "p", Digest: []byte{1}}
	if len(all) > 0 && d.chance(4) {
		c.ID = one(d.dice, all).ID
	}
	from := at.At + 10
	for range 1 + d.n(2) {
		l := d.create(at)
		window := api.Window{Start: from, End: from + 15}
		l.Terms.Window, l.Events, l.Order.Request.Window = window, leaseEvents(window), window
		l.Terms.Series = c.ID
		c.Leases = append(c.Leases, l)
		from = window.End + api.Instant(d.n(5))
	}
	return c, true
}

// limit draws limits of the project or of all, or that there are none any more.
func (d *wideDice) limit(at command.Stamp) command.Command {
	p := api.ProjectID(one(d.dice, []string{"p", "p", "p", ""}))
	if d.chance(8) {
		return command.QuotaDelete{Stamp: at, Project: p}
	}
	c := command.QuotaSet{Stamp: at, Project: p, Set: quota.Limits{quota.Leases: int64(2 + d.n(12))}}
	for _, i := range []quota.Item{quota.Hosts, quota.Reserved, quota.Reserved.Of(api.VCPU), quota.Instances, quota.Preemptibles.Of(api.VCPU)} {
		switch d.n(5) {
		case 0:
			c.Set[i] = int64(d.n(6))
		case 1:
			c.Set[i] = quota.Unlimited
		case 2:
			c.Unset = append(c.Unset, i)
		}
	}
	return c
}

// remove draws the end of an instance or slot, here or in a child.
func (d *wideDice) remove(at command.Stamp) (command.Command, bool) {
	all := d.w.s.instances.Values()
	if len(all) == 0 {
		return nil, false
	}
	return command.InstanceDelete{Stamp: at, ID: one(d.dice, all).ID}, true
}

// prune draws that old records go: seldom those of leases, which are kept for longer. What the
// leases still need has been used far more recently than any cutoff in truth.
func (d *wideDice) prune(at command.Stamp) command.Command {
	for _, l := range d.w.s.Leases("") {
		if !l.Status.Stable() && l.Status != api.LeaseTerminating || l.Status == api.LeaseActive {
			return command.Tick{Stamp: at}
		}
	}
	c := command.Prune{Stamp: at, Limit: 1 + d.n(20)}
	before := at.At - api.Instant(d.n(100))
	if d.chance(4) {
		before = at.At.Add(leasesKept) - api.Instant(d.n(100))
	}
	c.Before, c.BeforeAbroad, c.BeforeDead = before, before, before
	return c
}

// disk draws a lease whose slots have disk, or a boot into one that has.
func (d *wideDice) disk(at command.Stamp) command.LeaseCreate {
	c := d.create(at)
	if g := &c.Order.Request.Groups[0]; !g.Whole {
		g.Resources = api.Resources{api.VCPU: 1, api.DiskGB: int64(1 + d.n(1))}
	}
	if d.chance(2) {
		c.Key = one(d.dice, []string{"key1", "key2"})
		c.Digest = []byte(c.Key[3:])
	}
	return c
}

// again draws a lease that is there, or some of it is.
func (d *wideDice) again(at command.Stamp) (command.Command, bool) {
	all := d.w.s.Leases("")
	if len(all) == 0 {
		return nil, false
	}
	l := one(d.dice, all)
	c := d.create(at)
	switch d.n(2) {
	case 0:
		c.Terms.ID = l.Terms.ID
	case 1:
		c.Terms.Reservations = l.Terms.Reservations
	case 2:
		c.Key, c.Digest = l.Key, []byte{9}
	}
	return c, true
}

// decideLate draws a decision after the window of what it is about.
func (d *wideDice) decideLate(at command.Stamp) (command.Command, bool) {
	for _, b := range d.w.s.UndecidedBoots() {
		if end := b.Request.Window.End; b.Request.Reserves && end > at.At && d.chance(2) {
			d.w.now = end
			return command.BootDecide{Stamp: d.w.stamp(), Project: b.Request.Project, Reservation: b.Request.Reservation, Decision: api.DecisionCommit}, true
		}
	}
	return nil, false
}

// loseLeased draws the write-off of a host of leases that is down, mostly.
func (d *wideDice) loseLeased(at command.Stamp) command.Command {
	for _, id := range leasedHosts {
		if h, ok := d.w.s.Host(api.HostID(id)); ok && h.State == api.HostDown {
			return command.HostWriteOff{Stamp: at, ID: h.ID, Since: h.DownSince}
		}
	}
	return command.HostWriteOff{Stamp: at, ID: api.HostID(one(d.dice, leasedHosts)), Since: at.At}
}
