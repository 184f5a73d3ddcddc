// Package admin is the door of the machine's own operator: metrics and health on a listener of its own that other zones and
// users never reach, but programs of the machine do, tenants among them; and on a socket that only the operator reaches, all else.
package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/rates"
	"berth/httpd/refusals"
	"berth/httpd/traffic"
	"berth/httpd/wire"
	"berth/internal/budget"
	"berth/raftstore/state"
)

// Config holds what the handler needs.
type Config struct {
	View   func() *state.State
	Leader func() (id api.NodeID, self bool)
	Ready  func() bool // this node has caught up with its zone
	// Removed reports whether this node was removed from its zone; nil for a node that was not.
	Removed func() bool
	Term    func() uint64
	Form    func() api.Form // newest form that all nodes of the zone read
	Now     func() api.Instant
	// Watching returns what this process does for those who watch events; nil for nothing.
	Watching func() Watching
	// Admission returns what this process does to admit boots; nil for nothing.
	Admission func() Admission
	// Certificates returns the life of the certificate of each role; nil for nothing.
	Certificates func() map[string]Life
	// Clocks returns by how much the clocks of the nodes are ahead of this one, if it leads; nil for nothing.
	Clocks func() map[api.NodeID]time.Duration
	// Disk returns the room on the disk with the data folder and its size, both in bytes; nil for nothing.
	Disk func() (free, total int64, err error)
	// CADue reports whether the authority of the zone should be changed; nil for nothing.
	CADue func() bool
	// LacksKEK reports whether this node lacks the key-encryption key in use; nil for nothing.
	LacksKEK func() bool
	// Refused returns how many calls this process has refused by their rate; nil for nothing.
	Refused func() map[rates.Class]uint64
	// Budget counts what calls hold; nil for nothing.
	Budget *budget.Budget
	// Waiting returns how many calls wait for their turn, and Share how much of what this process may do at once it
	// does while several projects have work; nil for not shown.
	Waiting func() int
	Share   func() float64
	// Backups returns what became of the backups of this node, false without a schedule; nil for that.
	Backups func() (Backups, bool)
	// Refusals returns whom this process has not authenticated, and changes that it has not allowed; nil for nothing.
	Refusals func() refusals.Counts
	// Traffic has measured the calls; nil for none.
	Traffic *traffic.Meter
	// Road returns what this process has measured and knows of the way of a request; nil for nothing.
	Road    func() Road
	Version string
	// Level is that of the log of this process; nil for one that cannot be seen or changed.
	Level *slog.LevelVar
	Log   *slog.Logger // nil exactly if Level is
}

// Routes returns every call of the listener with its kind of read. Each call reports on
// this node only.
func Routes() []door.Route { return routesOf("/healthz", "/readyz", "/metrics") }

// LocalRoutes returns every call that the socket has beside those of the listener.
func LocalRoutes() []door.Route {
	return append(routesOf("/state", "/debug/node", profileMount, profileMount+"{profile}"), logLevelRoutes()...)
}

func routesOf(paths ...string) (out []door.Route) {
	for _, path := range paths {
		out = append(out, door.Route{Method: http.MethodGet, Path: path, Read: api.ReadLocal})
	}
	return out
}

// New returns the handler of the listener, which asks nobody who he is and changes nothing: GET /healthz (the process serves),
// GET /readyz (it knows its zone and a leader), and GET /metrics.
func New(c Config) http.Handler { return newRouter(&c) }

// NewLocal returns the handler of the socket: what New serves, GET /state (a checksum of the state that this node has
// applied, and its log index: two nodes with the same index have the same checksum; and what
// became of its backups), GET /debug/node (of what the
// process was built, and what it knows of its log), the level of the log, and profiles of the process below /debug/pprof/.
func NewLocal(c Config) http.Handler {
	r := newRouter(&c)
	r.Get("/state", c.sumState)
	serveLogLevel(r, &c)
	r.Get("/debug/node", func(w http.ResponseWriter, _ *http.Request) { wire.JSON(w, http.StatusOK, c.describe()) })
	mountProfiles(r)
	return r
}

