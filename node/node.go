// Package node assembles one control-plane process of a zone: the replicated store, the
// use cases of the zone, the rules of its federation, gossip, five listeners with five
// policies, and the loops of a leader. It decides nothing itself.
package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/federation"
	"berth/httpd/admin"
	"berth/httpd/door"
	httpevents "berth/httpd/events"
	"berth/httpd/gateway"
	"berth/httpd/native"
	"berth/httpd/placement"
	"berth/httpd/rates"
	"berth/httpd/refusals"
	"berth/httpd/reservation"
	"berth/httpd/tricircle"
	"berth/identity"
	"berth/internal/backoff"
	"berth/internal/budget"
	"berth/internal/crash"
	"berth/internal/requestid"
	"berth/internal/tracing"
	"berth/internal/turns"
	"berth/raftstore"
	"berth/webhook"
	"berth/zone"
	"berth/zone/estimate"
	"berth/zone/fleet"
	"berth/zone/hooks"
	"berth/zone/leasecheck"
	"berth/zone/leases"
	"berth/zone/output"
	"berth/zone/saga"
)

// Options describe how a node runs. Its identity is in its directory.
type Options struct {
	Dir      string
	Version  string
	Plain    bool               // the public API speaks plain HTTP; only on loopback
	Insecure bool               // the public API asks for no token; only on loopback
	PlanKey  []byte             // build_plan_encryption_key, if Init was given one
	DiskKey  *raftstore.DiskKey // of the disk, if Init or JoinNode was given one
	Timing   raftstore.Timing
	Compact  raftstore.Compaction
	Log      *slog.Logger
	Now      func() time.Time
	Fatal    func(error) // ends the process; see raftstore.Config
	Form     api.Form    // newest that the node reads and writes; 0 for api.FormNewest

	// CertificateTTL is how long certificates are valid that the node issues while it leads; 0 for identity.LeafTTL.
	CertificateTTL time.Duration

	// ConnsPerAddress is how many connections one remote address may have to each listener, 1
	// to ConnsMax; 0 for half of those that the listener has places for.
	ConnsPerAddress int

	// Given are the addresses that the operator gives at this start, and Names those in the
	// certificate of the public API, nil for those that there are; see Placement.Change. They are
	// recorded when the listeners are open, and hold for later starts.
	Given map[string]string
	Names []string

	// Peers are where other nodes of the zone are, as host:port of their node listeners, for those that the zone
	// knows at an address that leads nowhere: all have moved at once. They are dialled first, at this start alone.
	Peers map[api.NodeID]string

	// Rates are the calls that one party may make in a second; nil for rates.Defaults.
	Rates rates.Rates

	// Share is how much of what the node may do at once it should do now, from 0 to 1, while several projects have work; nil
	// for all of it. See turns.Pressure.
	Share func() float64

	// Backups are written on a schedule.
	Backups BackupSchedule

	// APICert is a certificate that the operator brings for the public API.
	APICert APICert

	// Level is that of Log, which the admin listener shows and changes; nil for a log that has none.
	Level *slog.LevelVar
	// Trace follows calls, if it has an endpoint.
	Trace Trace

	// For tests; all nil in production.
	Net    Network           // in place of TCP
	Memory *raftstore.Memory // in place of files for the replicated state
	Crash  crash.Hook
	Tap    Tap
	// Resolve finds the addresses of hosts that webhooks name.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Admin   func(http.Handler) http.Handler // wraps the admin handler
}

