package state

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"berth/api"
	"berth/raftstore/command"
)

// The names that random histories are made of are few, so that they meet.
var (
	someHosts     = []string{"h1", "h2", "h3"}
	someBoots     = []string{"r1", "r2", "r3", "r4"}
	someHolds     = []string{"k1", "k2", "k3", "k4", "k5", "k6"}
	someInstances = numbered("i", 30)
	someChildren  = []string{"c1", "c2"}
	someOrigins   = []string{"", "", "up"}
	someDecisions = []api.Decision{api.DecisionCommit, api.DecisionAbort}
	someStatuses  = append([]api.Status{"DANCING"}, statuses...)
)

// dice draws commands for a world.
type dice struct {
	rt *rapid.T
	w  *world
}

// newDice returns dice for a zone that has what first makes.
func newDice(rt *rapid.T) dice {
	d := dice{rt: rt, w: &world{tb: rt, s: New(), now: start, form: api.FormNewest}}
	for _, c := range d.first() {
		d.w.ok(c)
	}
	return d
}

// first returns what random histories begin with: links, hosts, providers and a boot.
func (d dice) first() []command.Command {
	out := []command.Command{initial()}
	for _, l := range []api.Link{linkOf("up", api.LinkParent), linkOf("c1", api.LinkChild), linkOf("c2", api.LinkChild)} {
		out = append(out, command.LinkPut{Stamp: d.w.stamp(), Link: l})
	}
	return slices.Concat(out, firstProviders(d.w), firstBoot(d.w))
}

// n draws a number from 0 to most. Rapid prefers small numbers, which is right
// for sizes and wrong for a choice, so the draw is scattered.
func (d dice) n(most int) int {
	drawn := uint64(rapid.Uint32().Draw(d.rt, "n")) + 1
	return int(drawn * 0x9e3779b97f4a7c15 >> 32 % uint64(most+1))
}

func (d dice) chance(in int) bool { return d.n(in-1) == 0 }
func one[T any](d dice, of []T) T { return of[d.n(len(of)-1)] }
func (d dice) origin() api.LinkID { return api.LinkID(one(d, someOrigins)) }
func (d dice) holdID() api.HoldID { return api.HoldID(one(d, someHolds)) }
func (d dice) stamp() command.Stamp {
	if d.chance(8) {
		d.w.now += api.Instant(d.n(50))
	}
	return d.w.stamp()
}

func (d dice) ids(most int) []string {
	out := make([]string, d.n(most))
	for i := range out {
		out[i] = one(d, someInstances)
	}
	return out
}

func (d dice) instances(most int) []api.InstanceID { return answer("", d.ids(most)...).Held }

