package api

import (
	"slices"
	"strings"
)

// Area is a part of the public API of which a role may allow what reads and what changes something.
type Area string

// The areas. Which of them lead to everything is in the table of routes: rest.Route.Leads. An area that is gone leaves its place empty.
const (
	AreaBoots     Area = "boots" // estimates too
	AreaServers   Area = "servers"
	AreaVolumes   Area = "volumes"
	AreaGroups    Area = "server-groups"
	AreaFlavors   Area = "flavors"
	AreaZones     Area = "zones" // and availability zones
	AreaCapacity  Area = "capacity"
	AreaBindings  Area = "bindings"
	AreaHosts     Area = "hosts" // and aggregates
	AreaQuotas    Area = "quotas"
	AreaEvents    Area = "events" // and webhooks
	AreaMembers   Area = "members"
	AreaSnapshots Area = "snapshots"
	AreaAudit     Area = "audit"
	AreaTokens    Area = "tokens" // of others
	AreaRoles     Area = "roles"
	AreaAgents    Area = "agents"
	AreaConfig    Area = "config" // and the scheduler
	AreaKeyring   Area = "keyring"
	AreaHolds     Area = "holds"
	AreaPlacement Area = "placement" // all of /placement
	AreaLeases    Area = "leases"    // all of /reservation
	AreaPods      Area = "pods"      // all of /tricircle
)

// areas has the place of each area in RouteGroups: two bits. Append only.
var areas = []Area{
	AreaBoots, AreaServers, AreaVolumes, AreaGroups, AreaFlavors, AreaZones, AreaCapacity, AreaBindings, AreaHosts, AreaQuotas, AreaEvents,
	AreaMembers, AreaSnapshots, AreaAudit, AreaTokens, AreaRoles, AreaAgents, AreaConfig, AreaKeyring, AreaHolds, AreaPlacement, AreaLeases, AreaPods,
}

// RouteGroup names calls that a role allows together: an area, a colon, and read or write.
type RouteGroup string

const (
	groupRead  = ":read"
	groupWrite = ":write"
)

// Reads returns the group of the calls of an area that change nothing; "" for no area.
func (a Area) Reads() RouteGroup { return a.group(groupRead) }

// Writes returns the group of the calls of an area that change something; "" for no area.
func (a Area) Writes() RouteGroup { return a.group(groupWrite) }

func (a Area) group(what string) RouteGroup {
	if a == "" {
		return ""
	}
	return RouteGroup(string(a) + what)
}

// AllRouteGroups returns the names of all groups, area by area.
func AllRouteGroups() []RouteGroup {
	var out []RouteGroup
	for _, a := range areas {
		out = append(out, a.Reads(), a.Writes())
	}
	return out
}

// RouteGroups is a set of route groups. It is not written anywhere: their names are.
type RouteGroups uint64

func (g RouteGroup) bit() RouteGroups {
	area, what, _ := strings.Cut(string(g), ":")
	at := slices.Index(areas, Area(area))
	switch {
	case at < 0:
		return 0
	case what == groupRead[1:]:
		return 1 << (2 * at)
	case what == groupWrite[1:]:
		return 2 << (2 * at)
	}
	return 0
}

// GroupsOf returns the set of the names in a list. Names that this release does not know allow nothing.
func GroupsOf(list []RouteGroup) RouteGroups {
	var out RouteGroups
	for _, g := range list {
		out |= g.bit()
	}
	return out
}

// Has reports whether the set has a group.
func (s RouteGroups) Has(g RouteGroup) bool { return s&g.bit() != 0 }

// Within reports whether the set has nothing that other has not.
func (s RouteGroups) Within(other RouteGroups) bool { return s&^other == 0 }

// Role is a role that operators of a zone have made.
type Role struct {
	Name    UserRole     `cbor:"1,keyasint"`
	Allow   []RouteGroup `cbor:"2,keyasint"` // sorted, each once
	Created Instant      `cbor:"3,keyasint"`
	Updated Instant      `cbor:"4,keyasint"`
}

// IsBuiltIn reports whether a role is one of the three that every zone has.
func (r UserRole) IsBuiltIn() bool { return (Caller{Role: r}).Allows(RoleReader) }

// Validate returns an invalid-input error for a role that cannot be made.
func (r *Role) Validate() error {
	if err := CheckName("role", string(r.Name)); err != nil {
		return err
	}
	if r.Name.IsBuiltIn() {
		return Errorf(CodeInvalid, "role %q is there in every zone, and is not changed", string(r.Name))
	}
	if len(r.Allow) == 0 {
		return Errorf(CodeInvalid, "a role allows at least one group of calls")
	}
	for i, g := range r.Allow {
		if g.bit() == 0 {
			return Errorf(CodeInvalid, "there is no group of calls %q; a group is an area with :read or :write, such as %s", string(g), AreaServers.Reads())
		}
		if i > 0 && r.Allow[i-1] >= g {
			return Errorf(CodeInvalid, "the groups of a role are sorted, each once")
		}
	}
	return nil
}
