package identity

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"berth/api"
)

// ReadCAFiles returns the texts of the files of an authority that an operator brings. Others than its owner may not
// use that of the key. It returns an invalid-input error for files that cannot be read or are longer than PairMaxBytes.
func ReadCAFiles(certFile, keyFile string) (cert, key []byte, err error) {
	if certFile == "" || keyFile == "" {
		return nil, nil, refuseBrought(errors.New("the files of both its certificate and its key are needed"))
	}
	if cert, err = readBounded(certFile); err == nil {
		key, err = readPrivate(keyFile)
	}
	if err != nil {
		return nil, nil, refuseBrought(err)
	}
	return cert, key, nil
}

// ParseCA returns an authority that an operator brings, certificate and key in PEM. It must be as NewCA makes it: of
// the same name, for one zone, self-signed, for leaves alone and with a key of ECDSA P-256; and it must be valid now and
// for LeafTTL more. It returns an invalid-input error for any other.
func ParseCA(certPEM, keyPEM []byte, now time.Time) (*CA, error) {
	chain, err := parseChain(certPEM)
	switch {
	case err != nil:
		return nil, refuseBrought(err)
	case len(chain) != 1:
		return nil, refuseBrought(fmt.Errorf("there are %d certificates: an authority of a zone is below no other, and comes alone", len(chain)))
	}
	cert := chain[0]
	if _, err = parseAuthority(cert.Raw, ""); err != nil {
		return nil, refuseBrought(err)
	}
	switch {
	case cert.MaxPathLen != 0 || !cert.MaxPathLenZero:
		return nil, refuseBrought(errors.New("its path length must be 0: it signs no other authorities"))
	case now.Before(cert.NotBefore), cert.NotAfter.Sub(now) < LeafTTL:
		return nil, refuseBrought(fmt.Errorf("it is valid from %s to %s, and must be from now on for %v at least", cert.NotBefore, cert.NotAfter, LeafTTL))
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, refuseBrought(err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, refuseBrought(errors.New("its key is not ECDSA P-256"))
	}
	ca, err := newCA(cert.Raw, key)
	if err == nil {
		err = ca.tryIssue(key, now)
	}
	if err != nil {
		return nil, refuseBrought(err)
	}
	return ca, nil
}

// tryIssue checks that peers accept what c issues, with all that its certificate allows and forbids.
func (c *CA) tryIssue(key *ecdsa.PrivateKey, now time.Time) error {
	node, err := c.Issue(Subject{c.zone, RoleNode, "trial"}, key.Public(), now, time.Hour)
	if err != nil {
		return err
	}
	public, err := c.IssueAPI("trial", []string{"localhost", "127.0.0.1"}, key.Public(), now, time.Hour)
	if err != nil {
		return err
	}
	for _, use := range []struct {
		der []byte
		as  x509.ExtKeyUsage
	}{{node, x509.ExtKeyUsageClientAuth}, {node, x509.ExtKeyUsageServerAuth}, {public, x509.ExtKeyUsageServerAuth}} {
		leaf, err := x509.ParseCertificate(use.der)
		if err == nil {
			_, _, err = verifyChain([]*x509.Certificate{leaf, c.cert}, use.as, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// HasKeyOf reports whether an authority of that certificate, in DER, has the key of c.
func (c *CA) HasKeyOf(der []byte) bool {
	cert, err := x509.ParseCertificate(der)
	return err == nil && c.key.PublicKey.Equal(cert.PublicKey)
}

func refuseBrought(err error) error {
	return api.Errorf(api.CodeInvalid, "the authority cannot be used: %s", err.Error())
}