// sumState answers with the checksum of the state, and with the backups.
func (c *Config) sumState(w http.ResponseWriter, r *http.Request) {
	v := c.View()
	sum := sha256.New()
	if err := v.Save(sum); err != nil {
		wire.Refuse(w, r, api.Wrap(api.CodeInternal, "admin.state", "", err))
		return
	}
	answer := map[string]any{"index": v.Index(), "sha256": hex.EncodeToString(sum.Sum(nil))}
	if c.Backups != nil {
		if b, ok := c.Backups(); ok {
			answer["backups"] = b
		}
	}
	wire.JSON(w, http.StatusOK, answer)
}

func newRouter(c *Config) chi.Router {
	r := chi.NewRouter()
	probe := func(path string, h http.HandlerFunc) { // load balancers ask without a body
		r.Get(path, h)
		r.Head(path, h)
	}
	probe("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		wire.JSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	probe("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if c.Removed != nil && c.Removed() {
			wire.JSON(w, http.StatusServiceUnavailable, map[string]string{"status": "this node was removed from the zone"})
			return
		}
		v := c.View()
		leader, _ := c.Leader()
		if v.Zone == "" || leader == "" || !c.Ready() {
			wire.JSON(w, http.StatusServiceUnavailable, map[string]string{"status": "no leader is known, or this node has not caught up yet"})
			return
		}
		wire.JSON(w, http.StatusOK, map[string]any{"status": "ready", "zone": v.Name, "leader": leader, "index": v.Index()})
	})
	reg := newRegistry(c.Version)
	reg.MustRegister(&collector{Config: *c, leases: leaseCounter{seen: c.View().EventsEnd()}})
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	return r
}

// collector reads all figures of one scrape from the same view.
type collector struct {
	Config
	leases leaseCounter
}

