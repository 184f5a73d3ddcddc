// Package native is the native dialect of a zone's public API: JSON over HTTP for
// users, operators and the CLI. A handler reads its request, calls one use case, and
// writes the result; docs/http.md is the contract.
//
// It decides nothing about capacity, and never handles a host of another zone: records
// of other zones name none.
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
	"berth/api/rest"
	"berth/httpd/door"
	httpevents "berth/httpd/events"
	"berth/httpd/traffic"
	"berth/httpd/wire"
	"berth/internal/skew"
	"berth/zone"
	"berth/zone/estimate"
	"berth/zone/fleet"
	"berth/zone/output"
	"berth/zone/saga"
)

// Authority has the calls that concern the node and its zone as such: membership, keys,
// and the admission of nodes, agents and zones. Errors are *api.Error.
type Authority interface {
	LinkToken(ctx context.Context, name string, offset, scale int64) (token string, err error)
	Link(ctx context.Context, token, name string) (*api.Link, error)
	JoinToken(ctx context.Context, kind api.JoinKind, name string, ttl time.Duration) (token string, err error)
	AgentToken(ctx context.Context, name string, terms api.AgentTerms, ttl time.Duration) (token string, err error)
	Join(ctx context.Context, b *rest.JoinBody) (*rest.JoinAnswer, error)
	NewToken(ctx context.Context, t api.Token) (text string, id api.TokenID, err error)
	NewWebhook(ctx context.Context, w api.Webhook, secret string) (api.WebhookID, error)
	WrapLeaseToken(url, token string) ([]byte, error)
	RotateKeyring(ctx context.Context) error
	RotateKEK(ctx context.Context) error
	CAStatus(ctx context.Context) (*rest.CA, error)
	RotateCA(ctx context.Context, brought rest.CABrought) error
	UseCA(ctx context.Context, force bool) error
	FinishCA(ctx context.Context, force bool) error
	UpgradeStatus(ctx context.Context) (*rest.Upgrade, error)
	FinishUpgrade(ctx context.Context) error
	Relink(ctx context.Context, id api.LinkID, q rest.Relink) (*rest.Relinked, error)
	Members() []api.Node
	RemoveMember(ctx context.Context, id api.NodeID) error
	Transfer(ctx context.Context, to api.NodeID) error
	Snapshot(ctx context.Context, w io.Writer) error
	// Restore replaces the state of the zone by a backup. One that does not prove that this
	// zone wrote it is refused unless unauthenticated is set.
	Restore(ctx context.Context, r io.Reader, unauthenticated bool) error
}

// Config holds what the public API needs.
type Config struct {
	Door      door.Config
	Estimator *estimate.Estimator
	Saga      *saga.Saga
	Fleet     *fleet.Fleet
	Outputs   *output.Reader
	Authority Authority
	Digests   zone.Digests
	// Vitals returns what this node knows of the clock and the disk of a node; nil for nothing.
	Vitals func(id api.NodeID) rest.Vitals
	// Skew returns by how much the clock of a linked zone is ahead of this node's, if that is known; nil for unknown.
	Skew func(l *api.Link) (skew.Skew, bool)
	// Unconfirmed returns the incarnation of a linked zone that is to be confirmed, 0 for none; nil for none of any.
	Unconfirmed func(l *api.Link) api.Incarnation
	Streams     *httpevents.Streams
	Version     string
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
	r.Use(c.Door.Traffic.Watch(door.ListenerAPI), wire.WithRequestID, wire.Recover(c.Door.Log), answerProbes, d.Index, wire.Text(wire.Refuse))
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		wire.Refuse(w, r, api.Errorf(api.CodeNotFound, "there is nothing at %s", r.URL.Path))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Allow", allowedMethods(r, req.URL))
		wire.Refuse(w, req, api.Errorf(api.CodeMethod, "%s is not a method of %s", req.Method, req.URL.Path))
	})
	for _, route := range rest.Routes() {
		pace := d.Pace(door.ClassOf(route.Method, route.Read, route.Role))
		named := traffic.Name(route.Path)
		to := r.With(named, pace)
		if route.Role != "" {
			to = r.With(named, d.Authenticate, pace)
			if route.Sees != rest.SeesUser { // that is for every caller
				to = to.With(d.Allow(route.Role, route.Allows()))
			}
			to = to.With(d.Fresh(api.ReadLocal))
		}
		to.Method(route.Method, route.Path, d.handlerOf(&route))
	}
	return r
}

