package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	draws "berth/internal/dice"
	"berth/raftstore/command"
)

// leaseDice draws commands about leases, and counts what came of them.
type leaseDice struct {
	dice
	seen map[string]int
	made int
}

// leasedCPUs are the CPUs of each host of these histories.
const leasedCPUs = 6

// leasedHosts are the hosts of these histories.
var leasedHosts = []string{"h1", "h2", "h3"}

// window draws a window near now, or one that begins where that of a lease ends.
func (d *leaseDice) window() api.Window {
	from := d.w.now + api.Instant(d.n(40)) - 5
	if leases := d.w.s.Leases(""); len(leases) > 0 && d.chance(2) {
		l := one(d.dice, leases)
		for _, busy := range leases { // rather one in which something runs
			if slots := d.w.s.LeaseSlots(busy); len(slots) > 0 && len(d.w.s.Within(slots[0].ID)) > 0 {
				l = busy
			}
		}
		from = l.Terms.Window.End
	}
	return api.Window{Start: from, End: from + 5 + api.Instant(d.n(40))}
}

// order draws the order of a lease with one group of whole hosts or of slots.
func (d *leaseDice) order(window api.Window, whole bool, group string) *command.BootTerms {
	d.made++
	n := 1 + d.n(2)
	o := leaseOrder("", fmt.Sprintf("o%d", d.made), window, numbered(fmt.Sprintf("s%d-", d.made), n)...)
	o.Request.Groups[0].Name = group
	o.Request.Groups[0].Resources = api.Resources{api.VCPU: int64(1 + d.n(2))}
	if d.chance(3) {
		o.Request.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
	}
	if whole {
		o.Request.Groups[0].Whole, o.Request.Groups[0].Resources, o.Request.Rules = true, nil, nil
	}
	return o
}

// reservationsOf returns what an order is for.
func reservationsOf(o *command.BootTerms) []api.Reservation {
	g := &o.Request.Groups[0]
	r := api.Reservation{ID: api.ReservationID(g.Name), Type: api.ReserveInstances, Min: len(o.Instances), Max: len(o.Instances), Resources: g.Resources}
	if g.Whole {
		r.Type, r.Resources = api.ReserveHosts, nil
	}
	return []api.Reservation{r}
}

func (d *leaseDice) create(at command.Stamp) command.LeaseCreate {
	id := fmt.Sprintf("l%d", d.made)
	window := d.window()
	o := d.order(window, d.chance(3), id+"-r")
	terms := leaseTerms(id, window, len(o.Instances))
	terms.Reservations = reservationsOf(o)
	if d.chance(4) {
		terms.Shared = []api.ProjectID{"q"}
		o.Request.Shared = terms.Shared
	}
	return command.LeaseCreate{Stamp: at, Terms: terms, Events: leaseEvents(window), Digest: []byte{1}, Order: o}
}

// update draws new terms for a lease: another window, other sizes, another number.
func (d *leaseDice) update(at command.Stamp) (command.LeaseSet, bool) {
	var some []*Lease
	for _, l := range d.w.s.Leases("") {
		if l.Status == api.LeasePending || l.Status == api.LeaseActive {
			some = append(some, l)
		}
	}
	if len(some) == 0 {
		return command.LeaseSet{}, false
	}
	l := one(d.dice, some)
	old, _ := d.w.s.Boot("p", l.Order)
	window := l.Terms.Window
	window.End = max(d.w.now+1, window.End+api.Instant(d.n(30))-10)
	if l.Status == api.LeasePending && d.chance(2) {
		window = d.window()
	}
	o := d.order(window, old.Request.Groups[0].Whole, old.Request.Groups[0].Name)
	o.Request.Replaces = l.Order
	if d.chance(2) {
		o.Request.Groups[0].Resources = old.Request.Groups[0].Resources
	}
	c := command.LeaseSet{Stamp: at, ModIndex: l.ModIndex, Terms: l.Terms, Events: slices.Clone(l.Events), Order: o}
	c.Terms.Window, c.Terms.Reservations = window, reservationsOf(o)
	for i := range c.Events {
		switch c.Events[i].Type {
		case api.EventStartLease:
			c.Events[i].Time = window.Start
		case api.EventEndLease:
			c.Events[i].Time = window.End
		}
	}
	return c, true
}