// Node is one control-plane process. Open makes it and Run runs it, once.
type Node struct {
	dir        string
	rec        *record
	opts       Options
	net        Network
	log        *slog.Logger
	now        func() time.Time
	wallet     *identity.Wallet
	brought    broughtCert
	disk       diskWatch
	vitals     vitals
	keys       *federation.Keys
	store      *raftstore.Store
	zone       *zone.Zone
	federation *federation.Federation
	peers      *client.Peers
	pools      *pools
	toNodes    *http.Transport
	leading    atomic.Bool // the leader's loops run here
	returned   bool        // the zone has just been brought back from a backup

	// The use cases of the zone.
	estimator *estimate.Estimator
	saga      *saga.Saga
	fleet     *fleet.Fleet
	outputs   *output.Reader
	leases    *leases.Leases
	hooks     *hooks.Hooks
	checks    *leasecheck.Check
	streams   *httpevents.Streams
	egress    *webhook.Sender
	rates     *rates.Limiter
	budget    *budget.Budget
	uses      *door.Uses
	refusals  *refusals.Counter
	turns     *turns.Turns // of calls of the public API
	backups   backupsNow
	measures  measures
	trace     *tracing.Tracer // nil without an endpoint

	leaderChanged atomic.Pointer[chan struct{}] // closed when the leader changes
	heard         atomic.Pointer[time.Time]     // when a leader was last known; at first when the node was opened
	shown         atomic.Uint64                 // the newest log index of an answer passed on before the view had it
	dials         dials
	removed       atomic.Bool   // a leader has said so since one was last known
	closing       chan struct{} // closed when Run is told to end

	listeners listeners
	nodeGate  *gate
	dialled   dialledConns
	moved     moved
	api       http.Handler
	gateway   http.Handler
	enrolment http.Handler
}

// Open loads a node from its directory, and opens its listeners and its store. The
// caller must call Run, which finally closes everything.
func Open(o Options) (n *Node, err error) {
	if o.ConnsPerAddress < 0 || o.ConnsPerAddress > ConnsMax {
		return nil, api.Errorf(api.CodeInvalid, "an address may have 1 to %d connections, got %d", ConnsMax, o.ConnsPerAddress)
	}
	if err = o.Backups.Validate(); err != nil {
		return nil, err
	}
	if o.Rates == nil {
		o.Rates = rates.Defaults()
	}
	rec, err := readRecord(o.Dir)
	if err != nil {
		return nil, err
	}
	n = &Node{dir: o.Dir, rec: rec, opts: o, net: networkOr(o.Net), now: o.Now, log: slog.New(requestid.NewHandler(o.Log.Handler())).With("zone", rec.ZoneName, "node", rec.Node)}
	if n.wallet, err = openWallet(o.Dir); err != nil {
		return nil, err
	}
	changed, err := rec.change(o.Given, o.Names, identity.APIHosts(n.apiCredentials().Cert.Leaf))
	if err != nil {
		return nil, err
	}
	keks, err := readKEKs(o.Dir, o.DiskKey)
	if err != nil {
		return nil, err
	}
	n.measures = newMeasures(n.now)
	n.measures.traffic.WithLog(n.log)
	if err = n.openTrace(); err != nil {
		return nil, err
	}
	n.leaderChanged.Store(newSignal())
	n.noteLed()
	n.closing = make(chan struct{})
	n.keys = federation.NewKeys(keks, keepKEKs(o.Dir, o.DiskKey), o.PlanKey)
	if err = n.openListeners(); err != nil {
		return nil, err
	}
	if err = n.openAPICert(o.APICert); err != nil {
		return nil, errors.Join(err, n.closeOpened())
	}
	if len(changed) > 0 {
		n.log.Info("this node was given other addresses or names; the zone is told", changed...)
	}
	n.refusals = refusals.New(n.log, n.now)
	n.nodeGate = newGate(n.listeners.node, n.nodeTLS(), o.ConnsPerAddress, n.log)
	n.nodeGate.name, n.nodeGate.refusals, n.nodeGate.lost, n.nodeGate.tells = refusals.Node, n.refusals, refusals.NotMember, true
	n.nodeGate.check, n.nodeGate.shows = n.checkNode, n.nodeCredentials
	if err = n.openStore(); err != nil {
		return nil, errors.Join(err, n.closeOpened())
	}
	n.checkClock()
	if err := n.buildZone(); err != nil {
		return nil, errors.Join(err, n.store.Close(), n.closeOpened())
	}
	return n, nil
}

