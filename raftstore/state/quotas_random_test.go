package state

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	draws "berth/internal/dice"
	"berth/quota"
	"berth/raftstore/command"
)

// slowUsage is what a project has at an instant, from the records alone.
func slowUsage(s *State, p api.ProjectID, at api.Instant) quota.Amounts {
	out := quota.Amounts{}
	for _, l := range s.Leases(p) {
		was, becomes := quota.Amounts{}, quota.Amounts{}
		if l.Status != api.LeaseTerminated {
			slowTerms(was, &l.Terms, at)
		}
		if l.Next != nil {
			slowTerms(becomes, &l.Next.Terms, at)
		}
		for i := range was {
			out[i] += max(was[i], becomes[i])
			delete(becomes, i)
		}
		for i, n := range becomes {
			out[i] += n
		}
	}
	slowKept(out, s, p)
	for _, b := range s.boots.Values() {
		if r := &b.Request; r.Project == p && b.Decision == api.DecisionPending && !r.Reserves {
			for g := range r.Groups {
				if r.Within == "" || r.Groups[g].Volume != "" {
					slowInstances(out, r.Class, r.Groups[g].Volume, r.Groups[g].Resources, r.Groups[g].Count)
				}
			}
		}
	}
	for _, i := range s.instances.Values() {
		b, made := s.Boot(i.Project, i.Reservation)
		if i.Project == p && i.Origin == "" && made && !b.Request.Reserves && (b.Request.Within == "" || i.Volume != "") && i.Status != api.StatusDeleted && at < i.Window.End {
			slowInstances(out, i.Class, i.Volume, i.Resources, 1)
		}
	}
	for i, n := range out {
		if n == 0 {
			delete(out, i)
		}
	}
	return out
}

// slowKept adds what is kept for a project.
func slowKept(out quota.Amounts, s *State, p api.ProjectID) {
	for _, b := range s.boots.Values() {
		if b.Request.Project != p {
			continue
		}
		out["records"]++
		if b.Decision == api.DecisionPending {
			out["boots"]++
		}
		for _, i := range b.Instances {
			out["data"] += int64(len(string(i.ID) + i.Name))
		}
		for k, v := range b.Metadata {
			out["data"] += int64(len(k + v))
		}
	}
	for _, g := range s.groups.Values() {
		if g.Project == p {
			out["server_groups"]++
		}
	}
}

func slowTerms(out quota.Amounts, t *api.LeaseTerms, at api.Instant) {
	if !t.Window.Contains(at) {
		return
	}
	out["leases"]++
	for _, r := range t.Reservations {
		if r.Type == api.ReserveHosts {
			out["hosts"] += int64(r.Max)
			continue
		}
		out["reserved"] += int64(r.Max)
		for class, n := range r.Resources {
			out["reserved."+quota.Item(class)] += int64(r.Max) * n
		}
	}
}

func slowInstances(out quota.Amounts, c api.Class, volume string, each api.Resources, n int) {
	family := quota.Item("instances")
	if c == api.Preemptible {
		family = "preemptibles"
	}
	if volume != "" {
		family = "volumes"
	}
	out[family] += int64(n)
	for class, amount := range each {
		out[family+"."+quota.Item(class)] += int64(n) * amount
	}
}

// instantsOf returns the instants from now on at which the use of anything may change, and now.
func instantsOf(s *State) []api.Instant {
	out := []api.Instant{s.now}
	add := func(all ...api.Instant) {
		for _, at := range all {
			if at > s.now && at < api.Forever {
				out = append(out, at-1, at)
			}
		}
	}
	for _, l := range s.Leases("") {
		add(l.Terms.Window.Start, l.Terms.Window.End)
		if l.Next != nil {
			add(l.Next.Terms.Window.Start, l.Next.Terms.Window.End)
		}
	}
	for _, i := range s.instances.Values() {
		add(i.Window.End)
	}
	return out
}

// checkUsage compares what each project has, at every instant from now on, with its records.
func checkUsage(tb require.TestingT, s *State) {
	projects := map[api.ProjectID]bool{}
	for _, l := range s.Leases("") {
		projects[l.Terms.Project] = true
	}
	for _, b := range s.boots.Values() {
		projects[b.Request.Project] = true
	}
	for _, g := range s.groups.Values() {
		projects[g.Project] = true
	}
	for _, p := range s.usage.Keys() {
		projects[api.ProjectID(p)] = true
	}
	for p := range projects {
		u := s.Usage(p)
		for _, at := range instantsOf(s) {
			require.Equal(tb, slowUsage(s, p, at), u.At(at), "project %s at %d", p, at)
		}
	}
}

// quotaDice draws leases and boots of a project with limits.
type quotaDice struct {
	leaseDice
	limits quota.Limits
}

// ordinary draws a boot outside leases.
func (d *quotaDice) ordinary(at command.Stamp) command.Command {
	d.made++
	c := create(at, fmt.Sprintf("n%d", d.made), 1+d.n(3), 1)
	c.Instances = nil
	if d.chance(3) {
		c.Metadata = map[string]string{"k": one(d.dice, []string{"", "a", "abcdefgh"})}
		c.Instances = []api.InstanceSpec{{ID: api.InstanceID(fmt.Sprintf("n%d-i", d.made)), Name: "name"}}
	}
	if d.chance(3) {
		c.Request.Class = api.Preemptible
	}
	if d.chance(2) {
		c.Request.Window.End = at.At + 5 + api.Instant(d.n(40))
	}
	return c
}