// hold draws slots for a boot that is not decided: of a lease, or within one.
func (d *leaseDice) hold(at command.Stamp) (command.Hold, bool) {
	all := d.waiting()
	if len(all) == 0 {
		return command.Hold{}, false
	}
	b := one(d.dice, all)
	d.made++
	c := hold(at, fmt.Sprintf("%s-k%d", b.Request.Reservation, d.made), "", nil)
	c.Request, c.Commit = b.Request, !d.chance(3)
	var keep, free []*api.Instance
	if b.Request.Replaces != "" {
		keep = d.w.s.SlotsOf("", api.ReservationID(b.Request.Groups[0].Name))
	}
	if b.Request.Within != "" {
		free = d.w.s.SlotsOf("", b.Request.Within)
	}
	for n, spec := range b.Instances {
		sl := command.Slot{Instance: spec, Host: d.hostFrom(b.Request.Window.Start), Group: min(n, len(b.Request.Groups)-1)}
		sl.Instance.ID += api.InstanceID(fmt.Sprint("x", d.made))
		switch {
		case sl.Group > 0: // a volume
			sl.Host = d.hostOf(c.Slots[0].Host)
		case len(free) > 0:
			sl.Host = api.HostID(one(d.dice, free).ID)
		case n < len(keep) && !d.chance(5):
			sl.Host, sl.Keeps = keep[n].Host, keep[n].ID
		}
		c.Slots = append(c.Slots, sl)
	}
	c.Spares = make([][]api.HostID, len(b.Request.Groups))
	for _, id := range leasedHosts {
		if !d.chance(6) {
			c.Spares[0] = append(c.Spares[0], api.HostID(id))
		}
	}
	return c, true
}

// hostOf draws a host, most often the one that a slot is on.
func (d *leaseDice) hostOf(slot api.HostID) api.HostID {
	if i, ok := d.w.s.Instance(api.InstanceID(slot)); ok && !d.chance(3) {
		return i.Host
	}
	return api.HostID(one(d.dice, leasedHosts))
}

// waiting returns the boots that are not decided and still can be, now and then all.
func (d *leaseDice) waiting() []*Boot {
	all := d.w.s.UndecidedBoots()
	if d.chance(8) {
		return all
	}
	return slices.DeleteFunc(all, func(b *Boot) bool {
		r := &b.Request
		return r.Window.End <= d.w.now || r.Within != "" && len(d.w.s.FreeSlots("", r.Within, r.Project)) == 0
	})
}

// hostFrom draws a host, most often one where something that is used ends at an instant.
func (d *leaseDice) hostFrom(at api.Instant) api.HostID {
	for _, id := range leasedHosts {
		for _, i := range d.w.s.SlotsOn(api.HostID(id)) {
			if i.Window.End == at && len(d.w.s.Within(i.ID)) > 0 && !d.chance(4) {
				return i.Host
			}
		}
	}
	return api.HostID(one(d.dice, leasedHosts))
}

// abroad draws a hold of a parent for a lease of its own.
func (d *leaseDice) abroad(at command.Stamp) command.Hold {
	o := d.order(d.window(), d.chance(3), "abroad-r")
	c := hold(at, fmt.Sprintf("up-k%d", d.made), "", nil)
	c.Origin, c.Request = "up", o.Request
	if holds := d.w.s.Holds(); len(holds) > 0 && d.chance(2) {
		replace(&c.Request, one(d.dice, holds))
	}
	old := d.w.s.SlotsOf("up", "abroad-r")
	for n, spec := range o.Instances {
		sl := command.Slot{Instance: spec, Host: api.HostID(one(d.dice, leasedHosts))}
		if n < len(old) && c.Request.Replaces != "" {
			sl.Host, sl.Keeps = old[n].Host, old[n].ID
		}
		c.Slots = append(c.Slots, sl)
	}
	return c
}

// replace makes a request of a parent the update of a lease of it.
func replace(r *api.Request, h *Hold) {
	if h.Origin == "" || !h.Request.Reserves {
		return
	}
	r.Replaces = h.Request.Reservation
	group := &r.Groups[0]
	if group.Whole = h.Request.Groups[0].Whole; group.Whole {
		group.Resources, r.Rules = nil, nil
	} else if len(group.Resources) == 0 {
		group.Resources = api.Resources{api.VCPU: 1}
	}
}

