package gossip

import (
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"berth/api"
)

const (
	leaveTimeout = time.Second           // for the goodbye
	drainSlack   = 50 * time.Millisecond // beyond the longest that anything within memberlist still runs
	rejoinsMax   = 8                     // endpoints tried at once
	retransmits  = 4                     // memberlist's multiplier for how often news is repeated
	unwellMax    = 4                     // how far memberlist may stretch its probes when this node is slow
	reclaimAfter = 30 * time.Second      // after which a dead member's name may be taken again
)

// Pool is one membership list: make it with New, then call Run. All methods are
// safe for concurrent use.
type Pool struct {
	cfg       Config
	addresses *addressBook
	members   *memberTable
	spreader  *digestSpreader
	count     *counters

	started   atomic.Bool
	transport atomic.Pointer[transport] // nil before Run
}

// New returns a pool that is not running. It fails with api.CodeInvalid if the
// configuration is not usable.
func New(cfg Config) (*Pool, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Pool{cfg: cfg, count: &counters{}, addresses: newAddressBook(cfg.Self, cfg.Now, cfg.Tuning)}
	p.members = &memberTable{self: cfg.Self, now: cfg.Now, gone: p.closeMember, rows: map[string]row{}}
	p.spreader = &digestSpreader{
		own: cfg.Digest, now: cfg.Now, log: cfg.Logger, count: p.count,
		queue: &memberlist.TransmitLimitedQueue{NumNodes: p.members.countLive, RetransmitMult: retransmits},
		table: table{zones: cfg.Zones, ttl: cfg.Tuning.DigestTTL, held: map[api.ZoneID]held{}},
	}
	return p, nil
}

// Run takes part in the pool until ctx ends: it joins, keeps rejoining with capped
// backoff, and spreads the digest. At the end it announces its departure, for at most a
// second, and returns when nothing that it started does anything any more; with Config.Drain
// when all of it has stopped, which takes another probe interval, or up to four if members
// did not answer. It returns nil after ctx has ended and fails with api.CodeConflict on a
// second call.
func (p *Pool) Run(ctx context.Context) error {
	const op = "gossip.Run"
	if !p.started.CompareAndSwap(false, true) {
		return api.Errorf(api.CodeConflict, "a gossip pool runs once")
	}
	kept, err := p.cfg.Peers.Load()
	if err != nil {
		p.cfg.Logger.Warn("loading gossip peers failed", "pool", p.cfg.Name, "err", err)
	}
	p.addresses.restoreEndpoints(kept)
	t := newTransport(ctx, &p.cfg, p.addresses, p.members.isKnown, p.count)
	defer func() { _ = t.Shutdown() }() // it always returns nil
	ml, err := memberlist.Create(p.memberlistConfig(t))
	if err != nil {
		return api.Wrap(api.CodeInternal, op, "the gossip pool cannot start", err)
	}
	p.transport.Store(t)

	var loops sync.WaitGroup
	loops.Go(func() { p.rejoinMembers(ctx, t, ml) })
	loops.Go(func() { p.spreader.repeatOwn(ctx, p.cfg.Tuning.DigestInterval) })
	<-ctx.Done()
	if err := ml.Leave(leaveTimeout); err != nil {
		p.cfg.Logger.Debug("leaving a gossip pool was cut short", "pool", p.cfg.Name, "err", err)
	}
	if err := ml.Shutdown(); err != nil {
		p.cfg.Logger.Warn("closing a gossip pool failed", "pool", p.cfg.Name, "err", err)
	}
	loops.Wait()
	if !p.cfg.Drain {
		return nil
	}
	// memberlist does not wait for its own goroutines. With all connections
	// closed, the last to end is a probe that waits out its interval, stretched by
	// how unwell this node was when it began.
	longest := p.cfg.Tuning.ProbeInterval*time.Duration(ml.GetHealthScore()+1) + drainSlack
	<-time.NewTimer(longest).C
	return nil
}