// command draws the next command; most of them make sense.
func (d dice) command() command.Command {
	at := d.stamp()
	if d.chance(20) {
		return d.linkSet(at)
	}
	if d.chance(25) {
		return d.unlink(at)
	}
	if d.chance(16) {
		return d.power(at)
	}
	project := api.ProjectID("p")
	switch d.n(28) {
	case 23, 24, 25, 26, 27, 28:
		return d.placement(at)
	case 18, 19:
		return d.move(at)
	case 20, 21, 22:
		return d.operator(at)
	case 0:
		return hostPut(at, "a1", one(d, someHosts), int64(1+d.n(5)))
	case 1:
		st := one(d, []api.HostState{api.HostUp, api.HostUp, api.HostDown})
		return command.HostsState{Stamp: at, State: st, Hosts: []api.HostID{api.HostID(one(d, someHosts))}}
	case 2:
		on := !d.chance(3)
		return command.HostSet{Stamp: at, ID: api.HostID(one(d, someHosts)), Generation: uint64(d.n(2)), Enabled: &on}
	case 3:
		if !d.chance(3) {
			return d.lose(at)
		}
		return command.HostDelete{Stamp: at, ID: api.HostID(one(d, someHosts))}
	case 4, 5:
		c := create(at, one(d, someBoots), 4, d.n(3))
		c.Instances, c.Request = nil, d.request(one(d, someBoots))
		c.Digest = []byte(c.Request.Reservation)
		c.Timeout = time.Duration(d.n(2)) * time.Second
		if d.chance(2) {
			c.Key = one(d, []string{"key1", "key2"})
		}
		return c
	case 6, 7, 8:
		return d.hold(at)
	case 9:
		h, p := d.part(func(h *Hold) bool { return h.State == api.HoldAsking })
		a := answer(string(p.Link), d.ids(4)...)
		for _, i := range p.Instances {
			if !d.chance(4) {
				a.Held = append(a.Held, i.Spec.ID)
			}
		}
		a.Committed = d.chance(6)
		return command.HoldParts{Stamp: at, ID: h.ID, Origin: h.Origin, Answers: []command.PartAnswer{a}}
	case 10:
		h, _ := d.part(func(h *Hold) bool { return h.Origin != "" && h.Decision != api.DecisionAbort })
		c := command.HoldDecide{Stamp: at, ID: h.ID, Origin: h.Origin, Decision: one(d, someDecisions), Forced: d.chance(4)}
		if d.w.index%2 == 0 {
			for _, rule := range h.Request.Rules {
				c.Lifted = append(c.Lifted, rule.ID)
			}
		}
		return c
	case 11:
		return bootDecide(at, one(d, someBoots), one(d, someDecisions))
	case 12:
		return command.BootRelease{Stamp: at, Project: project, Reservation: api.ReservationID(one(d, someBoots))}
	case 13:
		return d.ack(at, one(d, someDecisions))
	case 14:
		if live := d.w.s.InstancesPage(InstanceQuery{Page: Page{Limit: 99}}); len(live) > 0 && !d.chance(4) {
			return command.InstanceDelete{Stamp: at, ID: one(d, live).ID}
		}
		return command.InstanceDelete{Stamp: at, ID: api.InstanceID(one(d, someInstances))}
	case 15:
		if i, ok := d.moving(); ok && d.chance(2) {
			return reports(at, "a1", string(i.Host), api.StatusDeleted, string(i.ID))
		}
		agent, host, ids := one(d, []string{"a1", "a1", "a1", "a2"}), one(d, someHosts), d.ids(2)
		for _, i := range d.w.s.OnHost(api.HostID(host)) {
			ids = append(ids, string(i.ID))
		}
		c := reports(at, agent, host, one(d, someStatuses), ids...)
		for n := range c.Items {
			c.Items[n].Stay = uint64(d.n(2)) // 0 names none
		}
		return c
	case 16:
		return d.changes(at)
	default:
		if d.chance(2) {
			c := command.InstanceTold{Stamp: at, IDs: d.instances(2), Gone: d.instances(4)}
			for _, i := range d.w.s.UnendedInstances() {
				c.Gone = append(c.Gone, i.ID)
			}
			return c
		}
		return command.Prune{
			Stamp: at, Before: at.At - api.Instant(d.n(40)), BeforeAbroad: at.At - api.Instant(d.n(40)), BeforeDead: at.At - api.Instant(d.n(40)), Limit: d.n(3),
		}
	}
}

// lose draws the write-off of a host or of one instance there, mostly of a host that is down.
func (d dice) lose(at command.Stamp) command.HostWriteOff {
	c := command.HostWriteOff{Stamp: at, ID: api.HostID(one(d, someHosts)), Since: d.w.now - api.Instant(d.n(3))}
	for _, id := range someHosts {
		if h, ok := d.w.s.Host(api.HostID(id)); ok && h.State == api.HostDown && !d.chance(4) {
			c.ID, c.Since = h.ID, h.DownSince
			break
		}
	}
	if on := d.w.s.allOn(c.ID); len(on) > 0 && d.chance(3) {
		c.Instance = one(d, on).ID
	}
	return c
}

// part draws a hold that ok picks and one of its parts, or a name for each.
func (d dice) part(ok func(*Hold) bool) (*Hold, Part) {
	h, p := &Hold{ID: d.holdID(), Origin: d.origin(), Decision: one(d, someDecisions)}, Part{Link: api.LinkID(one(d, someChildren))}
	var some []*Hold
	for _, h := range d.w.s.Holds() {
		if ok(h) {
			some = append(some, h)
		}
	}
	if len(some) > 0 && !d.chance(6) {
		h = one(d, some)
	}
	if len(h.Parts) > 0 {
		p = one(d, h.Parts)
	}
	return h, p
}