func (d *leaseDice) within(at command.Stamp) (command.BootCreate, bool) {
	leases := d.w.s.Leases("")
	if len(leases) == 0 {
		return command.BootCreate{}, false
	}
	d.made++
	c := create(at, fmt.Sprintf("b%d", d.made), 1, 1)
	c.Instances = specs(fmt.Sprintf("i%d", d.made))
	c.Request.Within = one(d.dice, leases).Terms.Reservations[0].ID
	for _, l := range leases { // rather where there is room
		if id := l.Terms.Reservations[0].ID; len(d.w.s.FreeSlots("", id, "p")) > 0 && d.chance(2) {
			c.Request.Within = id
		}
	}
	if d.chance(5) {
		c.Request.Project = "q"
	}
	if d.chance(3) { // with a volume
		c.Instances = append(c.Instances, specs(fmt.Sprintf("v%d", d.made))...)
		c.Request.Groups[0].Name, c.Request.Zones.Pack = "web", true
		c.Request.Groups = append(c.Request.Groups, api.Group{Count: 1, Name: "data", Volume: "standard", AttachTo: "web", Resources: api.Resources{api.VCPU: 1}})
		c.Request.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}, Pairs: true}}
	}
	return c, true
}

// startWithin draws a hold that puts a boot into a slot that is free for it.
func (d *leaseDice) startWithin(at command.Stamp) (command.Command, bool) {
	for _, b := range d.w.s.UndecidedBoots() {
		free := d.w.s.FreeSlots("", b.Request.Within, b.Request.Project)
		if b.Request.Within == "" || len(free) == 0 {
			continue
		}
		d.made++
		c := hold(at, fmt.Sprintf("%s-k%d", b.Request.Reservation, d.made), "", slots(string(one(d.dice, free).ID), fmt.Sprintf("w%d", d.made)))
		c.Request, c.Commit = b.Request, true
		if len(b.Request.Groups) > 1 {
			volume := slots(string(d.hostOf(c.Slots[0].Host)), fmt.Sprintf("y%d", d.made))
			volume[0].Group = 1
			c.Slots = append(c.Slots, volume...)
		}
		return c, true
	}
	return d.within(at)
}

// moved draws that a slot goes to another host.
func (d *leaseDice) moved(at command.Stamp) (command.Command, bool) {
	from := d.n(len(leasedHosts) - 1)
	for n := range leasedHosts {
		id := leasedHosts[(from+n)%len(leasedHosts)]
		all := slices.DeleteFunc(d.w.s.SlotsOn(api.HostID(id)), func(i *api.Instance) bool { return !d.w.s.IsEmpty(i) })
		if len(all) > 0 && !d.chance(4) {
			to := leasedHosts[(from+n+1+d.n(1))%len(leasedHosts)]
			return command.InstanceMove{Stamp: at, ID: one(d.dice, all).ID, From: api.HostID(id), To: api.HostID(to)}, true
		}
	}
	if all := d.w.s.SlotsOn(api.HostID(leasedHosts[from])); len(all) > 0 { // something may run in it
		return command.InstanceMove{Stamp: at, ID: one(d.dice, all).ID, From: all[0].Host, To: all[0].Host}, true
	}
	return nil, false
}

// report draws an agent's report on an instance that is there.
func (d *leaseDice) report(at command.Stamp) (command.Command, bool) {
	host := one(d.dice, leasedHosts)
	on := d.w.s.OnHost(api.HostID(host))
	if len(on) == 0 {
		return nil, false
	}
	i := one(d.dice, on)
	st := one(d.dice, []api.Status{api.StatusActive, api.StatusDeleted, api.StatusDeleted, api.StatusError})
	return reports(at, "a1", host, st, string(i.ID)), true
}

// first returns what the histories begin with.
func (d *leaseDice) first() []command.Command {
	out := []command.Command{initial(), command.LinkPut{Stamp: d.w.stamp(), Link: linkOf("up", api.LinkParent)}}
	for _, h := range leasedHosts {
		out = append(out, hostPut(d.w.stamp(), "a1", h, leasedCPUs))
	}
	return append(out, askingConfig(d.w))
}

