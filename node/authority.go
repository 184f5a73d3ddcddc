package node

import (
	"context"
	"crypto"
	"errors"
	"io"
	"net/http"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/httpd/native"
	"berth/identity"
	"berth/internal/mutant"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

var _ native.Authority = (*Node)(nil)

// joinTTL is how long a link token is good for.
const joinTTL = 15 * time.Minute

// LinkToken implements native.Authority.
func (n *Node) LinkToken(ctx context.Context, name string, offset, scale int64) (string, error) {
	if _, taken := n.store.View().LinkByName(name); taken {
		return "", api.Errorf(api.CodeConflict, "a zone named %q is linked already", name)
	}
	return n.admit(ctx, api.JoinToken{Kind: api.JoinLink, Name: name, Offset: offset, Scale: scale}, joinTTL,
		func(m *api.Node) string { return m.GatewayAddr })
}

// Join admits a node or an agent that has a join token.
func (n *Node) Join(ctx context.Context, b *api.JoinBody) (*api.JoinAnswer, error) {
	t, err := identity.ParseJoinToken(b.Token)
	if err != nil {
		return nil, err
	}
	if t.Kind != api.JoinNode && t.Kind != api.JoinAgent {
		return nil, api.Errorf(api.CodeInvalid, "the token is for linking a zone: use berth zone link")
	}
	if _, err = n.admitted(ctx, t); err != nil && !mutant.On(mutant.JoinLogged) {
		return nil, err
	}
	pub, err := identity.CheckCSR(b.CSR)
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, "node.Join", "csr is not a certificate request of a P-256 key", err)
	}
	res, err := n.zone.Propose(ctx, command.JoinUse{Stamp: n.zone.Stamp(), ID: t.ID, Hash: t.Hash(), Want: t.Kind})
	if err != nil {
		return nil, err
	}
	v := n.store.View()
	ca, err := n.keys.authority(v)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "node.Join", "", err)
	}
	a := &api.JoinAnswer{Zone: v.Zone, ZoneName: v.Name, ID: res.Join.Name, CA: v.CA}
	if t.Kind == api.JoinAgent {
		a.Addresses = addresses(v, func(m *api.Node) string { return m.AgentAddr })
		a.Certificates, err = issueAgent(ca, res.Join.Name, pub, n.now())
	} else {
		a.Addresses = addresses(v, func(m *api.Node) string { return m.NodeAddr })
		a.KEK = n.keys.kek[:]
		a.Certificates, err = issueNode(ca, res.Join.Name, pub, b.Names, n.now())
	}
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, "node.Join", "no certificate can be issued for these names", err)
	}
	return a, nil
}

func issueAgent(ca *identity.CA, id string, pub crypto.PublicKey, now time.Time) (map[string][]byte, error) {
	der, err := ca.Issue(identity.Subject{Zone: ca.Zone(), Role: identity.RoleAgent, ID: id}, pub, now, identity.LeafTTL)
	return map[string][]byte{string(identity.RoleAgent): der}, err
}

func addresses(v *state.State, of func(*api.Node) string) []string {
	var out []string
	for _, m := range v.Nodes() {
		out = append(out, of(m))
	}
	return out
}

// JoinToken implements native.Authority.
func (n *Node) JoinToken(ctx context.Context, kind api.JoinKind, name string, ttl time.Duration) (string, error) {
	if _, taken := n.store.View().Node(api.NodeID(name)); taken && kind == api.JoinNode {
		return "", api.Errorf(api.CodeConflict, "node %q is a member already", name)
	}
	return n.admit(ctx, api.JoinToken{Kind: kind, Name: name}, ttl, func(m *api.Node) string { return m.APIAddr })
}

