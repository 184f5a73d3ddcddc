package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRouteGroups(t *testing.T) {
	all := AllRouteGroups()
	require.LessOrEqual(t, len(all), 64, "they are bits")
	var sum RouteGroups
	for _, g := range all {
		one := GroupsOf([]RouteGroup{g})
		assert.Zero(t, sum&one, "%s has a bit of its own", g)
		sum |= one
		assert.True(t, sum.Has(g))
		assert.False(t, (GroupsOf(all) &^ one).Has(g))
		assert.False(t, sum.Within(sum&^one))
		assert.True(t, one.Within(sum))
	}
	for _, g := range []RouteGroup{"", "servers", "servers:", "servers:delete", ":read", "nothing:read", "servers:read:x"} {
		assert.Zero(t, GroupsOf([]RouteGroup{g}), "%q", g)
		assert.False(t, GroupsOf(all).Has(g), "%q", g)
	}
}

func TestRolesAreChecked(t *testing.T) {
	for _, c := range []struct {
		name  UserRole
		allow []RouteGroup
		ok    bool
	}{
		{"deployer", []RouteGroup{"boots:write", "servers:read"}, true},
		{"deployer", AllRouteGroups()[:0], false},
		{"deployer", []RouteGroup{"servers:read", "boots:write"}, false},
		{"deployer", []RouteGroup{"servers:read", "servers:read"}, false},
		{"deployer", []RouteGroup{"everything"}, false},
		{"", []RouteGroup{"servers:read"}, false},
		{"a b", []RouteGroup{"servers:read"}, false},
		{RoleAdmin, []RouteGroup{"servers:read"}, false},
		{RoleMember, []RouteGroup{"servers:read"}, false},
		{RoleReader, []RouteGroup{"servers:read"}, false},
	} {
		r := Role{Name: c.name, Allow: c.allow}
		assert.Equal(t, c.ok, r.Validate() == nil, "%+v", c)
	}
}

// TestWhatACallerMay: by the rank of a built-in role, or by a group.
func TestWhatACallerMay(t *testing.T) {
	member := Caller{Role: RoleMember}
	assert.True(t, member.May(RoleReader, AreaServers.Reads()))
	assert.False(t, member.May(RoleAdmin, AreaHosts.Reads()))
	custom := Caller{Groups: GroupsOf([]RouteGroup{AreaHosts.Reads()})}
	assert.True(t, custom.May(RoleAdmin, AreaHosts.Reads()))
	assert.False(t, custom.May(RoleAdmin, AreaHosts.Writes()))
	assert.False(t, custom.May(RoleReader, AreaServers.Reads()), "not by rank")
	assert.False(t, custom.May("", AreaServers.Reads()))
	assert.False(t, custom.May(RoleReader, ""), "what is in no group")
	assert.False(t, custom.Allows(RoleReader))
	both := Caller{Role: RoleReader, Groups: custom.Groups}
	assert.True(t, both.May(RoleReader, AreaServers.Reads()))
	assert.True(t, both.May(RoleAdmin, AreaHosts.Reads()))
	assert.False(t, both.May(RoleMember, AreaServers.Writes()))
}