// place draws a hold of some of the slots of a boot outside leases, at most all, once.
func (d *quotaDice) place(at command.Stamp) (command.Command, bool) {
	for _, b := range d.w.s.UndecidedBoots() {
		if b.Request.Reserves || b.Request.Within != "" || len(b.Holds) > 0 {
			continue
		}
		d.made++
		n := 1 + d.n(b.Request.Count()-1)
		c := hold(at, fmt.Sprintf("n-k%d", d.made), "", slots(one(d.dice, leasedHosts), numbered(fmt.Sprintf("n%d-", d.made), n)...))
		c.Request, c.Commit = b.Request, d.chance(2)
		return c, true
	}
	return d.ordinary(at), true
}

// group draws a server group, or the end of one.
func (d *quotaDice) group(at command.Stamp) command.Command {
	id := api.ServerGroupID(fmt.Sprint("g", d.n(6)))
	if d.chance(2) {
		return command.GroupDelete{Stamp: at, Project: "p", ID: id}
	}
	return command.GroupPut{Stamp: at, Group: api.ServerGroup{Project: "p", ID: id, Name: string(id), Policy: api.AntiAffinity}}
}

// forget draws a prune of some of what has ended.
func (d *quotaDice) forget(at command.Stamp) command.Command {
	return command.Prune{Stamp: at, Before: at.At - api.Instant(d.n(3)), BeforeAbroad: at.At, Limit: 1 + d.n(9)}
}

func (d *quotaDice) next() (command.Command, bool) {
	var c command.Command
	var ok bool
	switch d.n(17) {
	case 15:
		return d.group(d.w.stamp()), true
	case 16:
		return d.forget(d.w.stamp()), true
	case 0, 1:
		return d.ordinary(d.w.stamp()), true
	case 2, 3, 4:
		return d.place(d.w.stamp())
	case 5, 6, 7:
		c, ok = d.hold(d.w.stamp())
	case 8:
		c, ok = d.update(d.w.stamp())
	default:
		c, ok = d.leaseDice.next()
	}
	if !ok {
		return nil, false
	}
	if c, is := c.(command.Hold); is {
		if c.Origin == "" && !c.Request.Reserves && c.Request.Within == "" {
			return nil, false // place draws those
		}
		c.Commit = c.Commit || c.Origin == "" && !d.chance(3)
		return c, true
	}
	return c, ok
}

// checkRefusal holds that a command was refused because of a quota only if it is over one.
func (d *quotaDice) checkRefusal(c command.Command, before *State) {
	s := loaded(d.rt, saved(d.rt, before))
	s.quotas.Delete("p")
	if r := s.Apply(before.index+1, c); r.Err != nil {
		return // it is refused for something else as well
	}
	require.True(d.rt, d.isOver(s), "%#v was refused and fits", c)
}

func (d *quotaDice) isOver(s *State) bool {
	for _, at := range instantsOf(s) {
		for i, n := range slowUsage(s, "p", at) {
			if most, limited := d.limits[i]; limited && n > most {
				return true
			}
		}
	}
	return false
}

// TestQuotaHistories plays random lives of leases and boots of a project with limits: it is never over one of
// them, at any instant, and is refused only what would be. The usage never drifts from the records.
func TestQuotaHistories(t *testing.T) {
	seen := map[string]int{}
	play := func(rt *rapid.T) {
		w := &world{tb: rt, s: New(), now: start, form: api.FormNewest}
		w.ok(initial())
		w.ok(command.LinkPut{Stamp: w.stamp(), Link: linkOf("up", api.LinkParent)})
		for _, h := range leasedHosts {
			w.host(h, 4)
		}
		d := &quotaDice{leaseDice: leaseDice{dice: dice{rt: rt, w: w}, seen: seen}}
		d.limits = quota.Limits{
			quota.Leases: int64(2 + d.n(2)), quota.Hosts: int64(1 + d.n(1)), quota.Reserved: int64(2 + d.n(2)), quota.Reserved.Of(api.VCPU): int64(2 + d.n(2)),
			quota.Instances: int64(2 + d.n(2)), quota.Preemptibles.Of(api.VCPU): int64(2 + d.n(2)),
			quota.ServerGroups: int64(1 + d.n(2)),
		}
		for i, most := range map[quota.Item]int64{ // else all is refused because of them
			quota.Boots: int64(2 + d.n(3)), quota.Records: int64(5 + d.n(10)), quota.Data: int64(40 + d.n(120)),
		} {
			if d.chance(2) {
				d.limits[i] = most
			}
		}
		w.ok(command.QuotaSet{Stamp: w.stamp(), Project: "p", Set: d.limits})
		for range 120 {
			c, ok := d.next()
			if !ok {
				continue
			}
			before := w.s.Clone()
			r := w.do(c)
			d.note(c, r)
			if r.Err != nil {
				for _, i := range quota.Families() {
					if strings.Contains(r.Err.Error(), fmt.Sprintf("Quota exceeded for %s:", i)) {
						seen["over "+string(i)]++
					}
				}
			}
			if api.CodeOf(r.Err) == api.CodeOverQuota {
				d.checkRefusal(c, before)
			}
			require.False(rt, d.isOver(w.s), "over a limit after %#v", c)
			checkUsage(rt, w.s)
		}
		d.finish()
	}
	draws.Enough(t, func() { rapid.Check(t, play) }, func() string {
		if testing.Short() {
			return ""
		}
		return draws.Rare(seen, 1,
			"LeaseCreate ok", "LeaseCreate over_quota", "LeaseSet ok", "LeaseSet over_quota", "BootCreate ok", "BootCreate over_quota", "Hold ok",
			"BootDecide ok", "LeaseDelete ok", "InstanceReport ok", "lease UPDATING", "lease TERMINATED",
			"GroupPut ok", "GroupPut over_quota", "GroupDelete ok", "Prune ok", "over boots", "over records", "over data", "over server_groups")
	})
}
