package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/api"
	"berth/internal/backoff"
	"berth/internal/mutant"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// How the gateways of linked zones are followed.
const (
	gatewaysEvery = time.Second      // how often what was heard is looked at
	helloEvery    = 5 * time.Second  // how often what is new is told
	gatewaysFresh = 15 * time.Second // how old what was heard may be
	gatewaysPause = 10 * time.Second // between two changes of one link, so that no zone makes the log of another grow
	helloTimeout  = 5 * time.Second
)

// gatewaysOf returns where the gateways of this zone are.
func gatewaysOf(v *state.State) []string {
	return addresses(v, func(m *api.Node) string { return m.GatewayAddr })
}

// ownDigest is what this node says of its zone by gossip: what the zone has, and
// where its gateways are. Only the other end of a link hears it.
func (n *Node) ownDigest() *api.Digest {
	d := n.zone.Digest()
	if d != nil {
		d.Gateways = gatewaysOf(n.view())
	}
	return d
}

// hello takes what a linked zone says of itself.
func (n *Node) hello(ctx context.Context, l *api.Link, h *api.Hello) error {
	if len(h.KeyCheck) > 0 {
		if err := n.sharedKey(l.Zone, h); err != nil {
			return err
		}
	}
	if len(h.Endpoints) == 0 {
		return nil
	}
	return n.moveLink(ctx, l, h.Endpoints)
}

// moveLink keeps in a link where the zone at its other end says that its gateways
// are. The caller knows that it was that zone: by its certificate.
func (n *Node) moveLink(ctx context.Context, l *api.Link, gateways []string) error {
	if err := api.CheckGateways(gateways); err != nil {
		return err
	}
	want := slices.Compact(slices.Sorted(slices.Values(gateways)))
	if mutant.On(mutant.AddressesKept) || slices.Equal(want, slices.Sorted(slices.Values(l.Endpoints))) {
		return nil
	}
	if l.Updated.Add(gatewaysPause) > api.InstantOf(n.now()) {
		return errMovedLately
	}
	_, err := n.zone.Propose(ctx, command.LinkSet{Stamp: n.zone.Stamp(), ID: l.ID, Endpoints: want})
	if err == nil {
		n.log.Info("a linked zone has other gateways", "link", l.Name, "gateways", len(want))
	}
	return err
}

var errMovedLately = api.Errorf(api.CodeOverloaded, "the link was changed a moment ago; try again")

// followGateways keeps in each link what the zone at its other end says by gossip of
// where it is, until ctx ends.
func (n *Node) followGateways(ctx context.Context) {
	for ctx.Err() == nil {
		for _, l := range n.view().Links() {
			d, age, ok := n.pools.Digest(l.Zone)
			if !ok || age > gatewaysFresh || len(d.Gateways) == 0 {
				continue
			}
			if err := n.moveLink(ctx, l, d.Gateways); err != nil && ctx.Err() == nil {
				n.log.Debug("where a linked zone is could not be kept; it will be tried again", "link", l.Name, "error", err)
			}
		}
		backoff.Sleep(ctx, gatewaysEvery)
	}
}

// tellGateways tells each linked zone where this one is, once, and again when that
// changes, until ctx ends: for links over which no gossip comes through.
func (n *Node) tellGateways(ctx context.Context) {
	told := map[api.LinkID][]string{}
	for ctx.Err() == nil {
		v := n.view()
		own := gatewaysOf(v)
		links := slices.DeleteFunc(slices.Clone(v.Links()), func(l *api.Link) bool { return slices.Equal(told[l.ID], own) })
		heard := make([]bool, len(links))
		var all sync.WaitGroup
		for i, l := range links {
			all.Go(func() {
				call, cancel := context.WithTimeout(ctx, helloTimeout)
				defer cancel()
				heard[i] = n.peers.Hello(call, l, &api.Hello{Endpoints: own}) == nil
			})
		}
		all.Wait()
		for i, l := range links {
			if heard[i] {
				told[l.ID] = own
			}
		}
		backoff.Sleep(ctx, helloEvery)
	}
}
