// Package agents is the door of a zone's own agents: CBOR over mutual TLS, for
// certificates with the agent role alone. Only the leader answers; another node
// says where the leader listens, which is the zone's own business.
package agents

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/wire"
	"berth/zone"
)

// registerMax bounds a registration: HostsPerAgentMax hosts with room to spare.
const registerMax = 16 << 20

// Config is what the door is made of.
type Config struct {
	Zone   *zone.Zone
	Agent  func(r *http.Request) (api.AgentID, bool) // the authenticated agent
	Leader func() (addr string, self bool)           // agent listener of the leader, "" if there is none
	Log    *slog.Logger
}

type door struct{ Config }

// New returns the handler of the agent protocol.
func New(c Config) http.Handler {
	d := &door{c}
	r := chi.NewRouter()
	r.Use(wire.WithRequestID, wire.Recover(c.Log))
	r.Post(api.PathAgentRegister, serve(d, registerMax, d.Zone.RegisterHosts))
	r.Post(api.PathAgentWork, serve(d, api.BodyMaxBytes, d.Zone.Work))
	r.Post(api.PathAgentReport, serve(d, api.ZoneBodyMaxBytes, d.Zone.Report))
	return r
}

// serve reads a body, calls one use case for the agent that sent it, and writes
// the answer.
func serve[Q, A any](d *door, limit int64, use func(context.Context, api.AgentID, *Q) (*A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		leader, self := d.Leader()
		if !self {
			wire.CBOR(w, http.StatusMisdirectedRequest, api.AgentRedirect{Leader: leader, Addresses: d.addresses()})
			return
		}
		var q Q
		err := wire.ReadCBOR(r, limit, &q)
		if err == nil {
			err = d.answer(w, r, func(id api.AgentID) (any, error) { return use(r.Context(), id, &q) })
		}
		if err != nil {
			d.Log.Info("agent refused", "request_id", wire.RequestID(r.Context()), "path", r.URL.Path, "error", err)
			wire.Refuse(w, r, err)
		}
	}
}

func (d *door) answer(w http.ResponseWriter, r *http.Request, use func(api.AgentID) (any, error)) error {
	id, ok := d.Agent(r)
	if !ok {
		return api.Errorf(api.CodeUnauthenticated, "this door is for agents of the zone")
	}
	a, err := use(id)
	if err != nil {
		return err
	}
	wire.CBOR(w, http.StatusOK, a)
	return nil
}

func (d *door) addresses() []string {
	var out []string
	for _, n := range d.Zone.View().Nodes() {
		out = append(out, n.AgentAddr)
	}
	return out
}
