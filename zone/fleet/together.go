package fleet

import (
	"slices"
	"strings"

	"berth/api"
	"berth/raftstore/state"
)

// groupLeaving returns what is to leave its host in groups of those that can only leave together, in
// the order of their first. A group is left out if one of its members is not in all: the others stay with it.
func groupLeaving(v *state.State, all []*api.Instance) [][]*api.Instance {
	leaves := map[api.InstanceID]bool{}
	for _, i := range all {
		leaves[i.ID] = true
	}
	var out [][]*api.Instance
	for _, i := range all {
		if !leaves[i.ID] {
			continue // with an earlier one
		}
		group := together(v, i)
		if !slices.ContainsFunc(group, func(o *api.Instance) bool { return !leaves[o.ID] }) {
			out = append(out, group)
		}
		for _, o := range group {
			leaves[o.ID] = false
		}
	}
	return out
}

// together returns what can only leave its host together: an instance or slot, and then all other members
// there of its groups under affinity, and of theirs, by id.
func together(v *state.State, i *api.Instance) []*api.Instance {
	out, rules := []*api.Instance{i}, affinities(v, i)
	if len(rules) == 0 {
		return out
	}
	rest := map[*api.Instance][]string{}
	for _, o := range slices.Concat(v.SlotsOn(i.Host), v.OnHost(i.Host)) {
		if o.ID != i.ID && o.Live() && o.Tenant() == i.Tenant() {
			rest[o] = affinities(v, o)
		}
	}
	for more := true; more; {
		more = false
		for o, of := range rest { // in any order: sorted below
			if slices.ContainsFunc(of, func(r string) bool { return slices.Contains(rules, r) }) {
				out, rules, more = append(out, o), append(rules, of...), true
				delete(rest, o)
			}
		}
	}
	slices.SortFunc(out[1:], func(a, b *api.Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out
}

// affinities returns the keys of the hard rules of affinity that bind an instance or slot, without those that kept volumes
// beside it: see api.Request.Attaches.
func affinities(v *state.State, i *api.Instance) []string {
	if len(i.Rules) == 0 {
		return nil
	}
	h, ok := v.Hold(i.Origin, i.Hold)
	if !ok {
		return nil
	}
	var out []string
	for n := range h.Request.Rules {
		if k := h.Request.RuleKey(n); h.Request.Rules[n].Policy == api.Affinity && !h.Request.Attaches(n) && slices.Contains(i.Rules, k) {
			out = append(out, k)
		}
	}
	return out
}

// requestOf returns the request that would make a group now, reduced to it: the other groups of
// the requests stay, with a count of zero, so that rules can name them. All of it must be on one host.
func requestOf(v *state.State, group []*api.Instance) (api.Request, error) {
	var req api.Request
	var seen []*state.Hold
	for _, i := range group {
		h, ok := v.Hold(i.Origin, i.Hold)
		if !ok {
			return req, api.Errorf(api.CodeInternal, "the hold of instance %s is gone", i.ID)
		}
		if slices.Contains(seen, h) {
			continue
		}
		one := requestIn(h, i, group)
		if len(seen) == 0 {
			req = one
		} else {
			joinRequest(&req, &one)
		}
		seen = append(seen, h)
	}
	if len(seen) > 1 {
		one := api.Rule{Policy: api.Affinity}
		for g := range req.Groups {
			if req.Groups[g].Count > 0 {
				one.Groups = append(one.Groups, g)
			}
		}
		req.Rules = append(req.Rules, one)
	}
	return req, nil
}

// requestIn returns the part of requestOf that a hold has made; i is one of them.
func requestIn(h *state.Hold, i *api.Instance, group []*api.Instance) api.Request {
	req := h.Request
	req.Origin, req.Replaces = h.Origin, ""
	req.Groups, req.Rules = slices.Clone(req.Groups), slices.Clone(req.Rules)
	for g := range req.Groups {
		req.Groups[g].Count, req.Groups[g].Hints.ForceHosts = 0, nil
	}
	moves := map[api.InstanceID]bool{}
	var bound []string
	for _, o := range group {
		moves[o.ID] = true
		bound = append(bound, o.Rules...)
	}
	for n := range req.Rules {
		if !slices.Contains(bound, req.RuleKey(n)) {
			req.Rules[n].Groups = nil // it binds them no more, or never did
		}
	}
	for _, sl := range h.Slots {
		if g := &req.Groups[sl.Group]; moves[sl.Instance.ID] {
			g.Count++
			g.Min = g.Count
		}
	}
	for n := range req.Rules {
		if req.Attaches(n) {
			req.Rules[n].Groups = nil // the numbers of the others stay
		}
	}
	req.Window, req.Lifetime = i.Window, 0
	return req
}

// joinRequest adds the groups of another request of the same tenant, with the server groups that bind
// them. What the requests say as a whole is taken at its strictest.
func joinRequest(req, other *api.Request) {
	from := len(req.Groups)
	req.Groups = append(req.Groups, other.Groups...)
	for _, rule := range other.Rules {
		if rule.ID == "" {
			continue // its members are in the group, and the log checks it
		}
		var groups []int
		for _, g := range rule.Groups {
			groups = append(groups, from+g)
		}
		n := slices.IndexFunc(req.Rules, func(r api.Rule) bool { return r.ID == rule.ID })
		if n < 0 {
			rule.Groups = groups
			req.Rules = append(req.Rules, rule)
			continue
		}
		req.Rules[n].Groups = slices.Concat(req.Rules[n].Groups, groups)
	}
	req.Window.End = max(req.Window.End, other.Window.End)
	if other.Class == api.Firm {
		req.Class = api.Firm
	}
}
