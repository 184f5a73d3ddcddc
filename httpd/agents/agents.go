// Package agents serves a zone's own agents: CBOR over mutual TLS, only for
// certificates with the agent role. Only the leader answers; any other node returns the
// leader's address, which never leaves the zone.
package agents

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
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
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/fleet"
	"berth/zone/output"
)

// registerMax bounds a registration: HostsPerAgentMax hosts with room to spare.
const registerMax = 16 << 20

// Config holds what the handler needs.
type Config struct {
	Zone  *zone.Zone
	Fleet *fleet.Fleet
	// Outputs asks agents for what instances have printed; nil for nothing.
	Outputs *output.Reader
	Renew   func(ctx context.Context, id api.AgentID, q *api.AgentRenew) (*api.AgentRenewed, error)
	Trust   func(ctx context.Context, id api.AgentID, q *api.AgentTrust) (*api.AgentTrusted, error)
	Agent   func(r *http.Request) (api.AgentID, bool) // the authenticated agent
	Leader  func() (addr string, self bool)           // agent listener of the leader, "" if there is none
	// OnLeaderChange calls f at the next change of the leader, unless stop is called before; nil for never.
	OnLeaderChange func(f func()) (stop func())
	// TrustMark returns what changes whenever agents have to ask which authorities to trust.
	TrustMark func() api.Fingerprint
	Log       *slog.Logger
	Rates     *rates.Limiter // of calls of one agent; nil for no limit
	Now       func() time.Time
	Insecure  bool // the public API asks for no token: hosts that run commands are refused
	// Refusals logs refusals, and counts agents that were revoked, and changes that an agent may not make; nil for
	// nothing.
	Refusals *refusals.Counter
	// Traffic measures the calls; nil for nothing.
	Traffic *traffic.Meter
}

// listener is the listener of agents, as calls are measured under.
const listener = "agent"

type agentDoor struct{ Config }

// New returns the handler of the agent protocol.
func New(c Config) http.Handler {
	d := &agentDoor{c}
	r := chi.NewRouter()
	r.Use(c.Traffic.Watch(listener), wire.WithRequestID, wire.Recover(c.Log), wire.WithForm(c.Zone.Form), wire.WithTime(c.Zone.Now))
	for _, one := range d.listRoutes() {
		r.Method(one.Method, one.Path, traffic.Name(one.Path)(one.do))
	}
	return r
}

// route is one call of the protocol.
type route struct {
	door.Route
	do http.HandlerFunc
}

func (d *agentDoor) listRoutes() []route {
	post := func(path string, read api.Read) door.Route {
		return door.Route{Method: http.MethodPost, Path: path, Read: read}
	}
	return []route{
		{post(api.PathAgentRegister, api.ReadLog), serveCall(d, registerMax, d.registerHosts)},
		// An agent ignores the orders of a leader of an older term.
		{post(api.PathAgentWork, api.ReadLocal), serveCall(d, api.SmallBodyMaxBytes, d.work)},
		{post(api.PathAgentReport, api.ReadLog), serveCall(d, api.ZoneBodyMaxBytes, d.Fleet.Report)},
		{post(api.PathAgentRenew, api.ReadLog), serveCall(d, api.SmallBodyMaxBytes, d.Renew)},
		{post(api.PathAgentTrust, api.ReadLog), serveCall(d, api.SmallBodyMaxBytes, d.Trust)},
		{post(api.PathAgentOutputs, api.ReadLocal), serveCall(d, api.AgentOutputsMaxBytes, d.Outputs.Answer)},
	}
}

var errRunsCommands = api.Errorf(api.CodeForbidden,
	"this node asks for no tokens (--insecure-dev): whoever reaches it could run any command on a host of the driver process, so that it has none; use tokens, or the driver fake")

// registerHosts registers hosts, but none that run commands while anybody may define these.
func (d *agentDoor) registerHosts(ctx context.Context, id api.AgentID, q *api.AgentRegister) (*api.AgentRegistered, error) {
	for _, h := range q.Hosts {
		needs := api.UnreportedNeeds(h.Driver)
		if h.Needs != nil {
			needs = *h.Needs
		}
		if d.Insecure && needs.Command {
			return nil, errRunsCommands
		}
	}
	return d.Fleet.RegisterHosts(ctx, id, q)
}

// work returns what is to run, but for hosts that were registered before anybody could define
// commands.
func (d *agentDoor) work(ctx context.Context, id api.AgentID, q *api.AgentWork) (*api.AgentWorkload, error) {
	if d.Insecure && slices.ContainsFunc(d.Zone.View().WorkAfter(id, 0), func(h *state.Host) bool { return h.DriverNeeds().Command }) {
		return nil, errRunsCommands
	}
	return d.workOrAsks(ctx, id, q)
}

