package federation

import (
	"context"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

// relinkTimeout bounds the question to the other zone.
const relinkTimeout = 5 * time.Second

// Relink accepts that a linked zone was brought back from a backup, and has forgotten what it agreed with this one since. A
// dry run asks that zone for its incarnation and changes nothing; after it, the operator names the one that he has been shown.
// Gateways of q are asked, and kept, in place of those that the link has.
//
// Errors: CodeNotFound for no such link; CodeUnavailable if the zone cannot be asked; CodeConflict if it has no incarnation that is
// to be accepted, or another one by now.
func (f *Federation) Relink(ctx context.Context, id api.LinkID, q rest.Relink) (*rest.Relinked, error) {
	if len(q.Gateways) > 0 {
		if err := api.CheckGateways(q.Gateways); err != nil {
			return nil, err
		}
	}
	v, err := f.zone.Latest(ctx)
	if err != nil {
		return nil, err
	}
	l, ok := v.Link(id)
	if !ok {
		return nil, api.Errorf(api.CodeNotFound, "no such zone")
	}
	asked := *l
	if len(q.Gateways) > 0 {
		asked.Endpoints = q.Gateways
	}
	call, cancel := context.WithTimeout(ctx, relinkTimeout)
	defer cancel()
	now, err := f.peers.IncarnationOf(call, &asked)
	switch {
	case err != nil:
		return nil, api.Wrap(api.CodeUnavailable, "federation.Relink", "the zone cannot be asked for its incarnation: see that it runs, and name a gateway of it if it has others than before", err)
	case now == l.Incarnation:
		return nil, api.Errorf(api.CodeConflict, "there is nothing to confirm: zone %q was not brought back from a backup since it was linked or confirmed", l.Name)
	case now < l.Incarnation:
		return nil, api.Errorf(api.CodeConflict, "the gateway belongs to an earlier life of zone %q, which was brought back elsewhere: name a gateway of the zone that runs now", l.Name)
	case now.IsToCome(f.zone.Instant()):
		return nil, api.Errorf(api.CodeConflict, "zone %q says that it was brought back at a time that is yet to come, %s: set its clock, and bring it back again", l.Name, (api.Instant(now) * 1000).Time().Format(time.RFC3339))
	case !q.DryRun && q.Incarnation != now:
		return nil, api.Errorf(api.CodeConflict, "zone %q has incarnation %d, not %d", l.Name, now, q.Incarnation)
	}
	out := &rest.Relinked{Zone: l.Name, Role: l.Role, Before: l.Incarnation, Incarnation: now, At: api.Instant(now) * 1000, DryRun: q.DryRun}
	if l.Role == api.LinkChild {
		out.Instances = len(v.ConfirmedAt(id))
	}
	if q.DryRun {
		return out, nil
	}
	_, err = f.zone.Propose(ctx, command.LinkRelink{Stamp: f.zone.Stamp(), ID: id, Incarnation: now, Endpoints: q.Gateways})
	if err != nil {
		return nil, err
	}
	f.log.WarnContext(ctx, "a linked zone that was brought back from a backup is accepted", "link", l.Name, "incarnation", now)
	return out, nil
}
