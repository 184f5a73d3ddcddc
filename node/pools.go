package node

import (
	"context"
	"encoding/hex"
	"net"
	"sync"
	"time"

	"berth/api"
	"berth/federation"
	"berth/gossip"
	"berth/httpd/refusals"
	"berth/identity"
	"berth/raftstore/state"
)

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
		Name: federation.OwnPool, Self: n.gossipName(federation.OwnPool, n.rec.Node),
		Endpoints: func() (out []string) {
			for _, m := range n.view().Nodes() {
				if m.ID != n.rec.Node { // which lets nobody in who bears its own name
					out = append(out, m.NodeAddr)
				}
			}
			return out
		},
		Dial: func(ctx context.Context, endpoint string) (net.Conn, error) {
			return n.dialNode(api.ALPNGossip)(ctx, "tcp", endpoint)
		},
		Digest: func() *api.Digest { return n.federation.Digest() },
		Zones:  []api.ZoneID{n.rec.Zone}, Peers: peerFile{n.dir, federation.OwnPool},
		Tuning: gossip.ZoneTuning(), Logger: n.log, Now: n.now, Drain: n.opts.Net != nil,
	})
	p.zone = zone
	return p, err
}

// linkTuning reads the own digest often, because its free room prunes the questions of
// the other zone.
func linkTuning() gossip.Tuning {
	t := gossip.LinkTuning()
	t.ProbeInterval, t.ProbeTimeout = time.Second, 500*time.Millisecond
	t.DigestInterval = federation.DigestAge
	return t
}

// gossipName is the name of a node in a pool. It includes a secret of the zone, so that
// nobody outside can guess node ids from it.
func (n *Node) gossipName(pool string, id api.NodeID) string {
	first := n.keys.KEKs()[0] // all nodes have it, also when others follow
	pin := identity.PinOf(first[:])
	return gossip.SyntheticName(pool, hex.EncodeToString(pin[:]), string(n.rec.Zone), string(id))
}

// runPools keeps one pool per link until ctx ends.
func (p *pools) runPools(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.zone.Run(ctx); err != nil {
			p.n.log.ErrorContext(ctx, "the zone's gossip ended", "error", err)
		}
	})
	wg.Go(func() { p.n.federation.FollowForms(ctx) }) // digests over links are in them
	v := p.n.store.View()
	for ctx.Err() == nil {
		p.followLinks(ctx, &wg, v)
		next, err := p.n.store.Wait(ctx, v.Index())
		if err != nil {
			break
		}
		v = next
	}
	wg.Wait()
}

// followLinks starts pools of new links and stops those of removed links.
func (p *pools) followLinks(ctx context.Context, wg *sync.WaitGroup, v *state.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range v.Links() {
		if p.links[l.ID] != nil {
			continue
		}
		pool, err := p.openPool(l)
		if err != nil {
			p.n.log.ErrorContext(ctx, "gossip over a link cannot start", "link", l.Name, "error", err)
			continue
		}
		run, stop := context.WithCancel(ctx)
		p.links[l.ID] = &linkPool{pool: pool, zone: l.Zone, stop: stop}
		wg.Go(func() {
			defer stop()
			if err := pool.Run(run); err != nil {
				p.n.log.ErrorContext(ctx, "gossip over a link ended", "link", l.Name, "error", err)
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

func (p *pools) openPool(l *api.Link) (*gossip.Pool, error) {
	n := p.n
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
		Digest: func() *api.Digest { return n.federation.DigestFor(l) },
		Zones:  []api.ZoneID{n.rec.Zone, l.Zone}, Peers: peerFile{n.dir, string(l.ID)},
		Tuning: linkTuning(), Logger: n.log, Now: n.now, Drain: n.opts.Net != nil,
	})
}

// acceptConns takes gossip connections of one listener until it closes.
func (p *pools) acceptConns(ctx context.Context, r *room) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := r.Accept()
		if err != nil {
			return
		}
		wg.Go(func() { p.greetConn(ctx, c) })
	}
}

// greetConn reads the pool of a connection, and hands the connection over if the
// authenticated peer belongs there.
func (p *pools) greetConn(ctx context.Context, c net.Conn) {
	h, err := gossip.ReadHello(c, p.n.now().Add(gossip.HelloTimeout))
	pc, ok := c.(*conn)
	if err != nil || !ok {
		_ = c.Close() // not a member
		return
	}
	pool := p.findPool(h.Pool, pc.peer)
	if pool == nil {
		p.noteStranger(ctx, pc.peer, h.Pool)
		_ = c.Close() // not a member
		return
	}
	pool.Accept(h, c)
}

// noteStranger logs a peer that does not belong to a pool.
func (p *pools) noteStranger(ctx context.Context, who peer, pool string) {
	at := refusals.Gateway
	if who.Zone == p.n.rec.Zone {
		at = refusals.Node
	}
	p.n.refusals.NoteRefusal(ctx, at, errNotInPool, "peer_zone", who.Zone, "pool", pool)
}

var errNotInPool = api.Errorf(api.CodeForbidden, "the peer does not belong to this gossip pool")

func (p *pools) findPool(name string, who peer) *gossip.Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	lp := p.links[api.LinkID(name)]
	if lp == nil {
		lp = &linkPool{pool: p.zone}
	}
	if federation.MayGossip(name, p.n.rec.Zone, lp.zone, who.Subject) {
		return lp.pool
	}
	return nil
}

// livenessOf returns what gossip knows of a node of this zone, "" for nothing.
func (p *pools) livenessOf(id api.NodeID) string {
	name := p.n.gossipName(federation.OwnPool, id)
	for _, m := range p.zone.Members() {
		if m.Name == name {
			return string(m.State)
		}
	}
	return ""
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