var (
	index     = nodeMetrics.gauge("berth_applied_index", "Log index of the last entry applied here.")
	term      = nodeMetrics.gauge("berth_raft_term", "Current leadership term.")
	written   = nodeMetrics.gauge("berth_form_written", "Form in which the zone writes, as far as this node has applied its log: a release that reads less cannot come back.")
	readable  = nodeMetrics.gauge("berth_form_readable", "Newest form that all nodes of the zone read.")
	stateSize = nodeMetrics.gauge("berth_state_bytes", "Estimated size of the replicated state in a backup.")
	kekDue    = nodeMetrics.gauge("berth_kek_due", "1 if a removed node has the key-encryption key in use.")
	kekLacks  = nodeMetrics.gauge("berth_kek_missing", "1 if this node lacks the key-encryption key in use: it opens no secret of the zone.")
	caDue     = nodeMetrics.gauge("berth_ca_due", "1 if a removed node has the key of the zone's certificate authority, or that ends within a year.")
	certEnds  = nodeMetrics.gauge("berth_certificate_expiry_seconds", "Time until a certificate of this node ends, by its role.", "role")
	certLives = nodeMetrics.gauge("berth_certificate_lifetime_seconds", "Time from the begin to the end of a certificate of this node, by its role.", "role")
	clocks    = nodeMetrics.gauge("berth_clock_offset_seconds", "By how much the clock of a node is ahead of the leader's; only on the leader.", "node")
	diskFree  = nodeMetrics.gauge("berth_disk_free_bytes", "Bytes that this node may still write to the disk with its data folder.")
	diskTotal = nodeMetrics.gauge("berth_disk_total_bytes", "Size of the disk with the data folder.")
	leads     = nodeMetrics.gauge("berth_leader", "1 if this node leads its zone.")
	hosts     = nodeMetrics.gauge("berth_hosts", "Hosts by state.", "state")
	instances = nodeMetrics.gauge("berth_instances", "Instances known here by status.", "status")
	undecided = nodeMetrics.gauge("berth_boots_undecided", "Boots without a decision.")
	untold    = nodeMetrics.gauge("berth_holds_untold", "Decided holds that a child has not confirmed.")
	prepared  = nodeMetrics.gauge("berth_holds_prepared", "Holds that a parent has not decided.")
	free      = nodeMetrics.gauge("berth_capacity_free", "Free amount by resource class, on hosts that are up.", "class")
	hooks     = nodeMetrics.gauge("berth_webhooks", "Webhooks by state.", "state")
	delivered = nodeMetrics.counter("berth_webhook_deliveries_total", "Events that this process has sent to webhooks.", "outcome")
	lag       = nodeMetrics.gauge("berth_webhook_lag_seconds", "Age of the oldest event that waits for its delivery; only on the leader.")
	streams   = nodeMetrics.gauge("berth_event_streams", "Open event streams of this node.")
	leased    = nodeMetrics.gauge("berth_leases", "Leases of this zone by status.", "status")
	happened  = nodeMetrics.counter("berth_lease_events_total", "Events of leases that have happened, since this process started.", "event")
	tooOften  = nodeMetrics.counter("berth_calls_refused_total", "Calls that this process has refused because a party made too many of their class in a second.", "class")
	inUse     = nodeMetrics.gauge("berth_budget_used_ratio", "How much of what this process may hold for calls under way it holds, from 0 to 1: calls, bytes of small and large bodies and of answers, and reads that wait.", "kind")
	tooMuch   = nodeMetrics.counter("berth_budget_refused_total", "Calls that this process has refused because of what was under way, by what there was too much of and who had it.", "kind", "by")
	waiting   = nodeMetrics.gauge("berth_calls_waiting", "Calls that wait for their turn.")
	share     = nodeMetrics.gauge("berth_work_share", "How much of what this process may do at once it does while several projects have work; less if work waits for processors.")
	strangers = nodeMetrics.counter("berth_authentication_refusals_total", "Callers that this process could not authenticate, by listener and reason.", "listener", "reason")
	forbidden = nodeMetrics.counter("berth_authorization_refusals_total", "Changes that this process has refused because their caller may not make them, by listener.", "listener")
	late      = nodeMetrics.gauge("berth_lease_lag_seconds", "How late the oldest event of a lease or end of a window is that has not begun.")
	held      = nodeMetrics.gauge("berth_lease_slots_waiting", "Slots of leases whose window has begun while others still use their room.")
	requeued  = nodeMetrics.gauge("berth_requeued_instances", "Preempted instances that wait to be booted again.")
	checked   = nodeMetrics.counter("berth_lease_checks_total", "Questions that this process has asked the external service for leases.", "outcome")
	endsTold  = nodeMetrics.counter("berth_lease_ends_told_total", "Calls by which this process has told the external service of ends of leases.", "outcome")
	endsOwed  = nodeMetrics.gauge("berth_lease_ends_owed", "Ends of leases that the external service has not confirmed.")
	endsLag   = nodeMetrics.gauge("berth_lease_ends_lag_seconds", "Age of the oldest of them.")
	total     = nodeMetrics.gauge("berth_capacity_total", "Capacity by resource class, on hosts that are up.", "class")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	nodeMetrics.describe(ch)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	v := c.View()
	_, self := c.Leader()
	gauge(index, float64(v.Index()))
	gauge(term, float64(c.Term()))
	gauge(written, float64(v.Form()))
	gauge(readable, float64(c.Form()))
	gauge(stateSize, float64(v.SizeBytes()))
	gauge(kekDue, map[bool]float64{true: 1}[v.KEKDue > 0])
	if c.CADue != nil {
		gauge(caDue, map[bool]float64{true: 1}[c.CADue()])
	}
	if c.LacksKEK != nil {
		gauge(kekLacks, map[bool]float64{true: 1}[c.LacksKEK()])
	}
	gauge(leads, map[bool]float64{true: 1}[self])
	states := map[api.HostState]int{api.HostUp: 0, api.HostDown: 0}
	for _, h := range v.AllHosts() {
		states[h.State]++
	}
	for st, n := range states {
		gauge(hosts, float64(n), string(st))
	}
	for st, n := range v.CountByStatus() {
		gauge(instances, float64(n), string(st))
	}
	c.collectWatching(ch, v, gauge)
	c.collectAdmission(ch)
	c.collectRefused(ch)
	if c.Waiting != nil {
		gauge(waiting, float64(c.Waiting()))
	}
	if c.Share != nil {
		gauge(share, c.Share())
	}
	c.collectCertificates(gauge)
	c.collectMachine(gauge)
	c.collectBackups(ch, gauge)
	c.collectLeases(ch, v, gauge)
	gauge(requeued, float64(v.CountRequeued()))
	gauge(undecided, float64(len(v.UndecidedBoots())))
	gauge(untold, float64(len(v.UntoldHolds())))
	gauge(prepared, float64(len(v.PreparedHolds())))
	collectLinks(v, gauge)
	c.collectRoad(ch, v)
	c.collectTraffic(ch)
	for class, t := range v.Hosts().Totals() {
		gauge(free, float64(t.Free), string(class))
		gauge(total, float64(t.Total), string(class))
	}
}

