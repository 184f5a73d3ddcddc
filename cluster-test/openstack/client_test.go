//go:build openstack

package openstack

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/dev"
)

// What the commands name.
const (
	pool      = "a0000000-0000-4000-8000-000000000001"
	child     = "a0000000-0000-4000-8000-000000000002"
	consumer  = "c0000000-0000-4000-8000-000000000001"
	latecomer = "c0000000-0000-4000-8000-000000000002"
	rack      = "d0000000-0000-4000-8000-000000000001"
)

// (139 - 7) x 1.5 is exactly what the pool has room for.
const exact = 198

// TestToken goes with a token through the life of a provider with a child, from
// its creation to its end, at a node that does not lead its zone.
func TestToken(t *testing.T) {
	t.Parallel()
	zone := startZone(t, 3, 1, false)
	s := login(t, follower(t, zone), "OS_AUTH_TYPE=admin_token", "OS_TOKEN="+zone.Token)

	create(s)
	supply(s)
	mark(s)
	candidates(s)
	claim(s)
	inUse(s)
	giveBack(s)
	remove(s)

	hosts := s.list("resource provider list")
	require.Len(t, hosts, 1, "the host of the zone is a provider, and all that was made is gone")
	usage := s.list("resource provider usage show %s", hosts[0]["uuid"])
	assert.ElementsMatch(t, []row{{"resource_class": "VCPU", "usage": "0"}, {"resource_class": "MEMORY_MB", "usage": "0"}}, usage)
}

// follower returns a node of a zone that another one leads.
func follower(t *testing.T, zone *dev.Zone) *dev.Process {
	t.Helper()
	for _, p := range zone.Nodes {
		if !p.Node.Leads() {
			return p
		}
	}
	require.Fail(t, "every node leads")
	return nil
}

// create makes the pool and its child.
func create(s stock) {
	s.t.Helper()
	p := s.show("resource provider create --uuid %s pool", pool)
	assert.Equal(s.t, row{"uuid": pool, "name": "pool", "generation": "0", "root_provider_uuid": pool, "parent_provider_uuid": "<nil>"}, p)
	p = s.show("resource provider create --uuid %s --parent-provider %s part", child, pool)
	assert.Equal(s.t, row{"uuid": child, "name": "part", "generation": "0", "root_provider_uuid": pool, "parent_provider_uuid": pool}, p)
	s.refused(409, "pool", "resource provider create pool")
	p = s.show("resource provider set --name child %s", child)
	assert.Equal(s.t, "child", p["name"])
	assert.Len(s.t, s.list("resource provider list --in-tree %s", child), 2)
}

// inventory is a row of what the pool and its child have.
func inventory(class, total, reserved, most, ratio string) row {
	return row{
		"resource_class": class, "total": total, "reserved": reserved, "min_unit": "1", "max_unit": most,
		"step_size": "1", "allocation_ratio": ratio,
	}
}

// supply says what there is: a class of its own, all of it at once, one class,
// and a part of one class.
func supply(s stock) {
	s.t.Helper()
	const most = "2147483647"
	s.do("resource class create CUSTOM_GOLD")
	s.do("resource class show CUSTOM_GOLD")
	all := s.list("resource provider inventory set %s --resource VCPU=139 --resource VCPU:reserved=7 --resource VCPU:allocation_ratio=1.5 --resource CUSTOM_GOLD=4", pool)
	assert.ElementsMatch(s.t, []row{inventory("VCPU", "139", "7", most, "1.5"), inventory("CUSTOM_GOLD", "4", "0", most, "1.0")}, all)
	all = s.list("resource provider inventory set %s --amend --resource CUSTOM_GOLD:max_unit=2", pool)
	assert.ElementsMatch(s.t, []row{inventory("VCPU", "139", "7", most, "1.5"), inventory("CUSTOM_GOLD", "4", "0", "2", "1.0")}, all)
	s.refused(400, "MEMORY_MB", "resource provider inventory class set %s MEMORY_MB --total 1024", child)
	s.do("resource provider inventory set %s --resource MEMORY_MB=512", child)
	one := s.show("resource provider inventory class set %s MEMORY_MB --total 1024 --step_size 2", child)
	assert.Equal(s.t, "1024", one["total"])
	assert.Equal(s.t, "2", one["step_size"])
}

// mark gives the pool a trait, and an aggregate with the right generation alone.
func mark(s stock) {
	s.t.Helper()
	s.do("trait create CUSTOM_FAST")
	assert.ElementsMatch(s.t, []row{{"name": "CUSTOM_FAST"}, {"name": "HW_CPU_X86_AVX"}},
		s.list("resource provider trait set %s --trait CUSTOM_FAST --trait HW_CPU_X86_AVX", pool))
	now := s.show("resource provider show %s", pool)["generation"]
	s.refused(409, "generation", "resource provider aggregate set %s --aggregate %s --generation 0", pool, rack)
	assert.Equal(s.t, []row{{"uuid": rack}}, s.list("resource provider aggregate set %s --aggregate %s --generation %s", pool, rack, now))
}

// candidates finds the pool and its child together, by what they have.
func candidates(s stock) {
	s.t.Helper()
	found := s.list("allocation candidate list --resource VCPU=2 --resource MEMORY_MB=512 --required CUSTOM_FAST --limit 5")
	require.Len(s.t, found, 2, "one candidate is one row for each provider")
	assert.ElementsMatch(s.t, []string{pool, child}, []string{found[0]["resource provider"], found[1]["resource provider"]})
	s.together(
		func(s stock) {
			assert.Len(s.t, s.list("allocation candidate list --resource VCPU=%d --member-of %s", exact, rack), 1)
		},
		func(s stock) { assert.Empty(s.t, s.list("allocation candidate list --resource VCPU=%d", exact+1)) },
		func(s stock) {
			assert.Empty(s.t, s.list("allocation candidate list --resource CUSTOM_GOLD=1 --forbidden CUSTOM_FAST"))
		},
		func(s stock) {
			assert.Len(s.t, s.list("resource provider list --resource VCPU=%d --required CUSTOM_FAST --member-of %s", exact, rack), 1)
		},
	)
}

