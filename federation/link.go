package federation

import (
	"bytes"
	"context"
	"time"

	"berth/api"
	"berth/identity"
	"berth/internal/actor"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// joinTTL is the lifetime of a link token.
const joinTTL = 15 * time.Minute

// LinkToken records a token with which one zone can become a child, and returns its
// text. The link gets the name, and adjusts weights as offset + scale * weight.
func (f *Federation) LinkToken(ctx context.Context, name string, offset, scale int64) (string, error) {
	if f.view().Change != nil {
		return "", errCAChanges
	}
	if _, taken := f.view().LinkByName(name); taken {
		return "", api.Errorf(api.CodeConflict, "a zone named %q is linked already", name)
	}
	return f.recordJoin(ctx, api.JoinToken{Kind: api.JoinLink, Name: name, Offset: offset, Scale: scale}, joinTTL,
		func(m *api.Node) string { return m.GatewayAddr })
}

// errCAChanges refuses new links, each end of which would know one of two authorities.
var errCAChanges = api.Errorf(api.CodeConflict, "the zone changes its certificate authority; link zones when that is finished: berth operator ca status")

// Link enrols this zone as a child with the parent that made the token. Each
// end pins the other's authority.
func (f *Federation) Link(ctx context.Context, token, name string) (*api.Link, error) {
	t, err := identity.ParseJoinToken(token)
	if err != nil {
		return nil, err
	}
	if !f.linking.TryLock() {
		return nil, errLinking
	}
	defer f.linking.Unlock()
	v := f.view()
	switch _, has := v.Parent(); {
	case v.Change != nil:
		return nil, errCAChanges
	case t.Kind != api.JoinLink:
		return nil, api.Errorf(api.CodeInvalid, "the token is for a %s; a parent makes link tokens with berth zone link-token", t.Kind)
	case has:
		return nil, api.Errorf(api.CodeConflict, "this zone has a parent already")
	case t.Zone == v.Zone:
		return nil, api.Errorf(api.CodeInvalid, "a zone cannot be linked to itself")
	}
	check, err := f.keys.checkValue(v, t.Zone)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "federation.Link", "", err)
	}
	back, err := f.enrol(ctx, t, &api.Enrolment{
		Token: token, Zone: v.Zone, Name: v.Name, Endpoints: gatewaysOf(v),
		CA: v.CA, KeyCheck: check, Levels: f.LevelsBelow(ctx), Incarnation: v.Incarnation,
	})
	if err != nil {
		return nil, err
	}
	if identity.PinOf(back.CA) != t.CA || back.Zone != t.Zone {
		return nil, api.Errorf(api.CodeInternal, "the parent answered for another zone")
	}
	if err = checkEnrolment(back); err == nil {
		err = api.CheckName("link", string(back.Link))
	}
	if err != nil || back.Link == OwnPool { // a gossip pool is named after it
		return nil, api.Wrap(api.CodeInternal, "federation.Link", "the parent's answer cannot be used", err)
	}
	res, err := f.zone.Propose(ctx, command.LinkPut{Stamp: f.zone.Stamp(), Link: api.Link{
		ID: back.Link, Name: name, Role: api.LinkParent, Zone: back.Zone, Endpoints: back.Endpoints, CA: back.CA,
		Scale: 1, State: api.LinkActive, Incarnation: back.Incarnation,
	}})
	return res.Link, err
}

// Enrol is the parent's side of Link: the token in the body authorizes the child, which may repeat the call. from
// is the calling zone by its certificate, and pin the authority of that certificate.
func (f *Federation) Enrol(ctx context.Context, from api.ZoneID, pin identity.Pin, e *api.Enrolment) (*api.Enrolment, error) {
	t, err := identity.ParseJoinToken(e.Token)
	if err != nil {
		return nil, err
	}
	if err = checkEnrolment(e); err != nil {
		return nil, err
	}
	if from != e.Zone || pin != identity.PinOf(e.CA) {
		return nil, api.Errorf(api.CodeForbidden, "a zone enrols itself alone, with its own authority")
	}
	if !f.linking.TryRLock() {
		return nil, errLinking
	}
	defer f.linking.RUnlock()
	v := f.view()
	if v.Change != nil {
		return nil, errCAChanges
	}
	if err = f.refuseSharedKey(e.Zone, e.KeyCheck); err != nil {
		return nil, err
	}
	admitted, err := f.findJoin(ctx, t)
	if err != nil {
		return nil, err
	}
	if admitted.Used {
		if l, ok := v.LinkByZone(e.Zone); ok && l.Role == api.LinkChild && l.Name == admitted.Name && bytes.Equal(l.CA, e.CA) {
			return enrolmentOf(v, l.ID), nil // the answer was lost
		}
		return nil, errJoinToken
	}
	if err = f.checkChild(ctx, v, e.Zone, e.Levels); err != nil {
		return nil, err
	}
	ctx = actor.With(ctx, actor.Call{By: api.AuditActor{Kind: api.ActorJoin, ID: string(t.ID)}, Path: actor.Of(ctx).Path})
	res, err := f.zone.Propose(ctx, command.LinkPut{
		Stamp: f.zone.Stamp(), Token: t.ID, Hash: t.Hash(),
		Link: api.Link{
			ID: api.LinkID(api.NewUUID()), Name: admitted.Name, Role: api.LinkChild, Zone: e.Zone, Endpoints: e.Endpoints,
			CA: e.CA, Offset: admitted.Offset, Scale: max(admitted.Scale, 1), State: api.LinkActive, Incarnation: e.Incarnation,
		},
	})
	if err != nil {
		return nil, err
	}
	return enrolmentOf(v, res.Link.ID), nil
}

// enrolmentOf returns what a child is told of its parent.
func enrolmentOf(v *state.State, link api.LinkID) *api.Enrolment {
	return &api.Enrolment{Link: link, Zone: v.Zone, Name: v.Name, CA: v.CA, Endpoints: gatewaysOf(v)}
}

func checkEnrolment(e *api.Enrolment) error {
	if e.Zone == "" || len(e.Zone) > api.NameMaxBytes || len(e.CA) == 0 || len(e.CA) > identity.CSRMaxBytes {
		return api.Errorf(api.CodeInvalid, "the enrolment names no zone or no certificate")
	}
	if e.Levels < 0 || e.Levels > api.DepthMax {
		return api.Errorf(api.CodeInvalid, "a zone has 0 to %d levels of zones below it", api.DepthMax)
	}
	return api.CheckGateways(e.Endpoints)
}
