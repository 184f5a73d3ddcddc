package federation

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/api"
	"berth/identity"
	"berth/internal/actor"
	"berth/internal/backoff"
	"berth/raftstore/command"
)

// Times for following the gateways of linked zones.
const (
	gatewaysEvery = time.Second      // between checks of the latest digests
	helloEvery    = 5 * time.Second  // between announcements of new gateways
	gatewaysFresh = 15 * time.Second // maximum age of a digest
	gatewaysPause = 10 * time.Second // between two changes of one link, so that no zone makes the log of another grow
	helloTimeout  = 5 * time.Second
)

// Hello handles the report of a linked zone: it refuses one that seals with this zone's
// key, and stores its gateways and its authorities. from is the authority by which the zone
// is authenticated.
func (f *Federation) Hello(ctx context.Context, l *api.Link, from identity.Pin, h *api.Hello) error {
	if len(h.KeyCheck) > 0 {
		if err := f.refuseSharedKey(l.Zone, h.KeyCheck); err != nil {
			return err
		}
	}
	if len(h.Authorities) > 0 {
		if err := f.updatePins(ctx, l, from, h.Authorities); err != nil {
			return err
		}
	}
	if len(h.Endpoints) == 0 {
		return nil
	}
	return f.updateGateways(ctx, l, h.Endpoints)
}

// updateGateways stores in a link the gateways that the zone at its other end reports.
// The caller has authenticated that zone.
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
	ctx = actor.With(ctx, actor.Call{By: api.AuditActor{Kind: api.ActorLink, ID: string(l.Zone)}, Path: actor.Of(ctx).Path})
	_, err := f.zone.Propose(ctx, command.LinkSet{Stamp: f.zone.Stamp(), ID: l.ID, Endpoints: want})
	if err == nil {
		f.log.InfoContext(ctx, "the gateways of a linked zone changed", "link", l.Name, "gateways", len(want))
	}
	return err
}

var errChangedLately = api.Errorf(api.CodeOverloaded, "the link was changed a moment ago; try again")

// FollowGateways stores in each link the gateways that the zone at its other end
// reports by gossip, until ctx ends. The leader runs it.
func (f *Federation) FollowGateways(ctx context.Context) {
	for ctx.Err() == nil {
		for _, l := range f.view().Links() {
			d, age, ok := f.digests.Digest(l.Zone)
			if !ok || age > gatewaysFresh || len(d.Gateways) == 0 {
				continue
			}
			if err := f.updateGateways(ctx, l, d.Gateways); err != nil {
				f.log.DebugContext(ctx, "the gateways of a linked zone could not be stored; it will be tried again", "link", l.Name, "error", err)
			}
		}
		backoff.Sleep(ctx, gatewaysEvery)
	}
}

// AnnounceGateways sends the gateways of this zone to each linked zone, once and after
// each change, until ctx ends. It serves links over which gossip does not get through.
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