// Routes returns every call of the agent protocol with its kind of read.
func Routes() []door.Route {
	var out []door.Route
	for _, r := range new(agentDoor).listRoutes() {
		out = append(out, r.Route)
	}
	return out
}

// serveCall answers one call of the protocol, only on the leader.
func serveCall[Q, A any](d *agentDoor, limit int64, use useCase[Q, A]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, ok := d.Agent(r)
		if !ok {
			d.Refusals.NoteAuthentication(r.Context(), refusals.Agent, refusals.Revoked, "path", r.URL.Path)
			wire.Refuse(w, r, api.Errorf(api.CodeUnauthenticated, "this door is for agents of the zone"))
			return
		}
		if d.Rates != nil {
			if over := d.Rates.Take(d.Now(), rates.Heartbeats, rates.Party{Kind: rates.Agent, ID: string(id)}); over != nil {
				d.writeRefusal(w, r, id, door.TooOften(w, over))
				return
			}
		}
		if err := d.hold(r, id); err != nil {
			d.writeRefusal(w, r, id, err)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if d.OnLeaderChange != nil { // no call waits here longer than this node leads
			defer d.OnLeaderChange(cancel)()
		}
		if d.redirects(w, r) {
			return
		}
		if err := d.Fleet.AdmitAgent(id, r.Header.Get(api.HeaderHome)); err != nil {
			w.Header().Set(api.HeaderHome, "other")
			d.writeRefusal(w, r, id, err)
			return
		}
		d.Fleet.NoteAbout(id, readAbout(r.Header))
		a, err := readCall(r.WithContext(ctx), id, limit, use)
		if ctx.Err() != nil && d.redirects(w, r) {
			return
		}
		if err != nil {
			d.writeRefusal(w, r, id, err)
			return
		}
		if ack, ok := any(a).(*api.AgentAck); ok && d.TrustMark != nil && api.ParseForm(r.Header.Get(api.HeaderForm)) >= api.FormFifth {
			ack.Trust = d.TrustMark()
		}
		if work, ok := any(a).(*api.AgentWorkload); ok && api.ParseForm(r.Header.Get(api.HeaderForm)) < api.FormFourth {
			dropNotices(work)
		}
		wire.CBOR(w, r, http.StatusOK, a)
	}
}

// redirects answers with the address of the leader if that is another node.
func (d *agentDoor) redirects(w http.ResponseWriter, r *http.Request) bool {
	leader, self := d.Leader()
	if !self {
		wire.CBOR(w, r, http.StatusMisdirectedRequest, api.AgentRedirect{Leader: leader, Addresses: d.nodeAddresses()})
	}
	return !self
}

// hold counts a call for its agent, who registers with one call at a time.
func (d *agentDoor) hold(r *http.Request, id api.AgentID) error {
	if err := door.HoldFor(r, budget.Party{Scope: budget.Agent, ID: string(id)}); err != nil || r.URL.Path != api.PathAgentRegister {
		return err
	}
	return budget.Of(r.Context()).Take(budget.Registrations, 1)
}

// dropNotices removes what an agent of an earlier release cannot read: it stops preemptible
// instances at once, and softly.
func dropNotices(w *api.AgentWorkload) {
	for h := range w.Hosts {
		for i := range w.Hosts[h].Instances {
			w.Hosts[h].Instances[i].Notice = nil
		}
	}
}

// useCase is what a zone does for an agent.
type useCase[Q, A any] func(context.Context, api.AgentID, *Q) (*A, error)

// readCall decodes a body and runs the use case for the agent that sent it.
func readCall[Q, A any](r *http.Request, id api.AgentID, limit int64, use useCase[Q, A]) (*A, error) {
	var q Q
	if err := wire.ReadCBOR(r, limit, &q); err != nil {
		return nil, err
	}
	if work, ok := any(&q).(*api.AgentWork); ok {
		work.Form = api.ParseForm(r.Header.Get(api.HeaderForm))
	}
	ctx := actor.With(r.Context(), actor.Call{By: api.AuditActor{Kind: api.ActorAgent, ID: string(id)}, Path: r.Method + " " + r.URL.Path})
	return use(ctx, id, &q)
}

func (d *agentDoor) writeRefusal(w http.ResponseWriter, r *http.Request, id api.AgentID, err error) {
	if api.CodeOf(err) == api.CodeForbidden {
		d.Refusals.NoteAuthorization(refusals.Agent)
	}
	d.Refusals.NoteRefusal(r.Context(), refusals.Agent, err, "agent", id, "path", r.URL.Path)
	wire.Refuse(w, r, err)
}

func (d *agentDoor) nodeAddresses() []string {
	var out []string
	for _, n := range d.Zone.View().Nodes() {
		out = append(out, n.AgentAddr)
	}
	return out
}
