package model

import (
	"fmt"
	"maps"
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// Item is something of which a project may have only so much: leases, hosts, or for families with
// a class after a point the sum of that class.
type Item string

// Limits is the most that a project may have of each item; less than 0 is no limit.
type Limits map[Item]int64

const (
	leases       Item = "leases"
	hosts        Item = "hosts"        // whole ones that are reserved
	reserved     Item = "reserved"     // slots that are reserved
	instances    Item = "instances"    // firm ones
	preemptibles Item = "preemptibles" // instances
	volumes      Item = "volumes"

	boots        Item = "boots"   // that are not decided
	records      Item = "records" // of boots, decided or not
	data         Item = "data"    // bytes that these have of their callers
	serverGroups Item = "server_groups"
)

// keptLimits are the limits of what a zone keeps for a project, where neither has any. Entries of
// before api.FormFifth know no such limits.
var keptLimits = Limits{boots: 1000, records: 100_000, data: 64 << 20, serverGroups: 1000}

// setLimits changes the limits of a project, or for "" those of all that have none of their own.
func (m *Model) setLimits(c command.QuotaSet) {
	now := maps.Clone(m.Limits[c.Project])
	if now == nil {
		now = Limits{}
	}
	for i, n := range c.Set {
		now[Item(i)] = n
	}
	for _, i := range c.Unset {
		delete(now, Item(i))
	}
	if m.Limits[c.Project] = now; len(now) == 0 {
		delete(m.Limits, c.Project)
	}
}

// limitOf returns the limit of a project for an item; false for none.
func (m *Model) limitOf(p api.ProjectID, i Item) (int64, bool) {
	kept, is := keptLimits[i]
	if is && m.form < api.FormFifth {
		return 0, false
	}
	n, own := m.Limits[p][i]
	if !own {
		n, own = m.Limits[""][i]
	}
	if !own {
		n, own = kept, is
	}
	return n, own && n >= 0
}

// Use is what something of a project counts over a window.
type Use struct {
	Window  api.Window
	Amounts map[Item]int64
}

// add adds a number of slots or instances, of a family of items.
func (u *Use) add(family Item, n int, each api.Resources) {
	u.Amounts[family] += int64(n)
	for class, amount := range each {
		u.Amounts[family+"."+Item(class)] += int64(n) * amount
	}
}

// useOfLease returns what a lease of these terms counts: nothing for maintenance.
func useOfLease(t *api.LeaseTerms) Use {
	u := Use{t.Window, map[Item]int64{}}
	if len(t.Hosts) > 0 {
		return u
	}
	u.Amounts[leases] = 1
	for _, r := range t.Reservations {
		if r.Type == api.ReserveHosts {
			u.add(hosts, r.Max, nil)
		} else {
			u.add(reserved, r.Max, r.Resources)
		}
	}
	return u
}

func familyOf(c api.Class, volume string) Item {
	if volume != "" {
		return volumes
	}
	if c == api.Preemptible {
		return preemptibles
	}
	return instances
}

// Uses returns all that counts for a project. A lease that is being updated counts with each of
// its terms, as one that has taken the place of the other.
func (m *Model) Uses(p api.ProjectID) (out [][]Use) {
	for _, l := range m.Leases {
		if l.Terms.Project != p {
			continue
		}
		var each []Use
		if l.Status != api.LeaseTerminated {
			each = append(each, useOfLease(&l.Terms))
		}
		if l.Next != nil {
			each = append(each, useOfLease(&l.Next.Terms))
		}
		out = append(out, each)
	}
	for _, b := range m.Boots {
		if b.Request.Project != p {
			continue
		}
		u := useOfRecord(b.Data)
		if b.Decision == api.DecisionPending {
			addBoot(&u, &b.Request)
		}
		out = append(out, []Use{u})
	}
	for id := range m.Groups {
		if id.Project == p {
			out = append(out, []Use{useOfGroup()})
		}
	}
	for id, i := range m.Instances {
		if r := &i.Hold.Request; r.Project == p && i.Hold.ID.Origin == "" && i.Live() && counts(r, i.Group) {
			u := Use{api.Window{End: i.Hold.EndOf(i.Group)}, map[Item]int64{}}
			if c := m.Claims[id]; c != nil {
				u.Window.End = c.Until() // in a slot that is lent it ends with that
			}
			u.add(familyOf(r.Class, i.Volume()), 1, r.Groups[i.Group].Resources)
			out = append(out, []Use{u})
		}
	}
	return out
}

// counts reports whether the instances of a group count: not within leases, and slots of leases count with them.
func counts(r *api.Request, group int) bool {
	return !r.Reserves && (r.Within == "" || r.Groups[group].Volume != "")
}

// countsSome reports whether something of a request counts.
func countsSome(r *api.Request) bool {
	for g := range r.Groups {
		if counts(r, g) {
			return true
		}
	}
	return false
}

// useOfRecord returns what the record of a boot counts, with what it has of its caller.
func useOfRecord(bytes int64) Use {
	return Use{api.Window{End: api.Forever}, map[Item]int64{records: 1, data: bytes}}
}

func useOfGroup() Use {
	return Use{api.Window{End: api.Forever}, map[Item]int64{serverGroups: 1}}
}

// addBoot adds what a boot counts that is not decided.
func addBoot(u *Use, r *api.Request) {
	u.Amounts[boots]++
	for n, g := range r.Groups {
		if counts(r, n) {
			u.add(familyOf(r.Class, g.Volume), g.Count, g.Resources)
		}
	}
}

// DataOf returns the bytes that a boot has of its caller: metadata, and the names and ids of its instances.
func DataOf(t *command.BootTerms) (n int64) {
	for k, v := range t.Metadata {
		n += int64(len(k + v))
	}
	for _, i := range t.Instances {
		n += int64(len(i.ID)) + int64(len(i.Name))
	}
	return n
}

// UsedAt returns what a project has at an instant: of the terms of one lease, the greater.
func UsedAt(uses [][]Use, at api.Instant) map[Item]int64 {
	out := map[Item]int64{}
	for _, each := range uses {
		most := map[Item]int64{}
		for _, u := range each {
			if u.Window.Contains(at) {
				for i, n := range u.Amounts {
					most[i] = max(most[i], n)
				}
			}
		}
		for i, n := range most {
			if n > 0 {
				out[i] += n
			}
		}
	}
	return out
}

// checkQuota returns why a project may not have what it asks for, in place of what it has
// (nil for nothing): at some instant from now on it would have more than it may, and more than now.
func (m *Model) checkQuota(p api.ProjectID, has *api.LeaseTerms, ask Use) *Refusal {
	if len(m.Limits[p])+len(m.Limits[""]) == 0 && m.form < api.FormFifth {
		return nil
	}
	var old Use
	if has != nil {
		old = useOfLease(has)
	}
	uses := m.Uses(p)
	from := max(m.Now, ask.Window.Start)
	for _, at := range append(Instants(uses, from), max(from, old.Window.End)) {
		if !ask.Window.Contains(at) {
			continue
		}
		now := UsedAt(uses, at)
		for i, n := range ask.Amounts {
			had := int64(0)
			if old.Window.Contains(at) {
				had = old.Amounts[i]
			}
			if most, limited := m.limitOf(p, i); limited && n > had && now[i]-had+n > most {
				return &Refusal{promise.Quota, fmt.Sprintf("project %s would have %d of %s at %d, and may have %d", p, now[i]-had+n, i, at, most)}
			}
		}
	}
	return nil
}

// Instants returns an instant, and all after it at which something of a project begins or ends.
func Instants(uses [][]Use, from api.Instant) []api.Instant {
	out := []api.Instant{from}
	for _, each := range uses {
		for _, u := range each {
			out = append(out, max(from, u.Window.Start), max(from, u.Window.End))
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(at api.Instant) bool { return at == api.Forever })
}

// checkBootQuota is checkQuota for boots of one project that are made together, of which only the
// first may have instances that count.
func (m *Model) checkBootQuota(all ...*command.BootTerms) *Refusal {
	if len(all) == 0 {
		return nil
	}
	r := &all[0].Request
	ask := Use{api.Window{Start: m.Now, End: api.Forever}, map[Item]int64{}}
	if countsSome(r) {
		ask.Window = r.WindowAt(m.Now)
	}
	for _, t := range all {
		addBoot(&ask, &t.Request)
		ask.Amounts[records]++
		ask.Amounts[data] += DataOf(t)
	}
	return m.checkQuota(r.Project, nil, ask)
}
