package state

import (
	"slices"
	"strings"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

func (s *workBook) groupPut(c command.GroupPut) Result {
	g := c.Group
	g.Members = nil
	if old, ok := s.groups.Get(joinKey(g.Project, g.ID)); ok {
		if old.Name == g.Name && old.Policy == g.Policy && old.Max == g.Max {
			return Result{} // a repeat
		}
		return refuseWith(api.CodeConflict, "server group %s exists and is another one", string(g.ID))
	}
	if _, taken := s.ServerGroupByName(g.Project, g.Name); taken {
		return refuseWith(api.CodeConflict, "a server group named %q exists", g.Name)
	}
	n := 0
	s.eachGroup(g.Project, "", func(*api.ServerGroup) bool {
		n++
		return true
	})
	if n >= s.limits.serverGroups {
		return refuseWith(api.CodeOverloaded, "the project has %d server groups, which is the limit", s.limits.serverGroups)
	}
	if err := s.CheckGroupQuota(g.Project); err != nil {
		return Result{Err: err}
	}
	g.Created = c.At
	s.loadGroup(&g)
	return Result{}
}

// CheckGroupQuota returns why a project may not have one more server group, because of its quotas;
// nil if it may.
func (s *workBook) CheckGroupQuota(p api.ProjectID) error { return s.checkQuota(p, useOfGroup()).Err }

// loadGroup stores a server group that is not there.
func (s *workBook) loadGroup(g *api.ServerGroup) {
	s.groups.Set(joinKey(g.Project, g.ID), g)
	s.addUse(g.Project, useOfGroup())
}

// useOfGroup returns what a server group counts.
func useOfGroup() quota.Use { return always(quota.Amounts{quota.ServerGroups: 1}) }

// removeGroup forgets a server group.
func (s *workBook) removeGroup(c command.GroupDelete) error {
	if _, ok := s.groups.Delete(joinKey(c.Project, c.ID)); !ok {
		return api.Errorf(api.CodeNotFound, "no such server group")
	}
	s.removeUse(c.Project, useOfGroup())
	return nil
}

// boundBy returns the live instances of a tenant that a rule binds, by id.
func (s *workBook) boundBy(t api.Tenant, rule string) (bound []*api.Instance) {
	s.byTenant.Ascend(tenantKey(t), "", func(id string) bool {
		if i, ok := s.instances.Get(id); ok && i.Live() && slices.Contains(i.Rules, rule) {
			bound = append(bound, i)
		}
		return true
	})
	return bound
}

// letGo ends that rules bind instances: they may move, and others may come, as if the rules had never been.
func (s *workBook) letGo(bound []*api.Instance, rules []string) {
	lifted := func(r string) bool { return slices.Contains(rules, r) }
	free := map[*api.InstanceTerms]*api.InstanceTerms{} // what many share, they still do
	for _, old := range bound {
		if !slices.ContainsFunc(old.Rules, lifted) {
			continue
		}
		i := *old
		if free[old.InstanceTerms] == nil {
			i.ChangeTerms(func(x *api.InstanceTerms) {
				x.Rules = slices.DeleteFunc(slices.Clone(x.Rules), lifted)
			})
			free[old.InstanceTerms] = i.InstanceTerms
		}
		i.InstanceTerms = free[old.InstanceTerms]
		s.putInstance(old, &i)
	}
}

// eachGroup visits the server groups of a project by id, from marker on.
func (s *workBook) eachGroup(p api.ProjectID, marker string, visit func(*api.ServerGroup) bool) {
	prefix := string(p) + "\x00"
	s.groups.Ascend(prefix+marker, func(k string, g *api.ServerGroup) bool {
		return strings.HasPrefix(k, prefix) && visit(g)
	})
}

// ServerGroup returns one server group of a project with its members: instances
// that are not DELETED, by id.
func (s *workBook) ServerGroup(p api.ProjectID, id api.ServerGroupID) (*api.ServerGroup, bool) {
	g, ok := s.groups.Get(joinKey(p, id))
	if !ok {
		return nil, false
	}
	return s.fillGroups(p, []*api.ServerGroup{g})[0], true
}

// ServerGroupByName returns the server group of a project with a name.
func (s *workBook) ServerGroupByName(p api.ProjectID, name string) (*api.ServerGroup, bool) {
	var found *api.ServerGroup
	s.eachGroup(p, "", func(g *api.ServerGroup) bool {
		if g.Name == name {
			found = g
		}
		return found == nil
	})
	if found == nil {
		return nil, false
	}
	return s.fillGroups(p, []*api.ServerGroup{found})[0], true
}

// ServerGroups returns server groups of a project by id, with their members.
func (s *workBook) ServerGroups(p api.ProjectID, page Page) []*api.ServerGroup {
	var out []*api.ServerGroup
	s.eachGroup(p, page.Marker, func(g *api.ServerGroup) bool {
		if string(g.ID) != page.Marker && len(out) < page.Limit {
			out = append(out, g)
		}
		return len(out) < page.Limit
	})
	return s.fillGroups(p, out)
}

// AllServerGroups returns server groups of all projects, by project and id, with their members. The marker is those of the
// last one, with a slash between them.
func (s *workBook) AllServerGroups(page Page) []*api.ServerGroup {
	var out []*api.ServerGroup
	project, id, _ := strings.Cut(page.Marker, "/")
	after := joinKey(project, id)
	s.groups.Ascend(after, func(k string, g *api.ServerGroup) bool {
		if k != after {
			out = append(out, g)
		}
		return len(out) < page.Limit
	})
	for from := 0; from < len(out); {
		to := from + 1
		for to < len(out) && out[to].Project == out[from].Project {
			to++
		}
		copy(out[from:to], s.fillGroups(out[from].Project, out[from:to]))
		from = to
	}
	return out
}

// fillGroups returns copies of server groups with their members. It scans the instances of
// the project once.
func (s *workBook) fillGroups(p api.ProjectID, groups []*api.ServerGroup) []*api.ServerGroup {
	byRule := make(map[string]*api.ServerGroup, len(groups))
	out := make([]*api.ServerGroup, len(groups))
	for i, g := range groups {
		cp := *g
		cp.Members = []api.InstanceID{}
		out[i], byRule[string(g.ID)] = &cp, &cp
	}
	if len(out) == 0 {
		return out
	}
	s.byTenant.Ascend(tenantKey(api.Tenant{Project: p}), "", func(id string) bool {
		i, ok := s.instances.Get(id)
		if !ok || !i.Live() {
			return true
		}
		for _, rule := range slices.Compact(slices.Sorted(slices.Values(i.Rules))) {
			if g := byRule[rule]; g != nil {
				g.Members = append(g.Members, i.ID)
			}
		}
		return true
	})
	return out
}
