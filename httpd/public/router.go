// Package public is the native dialect of a zone's public API: JSON over HTTP
// for users, operators and the CLI. A handler reads its request, calls one use
// case, and writes what came of it; docs/http.md is its contract.
//
// It decides nothing about capacity, and no host of another zone passes through
// it: records of other zones hold none.
package public

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
	r.Get("/", d.handle(d.root))
	r.Post("/operator/join", d.lead(d.join))
	r.Group(func(r chi.Router) {
		r.Use(d.Authenticate, d.Fresh(door.ReadLocal))
		d.routes(r)
	})
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

func (d *dialect) routes(r chi.Router) {
	d.workRoutes(r)
	d.zoneRoutes(r)
	r.Route("/operator", func(r chi.Router) {
		r.Use(d.Allow(api.RoleAdmin))
		d.operatorRoutes(r)
	})
}

// workRoutes are those of callers who want something to run.
func (d *dialect) workRoutes(r chi.Router) {
	reader, member, admin := d.Allow(api.RoleReader), d.Allow(api.RoleMember), d.Allow(api.RoleAdmin)

	r.With(member).Post("/zones/select", d.handle(d.selectPlan))
	r.With(member).Post("/zones/boot", d.lead(d.boot, "wait"))
	r.With(reader).Get("/zones/boot", d.handle(d.listBoots, "limit", "marker", "project_id"))
	r.With(reader).Get("/zones/boot/{id}", d.handle(d.showBoot, "wait", "project_id"))
	r.With(member).Delete("/zones/boot/{id}", d.lead(d.releaseBoot, "wait", "project_id"))
	r.With(reader).Get("/explain/{id}", d.handle(d.explain, "project_id"))

	r.With(member).Post("/servers", d.lead(d.createServer))
	r.With(reader).Get("/servers", d.handle(d.listServers, serverParams...))
	r.With(reader).Get("/servers/detail", d.handle(d.listServersDetail, serverParams...))
	r.With(reader).Get("/servers/{id}", d.handle(d.showServer))
	r.With(member).Delete("/servers/{id}", d.lead(d.deleteServer))

	r.With(reader).Get("/server-groups", d.handle(d.listGroups, "limit", "marker", "project_id"))
	r.With(member).Post("/server-groups", d.lead(d.createGroup))
	r.With(reader).Get("/server-groups/{id}", d.handle(d.showGroup, "project_id"))
	r.With(member).Delete("/server-groups/{id}", d.lead(d.deleteGroup, "project_id"))

	r.With(reader).Get("/flavors", d.handle(d.listFlavors, "limit", "marker"))
	r.With(reader).Get("/flavors/detail", d.handle(d.listFlavors, "limit", "marker"))
	r.With(admin).Post("/flavors", d.lead(d.createFlavor))
	r.With(reader).Get("/flavors/{id}", d.handle(d.showFlavor))
	r.With(admin).Put("/flavors/{id}", d.lead(d.updateFlavor))
	r.With(admin).Delete("/flavors/{id}", d.lead(d.deleteFlavor))
}

// zoneRoutes are those of zones and of what they have.
func (d *dialect) zoneRoutes(r chi.Router) {
	reader, admin := d.Allow(api.RoleReader), d.Allow(api.RoleAdmin)

	r.With(reader).Get("/zones", d.handle(d.listZones, "limit", "marker"))
	r.With(reader).Get("/zones/detail", d.handle(d.listZones, "limit", "marker"))
	r.With(reader).Get("/zones/info", d.handle(d.zoneInfo))
	r.With(admin).Post("/zones", d.lead(d.createZone))
	r.With(admin).Post("/zones/link", d.lead(d.linkZone))
	r.With(reader).Get("/zones/{id}", d.handle(d.showZone))
	r.With(admin).Put("/zones/{id}", d.lead(d.updateZone))
	r.With(admin).Delete("/zones/{id}", d.lead(d.deleteZone))
	r.With(reader).Get("/availability-zones", d.handle(d.listAZs, "limit", "marker"))
	r.With(admin).Get("/capacity", d.handle(d.showCapacity, "at", "zone"))

	r.With(admin).Get("/hosts", d.handle(d.listHosts, hostParams...))
	r.With(admin).Get("/hosts/{id}", d.handle(d.showHost))
	r.With(admin).Put("/hosts/{id}", d.lead(d.updateHost))
	r.With(admin).Delete("/hosts/{id}", d.lead(d.deleteHost))
	r.With(admin).Post("/hosts/{id}/drain", d.lead(d.drainHost))
	r.With(admin).Delete("/hosts/{id}/drain", d.lead(d.undrainHost))
	r.With(admin).Post("/hosts/{id}/evacuate", d.lead(d.evacuateHost))

	r.With(admin).Get("/aggregates", d.handle(d.listAggregates, "limit", "marker"))
	r.With(admin).Post("/aggregates", d.lead(d.createAggregate))
	r.With(admin).Get("/aggregates/{id}", d.handle(d.showAggregate))
	r.With(admin).Put("/aggregates/{id}", d.lead(d.updateAggregate))
	r.With(admin).Delete("/aggregates/{id}", d.lead(d.deleteAggregate))
}

// handle answers on any node. A call takes the query parameters params and no other.
func (d *dialect) handle(h door.Handler, params ...string) http.HandlerFunc {
	return d.Handle(checked(h, params))
}

// lead answers on the leader.
func (d *dialect) lead(h door.Handler, params ...string) http.HandlerFunc {
	return d.Lead(checked(h, params))
}

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
