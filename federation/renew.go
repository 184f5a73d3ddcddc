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
)

// RenewNode issues new certificates to a member of the zone that has shown one issued at an instant:
// all three, with names in that of the public API. Only the leader may call it. It asks a majority
// first, because one that was deposed may not know who was removed.
func (f *Federation) RenewNode(ctx context.Context, id api.NodeID, issued time.Time, csr []byte, names []string) (map[string][]byte, error) {
	at := f.now() // before the members are read: they may change meanwhile
	pub, err := checkRenewal(csr, issued, at)
	if err != nil {
		return nil, err
	}
	v, err := f.zone.Latest(ctx)
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
	certs, err := IssueNode(ca, string(id), pub, names, at)
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, "federation.RenewNode", "no certificate can be issued for these names", err)
	}
	return certs, nil
}

// RenewAgent issues a new certificate to an agent that has shown one issued at an instant. The time
// of issue is that of an entry, so that a revocation after it refuses the certificate.
func (f *Federation) RenewAgent(ctx context.Context, id api.AgentID, issued time.Time, csr []byte) ([]byte, error) {
	pub, err := checkRenewal(csr, issued, f.now())
	if err != nil {
		return nil, err
	}
	if _, err = f.zone.Propose(ctx, command.AgentRenew{Stamp: f.zone.Stamp(), ID: id, Issued: api.InstantOf(issued)}); err != nil {
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
	certs, err := issueAgent(ca, string(id), pub, a.Renewed.Time())
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "federation.RenewAgent", "", err)
	}
	return certs[string(identity.RoleAgent)], nil
}

// checkRenewal returns the key of a certificate request, unless the certificate that its sender has
// shown is too young to be renewed.
func checkRenewal(csr []byte, issued, now time.Time) (crypto.PublicKey, error) {
	if now.Sub(issued) < identity.RenewableAge {
		return nil, api.Errorf(api.CodeConflict, "a certificate is renewed when it is at least %d days old", identity.RenewableAge/(24*time.Hour))
	}
	return identity.CheckCSR(csr)
}
