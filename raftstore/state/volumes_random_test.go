package state

import (
	"fmt"
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// firstOfVolumes returns what histories of volumes begin with: hosts with disks of their own, and
// a larger pool that two of them share.
func (d dice) firstOfVolumes() []command.Command {
	out := []command.Command{initial()}
	for _, l := range []api.Link{linkOf("up", api.LinkParent), linkOf("c1", api.LinkChild), linkOf("c2", api.LinkChild)} {
		out = append(out, command.LinkPut{Stamp: d.w.stamp(), Link: l})
	}
	for _, id := range someHosts {
		c := hostPut(d.w.stamp(), "a1", id, 40)
		if id != "h1" {
			c.Hosts[0].Host.Inventory["CUSTOM_SSD"] = api.Inventory{Total: 20}
		}
		out = append(out, c)
	}
	return append(out,
		d.w.aggregate(aggregate(uuid(1), "", "h1", "h2"), false),
		providerCreate(d.w.stamp(), "p1", ""), d.w.have("p1", inventory{api.DiskGB: {Total: 40}}),
		d.w.traits("p1", api.TraitShares), d.w.aggregates("p1", uuid(1)),
	)
}

// volumeRequest draws a request of a group of instances and one of volumes.
func (d dice) volumeRequest(res string) api.Request {
	r := request(res, 4)
	servers, volumes := r.Groups[0], api.Group{Name: "data", Count: 4, Volume: api.VolumeTypeDefault}
	servers.Name = "web"
	if d.chance(2) {
		servers.ExtraSpecs = map[string]string{api.SpecEvacuate: "true"}
	}
	volumes.Resources = api.Resources{one(d, []api.ResourceClass{api.DiskGB, api.DiskGB, "CUSTOM_SSD"}): int64(1 + d.n(4))}
	r.Groups = []api.Group{servers, volumes}
	if d.chance(3) {
		r.Groups[1].AttachTo = "web"
	}
	if r.Reservation == "r2" {
		r.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}}}
	}
	if r.Groups[1].AttachTo != "" && d.w.index%3 > 0 {
		r.Rules = append(r.Rules, api.Rule{Policy: api.Affinity, Groups: []int{0, 1}, Pairs: true})
	}
	r.Zones.Pack = true
	return r
}

// volumeHold draws a hold of instances and volumes, mostly on one host.
func (d dice) volumeHold(at command.Stamp) command.Hold {
	host, id := one(d, someHosts), fmt.Sprint("k", d.w.index)
	var sl []command.Slot
	for n := range 1 + d.n(4) {
		if d.chance(4) {
			host = one(d, someHosts)
		}
		sl = append(sl, slots(host, fmt.Sprintf("%s-%d", id, n))...)
		sl[n].Group = d.n(1)
	}
	var parts []command.Part
	if d.chance(5) {
		p := part(one(d, someChildren), fmt.Sprint(id, "-a"))
		p.Instances = append(p.Instances, specs(fmt.Sprint(id, "-b")))
		parts = append(parts, p)
	}
	c := hold(at, id, "", sl, parts...)
	c.Request, c.Commit = d.volumeRequest(one(d, someBoots)), !d.chance(4)
	if d.chance(3) {
		c.Origin = "up"
	}
	return c
}

// some draws an instance or a volume of the zone, or one that is not there.
func (d dice) some(volume bool) *api.Instance {
	all := d.w.s.InstancesPage(InstanceQuery{Volumes: volume, Page: Page{Limit: 99}})
	if len(all) == 0 || d.chance(12) {
		i := api.NewInstance(&api.InstanceTerms{}, api.InstanceSpec{ID: "nobody"}, "")
		i.Host = api.HostID(one(d, someHosts))
		return i
	}
	return one(d, all)
}

// attach draws an attachment, mostly of a volume and an instance of one host and one owner.
func (d dice) attach(at command.Stamp) command.Command {
	vol, to := d.some(true), d.some(false)
	if !d.chance(3) {
		near := slices.DeleteFunc(d.w.s.OnHost(vol.Host), func(i *api.Instance) bool { return i.Volume != "" || i.Tenant() != vol.Tenant() })
		if len(near) > 0 {
			to = one(d, near)
		}
	}
	return command.VolumeAttach{Stamp: at, Volume: vol.ID, Instance: to.ID}
}

// volume draws from the commands that volumes are about.
func (d dice) volume() command.Command {
	at := d.stamp()
	switch d.n(17) {
	case 0:
		c := create(at, one(d, someBoots), 4, d.n(2))
		c.Instances, c.Request = nil, d.volumeRequest(c.Name)
		return c
	case 1, 2, 3:
		return d.volumeHold(at)
	case 4:
		return bootDecide(at, one(d, someBoots), one(d, someDecisions))
	case 5, 6, 7, 8:
		return d.attach(at)
	case 9:
		vol := d.some(true)
		return command.VolumeDetach{Stamp: at, Volume: vol.ID, Instance: one(d, []api.InstanceID{"", vol.Attached, d.some(false).ID})}
	case 10:
		return command.InstanceDelete{Stamp: at, ID: d.some(d.chance(2)).ID}
	case 11:
		return d.volumeChanges(at)
	case 12:
		return d.move(at)
	case 13:
		h, p := d.part(func(h *Hold) bool { return h.State == api.HoldAsking })
		a := answer(string(p.Link))
		for _, i := range p.Instances {
			a.Held = append(a.Held, i.Spec.ID)
		}
		return command.HoldParts{Stamp: at, ID: h.ID, Origin: h.Origin, Answers: []command.PartAnswer{a}}
	case 14:
		return command.BootRelease{Stamp: at, Project: "p", Reservation: api.ReservationID(one(d, someBoots))}
	}
	host := one(d, someHosts)
	c := command.InstanceReport{Stamp: at, Agent: "a1"}
	for _, i := range d.w.s.OnHost(api.HostID(host)) {
		st := api.StatusActive
		if i.Status == api.StatusDeleting || i.Target != "" {
			st = api.StatusDeleted
		}
		if d.chance(20) {
			st = one(d, someStatuses)
		}
		c.Items = append(c.Items, api.InstanceReport{Host: i.Host, Instance: i.ID, Status: st})
	}
	return c
}

// volumeChanges draws what a child reports of the attachments of its volumes.
func (d dice) volumeChanges(at command.Stamp) command.InstanceChanges {
	c := command.InstanceChanges{Stamp: at, Link: api.LinkID(one(d, someChildren))}
	l, _ := d.w.s.Link(c.Link)
	c.After, c.Next = l.ChangesNext, l.ChangesNext
	for _, volumes := range []bool{false, true} {
		for _, i := range d.w.s.InstancesPage(InstanceQuery{Volumes: volumes, Page: Page{Limit: 99}}) {
			if i.Link == c.Link {
				c.Next++
				c.Items = append(c.Items, api.InstanceChange{ID: i.ID, Status: one(d, someStatuses[:4]), Index: c.Next, Attached: one(d, []api.InstanceID{"", "i1", "-bad-"})})
			}
		}
	}
	return c
}