// admit records a join token and returns its text. at says which listener of
// each node the newcomer must dial.
func (n *Node) admit(ctx context.Context, t api.JoinToken, ttl time.Duration, at func(*api.Node) string) (string, error) {
	v := n.store.View()
	jt, err := identity.NewJoinToken(t.Kind, v.Zone, addresses(v, at), identity.PinOf(v.CA))
	if err != nil {
		return "", err
	}
	text, err := jt.Text()
	if err != nil {
		return "", err
	}
	t.ID, t.Hash, t.Expires = jt.ID, jt.Hash(), api.InstantOf(n.now()).Add(ttl)
	_, err = n.zone.Propose(ctx, command.JoinPut{Stamp: n.zone.Stamp(), Token: t})
	return text.Reveal(), err
}

// Link enrols this zone as a child with the parent that made the token. Each
// end pins the other's authority.
func (n *Node) Link(ctx context.Context, token, name string) (*api.Link, error) {
	t, err := identity.ParseJoinToken(token)
	if err != nil {
		return nil, err
	}
	if !n.linking.TryLock() {
		return nil, errLinking
	}
	defer n.linking.Unlock()
	v := n.store.View()
	switch _, has := v.Parent(); {
	case t.Kind != api.JoinLink:
		return nil, api.Errorf(api.CodeInvalid, "the token is for a %s; a parent makes link tokens with berth zone link-token", t.Kind)
	case has:
		return nil, api.Errorf(api.CodeConflict, "this zone has a parent already")
	case t.Zone == v.Zone:
		return nil, api.Errorf(api.CodeInvalid, "a zone cannot be linked to itself")
	}
	check, err := n.keys.check(v, t.Zone)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "node.Link", "", err)
	}
	want := identity.Subject{Zone: t.Zone, Role: identity.RoleGateway}
	rt := &http.Transport{
		DialTLSContext: n.outward(identity.PinTLS(n.gatewayCredentials, api.ALPNEnrol, t.CA, want, n.now), api.ALPNEnrol),
	}
	defer rt.CloseIdleConnections()
	back, err := client.Enrol(ctx, rt, n.now, t.Addresses, &api.Enrolment{
		Token: token, Zone: v.Zone, Name: v.Name, Endpoints: gatewaysOf(v),
		CA: v.CA, KeyCheck: check, Levels: n.levels(ctx),
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
	if err != nil || back.Link == zonePool { // a pool of gossip is called after it
		return nil, api.Wrap(api.CodeInternal, "node.Link", "the parent's answer cannot be used", err)
	}
	res, err := n.zone.Propose(ctx, command.LinkPut{Stamp: n.zone.Stamp(), Link: api.Link{
		ID: back.Link, Name: name, Role: api.LinkParent, Zone: back.Zone, Endpoints: back.Endpoints, CA: back.CA,
		Scale: 1, State: api.LinkActive,
	}})
	return res.Link, err
}

// enrol is the parent's side of Link: the token in the body is the child's right.
func (n *Node) enrol(ctx context.Context, e *api.Enrolment) (*api.Enrolment, error) {
	t, err := identity.ParseJoinToken(e.Token)
	if err != nil {
		return nil, err
	}
	if err = checkEnrolment(e); err != nil {
		return nil, err
	}
	if who, ok := peerOf(ctx); !ok || who.Zone != e.Zone || who.pin != identity.PinOf(e.CA) {
		return nil, api.Errorf(api.CodeForbidden, "a zone enrols itself alone, with its own authority")
	}
	if !n.linking.TryRLock() {
		return nil, errLinking
	}
	defer n.linking.RUnlock()
	v := n.store.View()
	if err = n.sharedKey(e.Zone, &api.Hello{KeyCheck: e.KeyCheck}); err != nil {
		return nil, err
	}
	admitted, err := n.admitted(ctx, t)
	if err != nil {
		return nil, err
	}
	if err = n.mayTake(ctx, v, e.Zone, e.Levels); err != nil {
		return nil, err
	}
	res, err := n.zone.Propose(ctx, command.LinkPut{
		Stamp: n.zone.Stamp(), Token: t.ID, Hash: t.Hash(),
		Link: api.Link{
			ID: api.LinkID(api.NewUUID()), Name: admitted.Name, Role: api.LinkChild, Zone: e.Zone, Endpoints: e.Endpoints,
			CA: e.CA, Offset: admitted.Offset, Scale: max(admitted.Scale, 1), State: api.LinkActive,
		},
	})
	if err != nil {
		return nil, err
	}
	return &api.Enrolment{
		Link: res.Link.ID, Zone: v.Zone, Name: v.Name, CA: v.CA,
		Endpoints: gatewaysOf(v),
	}, nil
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

// NewToken implements native.Authority.
func (n *Node) NewToken(ctx context.Context, t api.Token) (string, api.TokenID, error) {
	text, id, hash := identity.NewToken()
	t.ID, t.Hash = id, hash
	_, err := n.zone.Propose(ctx, command.TokenPut{Stamp: n.zone.Stamp(), Token: t})
	return text.Reveal(), id, err
}

// RotateKeyring makes a new sealing key the active one. Those before still open what
// they have sealed until the last of it has expired. It fails with CodeOverloaded
// while that takes more keys than a zone keeps.
func (n *Node) RotateKeyring(ctx context.Context) error {
	v := n.store.View()
	at := n.zone.Stamp()
	e, err := newEpoch(v.Zone, n.keys.operator, n.keys.kek, at.At.Time())
	if err != nil {
		return err
	}
	_, err = n.zone.Propose(ctx, command.EpochAdd{
		Stamp: at, Epoch: e, Keep: EpochsKept, Sealed: at.At.Add(-api.PlanTTLMax),
	})
	return err
}

// Members returns the nodes of the zone with what Raft and gossip say of them.
func (n *Node) Members() []api.Node {
	v := n.store.View()
	alive := map[string]string{}
	for _, m := range n.pools.zone.Members() {
		alive[m.Name] = string(m.State)
	}
	out := []api.Node{}
	for _, m := range n.store.Members() {
		one := api.Node{ID: m.ID, NodeAddr: m.Addr}
		if known, ok := v.Node(m.ID); ok {
			one = *known
		}
		one.Voter, one.Leader = m.Voter, m.Leader
		one.Alive = alive[n.gossipName(zonePool, m.ID)]
		out = append(out, one)
	}
	return out
}

// RemoveMember ends the membership of a node. It must not be the last voter.
func (n *Node) RemoveMember(ctx context.Context, id api.NodeID) error {
	if err := n.store.Remove(ctx, id); err != nil {
		return err
	}
	if id == n.rec.Node { // whoever leads next forgets it: see forgetRemoved
		return nil
	}
	_, err := n.zone.Propose(ctx, command.NodeRemove{Stamp: n.zone.Stamp(), ID: id})
	return err
}

// Transfer hands the leadership to another node, or to any if to is "".
func (n *Node) Transfer(ctx context.Context, to api.NodeID) error {
	voters := 0
	for _, m := range n.store.Members() {
		if m.Voter {
			voters++
		}
	}
	if voters < 2 {
		return api.Errorf(api.CodeConflict, "the zone has no other node that could lead")
	}
	return n.store.Transfer(ctx, to)
}

// Snapshot writes a backup of everything that was acknowledged.
func (n *Node) Snapshot(ctx context.Context, w io.Writer) error {
	if _, err := n.store.Linearizable(ctx); err != nil {
		return err
	}
	r, _, err := n.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, r.Close())
}

// Restore replaces the zone's state by a backup of the same zone.
func (n *Node) Restore(ctx context.Context, r io.Reader) error {
	if err := n.store.Restore(ctx, r, n.zone.Stamp); err != nil {
		return err
	}
	n.log.Warn("the zone's state was restored from a backup")
	return errors.Join(n.announce(ctx), n.forgetRemoved(ctx)) // the other nodes announce themselves
}