// openStore opens the store of the node, which begins with what a zone comes back with, if it does.
func (n *Node) openStore() error {
	init, err := pendingInit(n.opts.Dir)
	if err != nil {
		return err
	}
	conf := raftstore.Config{
		ID: n.rec.Node, Dir: filepath.Join(n.opts.Dir, dirRaft), Memory: n.opts.Memory, Advertise: n.rec.Advertise.Node,
		Stream: raftStream{n.nodeGate.roomFor(api.ALPNRaft), n.dialMember(api.ALPNRaft)},
		Ran:    n.rec.Ran, Made: func() error { n.rec.Ran = true; return n.rec.writeFile(n.opts.Dir) },
		Timing: n.opts.Timing, Compact: n.opts.Compact, Crash: n.opts.Crash, Bootstrap: init != nil, Log: n.log, Fatal: n.opts.Fatal,
		Form: n.opts.Form, DiskKey: n.opts.DiskKey, Now: n.opts.Now,
	}
	if n.opts.Memory != nil {
		conf.Dir = ""
	}
	seeded, err := n.seedStore(conf)
	if err != nil {
		return err
	}
	conf.Ran = n.rec.Ran
	n.store, err = raftstore.Open(conf)
	if err != nil {
		return err
	}
	if !seeded {
		return nil
	}
	n.returned = true
	if err = n.forgetReturn(); err != nil {
		return errors.Join(err, n.store.Close())
	}
	return nil
}

// buildZone builds the zone and its handlers around the store.
func (n *Node) buildZone() error {
	n.toNodes = newTransport(n.dialNode(api.ALPNHTTP))
	p, err := newPools(n)
	if err != nil {
		return err
	}
	n.pools = p
	n.budget = newBudget(n.opts.ConnsPerAddress)
	n.peers = client.NewPeers(client.PeerConfig{
		Transport: func(l *api.Link) http.RoundTripper { return newTransport(n.dialZone(l, api.ALPNHTTP)) },
		Depth:     zone.Depth, Request: requestid.Of, Now: n.now, Form: n.opts.Form, Measure: n.measures.noteCall, Budget: n.budget, Trace: n.trace,
		Incarnation: func() api.Incarnation { return n.view().Incarnation },
	})
	n.zone = zone.New(zone.Config{Store: zone.WithTracer(n.store, n.trace), Now: n.now, Log: n.log, Crash: n.opts.Crash, Trace: n.trace})
	n.estimator = estimate.New(estimate.Config{Zone: n.zone, Peers: n.peers, Digests: p, Keys: n.keys, Phases: n.measures.phases, Share: n.opts.Share})
	n.saga = saga.New(saga.Config{Zone: n.zone, Estimator: n.estimator, Peers: n.peers, Digests: p, Share: n.opts.Share})
	n.fleet, n.outputs = fleet.New(n.zone, n.estimator), output.New(n.zone, n.peers)
	n.buildWatching()
	n.leases = leases.New(n.zone, n.estimator, n.fleet).WithCheck(n.checks)
	n.federation = federation.New(federation.Config{
		Node: n.rec.Node, Zone: n.zone, Members: n.store, Peers: n.peers, Digests: p, Digest: n.estimator.Digest, Keys: n.keys, Nodes: n,
		Enrol: n.sendEnrolment, Alive: p.livenessOf, Silent: n.store.Silent, Now: n.now, Log: n.log,
		CertificateTTL: n.opts.CertificateTTL,
	})
	n.rates, n.uses, n.turns = rates.New(n.opts.Rates), door.NewUses(), door.NewTurns(n.now, n.opts.Share)
	n.backups.replace(newBackups(n, n.opts.Backups))
	leads := n.leading.Load
	common := door.Config{
		Zone: n.zone, Tokens: tokens{}, Leader: leads, Forward: n.forwardTo(doorAPI),
		Now: n.now, Log: n.log, Insecure: n.opts.Insecure, Admitted: noteKnown, Cut: n.cutOff, Uses: n.uses, Rates: n.rates, Address: addressOf, Refusals: n.refusals,
		Turns: n.turns, Traffic: n.measures.traffic,
	}
	n.api = n.requireCurrent(doorAPI, splitDialects(
		native.New(native.Config{
			Door: common, Estimator: n.estimator, Saga: n.saga, Fleet: n.fleet, Outputs: n.outputs, Authority: authority{n.federation, n}, Digests: p, Unconfirmed: n.unconfirmed, Skew: n.peers.Skew, Vitals: n.vitalsOf, Streams: n.streams, Version: n.opts.Version,
		}),
		map[string]http.Handler{
			placement.Mount:   placement.New(placement.Config{Door: common}),
			reservation.Mount: reservation.New(reservation.Config{Door: common, Leases: n.leases, Book: reservation.Records{}}),
			tricircle.Mount:   tricircle.New(common),
		},
	))
	gw := gateway.Config{
		Zone: n.zone, Estimator: n.estimator, Saga: n.saga, Outputs: n.outputs,
		Peer: n.peerZone, Enrol: n.takeEnrolment, Hello: n.takeHello,
		Above: n.federation.Above, Below: n.federation.LevelsBelow,
		Leader: leads, Log: n.log, Version: n.opts.Version,
		Returned: n.peers.NoteIncarnation,
		Led:      n.led, Rates: n.rates, Now: n.now, Address: addressOf, Refusals: n.refusals, Traffic: n.measures.traffic,
	}
	gw.Forward = n.forwardTo(doorGateway)
	n.gateway = n.requireCurrent(doorGateway, gateway.New(gw))
	gw.Forward = n.forwardTo(doorEnrol)
	n.enrolment = n.requireCurrent(doorEnrol, gateway.Enrol(gw))
	return nil
}