// collectCertificates collects how long the certificates of this node are still valid.
func (c *collector) collectCertificates(gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	if c.Certificates == nil {
		return
	}
	for role, life := range c.Certificates() {
		gauge(certEnds, life.Ends.Sub(c.Now().Time()).Seconds(), role)
		gauge(certLives, life.Ends.Sub(life.Begins).Seconds(), role)
	}
}

// collectMachine collects what a node needs of its machine.
func (c *collector) collectMachine(gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	if c.Clocks != nil {
		for id, offset := range c.Clocks() {
			gauge(clocks, offset.Seconds(), string(id))
		}
	}
	if c.Disk == nil {
		return
	}
	if free, total, err := c.Disk(); err == nil {
		gauge(diskFree, float64(free))
		gauge(diskTotal, float64(total))
	}
}

// Life is the time in which a certificate is valid.
type Life struct{ Begins, Ends time.Time }

// collectRefused collects what was refused, by its rate and by what was under way, each kind also if there was nothing.
func (c *collector) collectRefused(ch chan<- prometheus.Metric) {
	if c.Refusals != nil {
		counts := c.Refusals()
		for k, n := range counts.Authentications {
			ch <- prometheus.MustNewConstMetric(strangers, prometheus.CounterValue, float64(n), string(k.Listener), string(k.Reason))
		}
		for l, n := range counts.Authorizations {
			ch <- prometheus.MustNewConstMetric(forbidden, prometheus.CounterValue, float64(n), string(l))
		}
	}
	if c.Budget != nil {
		for k, part := range c.Budget.Held() {
			emit(ch).gauge(inUse, part, string(k))
		}
		for k, n := range c.Budget.Refused() {
			emit(ch).counter(tooMuch, float64(n), string(k.Kind), string(k.Scope))
		}
	}
	if c.Refused == nil {
		return
	}
	for class, n := range c.Refused() {
		ch <- prometheus.MustNewConstMetric(tooOften, prometheus.CounterValue, float64(n), string(class))
	}
}

// collectWatching collects what tells others of events.
func (c *collector) collectWatching(ch chan<- prometheus.Metric, v *state.State, gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	states := map[string]int{rest.WebhookActive: 0, rest.WebhookFailing: 0, rest.WebhookPaused: 0}
	for _, w := range v.Webhooks() {
		states[rest.WebhookState(w)]++
	}
	for st, n := range states {
		gauge(hooks, float64(n), st)
	}
	var w Watching
	if c.Watching != nil {
		w = c.Watching()
	}
	for outcome, n := range map[string]uint64{"delivered": w.Delivered, "failed": w.Failed} {
		ch <- prometheus.MustNewConstMetric(delivered, prometheus.CounterValue, float64(n), outcome)
	}
	gauge(lag, w.Lag.Seconds())
	gauge(streams, float64(w.Streams))
	c.collectChecks(ch, v, &w, gauge)
}

// Watching is what this process does for those who watch events.
type Watching struct {
	Delivered, Failed uint64        // deliveries to webhooks
	Lag               time.Duration // age of the oldest event that waits for one
	Streams           int           // open ones

	ChecksAllowed, ChecksRefused, ChecksUnanswered uint64 // questions to the external service for leases
	EndsTold, EndsUntold                           uint64 // calls that tell it of ends, confirmed and not
}