// next draws a command; false if there is nothing that it could be about.
func (d *leaseDice) next() (command.Command, bool) {
	if d.chance(3) {
		d.w.now += api.Instant(d.n(25))
	}
	at := d.w.stamp()
	switch d.n(17) {
	case 0, 1:
		if len(d.waiting()) > 4 {
			return d.hold(at)
		}
		return d.create(at), true
	case 2, 3:
		return d.update(at)
	case 4, 5, 6, 7:
		return d.hold(at)
	case 8:
		return d.abroad(at), true
	case 9:
		if all := d.w.s.PreparedHolds(); len(all) > 0 && !d.chance(3) {
			return command.HoldDecide{Stamp: at, ID: one(d.dice, all).ID, Origin: "up", Decision: one(d.dice, []api.Decision{api.DecisionCommit, api.DecisionAbort})}, true
		}
		if all := d.w.s.Holds(); len(all) > 0 {
			h := one(d.dice, all)
			if n := slices.IndexFunc(all, d.w.s.isReplaced); n >= 0 && d.chance(2) {
				h = all[n]
			}
			return command.HoldDecide{Stamp: at, ID: h.ID, Origin: h.Origin, Decision: one(d.dice, someDecisions)}, true
		}
	case 10:
		if all := d.w.s.UndecidedBoots(); len(all) > 0 {
			b := one(d.dice, all)
			if b.Request.Window.End <= d.w.now {
				return bootDecide(at, string(b.Request.Reservation), api.DecisionAbort), true
			}
			return command.BootDecide{Stamp: at, Project: b.Request.Project, Reservation: b.Request.Reservation, Decision: one(d.dice, []api.Decision{api.DecisionCommit, api.DecisionAbort})}, true
		}
	case 11:
		if all := d.w.s.Leases(""); len(all) > 0 {
			return command.LeaseDelete{Stamp: at, Project: "p", ID: one(d.dice, all).Terms.ID}, true
		}
	case 12:
		return d.within(at)
	case 13:
		return d.report(at)
	case 14:
		return d.moved(at)
	case 15:
		if d.chance(2) {
			config := askingConfig(d.w)
			config.Config.Leases.Cleaning = one(d.dice, []time.Duration{0, 3 * time.Millisecond, 10 * time.Millisecond})
			if d.chance(4) {
				config.Config.Leases.Check = api.LeaseCheck{}
			}
			return config, true
		}
		if ends := d.w.s.LeaseEnds(api.LeaseEndName{}, 3); len(ends) > 0 && d.chance(2) {
			return command.LeaseEndsTold{Stamp: at, Ends: []api.LeaseEndName{one(d.dice, ends).Name(), {Lease: "none"}}}, true
		}
		return command.Tick{Stamp: at}, true
	case 16, 17:
		return d.startWithin(at)
	}
	return nil, false
}

// TestLeaseHistories plays random lives of leases: the tables agree, no host is promised
// twice, a state that was restored goes on alike, and nothing waits for ever.
func TestLeaseHistories(t *testing.T) {
	seen := map[string]int{}
	play := func(rt *rapid.T) {
		w := &world{tb: rt, s: New(), now: start, form: api.FormNewest}
		d := &leaseDice{dice: dice{rt: rt, w: w}, seen: seen}
		for _, c := range d.first() {
			w.ok(c)
		}
		twin := loaded(rt, saved(rt, w.s))
		for range 120 {
			c, ok := d.next()
			if !ok {
				continue
			}
			r := w.do(c)
			require.Equal(rt, r, twin.Apply(w.index, w.reread(c)), "%#v", c)
			d.note(c, r)
			checkPromises(rt, w.s)
			if d.chance(8) {
				checkIndexes(rt, w.s)
				twin = loaded(rt, saved(rt, w.s))
			}
		}
		require.Equal(rt, saved(rt, w.s), saved(rt, twin))
		d.finish()
	}
	draws.Enough(t, func() { rapid.Check(t, play) }, func() string {
		if testing.Short() {
			return ""
		}
		return draws.Rare(seen, 5,
			"LeaseCreate ok", "LeaseSet ok", "LeaseDelete ok", "Hold ok", "Hold kept", "Hold whole", "Hold within", "Hold beside", "Hold refused some", "BootDecide ok",
			"HoldDecide ok", "HoldDecide conflict", "InstanceMove ok", "InstanceReport ok", "BootCreate ok", "lease PENDING", "lease ACTIVE",
			"lease TERMINATING", "lease TERMINATED", "lease UPDATING", "lease STARTING", "lease DELETING")
	})
}

// note counts what came of a command.
func (d *leaseDice) note(c command.Command, r Result) {
	name := fmt.Sprintf("%T", c)[len("command."):]
	if r.Err != nil {
		d.seen[name+" "+string(api.CodeOf(r.Err))]++
		return
	}
	d.seen[name+" ok"]++
	if r.Hold != nil {
		for _, sl := range r.Hold.Slots {
			for what, is := range map[string]bool{"kept": sl.Keeps != "", "whole": sl.Whole != nil, "within": sl.Within != "", "beside": sl.Within == "" && r.Hold.Request.Within != ""} {
				if is {
					d.seen["Hold "+what]++
				}
			}
		}
		if len(r.Hold.Refused) > 0 {
			d.seen["Hold refused some"]++
		}
	}
	for _, l := range d.w.s.Leases("") {
		d.seen["lease "+string(l.Status)]++
	}
}