// splitDialects routes paths below the mount of a dialect to it, and all others to Berth's
// own API.
func splitDialects(own http.Handler, mounted map[string]http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if dialect, ok := mounted["/"+first]; ok && strings.HasPrefix(r.URL.Path, "/") {
			dialect.ServeHTTP(w, r)
			return
		}
		own.ServeHTTP(w, r)
	})
}

// tokens reads bearer tokens for the public API.
type tokens struct{}

// Parse implements doorNamed.Tokens.
func (tokens) Parse(text string) (api.TokenID, []byte, error) { return identity.ParseToken(text) }

// Check implements doorNamed.Tokens.
func (tokens) Check(stored, presented []byte) bool { return identity.CheckToken(stored, presented) }

// Zone returns the base of the zone's use cases on this node.
func (n *Node) Zone() *zone.Zone { return n.zone }

// Federation returns the rules of membership and linking on this node.
func (n *Node) Federation() *federation.Federation { return n.federation }

// Store returns the replicated store of this node.
func (n *Node) Store() *raftstore.Store { return n.store }

// Addresses returns the addresses at which others reach this node.
func (n *Node) Addresses() Addresses { return n.rec.Advertise }

// Leads reports whether this node leads its zone.
func (n *Node) Leads() bool { return n.leading.Load() }

// Name returns the zone's name and the node's id.
func (n *Node) Name() (zoneName string, id api.NodeID) { return n.rec.ZoneName, n.rec.Node }