func (d dice) hold(at command.Stamp) command.Hold {
	var sl []command.Slot
	for _, id := range d.ids(3) {
		sl = append(sl, slots(one(d, someHosts), id)...)
		sl[len(sl)-1].Group = d.n(1)
	}
	var parts []command.Part
	for _, l := range someChildren {
		if d.chance(3) {
			p := part(l, d.ids(2)...)
			p.Instances = append(p.Instances, specs(d.ids(1)...))
			parts = append(parts, p)
		}
	}
	c := hold(at, string(d.holdID()), "", sl, parts...)
	c.Request = d.request(one(d, someBoots))
	if c.Origin = d.origin(); c.Origin != "" {
		if c.Request = d.request("abroad"); d.chance(8) { // which a parent may not ask for
			c.Request.Window.Start = at.At + 10
		}
	} else {
		c.ID = api.HoldID(c.Request.Reservation) + c.ID // an own hold's id follows from its boot
	}
	c.Commit = d.chance(3)
	if d.chance(3) {
		c.Spares = [][]api.HostID{{api.HostID(one(d, someHosts)), api.HostID(one(d, someHosts))}, {api.HostID(one(d, someHosts))}}
	}
	if d.chance(3) {
		const life = 60
		end := (at.At-start)/life + api.Instant(d.n(2)) // a plan has one expiry, which may have passed
		c.Plan, c.Expires = api.PlanID(fmt.Sprintf("plan%d-%d", end, d.n(3))), start+end*life
	}
	if d.chance(3) {
		c.Request.Window.End = at.At + api.Instant(d.n(60))
	} else if d.chance(3) {
		c.Request.Lifetime = time.Duration(1+d.n(60)) * time.Millisecond
	}
	return c
}

// someRules are what the rules of random requests ask for. A server group has one
// policy, and so has the rule of a boot alone.
var (
	someRules = []api.Rule{
		{ID: "together", Policy: api.Affinity},
		{ID: "apart", Policy: api.AntiAffinity, Max: 1},
		{ID: "thin", Policy: api.AntiAffinity, Max: 2},
		{ID: "rather", Policy: api.SoftAffinity},
	}
	ownRules = map[api.ReservationID]api.Rule{
		"r1": {Policy: api.Affinity}, "r2": {Policy: api.AntiAffinity, Max: 1}, "abroad": {Policy: api.AntiAffinity, Max: 2},
	}
)

// request draws a request of two groups. The rule of its own, if it has one, stands
// first and binds both.
func (d dice) request(res string) api.Request {
	r := request(res, 4)
	g := r.Groups[0]
	g.Resources = api.Resources{api.VCPU: int64(1 + d.n(1))}
	if d.chance(3) {
		g.Resources[api.DiskGB] = int64(1 + d.n(2))
	}
	if d.chance(2) {
		g.ExtraSpecs = map[string]string{api.SpecEvacuate: "true"}
	}
	r.Groups = []api.Group{g, g}
	if d.chance(3) {
		r.Groups[d.n(1)].Min = 1
	}
	if rule, ok := ownRules[r.Reservation]; ok && d.chance(2) {
		rule.Groups = []int{0, 1}
		r.Rules = append(r.Rules, rule)
	}
	if d.chance(3) {
		rule := one(d, someRules)
		rule.Groups = one(d, [][]int{{0}, {1}, {0, 1}})
		r.Rules = append(r.Rules, rule)
	}
	if d.chance(4) {
		r.Zones = one(d, []api.ZoneRule{{MinZones: 2}, {MaxSkew: 1}, {Pack: true}})
	}
	return r
}

// move draws a move of an instance that is here, or of any, or the silence of a host. Before an evacuation, a
// host is lost.
func (d dice) move(at command.Stamp) command.Command {
	c := command.InstanceMove{
		Stamp: at, ID: api.InstanceID(one(d, someInstances)), From: api.HostID(one(d, someHosts)), To: api.HostID(one(d, someHosts)),
		Evacuate: d.chance(2),
	}
	var here []*api.Instance
	for _, id := range someHosts {
		h, ok := d.w.s.Host(api.HostID(id))
		if on := d.w.s.OnHost(api.HostID(id)); ok && len(on) > 0 {
			if here = append(here, on...); c.Evacuate && h.State == api.HostDown {
				if slices.ContainsFunc(on, func(i *api.Instance) bool { return i.Fenced() && i.Status == api.StatusDeleting }) {
					return command.HostsSilent{Stamp: at, Hosts: []command.SilentHost{{ID: h.ID, Since: h.DownSince}, {ID: api.HostID(one(d, someHosts)), Since: h.DownSince}}}
				}
				here = on
				break
			}
		}
	}
	if len(here) == 0 || d.chance(8) {
		return c
	}
	i := one(d, here)
	if h, _ := d.w.s.Host(i.Host); c.Evacuate && h.State == api.HostUp && d.chance(2) {
		return command.HostsState{Stamp: at, State: api.HostDown, Hosts: []api.HostID{i.Host}}
	}
	c.ID, c.From = i.ID, i.Host
	for _, o := range d.w.s.OnHost(i.Host) {
		if d.chance(4) {
			c.With = append(c.With, o.ID)
		}
	}
	return c
}

