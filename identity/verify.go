package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"berth/api"
)

// Pin is the SHA-256 of the certificate of a zone's authority. A join token carries it,
// so that a newcomer can authenticate the zone before it sends its secret.
type Pin [sha256.Size]byte

// PinOf returns the pin of an authority's certificate in DER.
func PinOf(caDER []byte) Pin { return sha256.Sum256(caDER) }

// PinsOf returns the pins of several.
func PinsOf(caDERs [][]byte) []Pin {
	var pins []Pin
	for _, der := range caDERs {
		pins = append(pins, PinOf(der))
	}
	return pins
}

// PinTo returns a function that returns the pin of one authority's certificate in DER.
func PinTo(caDER []byte) func() []Pin {
	pins := []Pin{PinOf(caDER)}
	return func() []Pin { return pins }
}

// Fingerprint returns the pin as text.
func (p Pin) Fingerprint() api.Fingerprint { return api.Fingerprint(hex.EncodeToString(p[:])) }

// chainLength is the number of certificates that every peer sends: its own and
// its authority's.
const chainLength = 2

// verifyChain checks, on both sides of every connection, everything that does not
// depend on trust: that chain is a leaf and the self-signed authority of the leaf's own
// zone, and that both are valid now and for usage.
func verifyChain(chain []*x509.Certificate, usage x509.ExtKeyUsage, now time.Time) (Subject, *x509.Certificate, error) {
	fail := func(err error) (Subject, *x509.Certificate, error) { return Subject{}, nil, err }
	if len(chain) != chainLength {
		return fail(fmt.Errorf("the peer sent %d certificates; it must send its own and its authority's", len(chain)))
	}
	leaf, ca := chain[0], chain[1]
	subject, err := subjectOf(leaf)
	if err != nil {
		return fail(err)
	}
	zone, err := checkAuthority(ca)
	if err != nil {
		return fail(err)
	}
	if subject.Zone != zone {
		return fail(fmt.Errorf("the authority of zone %s signed for zone %s", zone, subject.Zone))
	}
	if !isP256(leaf.PublicKey) {
		return fail(errors.New("the peer's key is not ECDSA P-256"))
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	opts := x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}
	if _, err := leaf.Verify(opts); err != nil {
		return fail(fmt.Errorf("verifying the certificate of %s: %w", subject, err))
	}
	return subject, ca, nil
}

// checkAuthority returns the zone of an authority's certificate. It checks its
// form and its own signature; whether it is valid now is checked with a leaf.
func checkAuthority(cert *x509.Certificate) (api.ZoneID, error) {
	if !cert.IsCA || !cert.BasicConstraintsValid || cert.KeyUsage&x509.KeyUsageCertSign == 0 || !isP256(cert.PublicKey) {
		return "", errors.New("the second certificate is not an authority's")
	}
	if len(cert.Subject.Names) != 1 || cert.Subject.CommonName != caName {
		return "", fmt.Errorf("the authority is not called %q", caName)
	}
	names, err := alternativeNames(cert)
	if err != nil {
		return "", err
	}
	if len(names) != 1 || len(names[nameURI]) != 1 {
		return "", errors.New("the authority's only alternative name must be its zone's URI")
	}
	zone, ok := strings.CutPrefix(names[nameURI][0], scheme)
	if !ok || !validZone(api.ZoneID(zone)) {
		return "", errors.New("the authority's URI does not name a zone")
	}
	if err := cert.CheckSignatureFrom(cert); err != nil {
		return "", fmt.Errorf("checking the authority's own signature: %w", err)
	}
	return api.ZoneID(zone), nil
}
