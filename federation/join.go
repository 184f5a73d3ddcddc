package federation

import (
	"context"
	"crypto"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/identity"
	"berth/internal/actor"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Join admits a node or an agent that has a join token, and issues its certificates.
func (f *Federation) Join(ctx context.Context, b *rest.JoinBody) (*rest.JoinAnswer, error) {
	t, err := identity.ParseJoinToken(b.Token)
	if err != nil {
		return nil, err
	}
	if t.Kind != api.JoinNode && t.Kind != api.JoinAgent {
		return nil, api.Errorf(api.CodeInvalid, "the token is for linking a zone: use berth zone link")
	}
	known, err := f.findJoin(ctx, t)
	if err != nil {
		return nil, err
	}
	pub, err := identity.CheckCSR(b.CSR)
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, "federation.Join", "csr is not a certificate request of a P-256 key", err)
	}
	by, err := identity.KeyHash(pub)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "federation.Join", "", err)
	}
	if f.members.Form() < api.FormFifth {
		by = nil // a member of the zone could not read it
	}
	if known.Used && !known.UsedBy(by) {
		return nil, errJoinToken
	}
	ctx = actor.With(ctx, actor.Call{By: api.AuditActor{Kind: api.ActorJoin, ID: string(t.ID)}, Path: "POST /operator/join"})
	res, err := f.zone.Propose(ctx, command.JoinUse{Stamp: f.zone.Stamp(), ID: t.ID, Hash: t.Hash(), Want: t.Kind, By: by})
	if err != nil {
		return nil, err
	}
	v := f.view()
	ca, err := f.keys.zoneAuthority(v)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "federation.Join", "", err)
	}
	a := &rest.JoinAnswer{Zone: v.Zone, ZoneName: v.Name, ID: res.Join.Name, CA: v.CA}
	for _, one := range v.Authorities() {
		a.Trusted = append(a.Trusted, one.Cert)
	}
	if t.Kind == api.JoinAgent {
		a.Addresses = addressesOf(v, func(m *api.Node) string { return m.AgentAddr })
		a.Certificates, err = issueAgent(ca, res.Join.Name, pub, f.issueTime(v, api.AgentID(res.Join.Name)), f.leafTTL)
	} else {
		a.Addresses = addressesOf(v, func(m *api.Node) string { return m.NodeAddr })
		a.KEK = f.keys.KEKs().Bytes()
		a.Certificates, err = IssueNode(ca, res.Join.Name, pub, b.Names, notBefore(f.now(), res.Join.Joined), f.leafTTL)
	}
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, "federation.Join", "no certificate can be issued for these names", err)
	}
	return a, nil
}

func issueAgent(ca *identity.CA, id string, pub crypto.PublicKey, now time.Time, ttl time.Duration) (map[string][]byte, error) {
	der, err := ca.Issue(identity.Subject{Zone: ca.Zone(), Role: identity.RoleAgent, ID: id}, pub, now, ttl)
	return map[string][]byte{string(identity.RoleAgent): der}, err
}

// JoinToken records a token with which one node or agent can join under a name, and
// returns its text.
func (f *Federation) JoinToken(ctx context.Context, kind api.JoinKind, name string, ttl time.Duration) (string, error) {
	if _, taken := f.view().Node(api.NodeID(name)); taken && kind == api.JoinNode {
		return "", api.Errorf(api.CodeConflict, "node %q is a member already", name)
	}
	return f.recordJoin(ctx, api.JoinToken{Kind: kind, Name: name}, ttl, func(m *api.Node) string { return m.APIAddr })
}

// AgentToken records a token with which one agent can join under a name and on some terms, and
// returns its text.
func (f *Federation) AgentToken(ctx context.Context, name string, terms api.AgentTerms, ttl time.Duration) (string, error) {
	t := api.JoinToken{Kind: api.JoinAgent, Name: name}
	if !terms.IsZero() {
		t.Terms = &terms
	}
	return f.recordJoin(ctx, t, ttl, func(m *api.Node) string { return m.APIAddr })
}

// issueTime returns the time of issue of the certificate of an agent that has joined: not before the
// join, lest a leader whose clock is late makes it one of those that were revoked.
func (f *Federation) issueTime(v *state.State, id api.AgentID) time.Time {
	if a, ok := v.Agent(id); ok {
		return notBefore(f.now(), a.Joined)
	}
	return f.now()
}

// notBefore returns the later one of two times.
func notBefore(now time.Time, joined api.Instant) time.Time {
	if joined > api.InstantOf(now) {
		return joined.Time()
	}
	return now
}

// recordJoin records a join token and returns its text. at selects the listener of each
// node that the newcomer must dial.
func (f *Federation) recordJoin(ctx context.Context, t api.JoinToken, ttl time.Duration, at func(*api.Node) string) (string, error) {
	v := f.view()
	var next identity.Pin
	if v.Change != nil {
		next, t.Trusts = identity.PinOf(v.Change.Cert), v.NewestAuthority()
	}
	jt, err := identity.NewJoinToken(t.Kind, v.Zone, addressesOf(v, at), identity.PinOf(v.CA), next)
	if err != nil {
		return "", err
	}
	text, err := jt.Text()
	if err != nil {
		return "", err
	}
	t.ID, t.Hash, t.Expires = jt.ID, jt.Hash(), api.InstantOf(f.now()).Add(ttl)
	_, err = f.zone.Propose(ctx, command.JoinPut{Stamp: f.zone.Stamp(), Token: t})
	return text.Reveal(), err
}

// NewToken makes an API token and returns its text.
func (f *Federation) NewToken(ctx context.Context, t api.Token) (string, api.TokenID, error) {
	text, id, hash := identity.NewToken()
	t.ID, t.Hash = id, hash
	_, err := f.zone.Propose(ctx, command.TokenPut{Stamp: f.zone.Stamp(), Token: t})
	return text.Reveal(), id, err
}

// errJoinToken refuses a join. Every refusal sounds the same.
var errJoinToken = api.Errorf(api.CodeUnauthenticated, "the join token is unknown, used or expired; ask for a new one")

// findJoin returns the record of a valid join token, which may be used. A token unknown to this node,
// which may have become leader just now, is looked up again with a majority. Nothing is
// written: an invalid token never reaches the log.
func (f *Federation) findJoin(ctx context.Context, t identity.JoinToken) (*api.JoinToken, error) {
	v := f.view()
	if _, known := v.Join(t.ID); !known {
		if !f.unknown.beginLookup(f.now()) {
			return nil, api.Errorf(api.CodeOverloaded, "too many calls with unknown join tokens; try again")
		}
		defer f.unknown.endLookup()
		var err error
		if v, err = f.zone.Latest(ctx); err != nil {
			return nil, err
		}
	}
	if j, ok := v.Join(t.ID); ok && f.isGood(j, t) {
		return j, nil
	}
	return nil, errJoinToken
}

// isGood reports whether t is the token recorded as j, and its time is not over.
func (f *Federation) isGood(j *api.JoinToken, t identity.JoinToken) bool {
	return identity.CheckToken(j.Hash, t.Hash()) && j.Kind == t.Kind && f.zone.Stamp().At < j.Expires
}