// ack draws that a child has carried a decision out, or lost what it held.
func (d dice) ack(at command.Stamp, decided api.Decision) command.PartAck {
	h, p := d.part(func(h *Hold) bool {
		return h.Decision == decided && slices.ContainsFunc(h.Parts, func(p Part) bool { return !p.Acked })
	})
	c := command.PartAck{Stamp: at, ID: h.ID, Origin: h.Origin, Link: p.Link, Decision: h.Decision, Lost: d.chance(3), Lifted: len(h.Lifted)}
	if d.w.index%5 == 0 {
		c.Lifted = 0 // it was on its way
	}
	if d.chance(4) {
		c.Decision = one(d, someDecisions)
	}
	return c
}

// moving draws one of the instances that are on their way to another host.
func (d dice) moving() (*api.Instance, bool) {
	all := d.w.s.InstancesPage(InstanceQuery{Page: Page{Limit: 99}, Match: func(i *api.Instance) bool { return i.Target != "" }})
	if len(all) == 0 {
		return nil, false
	}
	return one(d, all), true
}

// linkSet draws a pause of a link, its end, that a child is silent or heard again, or that it went back to a backup or was compared.
func (d dice) linkSet(at command.Stamp) command.Command {
	if d.chance(8) {
		return d.compared(at)
	}
	c := command.LinkSet{Stamp: at, ID: api.LinkID(one(d, append(someChildren, "up")))}
	if d.chance(2) {
		c.State = new(one(d, []api.LinkState{api.LinkActive, api.LinkActive, api.LinkPaused}))
	} else {
		c.ID, c.Silent = api.LinkID(one(d, someChildren)), new(one(d, []api.Instant{0, at.At - 5, at.At}))
	}
	return c
}

// compared draws that a child went back to a backup, or is compared because of it.
func (d dice) compared(at command.Stamp) command.Command {
	id := api.LinkID(one(d, someChildren))
	l, ok := d.w.s.Link(id)
	if !ok || l.Reconcile == 0 || d.chance(4) {
		return command.LinkRestored{Stamp: at, ID: id, Restored: uint64(d.n(4)) + d.w.s.Index()/4}
	}
	return command.LinkReconciled{Stamp: at, ID: id, Since: l.Reconcile, Gone: d.instances(2), Done: d.chance(2)}
}

// unlink draws that a link is paused and written off, and made again.
func (d dice) unlink(at command.Stamp) command.Command {
	id := api.LinkID(one(d, append(someChildren, "up")))
	l, linked := d.w.s.Link(id)
	switch {
	case !linked && id == "up":
		return command.LinkPut{Stamp: at, Link: linkOf("up", api.LinkParent)}
	case !linked:
		return command.LinkPut{Stamp: at, Link: linkOf(string(id), api.LinkChild)}
	case l.State != api.LinkPaused && !d.chance(4):
		return command.LinkSet{Stamp: at, ID: id, State: new(api.LinkPaused)}
	case l.State == api.LinkPaused && d.chance(4):
		return command.LinkSet{Stamp: at, ID: id, State: new(api.LinkActive)}
	}
	return command.LinkWriteOff{Stamp: at, ID: id, EndWork: d.chance(2)}
}

// operator draws what an operator says of hosts, aggregates and server groups.
func (d dice) operator(at command.Stamp) command.Command {
	id, host := one(d, someAggregates), api.HostID(one(d, someHosts))
	switch d.n(9) {
	case 8, 9:
		return d.webhook(at)
	case 0:
		reason := one(d, []string{"", "", "disk"})
		return command.HostSet{Stamp: at, ID: host, Maintenance: &reason}
	case 2:
		drain := one(d, []api.DrainPolicy{"", api.DrainWait, api.DrainMove, "never"})
		return command.HostSet{Stamp: at, ID: host, Drain: &drain, Overrides: map[string]string{"rack": one(d, []string{"", "1", "2"})}}
	case 3:
		a := api.Aggregate{ID: api.AggregateID(id), Name: one(d, []string{id, "n"}), Hosts: []api.HostID{host, api.HostID(one(d, someHosts))}}
		if d.chance(2) {
			a.Metadata = map[string]string{api.MetaAZ: one(d, []string{"az1", "az2"})}
		}
		return command.AggregatePut{Stamp: at, Aggregate: a, Replace: d.chance(2)}
	case 4:
		return command.AggregateDelete{Stamp: at, ID: api.AggregateID(id)}
	case 5:
		return command.ConfigSet{Stamp: at, Config: api.ZoneConfig{
			DefaultAZ: one(d, []string{"", "az1", "az3"}), Leases: api.LeaseRule{Cleaning: one(d, []time.Duration{0, 0, 5 * time.Millisecond})},
		}}
	case 6:
		id := one(d, someRules).ID
		if d.chance(2) { // few groups are there
			d.w.s.eachGroup("p", "", func(g *api.ServerGroup) bool {
				id = g.ID
				return false
			})
		}
		return command.GroupDelete{Stamp: at, Project: "p", ID: id}
	}
	rule := one(d, someRules)
	return command.GroupPut{Stamp: at, Group: api.ServerGroup{
		ID: rule.ID, Name: one(d, []string{string(rule.ID), "n"}), Project: "p", Policy: rule.Policy, Max: rule.Max,
	}}
}

