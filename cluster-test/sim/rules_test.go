package sim

import (
	"cmp"
	"fmt"

	"berth/api"
	"berth/raftstore/state"
)

// spot is where one member of a rule is: a host of a zone, or a child of it.
type spot struct {
	host api.HostID
	link api.LinkID
}

// members are who is bound by one rule, by spot. What moves counts where it goes.
type members struct {
	rule api.Rule
	at   map[spot]int
}

// checkRules holds that the rules of boots hold between own hosts and children,
// for what is held and for what runs.
func (z *zone) checkRules(v *state.State) {
	for key, m := range bound(v) {
		own := 0
		for at, n := range m.at {
			if at.host == "" {
				continue
			}
			own++
			if m.rule.Policy == api.AntiAffinity && n > m.rule.Max {
				z.w.fail("zone %s, index %d: rule %s: %d members on host %s, and %d may be", z.name, v.Index(), key, n, at.host, m.rule.Max)
			}
		}
		if m.rule.Policy == api.Affinity && len(m.at) > 1 {
			z.w.fail("zone %s, index %d: rule %s: members must be together, and are on %d hosts and in %d children",
				z.name, v.Index(), key, own, len(m.at)-own)
		}
	}
	for _, i := range all(v) {
		at := cmp.Or(i.Target, i.Host)
		if i.Live() && at != "" && len(i.Volumes) > 0 && !v.ReachesVolumes(at, i) {
			z.w.fail("zone %s, index %d: instance %s on host %s does not reach its volumes", z.name, v.Index(), i.ID, at)
		}
	}
}

// bound returns the members of every rule in a zone, by its name there. Volumes that are made with instances are beside them
// while they are held; from then on attachments keep them, and what is detached may leave.
func bound(v *state.State) map[string]members {
	out := map[string]members{}
	add := func(r *api.Request, group int, at spot, held bool) {
		for _, n := range r.RulesOf(group) {
			key := r.RuleKey(n)
			if !held && r.Attaches(n) {
				continue
			}
			if out[key].at == nil {
				out[key] = members{r.Rules[n], map[spot]int{}}
			}
			out[key].at[at]++
		}
	}
	groups := map[string]int{}
	for _, h := range v.Holds() {
		waits := h.Decision == api.DecisionPending
		for _, s := range h.Slots {
			groups[fmt.Sprint(h.Origin, h.ID, s.Instance.ID)] = s.Group
			if waits {
				add(&h.Request, s.Group, spot{host: s.Host}, true)
			}
		}
		for _, p := range h.Parts {
			for _, i := range p.Instances {
				groups[fmt.Sprint(h.Origin, h.ID, i.Spec.ID)] = i.Group
				if waits {
					add(&h.Request, i.Group, spot{link: p.Link}, true)
				}
			}
		}
	}
	for _, i := range all(v) {
		h, ok := v.Hold(i.Origin, i.Hold)
		if !i.Live() || !ok {
			continue
		}
		at := spot{i.Host, i.Link}
		if i.Target != "" {
			at.host = i.Target
		}
		add(&h.Request, groups[fmt.Sprint(h.Origin, h.ID, i.ID)], at, false)
	}
	return out
}

// checkTogether holds over all zones below that what must be together is on one
// host, and that nothing is in a zone where the request did not allow it. The
// federation is at rest.
func (z *zone) checkTogether(v *state.State) {
	places := z.w.books.places()
	for key, m := range bound(v) {
		if m.rule.Policy != api.Affinity {
			continue
		}
		hosts := map[api.HostID]bool{}
		for _, i := range all(v) {
			if at, ok := places[i.ID]; ok && i.Origin == "" && bindsTo(i, key) {
				hosts[at] = true
			}
		}
		if len(hosts) > 1 {
			z.w.fail("zone %s: rule %s: members must be together, and run on %d hosts", z.name, key, len(hosts))
		}
	}
	for _, i := range all(v) {
		b, ok := v.Boot(i.Project, i.Reservation)
		if i.Origin != "" || !i.Live() || !ok {
			continue
		}
		in := z.name
		if i.Link != "" {
			l, _ := v.Link(i.Link)
			in = l.Name
		}
		for _, out := range b.Request.Zones.Excluded {
			if in == out {
				z.w.fail("zone %s: instance %s is in zone %s, which its boot excludes", z.name, i.ID, in)
			}
		}
	}
}

func bindsTo(i *api.Instance, key string) bool {
	for _, r := range i.Rules {
		if r == key {
			return true
		}
	}
	return false
}