// memberlistConfig returns the configuration of the library.
func (p *Pool) memberlistConfig(t *transport) *memberlist.Config {
	tune := p.cfg.Tuning
	c := memberlist.DefaultLANConfig()
	c.Name = p.cfg.Self
	c.Transport = t
	c.BindAddr, c.BindPort = "", portOfAll
	c.AdvertiseAddr, c.AdvertisePort = "", portOfAll
	c.ProtocolVersion = memberlist.ProtocolVersionMax
	c.DelegateProtocolVersion, c.DelegateProtocolMin, c.DelegateProtocolMax = wireVersion, wireVersion, wireVersion
	c.RequireNodeNames = true
	c.TCPTimeout = tune.StreamTimeout
	c.ProbeInterval, c.ProbeTimeout = tune.ProbeInterval, tune.ProbeTimeout
	c.GossipInterval, c.PushPullInterval = tune.GossipInterval, tune.PushPullInterval
	c.RetransmitMult = retransmits
	c.AwarenessMaxMultiplier = unwellMax
	c.EnableCompression = false
	c.UDPBufferSize = packetMaxBytes
	c.DeadNodeReclaimTime = reclaimAfter
	c.Delegate, c.Events, c.Alive = p.spreader, p.members, p.members
	c.Logger = log.New(lines{p.cfg.Logger, p.cfg.Name}, "", 0)
	return c
}

// Accept takes over a connection whose hello ReadHello has returned. The caller has
// checked that the authenticated peer may use this pool. Accept answers the hello,
// which takes at most HelloTimeout, and owns conn from then on: it is closed when the
// pool is done with it, and at once if the pool is not running or the hello is for
// another pool.
func (p *Pool) Accept(h Hello, conn net.Conn) {
	t := p.transport.Load()
	if t == nil || h.validate() != nil || h.Pool != p.cfg.Name {
		p.count.refused.Add(1)
		_ = conn.Close() // refused
		return
	}
	t.acceptHello(h, conn)
}

// Members returns the members that this pool knows, by name; none before Run.
func (p *Pool) Members() []Member {
	t := p.transport.Load()
	if t == nil {
		return nil
	}
	return p.members.members(t.isCutOff)
}

// Digests returns the newest digest of each zone, including this one's own, and when it
// was last sent. Old ones stay; the caller judges their age.
func (p *Pool) Digests() map[api.ZoneID]Heard { return p.spreader.heldDigests() }

// closeMember closes the connections to a member that has left.
func (p *Pool) closeMember(name string) {
	if t := p.transport.Load(); t != nil {
		t.closePacketConns(name)
	}
}

// rejoinMembers tries, until ctx ends, every endpoint at which no live member is known.
func (p *Pool) rejoinMembers(ctx context.Context, t *transport, ml *memberlist.Memberlist) {
	tick := time.NewTicker(p.cfg.Tuning.RejoinMin)
	defer tick.Stop()
	for {
		p.addresses.refreshEndpoints(p.cfg.Endpoints())
		slots := make(chan struct{}, rejoinsMax)
		var tries sync.WaitGroup
		for _, endpoint := range p.addresses.dueEndpoints(p.members.isLive) {
			slots <- struct{}{}
			tries.Go(func() {
				p.joinEndpoint(ctx, t, ml, endpoint)
				<-slots
			})
		}
		tries.Wait()
		p.saveEndpoints()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// joinEndpoint greets an endpoint and joins with the member that answers, unless it is
// this one or one that is in the pool already.
func (p *Pool) joinEndpoint(ctx context.Context, t *transport, ml *memberlist.Memberlist, endpoint string) {
	conn, name, err := t.greetEndpoint(ctx, endpoint, KindPacket)
	if err != nil {
		p.cfg.Logger.Debug("gossip peer does not answer", "pool", p.cfg.Name, "endpoint", endpoint, "err", err)
		return
	}
	live := p.members.isLive(name)
	if name == p.cfg.Self || live && t.isLinked(name) {
		t.dropConn(conn)
		return
	}
	t.adoptConn(name, conn)
	if live {
		return
	}
	if _, err := ml.Join([]string{name + "/" + address(name).String()}); err != nil {
		p.cfg.Logger.Debug("joining a gossip peer failed", "pool", p.cfg.Name, "member", name, "err", err)
	}
}

// saveEndpoints persists the endpoints that were found good, if they have changed.
func (p *Pool) saveEndpoints() {
	endpoints, changed := p.addresses.changedEndpoints()
	if !changed {
		return
	}
	if err := p.cfg.Peers.Save(endpoints); err != nil {
		p.addresses.markChanged()
		p.cfg.Logger.Warn("saving gossip peers failed", "pool", p.cfg.Name, "err", err)
	}
}

// lines passes memberlist's log on. Its lines hold only synthetic names and addresses;
// they help to debug gossip.
type lines struct {
	log  *slog.Logger
	pool string
}

var _ io.Writer = lines{}

// Write logs one line.
func (l lines) Write(b []byte) (int, error) {
	l.log.Debug("memberlist", "pool", l.pool, "line", strings.TrimSpace(string(b)))
	return len(b), nil
}