// webhook draws a command about webhooks.
func (d dice) webhook(at command.Stamp) command.Command {
	name := one(d, []string{"a", "b", "c"})
	switch d.n(6) {
	case 0:
		return command.WebhookDelete{Stamp: at, Project: "p", Name: name}
	case 1:
		return command.WebhookResume{Stamp: at, Project: "p", Name: name}
	case 2, 3:
		return command.WebhookPut{Stamp: at, Webhook: api.Webhook{
			ID: api.WebhookID(one(d, []string{"w1", "w2"})), Name: name, Project: "p", URL: "https://example.org/", Secret: []byte{1},
		}}
	}
	told := api.EventID{Index: uint64(d.n(int(d.w.index))), Number: d.n(2), History: d.w.s.historyName()}
	t := api.WebhookTold{Project: "p", Name: name, ID: api.WebhookID(one(d, []string{"w1", "w2"})), Told: told}
	if d.chance(3) {
		t.Failed, t.Reason = true, one(d, []string{"", "it is away"})
	}
	if d.chance(30) {
		at.At += api.Instant(api.WebhookFailingMax.Milliseconds())
		d.w.now = at.At
	}
	return command.WebhooksTold{Stamp: at, Webhooks: []api.WebhookTold{t}}
}

func (d dice) changes(at command.Stamp) command.InstanceChanges {
	c := command.InstanceChanges{Stamp: at, Link: api.LinkID(one(d, someChildren))}
	if l, ok := d.w.s.Link(c.Link); ok {
		c.After = l.ChangesNext
	}
	if d.chance(8) {
		c.After++
	}
	index := c.After
	for _, id := range d.instances(6) {
		index += uint64(d.n(1))
		c.Items = append(c.Items, api.InstanceChange{ID: id, Status: one(d, someStatuses), Index: index + 1, Unreachable: one(d, []api.Instant{0, 0, 5, at.At, at.At + 1})})
	}
	c.Next = index + 1
	return c
}

// ruled draws from the commands that rules are about.
func (d dice) ruled() command.Command {
	at := d.stamp()
	if d.chance(8) {
		return d.ack(at, api.DecisionCommit)
	}
	if d.chance(12) {
		return command.HostsState{Stamp: at, State: api.HostUp, Hosts: []api.HostID{api.HostID(one(d, someHosts))}}
	}
	switch d.n(9) {
	case 0:
		c := create(at, one(d, someBoots), 4, d.n(2))
		c.Instances, c.Request = nil, d.request(c.Name)
		return c
	case 1, 2, 3, 4:
		return d.hold(at)
	case 5:
		return d.move(at)
	case 6:
		return bootDecide(at, one(d, someBoots), one(d, someDecisions))
	case 7:
		return command.InstanceDelete{Stamp: at, ID: api.InstanceID(one(d, someInstances))}
	case 8:
		h, p := d.part(func(h *Hold) bool { return h.State == api.HoldAsking })
		a := answer(string(p.Link))
		for _, i := range p.Instances {
			a.Held = append(a.Held, i.Spec.ID)
		}
		return command.HoldParts{Stamp: at, ID: h.ID, Origin: h.Origin, Answers: []command.PartAnswer{a}}
	}
	host := one(d, someHosts)
	var ids []string
	for _, i := range d.w.s.OnHost(api.HostID(host)) {
		ids = append(ids, string(i.ID))
	}
	return reports(at, "a1", host, one(d, []api.Status{api.StatusActive, api.StatusDeleted}), ids...)
}
