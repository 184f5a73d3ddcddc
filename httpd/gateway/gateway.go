// Package gateway serves other zones: CBOR over mutual TLS, for linked zones only. The
// listener has checked the peer's certificate against the link's pinned CA before a
// byte gets here.
//
// No answer names a host, an address or an agent of this zone: every answer is a type
// of package api without a field for them, and every refusal carries only a code and a
// fixed sentence.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/rates"
	"berth/httpd/refusals"
	"berth/httpd/traffic"
	"berth/httpd/wire"
	"berth/internal/actor"
	"berth/internal/budget"
	"berth/zone"
	"berth/zone/estimate"
	"berth/zone/output"
	"berth/zone/saga"
)

// Config holds what a gateway needs.
type Config struct {
	Zone      *zone.Zone
	Estimator *estimate.Estimator
	Saga      *saga.Saga
	Outputs   *output.Reader

	Peer  func(r *http.Request) (api.ZoneID, bool) // the authenticated zone at the other end
	Enrol func(ctx context.Context, e *api.Enrolment) (*api.Enrolment, error)
	Hello func(ctx context.Context, l *api.Link, h *api.Hello) error // refuses a zone that seals with this zone's key, and stores the zone's endpoints
	// Above reports whether a zone is this one or an ancestor, and how many zones are
	// above.
	Above   func(ctx context.Context, id api.ZoneID) (*api.AboveAnswer, error)
	Below   func(ctx context.Context) int // number of levels of zones below this one
	Leader  func() bool
	Led     func() bool  // whether this node knows of a leader
	Forward http.Handler // passes a request on to the leader
	Log     *slog.Logger
	Version string

	// Returned is called when a linked zone names an incarnation that is not confirmed here.
	Returned func(l *api.Link, n api.Incarnation)

	// Rates limits how often zones may call; nil for no limit. Address returns where a request
	// came from, "" if another node has passed it on.
	Rates   *rates.Limiter
	Now     func() time.Time
	Address func(r *http.Request) string
	// Refusals logs refusals, and counts zones that are not linked, and changes that a linked one may not make;
	// nil for nothing.
	Refusals *refusals.Counter
	// Traffic measures the calls; nil for nothing.
	Traffic *traffic.Meter
}

// listener is the listener of linked zones, as calls are measured under.
const listener = "gateway"

type peerDoor struct{ Config }

// New returns the handler of the calls of linked zones.
func New(c Config) http.Handler {
	d := &peerDoor{c}
	r := chi.NewRouter()
	r.Use(c.Traffic.Watch(listener), wire.WithRequestID, wire.Recover(c.Log), wire.WithForm(c.Zone.Form), wire.WithTime(c.Zone.Now), withIncarnation(c.Zone))
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		wire.Refuse(w, r, api.Errorf(api.CodeNotFound, "no such call"))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Allow", allowedMethods(r, req.URL))
		wire.Refuse(w, req, api.Errorf(api.CodeMethod, "no such call"))
	})
	for _, one := range d.listRoutes() {
		h := d.handleAnywhere(one.do)
		if one.leads {
			h = d.handleAtLeader(one.do)
		}
		r.Method(one.Method, one.Path, traffic.Name(one.Path)(d.pace(one.class(), h)))
	}
	return r
}

// route is one call of linked zones.
type route struct {
	door.Route
	leads bool // only the leader answers it
	do    handler
}

// class returns the class of a call: what ends or decides what is held already has its own.
func (r *route) class() rates.Class {
	if r.Method == http.MethodDelete || strings.HasSuffix(r.Path, "/commit") || strings.Contains(r.Path, "/decision") {
		return rates.Decisions
	}
	return rates.Peers
}

