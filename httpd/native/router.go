// Package native is the native dialect of a zone's public API: JSON over HTTP
// for users, operators and the CLI. A handler reads its request, calls one use
// case, and writes what came of it; docs/http.md is its contract.
//
// It decides nothing about capacity, and no host of another zone passes through
// it: records of other zones hold none.
package native

import (
	"cmp"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/zone"
	"berth/zone/estimate"
	"berth/zone/fleet"
	"berth/zone/saga"
)

// Authority is what a node can do beyond conducting the zone: membership, keys,
// admission of nodes, agents and zones. Errors are *api.Error.
type Authority interface {
	LinkToken(ctx context.Context, name string, offset, scale int64) (token string, err error)
	Link(ctx context.Context, token, name string) (*api.Link, error)
	JoinToken(ctx context.Context, kind api.JoinKind, name string, ttl time.Duration) (token string, err error)
	Join(ctx context.Context, b *api.JoinBody) (*api.JoinAnswer, error)
	NewToken(ctx context.Context, t api.Token) (text string, id api.TokenID, err error)
	RotateKeyring(ctx context.Context) error
	Members() []api.Node
	RemoveMember(ctx context.Context, id api.NodeID) error
	Transfer(ctx context.Context, to api.NodeID) error
	Snapshot(ctx context.Context, w io.Writer) error
	Restore(ctx context.Context, r io.Reader) error
}

// Config is what the public API is made of.
type Config struct {
	Door      door.Config
	Estimator *estimate.Estimator
	Saga      *saga.Saga
	Fleet     *fleet.Fleet
	Authority Authority
	Digests   zone.Digests
	Version   string
}

// dialect is the public API of one node.
type dialect struct {
	*door.Door
	Config
}

// New returns the handler of the public API.
func New(c Config) http.Handler {
	d := &dialect{door.New(c.Door, wire.Refuse), c}
	r := chi.NewRouter()
	r.Use(wire.WithRequestID, wire.Recover(c.Door.Log), d.Index, wire.Text(wire.Refuse))
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		wire.Refuse(w, r, api.Errorf(api.CodeNotFound, "there is nothing at %s", r.URL.Path))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Allow", allowed(r, req.URL))
		wire.Refuse(w, req, api.Errorf(api.CodeMethod, "%s is not a method of %s", req.Method, req.URL.Path))
	})
	for _, one := range d.routes() {
		to := chi.Router(r)
		if one.role != "" {
			to = r.With(d.Authenticate, d.Fresh(door.ReadLocal), d.Allow(one.role))
		}
		to.Method(one.route.Method, one.route.Path, d.handler(one))
	}
	return r
}

// allowed returns the methods that a path has, as the header Allow spells them.
func allowed(routes chi.Routes, at *url.URL) string {
	var out []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if routes.Match(chi.NewRouteContext(), m, cmp.Or(at.RawPath, at.Path)) {
			out = append(out, m)
		}
	}
	return strings.Join(out, ", ")
}

// route is one call of the public API.
type route struct {
	route  door.Route
	role   api.UserRole // the least that may make it; "" for everybody
	do     door.Handler
	params []string // in the query; it takes no other
	stream bool     // its body is of any length, or its answer is; the leader alone has it
}

// Routes returns every call of the public API, with the kind of read it makes.
func Routes() []door.Route {
	var out []door.Route
	for _, r := range (&dialect{Door: &door.Door{}}).routes() {
		out = append(out, r.route)
	}
	return out
}

func (d *dialect) routes() []route {
	return slices.Concat([]route{
		{route: door.Route{Method: http.MethodGet, Path: "/", Read: door.ReadLocal}, do: d.root},
		{route: door.Route{Method: http.MethodPost, Path: "/operator/join", Read: door.ReadLog}, do: d.join},
	}, d.workRoutes(), d.zoneRoutes(), d.operatorRoutes())
}

// handler returns what answers a call: the leader, unless it is a local read or an
// estimate.
func (d *dialect) handler(r route) http.HandlerFunc {
	switch h := checked(r.do, r.params); {
	case r.stream:
		return d.LeadStream(h)
	case r.route.Read == door.ReadLocal:
		return d.Handle(h)
	default:
		return d.Lead(h)
	}
}

