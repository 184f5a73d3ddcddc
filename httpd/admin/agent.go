package admin

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"berth/agent"
	"berth/httpd/wire"
)

var (
	agentHosts     = agentMetrics.gauge("berth_agent_hosts", "Hosts that this agent serves.")
	agentInstances = agentMetrics.gauge("berth_agent_instances", "Instances on them by what was last seen of them.", "status")
	agentContact   = agentMetrics.gauge("berth_agent_contact_seconds", "Time since the agent has sent the newest call that its zone has answered; none before the first. Long polls take up to 30 s.")
	agentCalls     = agentMetrics.histogram("berth_agent_call_seconds", "How long calls of the zone took, with the code of their error; moved for a redirect to the leader.", "call", "code")
	agentActions   = agentMetrics.histogram("berth_agent_action_seconds", "How long work on an instance took, by what it was.", "action")
	agentClock     = agentMetrics.gauge("berth_agent_clock_offset_seconds", "By how much the clock of this machine is ahead of that of the zone's nodes; none while it is unknown.")
	agentCertEnds  = agentMetrics.gauge("berth_agent_certificate_expiry_seconds", "Time until the certificate of the agent ends.")
)

// AgentConfig is what the handler of an agent needs.
type AgentConfig struct {
	Figures func() agent.Figures
	Now     func() time.Time
	Version string
}

// NewAgent returns the handler of GET /healthz (the process serves) and GET /metrics of an agent.
func NewAgent(c AgentConfig) http.Handler { return newAgentRouter(c) }

// NewAgentLocal returns the handler of the socket of an agent: what NewAgent serves, and profiles.
func NewAgentLocal(c AgentConfig) http.Handler {
	r := newAgentRouter(c)
	mountProfiles(r)
	return r
}

func newAgentRouter(c AgentConfig) chi.Router {
	r := chi.NewRouter()
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		wire.JSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	reg := newRegistry(c.Version)
	reg.MustRegister(&agentCollector{c})
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	return r
}

// agentCollector reads all figures of one scrape at once.
type agentCollector struct{ AgentConfig }

// Describe implements prometheus.Collector.
func (*agentCollector) Describe(ch chan<- *prometheus.Desc) { agentMetrics.describe(ch) }

// Collect implements prometheus.Collector.
func (c *agentCollector) Collect(ch chan<- prometheus.Metric) {
	e, f, now := emit(ch), c.Figures(), c.Now()
	e.gauge(agentHosts, float64(f.Hosts))
	for st, n := range f.Instances {
		e.gauge(agentInstances, float64(n), string(st))
	}
	if !f.Contact.IsZero() {
		e.gauge(agentContact, now.Sub(f.Contact).Seconds())
	}
	if f.SkewKnown {
		e.gauge(agentClock, f.Skew.Ahead.Seconds())
	}
	if !f.Ends.IsZero() {
		e.gauge(agentCertEnds, f.Ends.Sub(now).Seconds())
	}
	for k, d := range f.Calls {
		e.histogram(agentCalls, d, k.Path, string(k.Code))
	}
	for action, d := range f.Actions {
		e.histogram(agentActions, d, action)
	}
}