// owner is whom the claims are for.
const owner = "--project-id web --user-id ann --consumer-type INSTANCE"

// claim takes all that the pool has, and no more.
func claim(s stock) {
	s.t.Helper()
	s.refused(409, "Unable to allocate", "resource provider allocation set %s --allocation rp=%s,VCPU=%d %s", consumer, pool, exact+1, owner)
	took := s.list("resource provider allocation set %s --allocation rp=%s,VCPU=%d --allocation rp=%s,MEMORY_MB=512 %s", consumer, pool, exact, child, owner)
	assert.Len(s.t, took, 2)
	s.refused(409, "Unable to allocate", "resource provider allocation set %s --allocation rp=%s,VCPU=1 %s", latecomer, pool, owner)
	s.together(
		func(s stock) {
			assert.Contains(s.t, s.list("resource provider usage show %s", pool), row{"resource_class": "VCPU", "usage": "198"})
		},
		func(s stock) {
			assert.Equal(s.t, "198", s.show("resource provider inventory show %s VCPU", pool)["used"])
		},
		func(s stock) {
			assert.Equal(s.t, []row{{"resource_class": "INSTANCE", "usage": `{"MEMORY_MB":512,"VCPU":198,"consumer_count":1}`}}, s.list("resource usage show web"))
		},
		func(s stock) {
			assert.Contains(s.t, s.show("resource provider show --allocations %s", pool)["allocations"], consumer)
		},
		func(s stock) { assert.Empty(s.t, s.list("resource provider allocation show %s", latecomer)) },
	)
}

// inUse takes nothing away that is needed.
func inUse(s stock) {
	s.t.Helper()
	s.together(
		func(s stock) { s.refused(409, "child", "resource provider delete %s", pool) },
		func(s stock) { s.refused(409, child, "resource provider delete %s", child) },
		func(s stock) {
			s.refused(409, "in use", "resource provider inventory delete %s --resource-class VCPU", pool)
		},
		func(s stock) { s.refused(409, "in use", "resource provider inventory delete %s", pool) },
		func(s stock) {
			s.refused(409, "in use", "resource provider inventory set %s --resource CUSTOM_GOLD=4", pool)
		},
		func(s stock) { s.refused(409, "CUSTOM_GOLD", "resource class delete CUSTOM_GOLD") },
		func(s stock) { s.refused(409, "CUSTOM_FAST", "trait delete CUSTOM_FAST") },
	)
}

// giveBack ends the claim in two steps.
func giveBack(s stock) {
	s.t.Helper()
	left := s.list("resource provider allocation unset %s --provider %s", consumer, child)
	require.Len(s.t, left, 1)
	assert.Equal(s.t, pool, left[0]["resource_provider"])
	s.do("resource provider allocation delete %s", consumer)
	s.refused(404, consumer, "resource provider allocation delete %s", consumer)
}

// remove takes everything away, the child first.
func remove(s stock) {
	s.t.Helper()
	s.together(
		func(s stock) { s.do("resource provider delete %s", child) },
		func(s stock) {
			s.do("resource provider trait delete %s", pool)
			s.do("trait delete CUSTOM_FAST")
		},
	)
	s.do("resource provider inventory delete %s", pool)
	s.together(
		func(s stock) { s.do("resource provider delete %s", pool) },
		func(s stock) { s.do("resource class delete CUSTOM_GOLD") },
	)
	s.refused(404, pool, "resource provider show %s", pool)
}

// TestOtherLogins goes the short way with the other ways to log in: a token as the
// password of anybody, and none at all where the zone asks for none. It also asks
// at the microversion that the client takes by itself, and at the oldest.
func TestOtherLogins(t *testing.T) {
	t.Parallel()
	closed, open := startZone(t, 1, 0, false), startZone(t, 1, 0, true)
	for name, s := range map[string]stock{
		"http_basic": login(t, closed.Nodes[0], "OS_AUTH_TYPE=http_basic", "OS_USERNAME=anybody", "OS_PASSWORD="+closed.Token),
		"none":       login(t, open.Nodes[0], "OS_AUTH_TYPE=none"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.t = t
			s.do("resource provider create --uuid %s pool", pool)
			s.do("resource provider inventory set %s --resource VCPU=4", pool)
			s.do("resource provider allocation set %s --allocation rp=%s,VCPU=4 %s", consumer, pool, owner)
			s.refused(409, pool, "resource provider delete %s", pool)
			s.do("resource provider allocation delete %s", consumer)
			s.do("resource provider delete %s", pool)
			assert.Empty(t, s.at("1.29").list("resource provider list"))
			assert.Empty(t, s.at("1.0").list("resource provider list"))
		})
	}
}

// TestStranger is told that it is one, in words that the client understands.
func TestStranger(t *testing.T) {
	t.Parallel()
	zone := startZone(t, 1, 0, false)
	for name, s := range map[string]stock{
		"none":        login(t, zone.Nodes[0], "OS_AUTH_TYPE=none"),
		"admin_token": login(t, zone.Nodes[0], "OS_AUTH_TYPE=admin_token", "OS_TOKEN=guessed"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.t = t
			s.refused(401, "token", "resource provider list")
		})
	}
}
