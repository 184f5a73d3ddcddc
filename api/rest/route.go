package rest

import (
	"fmt"
	"slices"
	"strings"

	"berth/api"
)

// Route is one call of the native API, as its router, its client and its documents
// need it.
type Route struct {
	Method string
	Path   string       // with {id} for a segment that names something
	ID     string       // what {id} is, such as "name or id"
	Role   api.UserRole // the least that may make the call; "" for everybody
	Read   api.Read
	Query  []Param // that it takes, beside read of a GET; all others are refused
	Keyed  bool    // it takes an Idempotency-Key
	Body   any     // the zero value of its JSON body; nil for none
	Status int     // of its answer
	Answer Answer
	Stream bool   // its body, or its answer, is a file of any length
	Help   string // what it does, in Markdown, as a sentence without a full stop
	Since  string // version of Berth that has it first
	Group  string // section of docs/http.md
}

// Name returns the method and the path, by which Find finds the route.
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

// Answer is the JSON of a good answer.
type Answer struct {
	Key  string // under which Body stands; "" if Body is all of it
	Body any    // the zero value of what is answered; nil for an answer without a body
	List bool   // there is a list of Body
}

// one is an answer of one value under a key.
func one(key string, body any) Answer { return Answer{Key: key, Body: body} }

// list is an answer of a list under a key, and of next_marker if it has pages.
func list(key string, item any) Answer { return Answer{Key: key, Body: item, List: true} }

// whole is an answer that is one value.
func whole(body any) Answer { return Answer{Body: body} }

// Paged reports whether the answer of the route is a list that has pages.
func (r *Route) Paged() bool { return r.Answer.List && slices.Contains(r.Params(), "limit") }

// Parameters that several routes take.
var (
	limit   = Param{"limit", "items of one answer, 1 to 1000 (default: 1000)"}
	marker  = Param{"marker", "`next_marker` of the page before"}
	wait    = Param{"wait", "how long to wait for an outcome, such as `30s`; at most 5m"}
	project = Param{"project_id", "project whose reservations and server groups are meant; for admins (default: the caller's own)"}
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
		{"Boots", boots},
		{"Servers", servers},
		{"Server groups and availability zones", serverGroups},
		{"Flavors", flavors},
		{"Zones", zones},
		{"Hosts and aggregates", hosts},
		{"Operators", operators},
	} {
		for _, r := range g.routes {
			r.Group = g.name
			out = append(out, r)
		}
	}
	return out
}

// Routes returns every route of the native API, in the order of its documents.
func Routes() []Route { return slices.Clone(table) }

// Find returns the route with a method and a path, such as "GET /hosts/{id}". It
// panics if there is none: names of routes are constants of the program.
func Find(name string) *Route {
	i := slices.IndexFunc(table, func(r Route) bool { return r.Name() == name })
	if i < 0 {
		panic(fmt.Sprintf("rest: there is no route %q", name))
	}
	return &table[i]
}

// Fill returns the segments of the path with ids in place of {id}, in order. It
// panics unless there is an id for each.
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