// pace refuses calls of a zone that are made too often, before their body is read.
func (d *peerDoor) pace(class rates.Class, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if peer, ok := d.Peer(r); ok {
			if over := d.Rates.Take(d.Now(), class, rates.Party{Kind: rates.Link, ID: string(peer)}); over != nil {
				wire.Refuse(w, r, door.TooOften(w, over))
				return
			}
			if err := door.HoldFor(r, budget.Party{Scope: budget.Link, ID: string(peer)}); err != nil {
				wire.Refuse(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (d *peerDoor) listRoutes() []route {
	return []route{
		{door.Route{Method: http.MethodGet, Path: "/zones/info", Read: api.ReadLocal}, false, d.getInfo},
		{door.Route{Method: http.MethodPost, Path: "/zones/hello", Read: api.ReadLocal}, true, d.postHello},
		{door.Route{Method: http.MethodPost, Path: "/zones/above", Read: api.ReadLinearizable}, true, d.getAbove},
		{door.Route{Method: http.MethodGet, Path: "/zones/below", Read: api.ReadLocal}, false, d.getBelow},
		{door.Route{Method: http.MethodPost, Path: "/zones/select", Read: api.ReadLocal}, false, d.selectPlan},
		{door.Route{Method: http.MethodPost, Path: "/zones/room", Read: api.ReadLocal}, false, d.findRoom},
		{door.Route{Method: http.MethodPost, Path: "/zones/holds", Read: api.ReadLog}, true, d.postHold},
		{door.Route{Method: http.MethodPost, Path: "/zones/holds/many", Read: api.ReadLog}, true, d.postHolds},
		{door.Route{Method: http.MethodPost, Path: "/zones/holds/{id}/commit", Read: api.ReadLog}, true, d.postCommit},
		{door.Route{Method: http.MethodDelete, Path: "/zones/holds/{id}", Read: api.ReadLog}, true, d.postAbort},
		{door.Route{Method: http.MethodPost, Path: "/zones/decisions", Read: api.ReadLog}, true, d.postDecisions},
		{door.Route{Method: http.MethodGet, Path: "/zones/holds/{id}/decision", Read: api.ReadLinearizable}, true, d.getDecision},
		{door.Route{Method: http.MethodGet, Path: "/zones/changes", Read: api.ReadLocal}, true, d.getChanges},
		{door.Route{Method: http.MethodPost, Path: "/servers", Read: api.ReadLog}, true, d.postHold},
		{door.Route{Method: http.MethodDelete, Path: "/servers/{id}", Read: api.ReadLog}, true, d.endServer},
		{door.Route{Method: http.MethodPost, Path: "/zones/output", Read: api.ReadLinearizable}, true, d.readOutput},
		{door.Route{Method: http.MethodPost, Path: "/servers/power", Read: api.ReadLog}, true, d.postPower},
		{door.Route{Method: http.MethodPost, Path: "/volumes/attach", Read: api.ReadLog}, true, d.handleVolume(d.Saga.AttachAbroad)},
		{door.Route{Method: http.MethodPost, Path: "/volumes/detach", Read: api.ReadLog}, true, d.handleVolume(d.Saga.DetachAbroad)},
	}
}

// enrolMaxBytes bounds the body of an enrolment: a token, a certificate and the gateways of a zone.
const enrolMaxBytes = 32 << 10

// enrolPath is the only call that a zone may make before it is linked.
const enrolPath = "/links/enrol"

// Routes returns every call between zones with its kind of read.
func Routes() []door.Route {
	out := []door.Route{{Method: http.MethodPost, Path: enrolPath, Read: api.ReadLog}}
	for _, r := range new(peerDoor).listRoutes() {
		out = append(out, r.Route)
	}
	return out
}

// allowedMethods returns the methods that a path has, as the header Allow spells them.
func allowedMethods(routes chi.Routes, at *url.URL) string {
	var out []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if routes.Match(chi.NewRouteContext(), m, cmp.Or(at.RawPath, at.Path)) {
			out = append(out, m)
		}
	}
	return strings.Join(out, ", ")
}

// Enrol returns the handler of the only call that a zone may make before it is linked.
// The link token in the body authorizes it.
func Enrol(c Config) http.Handler {
	r := chi.NewRouter()
	r.Use(wire.WithRequestID, wire.Recover(c.Log), wire.WithForm(c.Zone.Form), wire.WithTime(c.Zone.Now), withIncarnation(c.Zone))
	r.Post(enrolPath, func(w http.ResponseWriter, r *http.Request) {
		if from := c.Address(r); from != "" {
			if over := c.Rates.Take(c.Now(), rates.Joins, rates.Party{Kind: rates.Address, ID: from}); over != nil {
				wire.Refuse(w, r, door.TooOften(w, over))
				return
			}
		}
		if err := door.HoldFor(r, budget.Party{Scope: budget.Strangers, ID: "enrol"}); err != nil {
			wire.Refuse(w, r, err)
			return
		}
		if !c.Leader() {
			c.Forward.ServeHTTP(w, r)
			return
		}
		var e api.Enrolment
		if err := wire.ReadCBOR(r, enrolMaxBytes, &e); err != nil {
			wire.Refuse(w, r, err)
			return
		}
		e.Incarnation = api.ParseIncarnation(r.Header.Get(api.HeaderIncarnation))
		var back *api.Enrolment
		err := c.Zone.Confirmed(r.Context(), func(ctx context.Context) (err error) {
			back, err = c.Enrol(actor.With(ctx, actor.Call{By: actor.Of(ctx).By, Path: callOf(r)}), &e)
			return err
		})
		if err != nil {
			if api.CodeOf(err) == api.CodeUnauthenticated {
				c.Refusals.NoteAuthentication(r.Context(), refusals.Gateway, refusals.JoinToken, "path", r.URL.Path)
			} else {
				c.Refusals.NoteRefusal(r.Context(), refusals.Gateway, err, "path", r.URL.Path)
			}
			wire.Refuse(w, r, err)
			return
		}
		wire.CBOR(w, r, http.StatusOK, back)
	})
	return r
}

// callOf returns method and path of a request.
func callOf(r *http.Request) string { return r.Method + " " + r.URL.EscapedPath() }

// handler answers the zone at the other end of a link, or returns a refusal.
type handler func(w http.ResponseWriter, r *http.Request, l *api.Link) error

// handleAnywhere answers on any node.
func (d *peerDoor) handleAnywhere(h handler) http.HandlerFunc { return d.handleLink(d.linkOf, h) }

// handleLink answers a call over the link that find returns.
func (d *peerDoor) handleLink(find func(r *http.Request) (*api.Link, error), h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		l, err := find(r)
		if err == nil {
			ctx, cancel := withBudget(r.Context(), r.Header.Get(api.HeaderDeadline))
			defer cancel()
			ctx = actor.With(ctx, actor.Call{By: api.AuditActor{Kind: api.ActorLink, ID: string(l.Zone)}, Path: callOf(r)})
			err = h(w, r.WithContext(ctx), l)
		}
		if err != nil {
			d.noteRefusal(r, err)
			wire.Refuse(w, r, err)
		}
	}
}

// handleAtLeader answers on the leader; any other node forwards the call inside the
// zone.
func (d *peerDoor) handleAtLeader(h handler) http.HandlerFunc {
	local := d.handleLink(d.confirmedLink, h)
	return func(w http.ResponseWriter, r *http.Request) {
		if d.Leader() {
			local(w, r)
			return
		}
		d.Forward.ServeHTTP(w, r)
	}
}

// linkOf returns the link that the call arrived over. It refuses a link that was
// removed after the handshake.
func (d *peerDoor) linkOf(r *http.Request) (*api.Link, error) {
	if peer, ok := d.Peer(r); ok {
		v := d.Zone.View()
		if l, ok := v.LinkByZone(peer); ok {
			if n := api.ParseIncarnation(r.Header.Get(api.HeaderIncarnation)); n > l.Incarnation {
				d.Returned(l, n)
			}
			return l, checkIncarnations(r.Header, v.Incarnation, l.Incarnation)
		}
	}
	return nil, errNotLinked
}

var errNotLinked = api.Errorf(api.CodeForbidden, "the zones are not linked")

// noteRefusal logs a refusal. It counts one of a zone that is not linked, and of a change that a linked one may
// not make.
func (d *peerDoor) noteRefusal(r *http.Request, err error) {
	peer, _ := d.Peer(r)
	if errors.Is(err, errNotLinked) {
		d.Refusals.NoteAuthentication(r.Context(), refusals.Gateway, refusals.NotLinked, "peer_zone", peer, "path", r.URL.Path)
		return
	}
	d.Refusals.NoteRefusal(r.Context(), refusals.Gateway, err, "peer_zone", peer, "path", r.URL.Path)
	if api.CodeOf(err) == api.CodeForbidden && r.Method != http.MethodGet {
		d.Refusals.NoteAuthorization(refusals.Gateway)
	}
}

// confirmedLink is linkOf on the leader, where "not linked" is final.
func (d *peerDoor) confirmedLink(r *http.Request) (l *api.Link, err error) {
	err = d.Zone.Confirmed(r.Context(), func(context.Context) error {
		l, err = d.linkOf(r)
		return err
	})
	return l, err
}

// requireParent refuses calls that only a parent may make.
func requireParent(l *api.Link) error {
	if l.Role != api.LinkParent {
		return api.Errorf(api.CodeForbidden, "only the parent zone may do this")
	}
	return nil
}

// requireChild refuses calls that only a child may make.
func requireChild(l *api.Link) error {
	if l.Role != api.LinkChild {
		return api.Errorf(api.CodeForbidden, "only a child zone may do this")
	}
	return nil
}

// withBudget limits ctx to the caller's remaining budget.
func withBudget(ctx context.Context, budget string) (context.Context, context.CancelFunc) {
	ms, err := strconv.ParseInt(budget, 10, 64)
	if err != nil || ms <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(min(ms, api.WaitMax.Milliseconds()))*time.Millisecond)
}

// getInfo returns the identity of this zone and, to its parent, its digest. A child
// gets no digest, because that would include its siblings.
func (d *peerDoor) getInfo(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	v := d.Zone.View()
	z := api.ZoneInfo{ID: v.Zone, Name: v.Name, Version: d.Version}
	if l.Role == api.LinkParent {
		z.Digest = d.Estimator.Digest()
	}
	wire.CBOR(w, r, http.StatusOK, z)
	return nil
}

// postHello checks that the two zones seal with different keys, and records the
// gateways of the caller.
func (d *peerDoor) postHello(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	var h api.Hello
	if err := wire.ReadCBOR(r, api.BodyMaxBytes, &h); err != nil {
		return err
	}
	if err := d.Hello(r.Context(), l, &h); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// getAbove reports to a child whether a zone that wants to link below it is one of its
// ancestors.
func (d *peerDoor) getAbove(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	if err := requireChild(l); err != nil {
		return err
	}
	ctx, err := withDepth(r)
	if err != nil {
		return err
	}
	var q api.AboveQuestion
	if err = wire.ReadCBOR(r, api.BodyMaxBytes, &q); err != nil {
		return err
	}
	if err = api.CheckName("zone", string(q.Zone)); err != nil {
		return err
	}
	a, err := d.Above(ctx, q.Zone)
	if err != nil {
		return err
	}
	wire.CBOR(w, r, http.StatusOK, a)
	return nil
}

// getBelow returns to the parent the number of levels of zones below this one.
func (d *peerDoor) getBelow(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	if err := requireParent(l); err != nil {
		return err
	}
	ctx, err := withDepth(r)
	if err != nil {
		return err
	}
	wire.CBOR(w, r, http.StatusOK, api.BelowAnswer{Levels: d.Below(ctx)})
	return nil
}

// withDepth refuses a call that has crossed too many links: nobody builds a tree of
// that depth, so it is a ring.
func withDepth(r *http.Request) (context.Context, error) {
	n, _ := strconv.Atoi(r.Header.Get(api.HeaderDepth))
	if n < 1 {
		n = 1
	}
	if n > api.DepthMax {
		return nil, api.Errorf(api.CodeInvalid, "the request has crossed more than %d links; is there a ring?", api.DepthMax)
	}
	return zone.WithDepth(r.Context(), n), nil
}

// mayOffer refuses a question for room from a zone that is not a parent, over a paused link,
// without a leader, or over too many links.
func (d *peerDoor) mayOffer(r *http.Request, l *api.Link) (context.Context, error) {
	if err := requireParent(l); err != nil {
		return nil, err
	}
	if !d.Led() { // without a leader, no offer could be held
		return nil, api.Errorf(api.CodeUnavailable, "no leader just now")
	}
	if l.State == api.LinkPaused {
		return nil, api.Errorf(api.CodePaused, "paused")
	}
	return withDepth(r)
}

func (d *peerDoor) selectPlan(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	ctx, err := d.mayOffer(r, l)
	if err != nil {
		return err
	}
	var req api.Request
	if err = wire.ReadCBOR(r, api.BodyMaxBytes, &req); err != nil {
		return err
	}
	a, err := d.Estimator.Select(ctx, l.Zone, &req)
	if err != nil {
		return err
	}
	reads := api.ParseForm(r.Header.Get(api.HeaderForm)) >= api.FormFifth
	a.Soon, a.Paused = a.Soon && reads, a.Paused && reads
	wire.CBOR(w, r, http.StatusOK, a) // details of single zones and hosts are not encoded
	return nil
}

// findRoom answers how many slots of a parent's request would fit over time.
func (d *peerDoor) findRoom(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	ctx, err := d.mayOffer(r, l)
	if err != nil {
		return err
	}
	var q api.RoomQuestion
	if err = wire.ReadCBOR(r, api.BodyMaxBytes, &q); err != nil {
		return err
	}
	a, err := d.Estimator.Room(ctx, l.Zone, &q)
	if err != nil {
		return err
	}
	wire.CBOR(w, r, http.StatusOK, a)
	return nil
}

func (d *peerDoor) postHold(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	if err := requireParent(l); err != nil {
		return err
	}
	ctx, err := withDepth(r)
	if err != nil {
		return err
	}
	var req api.HoldRequest
	if err = wire.ReadCBOR(r, api.ZoneBodyMaxBytes, &req); err != nil {
		return err
	}
	if _, known := d.Zone.View().Hold(l.ID, req.ID); !known && l.State == api.LinkPaused {
		return api.Errorf(api.CodePaused, "paused")
	}
	req.Commit = r.URL.Path == "/servers"
	a, err := d.Saga.Hold(ctx, l, &req)
	if err != nil {
		return err
	}
	wire.CBOR(w, r, http.StatusOK, a)
	return nil
}

// postHolds takes slots for several holds of a parent.
func (d *peerDoor) postHolds(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	if err := requireParent(l); err != nil {
		return err
	}
	var q api.Holds
	if err := wire.ReadCBOR(r, api.HoldsBytesMax, &q); err != nil {
		return err
	}
	if n := len(q.Items); n < 1 || n > api.HoldsMax {
		return api.Errorf(api.CodeInvalid, "a call has 1 to %d holds", api.HoldsMax)
	}
	a, err := d.Saga.HoldAll(r.Context(), l, q.Items)
	if err != nil {
		return err
	}
	wire.CBOR(w, r, http.StatusOK, a)
	return nil
}

func (d *peerDoor) postCommit(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	return d.postDecision(w, r, l, api.DecisionCommit)
}

func (d *peerDoor) postAbort(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	return d.postDecision(w, r, l, api.DecisionAbort)
}

func (d *peerDoor) postDecision(w http.ResponseWriter, r *http.Request, l *api.Link, dec api.Decision) error {
	if err := requireParent(l); err != nil {
		return err
	}
	id := chi.URLParam(r, "id")
	if !api.ValidName(id) {
		return api.Errorf(api.CodeInvalid, "a hold id is 1 to %d characters", api.NameMaxBytes)
	}
	a, err := d.Saga.Decide(r.Context(), l, api.HoldID(id), dec)
	if err != nil {
		return err
	}
	wire.CBOR(w, r, http.StatusOK, a)
	return nil
}

// postDecisions carries out the decisions of a parent on several holds.
func (d *peerDoor) postDecisions(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	if err := requireParent(l); err != nil {
		return err
	}
	var q api.Decisions
	if err := wire.ReadCBOR(r, api.BodyMaxBytes, &q); err != nil {
		return err
	}
	if n := len(q.Holds); n < 1 || n > api.DecisionsMax {
		return api.Errorf(api.CodeInvalid, "a call has 1 to %d decisions", api.DecisionsMax)
	}
	for _, h := range q.Holds {
		if !api.ValidName(string(h.ID)) || h.Decision != api.DecisionCommit && h.Decision != api.DecisionAbort {
			return api.Errorf(api.CodeInvalid, "a decision is %s or %s, and a hold id 1 to %d characters", api.DecisionCommit, api.DecisionAbort, api.NameMaxBytes)
		}
		if len(h.Lifted) > api.RulesMax || slices.ContainsFunc(h.Lifted, func(id api.ServerGroupID) bool { return !api.ValidName(string(id)) }) {
			return api.Errorf(api.CodeInvalid, "a decision names at most %d deleted server groups, each by its id", api.RulesMax)
		}
	}
	a, err := d.Saga.DecideAll(r.Context(), l, q.Holds)
	if err != nil {
		return err
	}
	wire.CBOR(w, r, http.StatusOK, a)
	return nil
}

// getDecision returns the decision on a hold to the child that has it.
func (d *peerDoor) getDecision(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	dec, err := d.Saga.Decision(r.Context(), l, api.HoldID(chi.URLParam(r, "id")))
	if err != nil {
		return err
	}
	wire.CBOR(w, r, http.StatusOK, api.DecisionAnswer{Decision: dec})
	return nil
}

func (d *peerDoor) endServer(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	if err := requireParent(l); err != nil {
		return err
	}
	err := d.Saga.EndInstance(r.Context(), l, api.InstanceID(chi.URLParam(r, "id")))
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// handleVolume returns the handler of a call about a volume of a parent.
func (*peerDoor) handleVolume(do func(ctx context.Context, l *api.Link, q *api.VolumeCall) error) handler {
	return func(w http.ResponseWriter, r *http.Request, l *api.Link) error {
		if err := requireParent(l); err != nil {
			return err
		}
		var q api.VolumeCall
		if err := wire.ReadCBOR(r, api.BodyMaxBytes, &q); err != nil {
			return err
		}
		err := do(r.Context(), l, &q)
		if err == nil {
			w.WriteHeader(http.StatusNoContent)
		}
		return err
	}
}
