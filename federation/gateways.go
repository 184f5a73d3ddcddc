package federation

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/api"
	"berth/internal/backoff"
	"berth/raftstore/command"
)

// How the gateways of linked zones are followed.
const (
	gatewaysEvery = time.Second      // how often what was heard is looked at
	helloEvery    = 5 * time.Second  // how often what is new is told
	gatewaysFresh = 15 * time.Second // how old what was heard may be
	gatewaysPause = 10 * time.Second // between two changes of one link, so that no zone makes the log of another grow
	helloTimeout  = 5 * time.Second
)

// Hello takes what a linked zone reports of itself: it refuses one that seals with this
// zone's key, and keeps where its gateways are.
func (f *Federation) Hello(ctx context.Context, l *api.Link, h *api.Hello) error {
	if len(h.KeyCheck) > 0 {
		if err := f.refuseSharedKey(l.Zone, h.KeyCheck); err != nil {
			return err
		}
	}
	if len(h.Endpoints) == 0 {
		return nil
	}
	return f.updateGateways(ctx, l, h.Endpoints)
}

// updateGateways keeps in a link where the zone at its other end says that its gateways
// are. The caller knows that it was that zone: by its certificate.
func (f *Federation) updateGateways(ctx context.Context, l *api.Link, gateways []string) error {
	if err := api.CheckGateways(gateways); err != nil {
		return err
	}
	want := slices.Compact(slices.Sorted(slices.Values(gateways)))
	if slices.Equal(want, slices.Sorted(slices.Values(l.Endpoints))) {
		return nil
	}
	if l.Updated.Add(gatewaysPause) > api.InstantOf(f.now()) {
		return errChangedLately
	}
	_, err := f.zone.Propose(ctx, command.LinkSet{Stamp: f.zone.Stamp(), ID: l.ID, Endpoints: want})
	if err == nil {
		f.log.Info("a linked zone has other gateways", "link", l.Name, "gateways", len(want))
	}
	return err
}

var errChangedLately = api.Errorf(api.CodeOverloaded, "the link was changed a moment ago; try again")

// FollowGateways keeps in each link where the zone at its other end says by gossip that
// its gateways are, until ctx ends. The leader runs it.
func (f *Federation) FollowGateways(ctx context.Context) {
	for ctx.Err() == nil {
		for _, l := range f.view().Links() {
			d, age, ok := f.digests.Digest(l.Zone)
			if !ok || age > gatewaysFresh || len(d.Gateways) == 0 {
				continue
			}
			if err := f.updateGateways(ctx, l, d.Gateways); err != nil && ctx.Err() == nil {
				f.log.Debug("where a linked zone is could not be kept; it will be tried again", "link", l.Name, "error", err)
			}
		}
		backoff.Sleep(ctx, gatewaysEvery)
	}
}

// AnnounceGateways tells each linked zone where the gateways of this one are, once, and
// again when that changes, until ctx ends: for links over which no gossip comes through.
// The leader runs it.
func (f *Federation) AnnounceGateways(ctx context.Context) {
	told := map[api.LinkID][]string{}
	for ctx.Err() == nil {
		v := f.view()
		own := gatewaysOf(v)
		links := slices.DeleteFunc(slices.Clone(v.Links()), func(l *api.Link) bool { return slices.Equal(told[l.ID], own) })
		heard := make([]bool, len(links))
		var all sync.WaitGroup
		for i, l := range links {
			all.Go(func() {
				call, cancel := context.WithTimeout(ctx, helloTimeout)
				defer cancel()
				heard[i] = f.peers.Hello(call, l, &api.Hello{Endpoints: own}) == nil
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
