package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// TestRoles: made, replaced, given to tokens, and deleted when no token has it.
func TestRoles(t *testing.T) {
	w := newWorld(t)
	set := func(name api.UserRole, allow ...api.RouteGroup) command.Command {
		return inForm(t, command.RoleSet{Stamp: w.stamp(), Role: api.Role{Name: name, Allow: allow}}, api.FormFifth)
	}
	token := func(id string, roles ...api.UserRole) command.Command {
		return inForm(t, command.TokenPut{Stamp: w.stamp(), Token: api.Token{ID: api.TokenID(id), Roles: roles, Expires: api.Forever}}, api.FormFifth)
	}
	drop := func(name api.UserRole) command.Command {
		return inForm(t, command.RoleDelete{Stamp: w.stamp(), Name: name}, api.FormFifth)
	}
	w.ok(set("deployer", "boots:write"))
	w.unchanged(set("deployer", "boots:write"))
	w.refused(api.CodeInvalid, set("admin", "boots:write"))
	w.refused(api.CodeInvalid, set("deployer"))
	w.refused(api.CodeInvalid, set("deployer", "all"))
	made, _ := w.s.Role("deployer")

	w.refused(api.CodeNotFound, token("t2", "reader", "nothing"))
	w.ok(token("t2", "reader", "deployer"))
	of := func() api.Caller {
		got, ok := w.s.Token("t2")
		require.True(t, ok)
		return w.s.CallerOf(got)
	}
	assert.Equal(t, api.Caller{Role: api.RoleReader, Groups: api.GroupsOf([]api.RouteGroup{"boots:write"})}, of())
	w.now = w.now.Add(time.Second)
	w.ok(set("deployer", "servers:read"))
	assert.Equal(t, api.GroupsOf([]api.RouteGroup{"servers:read"}), of().Groups, "its tokens change with it")
	now, _ := w.s.Role("deployer")
	assert.Equal(t, made.Created, now.Created)
	assert.Greater(t, now.Updated, made.Updated)

	w.refused(api.CodeConflict, drop("deployer"))
	w.ok(inForm(t, command.TokenDelete{Stamp: w.stamp(), ID: "t2"}, api.FormFifth))
	w.ok(drop("deployer"))
	w.refused(api.CodeNotFound, drop("deployer"))
	w.refused(api.CodeNotFound, token("t2", "deployer"))
}

func TestRoleLimit(t *testing.T) {
	w := newWorld(t)
	set := func(n int, allow api.RouteGroup) command.Command {
		return inForm(t, command.RoleSet{Stamp: w.stamp(), Role: api.Role{Name: api.UserRole(fmt.Sprint("r", n)), Allow: []api.RouteGroup{allow}}}, api.FormFifth)
	}
	for n := range api.RolesMax {
		w.ok(set(n, "servers:read"))
	}
	w.refused(api.CodeOverloaded, set(api.RolesMax, "servers:read"))
	w.ok(set(0, "servers:write"))
}

// TestTheHighestRoleCounts: in whatever order a token names its built-in roles, and a role of the zone adds to it.
func TestTheHighestRoleCounts(t *testing.T) {
	w := newWorld(t)
	w.ok(inForm(t, command.RoleSet{Stamp: w.stamp(), Role: api.Role{Name: "deployer", Allow: []api.RouteGroup{"boots:write"}}}, api.FormFifth))
	deploys := api.GroupsOf([]api.RouteGroup{"boots:write"})
	for _, c := range []struct {
		roles []api.UserRole
		want  api.Caller
	}{
		{nil, api.Caller{Role: api.RoleReader}},
		{[]api.UserRole{api.RoleReader}, api.Caller{Role: api.RoleReader}},
		{[]api.UserRole{api.RoleReader, api.RoleAdmin, api.RoleMember}, api.Caller{Role: api.RoleAdmin}},
		{[]api.UserRole{api.RoleAdmin, api.RoleMember, api.RoleReader}, api.Caller{Role: api.RoleAdmin}},
		{[]api.UserRole{api.RoleMember, api.RoleReader}, api.Caller{Role: api.RoleMember}},
		{[]api.UserRole{api.RoleMember, "deployer", api.RoleReader}, api.Caller{Role: api.RoleMember, Groups: deploys}},
		{[]api.UserRole{"deployer"}, api.Caller{Groups: deploys}},
		{[]api.UserRole{"gone"}, api.Caller{}},
	} {
		assert.Equal(t, c.want, w.s.CallerOf(&api.Token{Roles: c.roles}), "%v", c.roles)
	}
}

// TestTokensOfOldEntriesKeepTheirRoles: before there were roles of a zone, nothing looked at their names.
func TestTokensOfOldEntriesKeepTheirRoles(t *testing.T) {
	w := newWorld(t)
	w.ok(command.TokenPut{Stamp: w.stamp(), Token: api.Token{ID: "t2", Roles: []api.UserRole{"odd"}, Expires: api.Forever}})
	got, _ := w.s.Token("t2")
	assert.Equal(t, api.Caller{}, w.s.CallerOf(got))
}
