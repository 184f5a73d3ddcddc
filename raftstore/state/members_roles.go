package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// roleSet makes or replaces a role.
func (s *membersBook) roleSet(c command.RoleSet) Result {
	r := c.Role
	if err := r.Validate(); err != nil {
		return Result{Err: err}
	}
	old, known := s.roles.Get(string(r.Name))
	switch {
	case known && slices.Equal(old.Allow, r.Allow):
		return Result{} // a repeat
	case known:
		r.Created = old.Created
	case s.roles.Len() >= s.limits.roles:
		return refuseWith(api.CodeOverloaded, "the zone has %d roles, which is the limit", s.limits.roles)
	default:
		r.Created = s.now
	}
	r.Updated = s.now
	s.roles.Set(string(r.Name), &r)
	return Result{}
}

// roleDelete deletes a role, unless a token has it: one that is made later under the name would be given
// to its holder.
func (s *membersBook) roleDelete(c command.RoleDelete) Result {
	if _, ok := s.roles.Get(string(c.Name)); !ok {
		return refuseWith(api.CodeNotFound, "no role %q", string(c.Name))
	}
	n := len(firstKeys(s.tokens, s.tokens.Len(), func(t *api.Token) bool { return slices.Contains(t.Roles, c.Name) }))
	if n > 0 {
		return refuseWith(api.CodeConflict, "%d tokens have the role %q; delete them first", n, string(c.Name))
	}
	s.roles.Delete(string(c.Name))
	return Result{}
}

// checkRoles refuses roles that there are not.
func (s *membersBook) checkRoles(roles []api.UserRole) Result {
	if s.limits.roles == 0 {
		return Result{} // the entry is older than roles of a zone
	}
	for _, r := range roles {
		if _, ok := s.roles.Get(string(r)); !ok && !r.IsBuiltIn() {
			return refuseWith(api.CodeNotFound, "no role %q", string(r))
		}
	}
	return Result{}
}

// Role returns one of the roles that operators have made.
func (s *membersBook) Role(name api.UserRole) (*api.Role, bool) { return s.roles.Get(string(name)) }

// Roles returns these roles by name.
func (s *membersBook) Roles() []*api.Role { return s.roles.Values() }

// CallerOf returns who calls with a token. A role that there is not allows nothing.
func (s *membersBook) CallerOf(t *api.Token) api.Caller {
	c := api.Caller{User: t.User, Project: t.Project, Service: t.Service}
	if len(t.Roles) == 0 {
		c.Role = api.RoleReader
	}
	for _, name := range t.Roles {
		if one := (api.Caller{Role: name}); name.IsBuiltIn() && one.Allows(c.Role) {
			c.Role = name
		}
		if r, ok := s.roles.Get(string(name)); ok {
			c.Groups |= api.GroupsOf(r.Allow)
		}
	}
	return c
}