// workRoutes are those of callers who want something to run.
func (d *dialect) workRoutes() []route {
	return []route{
		{route: door.Route{Method: http.MethodPost, Path: "/zones/select", Read: door.ReadLocal}, role: api.RoleMember, do: d.selectPlan},
		{route: door.Route{Method: http.MethodPost, Path: "/zones/boot", Read: door.ReadLog}, role: api.RoleMember, do: d.boot, params: []string{"wait"}},
		{route: door.Route{Method: http.MethodGet, Path: "/zones/boot", Read: door.ReadLocal}, role: api.RoleReader, do: d.listBoots, params: []string{"limit", "marker", "project_id"}},
		{route: door.Route{Method: http.MethodGet, Path: "/zones/boot/{id}", Read: door.ReadLocal}, role: api.RoleReader, do: d.showBoot, params: []string{"wait", "project_id"}},
		{route: door.Route{Method: http.MethodDelete, Path: "/zones/boot/{id}", Read: door.ReadLog}, role: api.RoleMember, do: d.releaseBoot, params: []string{"wait", "project_id"}},
		{route: door.Route{Method: http.MethodGet, Path: "/explain/{id}", Read: door.ReadLocal}, role: api.RoleReader, do: d.explain, params: []string{"project_id"}},

		{route: door.Route{Method: http.MethodPost, Path: "/servers", Read: door.ReadLog}, role: api.RoleMember, do: d.createServer},
		{route: door.Route{Method: http.MethodGet, Path: "/servers", Read: door.ReadLocal}, role: api.RoleReader, do: d.listServers, params: serverParams},
		{route: door.Route{Method: http.MethodGet, Path: "/servers/detail", Read: door.ReadLocal}, role: api.RoleReader, do: d.listServersDetail, params: serverParams},
		{route: door.Route{Method: http.MethodGet, Path: "/servers/{id}", Read: door.ReadLocal}, role: api.RoleReader, do: d.showServer},
		{route: door.Route{Method: http.MethodDelete, Path: "/servers/{id}", Read: door.ReadLog}, role: api.RoleMember, do: d.deleteServer},

		{route: door.Route{Method: http.MethodGet, Path: "/server-groups", Read: door.ReadLocal}, role: api.RoleReader, do: d.listGroups, params: []string{"limit", "marker", "project_id"}},
		{route: door.Route{Method: http.MethodPost, Path: "/server-groups", Read: door.ReadLog}, role: api.RoleMember, do: d.createGroup},
		{route: door.Route{Method: http.MethodGet, Path: "/server-groups/{id}", Read: door.ReadLocal}, role: api.RoleReader, do: d.showGroup, params: []string{"project_id"}},
		{route: door.Route{Method: http.MethodDelete, Path: "/server-groups/{id}", Read: door.ReadLog}, role: api.RoleMember, do: d.deleteGroup, params: []string{"project_id"}},

		{route: door.Route{Method: http.MethodGet, Path: "/flavors", Read: door.ReadLocal}, role: api.RoleReader, do: d.listFlavors, params: []string{"limit", "marker"}},
		{route: door.Route{Method: http.MethodGet, Path: "/flavors/detail", Read: door.ReadLocal}, role: api.RoleReader, do: d.listFlavors, params: []string{"limit", "marker"}},
		{route: door.Route{Method: http.MethodPost, Path: "/flavors", Read: door.ReadLog}, role: api.RoleAdmin, do: d.createFlavor},
		{route: door.Route{Method: http.MethodGet, Path: "/flavors/{id}", Read: door.ReadLocal}, role: api.RoleReader, do: d.showFlavor},
		{route: door.Route{Method: http.MethodPut, Path: "/flavors/{id}", Read: door.ReadLog}, role: api.RoleAdmin, do: d.updateFlavor},
		{route: door.Route{Method: http.MethodDelete, Path: "/flavors/{id}", Read: door.ReadLog}, role: api.RoleAdmin, do: d.deleteFlavor},
	}
}