// Run serves until ctx ends. It returns when everything that it started has stopped and
// the store is closed.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { close(n.closing) })()
	each := n.opts.ConnsPerAddress
	gatewayGate, agentGate := n.newGates()
	apiListener := net.Listener(placed{Listener: n.listeners.api, places: newPlaces(ConnsMax, each)})
	if !n.opts.Plain {
		apiListener = tls.NewListener(apiListener, identity.APITLS(n.apiCredentials, n.brought.held.Load, n.now))
	}
	// Raft and the store outlive the handlers: requests in flight need them.
	core, stopCore := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCore()
	var base, doors sync.WaitGroup
	base.Go(func() { n.nodeGate.acceptConns(core) })
	base.Go(func() { n.closeLeavers(core, agentGate, gatewayGate) })
	base.Go(func() {
		if err := n.store.Run(core); err != nil {
			cancel(err)
		}
	})
	serving := func(name string, ln net.Listener, h http.Handler) {
		doors.Go(func() {
			if err := serveHTTP(ctx, ln, h, n.accountsOf(name), n.log); err != nil {
				cancel(err)
			}
		})
	}
	serving(listenerAPI, apiListener, stripNodeHeaders(n.api))
	serving(listenerGateway, gatewayGate.roomFor(api.ALPNHTTP), n.endOutdated(stripNodeHeaders(n.gateway)))
	serving(listenerEnrol, gatewayGate.roomFor(api.ALPNEnrol), stripNodeHeaders(n.enrolment))
	serving(listenerNode, n.nodeGate.roomFor(api.ALPNHTTP), n.endOutdated(n.onlyMembers(n.fromNodes())))
	serving(listenerAgent, agentGate.roomFor(api.ALPNHTTP), n.endOutdated(n.agentDoor()))
	n.serveOperator(ctx, each, serving)
	n.logStart(ctx)
	doors.Go(func() { gatewayGate.acceptConns(ctx) })
	doors.Go(func() { agentGate.acceptConns(ctx) })
	doors.Go(func() { n.watchLeader(ctx) })
	base.Go(func() { n.pools.runPools(ctx) }) // nobody waits for their goodbyes before another node leads
	doors.Go(func() { n.pools.acceptConns(ctx, gatewayGate.roomFor(api.ALPNGossip)) })
	base.Go(func() { n.pools.acceptConns(core, n.nodeGate.roomFor(api.ALPNGossip)) })
	doors.Go(func() { n.store.Leading(ctx, n.runLeader) })
	doors.Go(func() { n.announceSelf(ctx) })
	doors.Go(func() { n.watchRemoval(ctx) })
	for _, loop := range []func(context.Context){
		n.renewCertificates, n.followAuthorities, n.followAPICert, n.federation.FollowKEK, n.reportUses, n.writeBackups, n.watchDisk, n.reportVitals,
	} {
		doors.Go(func() { loop(ctx) })
	}
	if n.trace != nil {
		base.Go(func() { n.trace.Run(core) })
	}
	doors.Go(func() {
		if err := n.federation.CheckKeys(ctx); err != nil {
			cancel(err)
		}
	})
	doors.Wait()
	n.transferLeadership() //nolint:contextcheck // ctx is over
	err := n.store.Close()
	stopCore()
	base.Wait()
	n.toNodes.CloseIdleConnections()
	n.egress.Close()
	n.peers.Close()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}

// serveOperator serves probes and metrics, of which one address may have each connections, and the operator of this machine.
func (n *Node) serveOperator(ctx context.Context, each int, serving func(name string, ln net.Listener, h http.Handler)) {
	serving(listenerAdmin, placed{Listener: n.listeners.admin, places: newPlaces(adminConnsMax, each), knows: true}, n.adminDoor())
	if ln := n.openSocket(ctx); ln != nil {
		serving(listenerAdmin, placed{Listener: ln, places: newPlaces(adminConnsMax, adminConnsMax), knows: true}, admin.NewLocal(n.adminConfig()))
	}
}

// newGates returns the gates of the listeners for linked zones and for agents.
func (n *Node) newGates() (gateway, agent *gate) {
	gateway = newGate(n.listeners.gateway, n.gatewayTLS(), n.opts.ConnsPerAddress, n.log)
	gateway.tap = func(alpn string, c net.Conn) net.Conn { return n.tapConn(alpn, false, c) }
	gateway.name, gateway.refusals, gateway.lost = refusals.Gateway, n.refusals, refusals.NotLinked
	gateway.check, gateway.shows = n.checkAuthority, n.gatewayCredentials
	agent = newGate(n.listeners.agent, n.agentTLS(), n.opts.ConnsPerAddress, n.log)
	agent.name, agent.refusals, agent.lost = refusals.Agent, n.refusals, refusals.Revoked
	agent.check, agent.shows = n.checkAgentPeer, n.nodeCredentials
	return gateway, agent
}

