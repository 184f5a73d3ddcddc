package rest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/api"
)

// Route describes one call of the native API for its router, its client and its
// documents.
type Route struct {
	Method string
	Path   string       // with {id} for the segment that identifies an object
	ID     string       // meaning of {id}, such as "name or id"
	Role   api.UserRole // lowest role that may make the call; "" for everybody
	Read   api.Read
	Query  []Param // parameters besides read of a GET; all others are refused
	Keyed  bool    // accepts an Idempotency-Key
	Body   any     // the zero value of its JSON body; nil for none
	Most   int64   // bytes of that body; 0 for api.SmallBodyMaxBytes
	Status int     // HTTP status of the answer
	Answer Answer
	Stream bool   // the body or the answer is a file of any length
	Media  string // media type of the answer; "" for JSON
	Help   string // what the call does or returns, in Markdown, as a sentence without a full stop
	Since  string // first version of Berth with the call
	Group  string // section of docs/http.md

	Area api.Area // of roles that operators make; "" for what no such role can leave out
	// Leads says how whoever may make the call can in the end do everything in the zone; "" for a call that does not lead there.
	Leads string
	// Admin names fields of the body that only the role admin may give, whatever a role allows, and Why.
	Admin []string
	Why   string
	Sees  Tenancy // whose objects the call reaches
}

// Tenancy says whose objects a call reaches.
type Tenancy string

// The kinds of tenancy.
const (
	SeesNothing Tenancy = "nothing" // of anybody
	SeesUser    Tenancy = "user"    // what is the caller's own
	SeesProject Tenancy = "project" // what is of the caller's project; for admins, who say so, of others
	SeesZone    Tenancy = "zone"    // the same, whoever calls
)

// Allows returns the group of calls that a role must allow for this one.
func (r *Route) Allows() api.RouteGroup {
	if r.Read == api.ReadLog {
		return r.Area.Writes()
	}
	return r.Area.Reads()
}

// BodyMax returns how many bytes the body of the call may have.
func (r *Route) BodyMax() int64 { return cmp.Or(r.Most, api.SmallBodyMaxBytes) }

// Name returns the method and the path, the argument of Find.
func (r *Route) Name() string { return r.Method + " " + r.Path }

// Params returns the names of the query parameters that the route takes.
func (r *Route) Params() []string {
	var out []string
	for _, p := range r.Query {
		out = append(out, p.Name)
	}
	return out
}

// Param is a query parameter.
type Param struct{ Name, Help string }

// Answer describes the JSON of a successful answer.
type Answer struct {
	Key  string // key of Body; "" if Body is the whole answer
	Body any    // the zero value of the body; nil for an answer without one
	List bool   // the answer has a list of Body
}

// one is an answer with one value under a key.
func one(key string, body any) Answer { return Answer{Key: key, Body: body} }

// list is an answer with a list under a key, and with next_marker if it has pages.
func list(key string, item any) Answer { return Answer{Key: key, Body: item, List: true} }

// whole is an answer that consists of one value.
func whole(body any) Answer { return Answer{Body: body} }

// Paged reports whether the answer of the route is a list that has pages.
func (r *Route) Paged() bool { return r.Answer.List && slices.Contains(r.Params(), "limit") }

// Parameters that several routes take.
var (
	limit   = Param{"limit", "maximum number of items in the answer, 1 to 1000 (default: 1000)"}
	marker  = Param{"marker", "`next_marker` of the previous page"}
	wait    = Param{"wait", "how long to wait for the outcome, such as `30s`; at most 5m"}
	project = Param{"project_id", "project of the reservations and server groups; for admins (default: the caller's own)"}
)

// table has every route of the native API.
var table = makeTable()

func makeTable() []Route {
	var out []Route
	for _, g := range []struct {
		name   string
		routes []Route
	}{
		{"Service", service},
		{"Tokens", tokens},
		{"Boots", boots},
		{"Servers", servers},
		{"Volumes", volumes},
		{"Server groups and availability zones", serverGroups},
		{"Flavors", flavors},
		{"Zones", zones},
		{"Bindings", bindings},
		{"Hosts and aggregates", hosts},
		{"Quotas", quotas},
		{"Events and webhooks", watching},
		{"Operators", operators},
	} {
		for _, r := range g.routes {
			r.Group = g.name
			if r.Area == "" {
				r.Area = areaOf(r.Path)
			}
			r.Sees = seesOf(&r)
			out = append(out, r)
		}
	}
	return out
}

// Routes returns every route of the native API, in the order of its documents.
func Routes() []Route { return slices.Clone(table) }

// Find returns the route with a method and a path, such as "GET /hosts/{id}". It panics
// for an unknown name: names of routes are constants of the program.
func Find(name string) *Route {
	i := slices.IndexFunc(table, func(r Route) bool { return r.Name() == name })
	if i < 0 {
		panic(fmt.Sprintf("rest: there is no route %q", name))
	}
	return &table[i]
}

// Fill returns the segments of the path with {id} replaced by the ids, in order. It
// panics unless their numbers match.
func (r *Route) Fill(ids ...string) []string {
	var out []string
	for _, s := range strings.Split(strings.Trim(r.Path, "/"), "/") {
		if strings.HasPrefix(s, "{") {
			s, ids = ids[0], ids[1:]
		}
		out = append(out, s)
	}
	if len(ids) > 0 {
		panic(fmt.Sprintf("rest: %s has no place for %q", r.Name(), ids))
	}
	return out
}

// areasOf has the area of each first part of a path, and of each second part below /operator.
var areasOf = map[string]api.Area{
	"explain": api.AreaBoots, "zones/select": api.AreaBoots, "zones/boot": api.AreaBoots, "servers": api.AreaServers, "volumes": api.AreaVolumes,
	"server-groups": api.AreaGroups, "flavors": api.AreaFlavors, "zones": api.AreaZones, "availability-zones": api.AreaZones,
	"capacity": api.AreaCapacity, "bindings": api.AreaBindings, "hosts": api.AreaHosts, "aggregates": api.AreaHosts, "quotas": api.AreaQuotas,
	"events": api.AreaEvents, "webhooks": api.AreaEvents,
	"operator/members": api.AreaMembers, "operator/transfer": api.AreaMembers, "operator/join-tokens": api.AreaMembers,
	"operator/snapshot": api.AreaSnapshots, "operator/audit": api.AreaAudit, "operator/tokens": api.AreaTokens, "operator/roles": api.AreaRoles,
	"operator/agents": api.AreaAgents, "operator/config": api.AreaConfig, "operator/scheduler": api.AreaConfig,
	"operator/keyring": api.AreaKeyring, "operator/kek": api.AreaKeyring, "operator/ca": api.AreaKeyring, "operator/upgrade": api.AreaMembers, "operator/holds": api.AreaHolds,
}

func areaOf(path string) api.Area {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) > 1 {
		if a, ok := areasOf[parts[0]+"/"+parts[1]]; ok {
			return a
		}
	}
	return areasOf[parts[0]]
}

func seesOf(r *Route) Tenancy {
	switch {
	case r.Role == "":
		return SeesNothing
	case r.Area == "":
		return SeesUser
	case r.Role == api.RoleAdmin, r.Area == api.AreaFlavors, r.Area == api.AreaZones:
		return SeesZone
	}
	return SeesProject
}
