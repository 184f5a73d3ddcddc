package state

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/raftstore/command"
)

// member is one instance or held slot under a rule, as the lists have it. Its place
// is the id of a host, or "link " and the id of a link.
type member struct {
	rule  api.Rule
	place string
}

// memberOf names a rule of this zone, or of a parent.
type memberOf struct {
	origin api.LinkID
	rule   string
}

// members returns who is under each rule. One that moves is there twice.
func (m *model) members() map[memberOf][]member {
	out := map[memberOf][]member{}
	add := func(h *modelHold, group int, place string) {
		for n, rule := range h.request.Rules {
			if slices.Contains(rule.Groups, group) {
				k := memberOf{h.origin, h.request.RuleKey(n)}
				out[k] = append(out[k], member{rule, place})
			}
		}
	}
	for _, h := range m.holds {
		if h.decision != api.DecisionPending {
			continue
		}
		for _, sl := range h.own {
			add(h, sl.Group, string(sl.Host))
		}
		for _, p := range h.parts {
			for _, id := range p.ids {
				add(h, h.groups[id], "link "+string(p.link))
			}
		}
	}
	for _, i := range m.instances {
		switch {
		case i.status == api.StatusDeleted:
		case i.host == "":
			add(i.hold, i.group, "link "+string(i.link))
		default:
			add(i.hold, i.group, string(i.host))
			if i.target != "" {
				add(i.hold, i.group, string(i.target))
			}
		}
	}
	return out
}

// obeys reports whether one more of a group may be at a place; but is an instance
// that does not count where it is.
func (m *model) obeys(h *modelHold, group int, place string, but *modelInstance) bool {
	all := m.members()
	for n, rule := range h.request.Rules {
		if !slices.Contains(rule.Groups, group) {
			continue
		}
		places, left := map[string]int{}, 0
		for _, o := range all[memberOf{h.origin, h.request.RuleKey(n)}] {
			if but != nil && o.place == string(but.host) && left == 0 {
				left++
				continue
			}
			places[o.place]++
		}
		here := places[place]
		delete(places, place)
		if rule.Policy == api.Affinity && len(places) > 0 {
			return false
		}
		if rule.Policy == api.AntiAffinity && here >= rule.Max && !strings.HasPrefix(place, "link ") {
			return false
		}
	}
	return true
}

// move folds in a move that was accepted, which must be one that is allowed.
func (m *model) move(c command.InstanceMove) {
	i := m.instances[c.ID]
	if i.host == c.To {
		return
	}
	require.Equal(m.rt, c.From, i.host)
	require.NotEqual(m.rt, api.StatusDeleting, i.status)
	if c.Evacuate {
		require.False(m.rt, m.hosts[i.host].serving[0], "the host is up")
		require.NotEmpty(m.rt, i.hold.request.Groups[i.group].ExtraSpecs)
	}
	if i.target == "" {
		from, fits := m.fitsBeside(c.ID, i, c.To)
		require.True(m.rt, fits, "%s does not take it", c.To)
		require.True(m.rt, m.obeys(i.hold, i.group, string(c.To), i), "a rule keeps it from %s", c.To)
		i.target, i.toFrom = c.To, from
	}
	require.Equal(m.rt, c.To, i.target)
	if c.Evacuate {
		i.host, i.from, i.target, i.status = c.To, i.toFrom, "", api.StatusBuild
	}
}

// held returns what a boot holds: for each group, by place.
func (m *model) held(boot api.ReservationID) []map[api.LinkID]int {
	out := []map[api.LinkID]int{{}, {}}
	for _, h := range m.holdsOf(boot) {
		if h.decision != api.DecisionPending || !h.complete() {
			continue
		}
		for _, sl := range h.own {
			out[sl.Group][""]++
		}
		for _, p := range h.parts {
			for _, id := range p.ids {
				out[h.groups[id]][p.link]++
			}
		}
	}
	return out
}

// suffices reports whether a boot may be committed.
func (m *model) suffices(boot api.ReservationID) bool {
	b, held, total, zones := m.boots[boot], m.held(boot), 0, map[api.LinkID]bool{}
	for g, at := range held {
		n := 0
		for link, k := range at {
			zones[link] = true
			n += k
		}
		if n < b.request.Groups[g].Min {
			return false
		}
		total += n
	}
	z := b.request.Zones
	for g, at := range held {
		together := false
		for _, r := range b.request.Rules {
			together = together || r.Policy == api.Affinity && slices.Contains(r.Groups, g)
		}
		var counts []int
		for link := range zones {
			counts = append(counts, at[link])
		}
		if z.MaxSkew > 0 && !together && len(counts) > 1 && slices.Max(counts)-slices.Min(counts) > z.MaxSkew {
			return false
		}
	}
	return total >= b.least && len(zones) >= z.MinZones && (!z.Pack || len(zones) <= 1)
}