// finish decides what is not decided, lets all windows pass and all agents report, and holds
// that nothing is left.
func (d *leaseDice) finish() {
	for _, b := range d.w.s.UndecidedBoots() {
		d.w.do(command.BootDecide{Stamp: d.w.stamp(), Project: b.Request.Project, Reservation: b.Request.Reservation, Decision: api.DecisionAbort})
	}
	for _, h := range d.w.s.PreparedHolds() {
		d.w.do(command.HoldDecide{Stamp: d.w.stamp(), ID: h.ID, Origin: h.Origin, Decision: api.DecisionAbort})
	}
	d.w.now += 10_000
	d.w.do(command.Tick{Stamp: d.w.stamp()})
	for n := range 2 * len(leasedHosts) { // what volumes are attached to goes first
		host := leasedHosts[n%len(leasedHosts)]
		for _, i := range d.w.s.OnHost(api.HostID(host)) {
			d.w.do(command.InstanceDelete{Stamp: d.w.stamp(), ID: i.ID})
			d.w.do(reports(d.w.stamp(), "a1", host, api.StatusDeleted, string(i.ID)))
		}
	}
	for _, l := range d.w.s.Leases("") {
		require.Equal(d.rt, api.LeaseTerminated, l.Status, "lease %s", l.Terms.ID)
	}
	for _, host := range leasedHosts {
		require.Empty(d.rt, d.w.s.SlotsOn(api.HostID(host)), "slots on %s", host)
		require.Zero(d.rt, d.w.used(host), "use of %s", host)
	}
	require.Equal(d.rt, api.Forever, d.w.s.NextDue())
	checkIndexes(d.rt, d.w.s)
}

// checkPromises holds that at no instant from now on a host has promised more than it has,
// and that what is within a slot fits in it.
func checkPromises(tb require.TestingT, s *State) {
	for _, host := range leasedHosts {
		claims := promisesOn(s, api.HostID(host))
		for _, at := range append(edgesOf(claims), s.now) {
			sum := int64(0)
			for _, c := range claims {
				if c.Window.Contains(at) {
					sum += c.Resources[api.VCPU]
				}
			}
			if at >= s.now {
				require.LessOrEqual(tb, sum, int64(leasedCPUs), "promised on %s at %d", host, at-s.now)
			}
		}
		for _, slot := range s.SlotsOn(api.HostID(host)) {
			inner := int64(0)
			for _, i := range s.Within(slot.ID) {
				inner += i.Resources[api.VCPU]
				require.Equal(tb, slot.Host, i.Host, "%s is within %s", i.ID, slot.ID)
			}
			require.LessOrEqual(tb, inner, slot.Resources[api.VCPU], "within %s", slot.ID)
		}
	}
}

// promisesOn returns the firm claims on a host as plain records: what keeps a slot and the
// slot count as the greater of the two at each instant. A claim lasts until the host is clean again.
func promisesOn(s *State, host api.HostID) []api.Claim {
	var out []api.Claim
	h, _ := s.Host(host)
	cleaned := func(c api.Claim) api.Claim {
		c.Window.End = c.Window.End.Add(h.Cleaning)
		return c
	}
	kept := map[api.InstanceID]api.Claim{}
	for _, h := range s.Holds() {
		if h.Decision != api.DecisionPending {
			continue
		}
		for _, sl := range h.Slots {
			switch c := cleaned(s.claimOfSlot(h, sl)); {
			case sl.Host != host || sl.Within != "":
			case sl.Keeps != "":
				kept[sl.Keeps] = c
			default:
				out = append(out, c)
			}
		}
	}
	for _, i := range s.allOn(host) {
		c := cleaned(s.claimOf(i))
		if i.Within != "" || c.Class == api.Preemptible {
			continue
		}
		next, is := kept[i.ID]
		if !is {
			out = append(out, c)
			continue
		}
		for _, at := range edgesOf([]api.Claim{c, next}) {
			both := api.Claim{Window: api.Window{Start: at, End: at}, Resources: api.Resources{}}
			for _, part := range []api.Claim{c, next} {
				if part.Window.Contains(at) {
					both.Resources[api.VCPU] = max(both.Resources[api.VCPU], part.Resources[api.VCPU])
				}
			}
			for _, e := range edgesOf([]api.Claim{c, next}) {
				if e > at && (both.Window.End == at || e < both.Window.End) {
					both.Window.End = e
				}
			}
			out = append(out, both)
		}
	}
	return out
}

func edgesOf(claims []api.Claim) []api.Instant {
	var out []api.Instant
	for _, c := range claims {
		out = append(out, c.Window.Start, c.Window.End)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
