package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/api"
)

// Policy decides which peers a listener admits. It returns nil to admit a peer whose
// chain has been verified up to the authority caDER, for the protocol alpn; an error
// gives the reason, which stays on this side. The policy decides whether that authority
// may speak for the peer's zone. The peer has not yet proved possession of the
// certificate's key (the handshake fails if it cannot), so a policy must have no side
// effects. It may be called from several goroutines.
type Policy func(peer Subject, alpn string, caDER []byte) error

// AdmitOwn admits the peers of one role whose authority is one of own, the zone's own at
// each handshake: nodes to a node listener, agents to an agent listener.
func AdmitOwn(own func() []Pin, role Role) Policy {
	return func(peer Subject, _ string, peerCA []byte) error {
		if !slices.Contains(own(), PinOf(peerCA)) {
			return fmt.Errorf("%s is of another authority", peer)
		}
		if peer.Role != role {
			return fmt.Errorf("%s is not of role %s", peer, role)
		}
		return nil
	}
}

// AdmitLinked admits, to a gateway, the gateways of the zones whose authorities pinned
// knows. pinned is called in every handshake; it returns the pins of a zone that has an
// active link, none for another. The only exception is the protocol api.ALPNEnrol: it
// admits any gateway, because the link token in its only call authorizes the zone.
func AdmitLinked(pinned func(zone api.ZoneID) []Pin) Policy {
	return func(peer Subject, alpn string, peerCA []byte) error {
		if peer.Role != RoleGateway {
			return fmt.Errorf("%s is not a gateway", peer)
		}
		if alpn == api.ALPNEnrol {
			return nil
		}
		pins := pinned(peer.Zone)
		switch {
		case len(pins) == 0:
			return fmt.Errorf("%s is of a zone without an active link", peer)
		case !slices.Contains(pins, PinOf(peerCA)):
			return fmt.Errorf("%s is not of an authority that its link pins", peer)
		}
		return nil
	}
}

var errNoCredentials = errors.New("no certificate yet")

// ServerTLS returns the configuration of a listener between Berth processes. It speaks
// only the protocols alpn, presents the credentials that get returns at each handshake
// (nil fails it), requires the peer's certificate and lets admit decide. now is the
// clock for the validity of certificates.
func ServerTLS(get func() *Credentials, alpn []string, admit Policy, now func() time.Time) *tls.Config {
	alpn = slices.Clone(alpn)
	c := serverConfig(get, alpn, now)
	// Any certificate, because chains are verified by VerifyConnection: crypto/tls
	// knows one pool of roots, and we need the one root of the peer's own zone.
	c.ClientAuth = tls.RequireAnyClientCert
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		if !slices.Contains(alpn, cs.NegotiatedProtocol) {
			return errors.New("the peer named no protocol")
		}
		peer, ca, err := verifyChain(cs.PeerCertificates, x509.ExtKeyUsageClientAuth, now())
		if err != nil {
			return err
		}
		return admit(peer, cs.NegotiatedProtocol, ca.Raw)
	}
	return c
}

// APITLS returns the configuration of a listener of the public API: it presents the
// credentials of RoleAPI that get returns, and asks callers for no certificate. What own
// returns at a handshake, nil for nothing, is presented in their place, except to who joins
// the zone: that knows the zone by its authority.
func APITLS(get func() *Credentials, own func() *Pair, now func() time.Time) *tls.Config {
	c := serverConfig(get, []string{"h2", api.ALPNHTTP}, now)
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if p := own(); p != nil && !slices.Contains(hello.SupportedProtos, api.ALPNJoin) {
			return p.Certificate(), nil
		}
		return presentCertificate(get)
	}
	return c
}

// JoinTLS returns the configuration to call the public API of a zone with, to join it: it must be of one of
// the authorities that pinned returns.
func JoinTLS(zone api.ZoneID, pinned func() []Pin, now func() time.Time) *tls.Config {
	c := ClientTLS(nil, api.ALPNHTTP, pinned, Subject{Zone: zone, Role: RoleAPI}, now)
	c.NextProtos = []string{api.ALPNJoin, api.ALPNHTTP} // the first is never agreed on: it only says who calls
	return c
}

func serverConfig(get func() *Credentials, alpn []string, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             alpn,
		SessionTicketsDisabled: true,
		Time:                   now,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return presentCertificate(get)
		},
	}
}

func presentCertificate(get func() *Credentials) (*tls.Certificate, error) {
	if c := get(); c != nil {
		return &c.Cert, nil
	}
	return nil, errNoCredentials
}

// ClientTLS returns the configuration to dial a peer with: it must speak alpn, be of one
// of the authorities that pinned returns at each handshake, and be want, of any id if
// want.ID is "". It presents the credentials that get returns; get may be nil if the
// listener asks for none.
func ClientTLS(get func() *Credentials, alpn string, pinned func() []Pin, want Subject, now func() time.Time) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{alpn},
		Time:       now,
		// Not as insecure as it is called: it only switches off the check of host
		// names and public roots. A peer is not the owner of an address but a
		// subject, and VerifyConnection, which is always called, checks that.
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			if cs.NegotiatedProtocol != alpn {
				return fmt.Errorf("the peer does not speak %s", alpn)
			}
			peer, ca, err := verifyChain(cs.PeerCertificates, x509.ExtKeyUsageServerAuth, now())
			if err != nil {
				return err
			}
			if !slices.Contains(pinned(), PinOf(ca.Raw)) {
				return fmt.Errorf("%s is of another authority than expected", peer)
			}
			if peer.Zone != want.Zone || peer.Role != want.Role || want.ID != "" && peer.ID != want.ID {
				return fmt.Errorf("the peer is %s, expected %s", peer, want)
			}
			return nil
		},
	}
	if get != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return presentCertificate(get) }
	}
	return c
}

// Peer returns the subject at the other end of a connection with a configuration of
// this package.
func Peer(cs tls.ConnectionState) (Subject, error) {
	if !cs.HandshakeComplete || len(cs.PeerCertificates) == 0 {
		return Subject{}, errors.New("the peer has shown no certificate")
	}
	return subjectOf(cs.PeerCertificates[0])
}