// checkRules looks for broken rules in the lists, and compares what readers see of
// members with them.
func (m *model) checkRules(v *State) {
	all := m.members()
	keys := slices.Collect(maps.Keys(all))
	for _, origin := range []api.LinkID{"", "up"} {
		for _, rule := range []string{"together", "r1#0", "nobody"} {
			keys = append(keys, memberOf{origin, rule})
		}
	}
	for _, k := range keys {
		hosts, links, places := map[api.HostID]int{}, map[api.LinkID]int{}, map[string]int{}
		var policy api.Policy
		for _, one := range all[k] {
			places[one.place]++
			policy = one.rule.Policy
			if link, is := strings.CutPrefix(one.place, "link "); is {
				links[api.LinkID(link)]++
				continue
			}
			hosts[api.HostID(one.place)]++
			require.True(m.rt, policy != api.AntiAffinity || places[one.place] <= one.rule.Max, "too many of %s on %s", k, one.place)
		}
		if policy == api.Affinity {
			moving := slices.ContainsFunc(slices.Collect(maps.Values(m.instances)), func(i *modelInstance) bool {
				return i.target != "" && places[string(i.host)] == 1 && places[string(i.target)] == 1
			})
			require.True(m.rt, len(places) == 1 || len(all[k]) == 2 && moving, "%s is in %v", k, places)
		}
		gotHosts, gotLinks := v.Members(api.Tenant{Origin: k.origin, Project: "p"}, k.rule)
		require.Equal(m.rt, hosts, gotHosts, "members of %s", k)
		require.Equal(m.rt, links, gotLinks, "members of %s", k)
	}
	tenants := map[api.LinkID]map[api.HostID]int{"": {}, "up": {}}
	for _, h := range m.holds {
		if h.decision == api.DecisionPending {
			for _, sl := range h.own {
				tenants[h.origin][sl.Host]++
			}
		}
	}
	for id, i := range m.instances {
		live := i.status != api.StatusDeleted
		for _, on := range []api.HostID{i.host, i.target} {
			if on != "" && live {
				tenants[i.hold.origin][on]++
			}
		}
		owner, other := api.Tenant{Origin: "", Project: "p"}, api.Tenant{Origin: "up", Project: "p"}
		if i.hold.origin != "" {
			owner, other = other, owner
		}
		host, here := v.HostOf(owner, id)
		require.Equal(m.rt, live && i.host != "", here)
		link, isHere, known := v.PlaceOf(owner, id)
		require.Equal(m.rt, live, known)
		if live {
			require.Equal(m.rt, i.host, host)
			require.Equal(m.rt, i.link, link)
			require.Equal(m.rt, i.host != "", isHere)
		}
		_, here = v.HostOf(other, id)
		_, _, known = v.PlaceOf(other, id)
		require.False(m.rt, here || known, "%s is of another tenant", id)
	}
	for origin, want := range tenants {
		require.Equal(m.rt, want, maps.Collect(v.Tenancy(api.Tenant{Origin: origin, Project: "p"})))
	}
	for id, b := range m.boots {
		got, _ := v.Boot("p", id)
		require.Equal(m.rt, m.held(id), v.HeldSlots(got), "what %s holds", id)
		require.Equal(m.rt, m.suffices(id), v.Lacks(got) == "", "%s of %+v", v.Lacks(got), b)
	}
	m.checkEnds(v)
}

// checkEnds compares what is known to end with the lists.
func (m *model) checkEnds(v *State) {
	next := api.Forever
	over := m.listed(func(i *modelInstance) bool {
		ends := i.host != "" && i.status != api.StatusDeleting && i.hold.end != api.Forever
		if ends && i.status != api.StatusDeleted {
			next = min(next, i.hold.end)
		}
		return ends && i.hold.end <= m.now
	})
	got := idsOf(v.Expired(m.now))
	slices.Sort(got)
	require.Equal(m.rt, over, got, "whose window is over")
	require.Equal(m.rt, next, v.NextExpiry())
}

// TestRules plays random histories in which holds under rules meet.
func TestRules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := newDice(rt)
		m := newModel(d)
		for range 1 + d.n(100) {
			c := d.ruled()
			if r := d.w.do(c); r.Err == nil {
				m.apply(d.w, c, r)
			}
			m.check(d.w.s)
		}
		checkIndexes(rt, d.w.s)
	})
}

// ruled draws from the commands that rules are about.
func (d dice) ruled() command.Command {
	at := d.stamp()
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
