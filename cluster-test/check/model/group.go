package model

import (
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// Group is a server group.
type Group struct {
	Name   string
	Policy api.Policy
	Max    int
}

// GroupID names a server group of a project.
type GroupID struct {
	Project api.ProjectID
	ID      api.ServerGroupID
}

func (m *Model) groupPut(c command.GroupPut) *Refusal {
	id, g := GroupID{c.Group.Project, c.Group.ID}, Group{c.Group.Name, c.Group.Policy, c.Group.Max}
	if old, ok := m.Groups[id]; ok {
		if old != g {
			return &Refusal{promise.Repeat, "the server group is another one"}
		}
		return nil
	}
	n := 0
	for o, other := range m.Groups {
		if o.Project == id.Project {
			n++
			if other.Name == g.Name {
				return &Refusal{promise.Model, "the name of the server group is taken"}
			}
		}
	}
	if n >= api.ServerGroupsMax {
		return &Refusal{promise.Model, "the project has too many server groups"}
	}
	group := useOfGroup()
	if not := m.checkQuota(id.Project, nil, group); not != nil {
		return not
	}
	m.Groups[id] = g
	return nil
}

func (m *Model) groupDelete(c command.GroupDelete) *Refusal {
	id := GroupID{c.Project, c.ID}
	if _, ok := m.Groups[id]; !ok {
		return &Refusal{promise.Model, "there is no such server group"}
	}
	delete(m.Groups, id)
	name := RuleID{api.Tenant{Project: c.Project}, string(c.ID)}
	for _, h := range m.Holds {
		if m.form >= api.FormFifth && h.ID.Origin == "" && h.Request.Project == c.Project && (h.Decision == api.DecisionPending || m.livesBelow(h, name)) {
			m.lift(h, c.ID)
		}
	}
	for i, b := range m.Bonds[name] {
		if m.MadeBy(b.hold, i) != nil {
			delete(m.Bonds[name], i)
		}
	}
	for _, b := range m.Boots {
		again := b.Decision == api.DecisionCommit && b.Request.OnPreempt == api.PreemptRequeue
		if m.form >= api.FormFifth && b.ID.Project == c.Project && namesGroup(&b.Request, c.ID) && (again || b.Decision == api.DecisionPending) {
			b.Lifted = append(slices.Clone(b.Lifted), c.ID)
			m.Told[b.ID] = true
		}
	}
	return nil
}

// namesGroup reports whether a rule of a request is that of a server group.
func namesGroup(r *api.Request, id api.ServerGroupID) bool {
	return slices.ContainsFunc(r.Rules, func(r api.Rule) bool { return r.ID == id && id != "" })
}

// noGroups returns the server groups of a request that are not there.
func (m *Model) noGroups(r *api.Request) (out []api.ServerGroupID) {
	for _, rule := range r.Rules {
		if _, ok := m.Groups[GroupID{r.Project, rule.ID}]; !ok && rule.ID != "" && m.form >= api.FormFifth {
			out = append(out, rule.ID)
		}
	}
	return out
}

// liftAtOnce has a hold of a boot made under rules that do not bind any more.
func (m *Model) liftAtOnce(h *Hold) {
	for _, id := range h.Boot.Lifted {
		if namesGroup(&h.Request, id) {
			h.Lifted = append(h.Lifted, id)
		}
	}
}

// withoutRules has the rules of server groups allow as many on a host as a request may have.
func withoutRules(rules []api.Rule, groups []api.ServerGroupID) []api.Rule {
	out := slices.Clone(rules)
	for n := range out {
		if out[n].ID != "" && slices.Contains(groups, out[n].ID) {
			out[n] = api.Rule{Groups: out[n].Groups, Policy: api.AntiAffinity, Max: api.CountMax}
		}
	}
	return out
}

// livesBelow reports whether children have live instances of a hold under a rule.
func (m *Model) livesBelow(h *Hold, name RuleID) bool {
	for id, b := range m.Bonds[name] {
		if i := m.MadeBy(h, id); b.hold == h && b.link != "" && i != nil && i.Live() {
			return true
		}
	}
	return false
}

// lift ends that a server group binds what a hold makes.
func (m *Model) lift(h *Hold, group api.ServerGroupID) {
	if h.Decision == api.DecisionAbort || slices.Contains(h.Lifted, group) ||
		!namesGroup(&h.Request, group) {
		return
	}
	h.Lifted = append(slices.Clone(h.Lifted), group)
	m.Moved[h.ID] = true
	if h.Decision == api.DecisionCommit {
		m.letGoLifted(h)
	}
}

// letGoLifted lets go what a hold has made under rules that are lifted. Children that have some of it must be told.
func (m *Model) letGoLifted(h *Hold) {
	for _, group := range h.Lifted {
		for _, id := range h.IDs() {
			if m.MadeBy(h, id) != nil {
				delete(m.Bonds[RuleID{api.Tenant{Origin: h.ID.Origin, Project: h.Request.Project}, string(group)}], id)
			}
		}
		for _, p := range h.Parts {
			if slices.ContainsFunc(p.IDs, func(id api.InstanceID) bool { i := m.MadeBy(h, id); return i != nil && i.Live() }) {
				p.Acked = false
			}
		}
	}
}
