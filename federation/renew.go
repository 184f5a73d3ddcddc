package federation

import (
	"context"
	"crypto"
	"slices"
	"time"

	"berth/api"
	"berth/identity"
	"berth/raftstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Shown is the certificate that somebody has shown.
type Shown struct {
	Issued    time.Time
	Authority identity.Pin // that has issued it
	Renamed   bool         // its holder needs other names than it has, which only nodes do
}

// RenewNode issues new certificates to a member of the zone that has shown one: all three, with names in
// that of the public API. Only the leader may call it. It asks a majority first, because one that was
// deposed may not know who was removed.
func (f *Federation) RenewNode(ctx context.Context, id api.NodeID, shown Shown, csr []byte, names []string) (map[string][]byte, error) {
	at := f.now() // before the members are read: they may change meanwhile
	v, err := f.zone.Latest(ctx)
	if err != nil {
		return nil, err
	}
	pub, err := f.checkRenewal(csr, shown, v, at)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(f.members.Members(), func(m raftstore.Member) bool { return m.ID == id }) {
		return nil, api.Errorf(api.CodeForbidden, "node %q is no member of the zone; let a new one join", string(id))
	}
	ca, err := f.keys.zoneAuthority(v)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "federation.RenewNode", "", err)
	}
	certs, err := IssueNode(ca, string(id), pub, names, at, f.leafTTL)
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, "federation.RenewNode", "no certificate can be issued for these names", err)
	}
	return certs, nil
}

// RenewAgent issues a new certificate to an agent that has shown one. The time
// of issue is that of an entry, so that a revocation after it refuses the certificate.
func (f *Federation) RenewAgent(ctx context.Context, id api.AgentID, shown Shown, csr []byte) ([]byte, error) {
	pub, err := f.checkRenewal(csr, shown, f.view(), f.now())
	if err != nil {
		return nil, err
	}
	if _, err = f.zone.Propose(ctx, command.AgentRenew{Stamp: f.zone.Stamp(), ID: id, Issued: api.InstantOf(shown.Issued)}); err != nil {
		return nil, err
	}
	v := f.view()
	a, ok := v.Agent(id)
	if !ok || a.Renewed == 0 { // it was renewed, and has ended or joined since
		return nil, api.Errorf(api.CodeConflict, "agent %q has joined again meanwhile", string(id))
	}
	ca, err := f.keys.zoneAuthority(v)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "federation.RenewAgent", "", err)
	}
	certs, err := issueAgent(ca, string(id), pub, a.Renewed.Time(), f.leafTTL)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "federation.RenewAgent", "", err)
	}
	return certs[string(identity.RoleAgent)], nil
}

// checkRenewal returns the key of a certificate request, unless the certificate that its sender has
// shown is of the authority that issues, and too young to be renewed. One of a time that is yet to come is not: its
// holder is the leader itself, whose clock was ahead.
func (f *Federation) checkRenewal(csr []byte, shown Shown, v *state.State, now time.Time) (crypto.PublicKey, error) {
	age := now.Sub(shown.Issued)
	switch young := age >= 0 && shown.Authority == identity.PinOf(v.CA); {
	case young && shown.Renamed && age < identity.RenamableAge:
		return nil, api.Errorf(api.CodeConflict, "a certificate is renewed for other names when it is at least %v old", identity.RenamableAge)
	case young && !shown.Renamed && age < identity.RenewableAge(f.leafTTL):
		return nil, api.Errorf(api.CodeConflict, "a certificate is renewed when it is at least %v old", identity.RenewableAge(f.leafTTL))
	}
	return identity.CheckCSR(csr)
}