// zoneRoutes are those of zones and of what they have.
func (d *dialect) zoneRoutes() []route {
	return []route{
		{route: door.Route{Method: http.MethodGet, Path: "/zones", Read: door.ReadLocal}, role: api.RoleReader, do: d.listZones, params: []string{"limit", "marker"}},
		{route: door.Route{Method: http.MethodGet, Path: "/zones/detail", Read: door.ReadLocal}, role: api.RoleReader, do: d.listZones, params: []string{"limit", "marker"}},
		{route: door.Route{Method: http.MethodGet, Path: "/zones/info", Read: door.ReadLocal}, role: api.RoleReader, do: d.zoneInfo},
		{route: door.Route{Method: http.MethodPost, Path: "/zones", Read: door.ReadLog}, role: api.RoleAdmin, do: d.createZone},
		{route: door.Route{Method: http.MethodPost, Path: "/zones/link", Read: door.ReadLog}, role: api.RoleAdmin, do: d.linkZone},
		{route: door.Route{Method: http.MethodGet, Path: "/zones/{id}", Read: door.ReadLocal}, role: api.RoleReader, do: d.showZone},
		{route: door.Route{Method: http.MethodPut, Path: "/zones/{id}", Read: door.ReadLog}, role: api.RoleAdmin, do: d.updateZone},
		{route: door.Route{Method: http.MethodDelete, Path: "/zones/{id}", Read: door.ReadLog}, role: api.RoleAdmin, do: d.deleteZone},
		{route: door.Route{Method: http.MethodGet, Path: "/availability-zones", Read: door.ReadLocal}, role: api.RoleReader, do: d.listAZs, params: []string{"limit", "marker"}},
		{route: door.Route{Method: http.MethodGet, Path: "/capacity", Read: door.ReadLocal}, role: api.RoleAdmin, do: d.showCapacity, params: []string{"at", "zone"}},

		{route: door.Route{Method: http.MethodGet, Path: "/hosts", Read: door.ReadLocal}, role: api.RoleAdmin, do: d.listHosts, params: hostParams},
		{route: door.Route{Method: http.MethodGet, Path: "/hosts/{id}", Read: door.ReadLocal}, role: api.RoleAdmin, do: d.showHost},
		{route: door.Route{Method: http.MethodPut, Path: "/hosts/{id}", Read: door.ReadLog}, role: api.RoleAdmin, do: d.updateHost},
		{route: door.Route{Method: http.MethodDelete, Path: "/hosts/{id}", Read: door.ReadLog}, role: api.RoleAdmin, do: d.deleteHost},
		{route: door.Route{Method: http.MethodPost, Path: "/hosts/{id}/drain", Read: door.ReadLog}, role: api.RoleAdmin, do: d.drainHost},
		{route: door.Route{Method: http.MethodDelete, Path: "/hosts/{id}/drain", Read: door.ReadLog}, role: api.RoleAdmin, do: d.undrainHost},
		{route: door.Route{Method: http.MethodPost, Path: "/hosts/{id}/evacuate", Read: door.ReadLinearizable}, role: api.RoleAdmin, do: d.evacuateHost},

		{route: door.Route{Method: http.MethodGet, Path: "/aggregates", Read: door.ReadLocal}, role: api.RoleAdmin, do: d.listAggregates, params: []string{"limit", "marker"}},
		{route: door.Route{Method: http.MethodPost, Path: "/aggregates", Read: door.ReadLog}, role: api.RoleAdmin, do: d.createAggregate},
		{route: door.Route{Method: http.MethodGet, Path: "/aggregates/{id}", Read: door.ReadLocal}, role: api.RoleAdmin, do: d.showAggregate},
		{route: door.Route{Method: http.MethodPut, Path: "/aggregates/{id}", Read: door.ReadLog}, role: api.RoleAdmin, do: d.updateAggregate},
		{route: door.Route{Method: http.MethodDelete, Path: "/aggregates/{id}", Read: door.ReadLog}, role: api.RoleAdmin, do: d.deleteAggregate},
	}
}

// checked refuses query parameters that a call does not take.
func checked(h door.Handler, params []string) door.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := checkQuery(r, params); err != nil {
			return err
		}
		return h(w, r)
	}
}

// checkQuery refuses query parameters that a call does not take, so that no wish
// is passed over in silence, and those that come twice.
func checkQuery(r *http.Request, params []string) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return api.Errorf(api.CodeInvalid, "what follows the ? of the address cannot be read")
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		switch {
		case name != "read" && !slices.Contains(params, name):
			return api.Errorf(api.CodeInvalid, "unknown query parameter %q; this call takes %s", name, cmp.Or(strings.Join(params, ", "), "none"))
		case len(q[name]) > 1:
			return api.Errorf(api.CodeInvalid, "the query parameter %q is given twice", name)
		}
	}
	return nil
}

func (d *dialect) root(w http.ResponseWriter, _ *http.Request) error {
	v := d.View(w)
	wire.JSON(w, http.StatusOK, map[string]any{"name": "berth", "version": d.Version, "zone": v.Name})
	return nil
}