// answerProbes takes HEAD / for GET /: so load balancers ask whether somebody is there. The server leaves the
// body out.
func answerProbes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead && r.URL.Path == "/" {
			r = r.WithContext(r.Context())
			r.Method = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}

// allowedMethods returns the methods that a path has, as the header Allow spells them.
func allowedMethods(routes chi.Routes, at *url.URL) string {
	var out []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if routes.Match(chi.NewRouteContext(), m, cmp.Or(at.RawPath, at.Path)) {
			out = append(out, m)
		}
	}
	return strings.Join(out, ", ")
}

// handlerOf returns the handler of a call. It runs on the leader unless the call is a
// local read or an estimate.
func (d *dialect) handlerOf(r *rest.Route) http.HandlerFunc {
	do, most := handlers[r.Name()], r.BodyMax()
	h := checked(func(w http.ResponseWriter, r *http.Request) error { return do(d, w, wire.WithLimit(r, most)) }, r.Params())
	switch {
	case r.Stream:
		return d.LeadStream(h)
	case r.Read == api.ReadLocal:
		return d.Handle(h)
	default:
		return d.Lead(h)
	}
}

// handlers has the handler of every route of the table.
var handlers = map[string]func(d *dialect, w http.ResponseWriter, r *http.Request) error{
	"GET /": (*dialect).getRoot,

	"GET /tokens":         (*dialect).listOwnTokens,
	"DELETE /tokens/{id}": (*dialect).deleteOwnToken,

	"POST /zones/select":      (*dialect).selectPlan,
	"POST /zones/boot":        (*dialect).postBoot,
	"GET /zones/boot":         (*dialect).listBoots,
	"GET /zones/boot/{id}":    (*dialect).showBoot,
	"DELETE /zones/boot/{id}": (*dialect).releaseBoot,

	"GET /explain/{id}": (*dialect).getExplanation,

	"GET /events":                (*dialect).streamEvents,
	"POST /webhooks":             (*dialect).createWebhook,
	"GET /webhooks":              (*dialect).listWebhooks,
	"GET /webhooks/{id}":         (*dialect).showWebhook,
	"DELETE /webhooks/{id}":      (*dialect).deleteWebhook,
	"POST /webhooks/{id}/resume": (*dialect).resumeWebhook,

	"POST /servers":                (*dialect).createServer,
	"GET /servers":                 (*dialect).listServers,
	"GET /servers/detail":          (*dialect).listServersDetail,
	"GET /servers/{id}":            (*dialect).showServer,
	"DELETE /servers/{id}":         (*dialect).deleteServer,
	"GET /servers/{id}/output":     (*dialect).readOutput,
	"POST /servers/{id}/write-off": (*dialect).writeOffServer,
	"POST /servers/{id}/stop":      orderPower(api.PowerStop),
	"POST /servers/{id}/start":     orderPower(api.PowerStart),
	"POST /servers/{id}/restart":   orderPower(api.PowerRestart),
	"POST /volumes/{id}/write-off": (*dialect).writeOffVolume,

	"POST /volumes":             (*dialect).createVolume,
	"GET /volumes":              (*dialect).listVolumes,
	"GET /volumes/{id}":         (*dialect).showVolume,
	"DELETE /volumes/{id}":      (*dialect).deleteVolume,
	"POST /volumes/{id}/attach": (*dialect).attachVolume,
	"POST /volumes/{id}/detach": (*dialect).detachVolume,

	"GET /server-groups":         (*dialect).listGroups,
	"POST /server-groups":        (*dialect).createGroup,
	"GET /server-groups/{id}":    (*dialect).showGroup,
	"DELETE /server-groups/{id}": (*dialect).deleteGroup,

	"GET /availability-zones": (*dialect).listAZs,

	"GET /flavors":         (*dialect).listFlavors,
	"GET /flavors/detail":  (*dialect).listFlavors,
	"POST /flavors":        (*dialect).createFlavor,
	"GET /flavors/{id}":    (*dialect).showFlavor,
	"PUT /flavors/{id}":    (*dialect).updateFlavor,
	"DELETE /flavors/{id}": (*dialect).deleteFlavor,

	"GET /zones":         (*dialect).listZones,
	"GET /zones/detail":  (*dialect).listZones,
	"GET /zones/info":    (*dialect).zoneInfo,
	"POST /zones":        (*dialect).createZone,
	"POST /zones/link":   (*dialect).linkZone,
	"GET /zones/{id}":    (*dialect).showZone,
	"PUT /zones/{id}":    (*dialect).updateZone,
	"DELETE /zones/{id}": (*dialect).deleteZone,

	"POST /zones/{id}/plan-maintenance": (*dialect).planMaintenance,
	"POST /zones/{id}/write-off":        (*dialect).writeOffZone,
	"POST /zones/{id}/relink":           (*dialect).relinkZone,

	"GET /bindings":            (*dialect).listBindings,
	"POST /bindings":           (*dialect).setBinding,
	"GET /bindings/{id}":       (*dialect).showBinding,
	"DELETE /bindings/{id}":    (*dialect).endBinding,
	"POST /bindings/{id}/move": (*dialect).moveBinding,

	"GET /capacity": (*dialect).showCapacity,

	"GET /hosts":                 (*dialect).listHosts,
	"GET /hosts/{id}":            (*dialect).showHost,
	"PUT /hosts/{id}":            (*dialect).updateHost,
	"DELETE /hosts/{id}":         (*dialect).deleteHost,
	"POST /hosts/{id}/drain":     (*dialect).drainHost,
	"POST /hosts/plan-drain":     (*dialect).planDrain,
	"DELETE /hosts/{id}/drain":   (*dialect).undrainHost,
	"GET /hosts/{id}/evacuation": (*dialect).showEvacuation,
	"POST /hosts/{id}/write-off": (*dialect).writeOffHost,

	"GET /aggregates":         (*dialect).listAggregates,
	"POST /aggregates":        (*dialect).createAggregate,
	"GET /aggregates/{id}":    (*dialect).showAggregate,
	"PUT /aggregates/{id}":    (*dialect).updateAggregate,
	"DELETE /aggregates/{id}": (*dialect).deleteAggregate,

	"GET /quotas":         (*dialect).listQuotas,
	"PUT /quotas":         (*dialect).setQuota,
	"GET /quotas/{id}":    (*dialect).showQuota,
	"PUT /quotas/{id}":    (*dialect).setQuota,
	"DELETE /quotas/{id}": (*dialect).deleteQuota,

	"GET /operator/members":         (*dialect).listMembers,
	"DELETE /operator/members/{id}": (*dialect).removeMember,
	"POST /operator/transfer":       (*dialect).postTransfer,
	"GET /operator/snapshot":        (*dialect).saveSnapshot,
	"PUT /operator/snapshot":        (*dialect).restoreSnapshot,
	"GET /operator/audit":           (*dialect).listAudit,
	"GET /operator/tokens":          (*dialect).listTokens,
	"POST /operator/tokens":         (*dialect).createToken,
	"DELETE /operator/tokens/{id}":  (*dialect).deleteToken,
	"GET /operator/roles":           (*dialect).listRoles,
	"PUT /operator/roles/{id}":      (*dialect).setRole,
	"DELETE /operator/roles/{id}":   (*dialect).deleteRole,
	"GET /operator/agents":          (*dialect).listAgents,
	"DELETE /operator/agents/{id}":  (*dialect).revokeAgent,
	"POST /operator/join-tokens":    (*dialect).createJoinToken,
	"POST /operator/join":           (*dialect).postJoin,
	"GET /operator/config":          (*dialect).showConfig,
	"PUT /operator/config":          (*dialect).setConfig,
	"GET /operator/scheduler":       (*dialect).showScheduler,
	"PUT /operator/scheduler":       (*dialect).setScheduler,
	"POST /operator/keyring/rotate": (*dialect).rotateKeyring,
	"POST /operator/kek/rotate":     (*dialect).rotateKEK,
	"GET /operator/ca":              (*dialect).showCA,
	"POST /operator/ca/rotate":      (*dialect).rotateCA,
	"POST /operator/ca/use":         (*dialect).useCA,
	"POST /operator/ca/finish":      (*dialect).finishCA,
	"GET /operator/upgrade":         (*dialect).showUpgrade,
	"POST /operator/upgrade/finish": (*dialect).finishUpgrade,
	"GET /operator/holds":           (*dialect).listHolds,
	"POST /operator/holds/{id}":     (*dialect).resolveHold,
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

// checkQuery refuses query parameters that a call does not take, so that none is
// silently ignored, and repeated ones.
func checkQuery(r *http.Request, params []string) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return api.Errorf(api.CodeInvalid, "the query string cannot be read")
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

func (d *dialect) getRoot(w http.ResponseWriter, _ *http.Request) error {
	wire.JSON(w, http.StatusOK, rest.Root{Name: "berth"})
	return nil
}
