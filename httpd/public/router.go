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
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/wire"
	"berth/raftstore/state"
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

// Tokens reads bearer tokens.
type Tokens interface {
	// Parse returns the public half of a token and the hash of its secret half.
	Parse(text string) (id api.TokenID, hash []byte, err error)
	// Check compares two hashes in constant time.
	Check(stored, presented []byte) bool
}

// Config is what the public API is made of.
type Config struct {
	Zone      *zone.Zone
	Authority Authority
	Tokens    Tokens
	Leader    func() bool  // whether this node leads
	Forward   http.Handler // passes a request on to the leader
	Digests   zone.Digests
	Now       func() time.Time
	Log       *slog.Logger
	Version   string
	Insecure  bool // no tokens: every caller is the admin of project "admin"
}

// door is the public API of one node.
type door struct{ Config }

// New returns the handler of the public API.
func New(c Config) http.Handler {
	d := &door{c}
	r := chi.NewRouter()
	r.Use(wire.WithRequestID, wire.Recover(c.Log), d.index)
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
		r.Use(d.authenticate, d.fresh)
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

func (d *door) routes(r chi.Router) {
	d.workRoutes(r)
	d.zoneRoutes(r)
	r.Route("/operator", func(r chi.Router) {
		r.Use(d.allow(api.RoleAdmin))
		d.operatorRoutes(r)
	})
}

// workRoutes are those of callers who want something to run.
func (d *door) workRoutes(r chi.Router) {
	reader, member, admin := d.allow(api.RoleReader), d.allow(api.RoleMember), d.allow(api.RoleAdmin)

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
func (d *door) zoneRoutes(r chi.Router) {
	reader, admin := d.allow(api.RoleReader), d.allow(api.RoleAdmin)

	r.With(reader).Get("/zones", d.handle(d.listZones, "limit", "marker"))
	r.With(reader).Get("/zones/detail", d.handle(d.listZones, "limit", "marker"))
	r.With(reader).Get("/zones/info", d.handle(d.zoneInfo))
	r.With(admin).Post("/zones", d.lead(d.createZone))
	r.With(admin).Post("/zones/link", d.lead(d.linkZone))
	r.With(reader).Get("/zones/{id}", d.handle(d.showZone))
	r.With(admin).Put("/zones/{id}", d.lead(d.updateZone))
	r.With(admin).Delete("/zones/{id}", d.lead(d.deleteZone))
	r.With(reader).Get("/availability-zones", d.handle(d.listAZs, "limit", "marker"))

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

// handler is a handler that returns its refusal.
type handler func(w http.ResponseWriter, r *http.Request) error

// handle answers on any node, from its own replica. A call takes the query
// parameters params and no other.
func (d *door) handle(h handler, params ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := checkQuery(r, params)
		if err == nil {
			err = h(w, r)
		}
		if err != nil {
			d.refuse(w, r, err)
		}
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

// lead answers on the leader: any other node passes the request on, inside the
// zone, and gives the leader's answer as its own.
func (d *door) lead(h handler, params ...string) http.HandlerFunc {
	local := d.handle(h, params...)
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !d.Leader():
			d.pass(w, r)
		case r.Method == http.MethodGet:
			local(w, r)
		default:
			w.Header().Del(api.HeaderIndex)
			local(&written{ResponseWriter: w, door: d}, r)
		}
	}
}

// pass passes a request on to the leader, whose index stands in the answer.
func (d *door) pass(w http.ResponseWriter, r *http.Request) {
	w.Header().Del(api.HeaderIndex)
	d.Forward.ServeHTTP(w, r)
}

// The kinds of read that a caller may ask for with ?read=.
const (
	readLocal        = "local"        // from this node's replica; the default
	readLinearizable = "linearizable" // with all that was acknowledged before the call
)

// fresh lets a read that must be linearizable wait, on the leader, until the
// replica holds all that this zone had acknowledged when the call came in. What
// writes is answered by the leader after its entry, and needs no such thing.
func (d *door) fresh(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := r.URL.Query().Get("read")
		switch {
		case kind == "" || kind == readLocal:
		case kind != readLinearizable || r.Method != http.MethodGet:
			d.refuse(w, r, api.Errorf(api.CodeInvalid, "read must be %s or %s, and goes with GET alone", readLocal, readLinearizable))
			return
		case !d.Leader():
			d.pass(w, r)
			return
		default:
			v, err := d.Zone.Latest(r.Context())
			if err != nil {
				d.refuse(w, r, err)
				return
			}
			answerAt(w, v)
		}
		next.ServeHTTP(w, r)
	})
}

func (d *door) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if code := api.CodeOf(err); code == api.CodeInternal {
		d.Log.Error("call failed", "request_id", wire.RequestID(r.Context()), "path", r.URL.Path, "error", err)
	}
	wire.Refuse(w, r, err)
}

// index says of every answer at which log index it was read: at that of the view
// when the call came, unless its handler names a later one.
func (d *door) index(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.view(w)
		next.ServeHTTP(w, r.WithContext(zone.WithRequest(r.Context(), wire.RequestID(r.Context()))))
	})
}

// view returns the view that a call is answered from. The answer says its index,
// and must show nothing of any other view.
func (d *door) view(w http.ResponseWriter) *state.State {
	v := d.Zone.View()
	answerAt(w, v)
	return v
}

// answerAt says that a call is answered from v.
func answerAt(w http.ResponseWriter, v *state.State) {
	w.Header().Set(api.HeaderIndex, strconv.FormatUint(v.Index(), 10))
}

// written is the answer to a write. Unless its handler names the view it answers
// from, it says the index of the view when it begins, so that what the call has
// changed is not above it: a node that passed the call on waits for that index.
type written struct {
	http.ResponseWriter
	door  *door
	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (w *written) WriteHeader(status int) {
	if !w.begun && w.Header().Get(api.HeaderIndex) == "" {
		w.door.view(w)
	}
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *written) Write(b []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *written) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (d *door) root(w http.ResponseWriter, _ *http.Request) error {
	v := d.view(w)
	wire.JSON(w, http.StatusOK, map[string]any{"name": "berth", "version": d.Version, "zone": v.Name})
	return nil
}