// Ready waits until the zone is initialised, has a leader, and knows this node.
func (n *Node) Ready(ctx context.Context) error {
	for {
		v := n.view()
		_, known := v.Node(n.rec.Node)
		if id, _ := n.store.Leader(); known && id != "" && (id != n.rec.Node || n.leading.Load()) {
			return nil
		}
		if ctx.Err() != nil {
			return api.Wrap(api.CodeTimeout, "node.Ready", "the zone did not become ready in time", ctx.Err())
		}
		backoff.Sleep(ctx, readyPoll)
	}
}

const readyPoll = 20 * time.Millisecond

// transferLeadership hands the leadership over before this node stops, so that the zone
// does not have to detect the loss. If the transfer fails, it will detect it.
func (n *Node) transferLeadership() {
	if !n.store.IsLeader() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), transferTimeout)
	defer cancel()
	if err := n.federation.Transfer(ctx, ""); err != nil {
		n.log.InfoContext(ctx, "no node took over the leadership", "error", err)
	}
}

const transferTimeout = time.Second

func (n *Node) leaderID() (api.NodeID, bool) {
	id, _ := n.store.Leader()
	return id, n.leading.Load()
}

// runLeader runs one term as leader: it logs the zone's first command if needed,
// records this node, and then runs the loops of a leader.
func (n *Node) runLeader(ctx context.Context) {
	if err := n.foundZone(ctx); err != nil {
		n.log.ErrorContext(ctx, "the zone could not be initialised", "error", err)
		return
	}
	if err := n.federation.ForgetRemoved(ctx); err != nil {
		n.log.WarnContext(ctx, "removed nodes are still recorded", "error", err)
	}
	n.fleet.BeginTerm()
	n.leading.Store(true)
	defer n.leading.Store(false)
	n.log.InfoContext(ctx, "leading", "term", n.store.Term())
	var wg sync.WaitGroup
	wg.Go(func() { n.federation.RotateDaily(ctx) })
	wg.Go(func() { n.federation.RotateKEKWhenDue(ctx) })
	wg.Go(func() { n.federation.FollowGateways(ctx) })
	wg.Go(func() { n.federation.AnnounceGateways(ctx) })
	wg.Go(func() { n.federation.AnnounceAuthorities(ctx) })
	wg.Go(func() { n.federation.WarnOfCA(ctx) })
	wg.Go(func() { n.federation.RunAutopilot(ctx) })
	wg.Go(func() { n.saga.Lead(ctx) })
	wg.Go(func() { n.fleet.Lead(ctx) })
	wg.Go(func() { n.outputs.Lead(ctx) })
	wg.Go(func() { n.leases.Lead(ctx) })
	wg.Go(func() { n.hooks.Lead(ctx) })
	wg.Go(func() { n.checks.Lead(ctx) })
	wg.Go(func() { n.watchParents(ctx) })
	wg.Go(func() { n.watchClocks(ctx) })
	wg.Wait()
}

// foundZone logs the zone's first command, once in the zone's life.
func (n *Node) foundZone(ctx context.Context) error {
	first, err := pendingInit(n.dir)
	if err != nil {
		return err
	}
	if first != nil {
		if err = n.federation.Begin(ctx, first); err == nil {
			err = os.Remove(filepath.Join(n.dir, fileInit))
		}
		if err != nil {
			return fmt.Errorf("logging the zone's first command: %w", err)
		}
	}
	if n.returned {
		n.returned = false
		n.log.WarnContext(ctx, "the zone was brought back from a backup", "incarnation", n.view().Incarnation)
		if err = n.zone.Audit(ctx, "brought back from a backup"); err != nil {
			return err
		}
	}
	return n.federation.RecordNode(ctx, n.nodeRecord())
}
