package agent

import (
	"context"

	"berth/api"
	"berth/identity"
)

// renewCertificate renews the agent's certificate when it is due, until ctx ends. Connections
// that are open stay so.
func (a *Agent) renewCertificate(ctx context.Context) {
	a.conf.Wallet.RenewWhenDue(ctx, identity.Renewal{
		Ask: a.askCertificate, Issuer: a.issuedBy, Now: a.conf.Now, Log: a.conf.Log,
		Renewed: func(context.Context) { a.link.client.CloseIdleConnections() },
	})
}

// askCertificate has the zone issue a new certificate, as identity.Renewal wants it.
func (a *Agent) askCertificate(ctx context.Context, csr []byte) (map[string][]byte, error) {
	var got api.AgentRenewed
	err := a.callZone(nameCall(ctx), api.PathAgentRenew, callTimeout, api.AgentRenew{CSR: csr}, &got, &got.Term)
	return map[string][]byte{string(identity.RoleAgent): got.Certificate}, err
}
