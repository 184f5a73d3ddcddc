package node

import (
	"context"
	"encoding/hex"
	"net"
	"sync"
	"time"

	"berth/api"
	"berth/gossip"
	"berth/identity"
	"berth/raftstore/state"
)

// zonePool is the name of the pool of a zone's own nodes.
const zonePool = "zone"

// pools are the gossip pools of one node: one with the zone's own nodes, and one
// with the nodes of each linked zone, so that two children never share a pool.
type pools struct {
	n    *Node
	zone *gossip.Pool

	mu    sync.Mutex // guards links
	links map[api.LinkID]*linkPool
}

// linkPool is a running pool of one link.
type linkPool struct {
	pool *gossip.Pool
	zone api.ZoneID // at the other end
	stop context.CancelFunc
}

func newPools(n *Node) (*pools, error) {
	p := &pools{n: n, links: map[api.LinkID]*linkPool{}}
	zone, err := gossip.New(gossip.Config{
		Name: zonePool, Self: n.gossipName(zonePool, n.rec.Node),
		Endpoints: func() []string { return addresses(n.store.View(), func(m *api.Node) string { return m.NodeAddr }) },
		Dial: func(ctx context.Context, endpoint string) (net.Conn, error) {
			return n.dialNode(api.ALPNGossip)(ctx, "tcp", endpoint)
		},
		Digest: n.digest.get, Zones: []api.ZoneID{n.rec.Zone}, Peers: peerFile{n.dir, zonePool},
		Tuning: gossip.ZoneTuning(), Logger: n.log, Now: n.now,
	})
	p.zone = zone
	return p, err
}

// linkTuning reads the own digest often: what it says of free room prunes what
// the other zone asks.
func linkTuning() gossip.Tuning {
	t := gossip.LinkTuning()
	t.ProbeInterval, t.ProbeTimeout = time.Second, 500*time.Millisecond
	t.DigestInterval = digestAge
	return t
}

// gossipName is how a node is called in a pool. The zone's own secret goes into
// it, so that nobody outside can guess node ids from it.
func (n *Node) gossipName(pool string, id api.NodeID) string {
	pin := identity.PinOf(n.keys.kek[:])
	return gossip.SyntheticName(pool, hex.EncodeToString(pin[:]), string(n.rec.Zone), string(id))
}

// run keeps one pool per link until ctx ends.
func (p *pools) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.zone.Run(ctx); err != nil {
			p.n.log.Error("the zone's gossip ended", "error", err)
		}
	})
	v := p.n.store.View()
	for ctx.Err() == nil {
		p.follow(ctx, &wg, v)
		next, err := p.n.store.Wait(ctx, v.Index())
		if err != nil {
			break
		}
		v = next
	}
	wg.Wait()
}

// follow starts pools of new links and stops those of links that are gone.
func (p *pools) follow(ctx context.Context, wg *sync.WaitGroup, v *state.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range v.Links() {
		if p.links[l.ID] != nil {
			continue
		}
		pool, err := p.open(l)
		if err != nil {
			p.n.log.Error("gossip over a link cannot start", "link", l.Name, "error", err)
			continue
		}
		run, stop := context.WithCancel(ctx)
		p.links[l.ID] = &linkPool{pool: pool, zone: l.Zone, stop: stop}
		wg.Go(func() {
			defer stop()
			if err := pool.Run(run); err != nil {
				p.n.log.Error("gossip over a link ended", "link", l.Name, "error", err)
			}
		})
	}
	for id, lp := range p.links {
		if _, ok := v.Link(id); !ok {
			lp.stop()
			delete(p.links, id)
		}
	}
}

func (p *pools) open(l *api.Link) (*gossip.Pool, error) {
	n := p.n
	digest := func() *api.Digest { return n.digest.to(n.view().Link(l.ID)) }
	if l.Role == api.LinkChild {
		digest = n.digest.bare // a child learns nothing of its siblings
	}
	return gossip.New(gossip.Config{
		Name: string(l.ID), Self: n.gossipName(string(l.ID), n.rec.Node),
		Endpoints: func() []string {
			if now, ok := n.store.View().Link(l.ID); ok {
				return now.Endpoints
			}
			return nil
		},
		Dial: func(ctx context.Context, endpoint string) (net.Conn, error) {
			return n.dialZone(l, api.ALPNGossip)(ctx, "tcp", endpoint)
		},
		Digest: digest, Zones: []api.ZoneID{n.rec.Zone, l.Zone}, Peers: peerFile{n.dir, string(l.ID)},
		Tuning: linkTuning(), Logger: n.log, Now: n.now,
	})
}

// accept takes gossip connections of one listener until it closes.
func (p *pools) accept(ctx context.Context, r *room) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := r.Accept()
		if err != nil {
			return
		}
		wg.Go(func() { p.greet(ctx, c) })
	}
}

// greet reads which pool a connection is for, and hands it over if the
// authenticated peer belongs there.
func (p *pools) greet(_ context.Context, c net.Conn) {
	h, err := gossip.ReadHello(c, p.n.now().Add(gossip.HelloTimeout))
	pc, ok := c.(*conn)
	if err != nil || !ok {
		_ = c.Close() // not a member
		return
	}
	pool := p.find(h.Pool, pc.peer)
	if pool == nil {
		p.n.log.Info("gossip refused", "peer_zone", pc.peer.Zone, "pool", h.Pool)
		_ = c.Close() // not a member
		return
	}
	pool.Accept(h, c)
}

func (p *pools) find(name string, who peer) *gossip.Pool {
	if who.Role == identity.RoleNode {
		if name == zonePool {
			return p.zone
		}
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if lp := p.links[api.LinkID(name)]; lp != nil && (lp.zone == who.Zone || who.Zone == p.n.rec.Zone) {
		return lp.pool
	}
	return nil
}

// Digest implements zone.Digests from the pool of the zone's link.
func (p *pools) Digest(z api.ZoneID) (api.Digest, time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, lp := range p.links {
		if lp.zone != z {
			continue
		}
		if h, ok := lp.pool.Digests()[z]; ok {
			return h.Digest, p.n.now().Sub(h.At), true
		}
	}
	return api.Digest{}, 0, false
}

// digestCache keeps this zone's digest for a moment, for all pools.
type digestCache struct {
	make func() *api.Digest
	now  func() time.Time

	mu   sync.Mutex // guards last and at
	last *api.Digest
	at   time.Time
}

// digestAge is how old a digest may be when it is said.
const digestAge = time.Second

func (d *digestCache) get() *api.Digest {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil || d.now().Sub(d.at) > digestAge {
		d.last, d.at = d.make(), d.now()
	}
	return d.last
}

// to is what the parent at the other end of a link is told: it need not ask a
// zone that has paused the link.
func (d *digestCache) to(l *api.Link, linked bool) *api.Digest {
	full := d.get()
	if full == nil || !linked || l.State != api.LinkPaused {
		return full
	}
	paused := *full
	paused.Paused = true
	return &paused
}

// bare says that the zone is there and where, and nothing else.
func (d *digestCache) bare() *api.Digest {
	full := d.get()
	if full == nil {
		return nil
	}
	return &api.Digest{Zone: full.Zone, Sequence: full.Sequence, At: full.At, Health: full.Health, Gateways: full.Gateways}
}
