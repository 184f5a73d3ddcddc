package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/api"
)

// Lifetimes of certificates.
const (
	caTTL    = 10 * 365 * 24 * time.Hour // of an authority
	LeafTTL  = 365 * 24 * time.Hour      // of a leaf, unless asked otherwise
	backdate = 5 * time.Minute           // valid from this long before the issuer's now, for clocks that lag
)

// IssuedAt returns when the issuer's clock says that it has issued leaf, in whole seconds.
func IssuedAt(leaf *x509.Certificate) time.Time { return leaf.NotBefore.Add(backdate) }

// APIHostsMax bounds the DNS names and addresses of one API certificate.
const APIHostsMax = 64

// caName is the common name of every authority. It is the same in all zones and so
// reveals nothing.
const caName = "Berth zone CA"

// CA is the certificate authority of one zone. Its certificate carries the zone
// id as the URI berth://<zone id>; it signs for that zone only.
type CA struct {
	zone api.ZoneID
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes the authority of a zone, valid from now for caTTL. It returns an
// invalid-input error for a zone id that cannot stand in a certificate.
func NewCA(zone api.ZoneID, now time.Time) (*CA, error) {
	if !validZone(zone) {
		return nil, Subject{Zone: zone}.Validate()
	}
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: caName},
		URIs:                  []*url.URL{{Scheme: "berth", Host: string(zone)}},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caTTL),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of an authority: %w", err)
	}
	return newCA(der, key)
}

// LoadCA returns the authority that CertDER and KeyDER wrote. It does not check
// whether it is still valid.
func LoadCA(certDER, keyDER []byte) (*CA, error) {
	key, err := parseKey(keyDER)
	if err != nil {
		return nil, fmt.Errorf("loading an authority: %w", err)
	}
	return newCA(certDER, key)
}

func newCA(certDER []byte, key *ecdsa.PrivateKey) (*CA, error) {
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of an authority: %w", err)
	}
	zone, err := checkAuthority(cert)
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("the authority's key does not belong to its certificate")
	}
	return &CA{zone: zone, cert: cert, key: key}, nil
}

// Zone returns the zone that c signs for.
func (c *CA) Zone() api.ZoneID { return c.zone }

// CertDER returns the certificate of c. The caller must not change it.
func (c *CA) CertDER() []byte { return c.cert.Raw }

// KeyDER returns the private key of c in PKCS #8. It is a secret.
func (c *CA) KeyDER() ([]byte, error) { return marshalKey(c.key) }

// Issue signs a leaf certificate for a peer: pub speaks as s from now for ttl, but
// not longer than c itself is valid. It returns an invalid-input error for a
// subject that is malformed, of another zone or of RoleAPI, a key that is not
// ECDSA P-256, or a ttl that is not positive, and a plain one while c is not valid.
func (c *CA) Issue(s Subject, pub crypto.PublicKey, now time.Time, ttl time.Duration) ([]byte, error) {
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	switch s.Role {
	case RoleAPI:
		return nil, api.Errorf(api.CodeInvalid, "a certificate of the public API is issued with its addresses")
	case RoleAgent:
		usage = usage[:1] // agents dial out and never listen
	case RoleNode, RoleGateway:
	}
	return c.signCertificate(s, &x509.Certificate{ExtKeyUsage: usage}, pub, now, ttl)
}

// IssueAPI signs a certificate for a listener of the public API, which any TLS
// client can check against c: it names hosts, 1 to APIHostsMax DNS names or IP
// addresses, besides the subject. It serves only and is no peer's certificate.
// Errors are those of Issue.
func (c *CA) IssueAPI(id string, hosts []string, pub crypto.PublicKey, now time.Time, ttl time.Duration) ([]byte, error) {
	if len(hosts) == 0 || len(hosts) > APIHostsMax {
		return nil, api.Errorf(api.CodeInvalid, "an API certificate needs 1 to %d DNS names or addresses, got %d", APIHostsMax, len(hosts))
	}
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, h := range hosts {
		addr, err := netip.ParseAddr(h)
		switch {
		case !ValidHost(h):
			return nil, api.Errorf(api.CodeInvalid, "%.300q is neither a DNS name nor an IP address", h)
		case err == nil:
			template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
		default:
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return c.signCertificate(Subject{Zone: c.zone, Role: RoleAPI, ID: id}, template, pub, now, ttl)
}

// APIHosts returns the DNS names and IP addresses that IssueAPI has written into leaf.
func APIHosts(leaf *x509.Certificate) []string {
	hosts := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

// signCertificate completes template and signs it. subjectOf accepts the result.
func (c *CA) signCertificate(s Subject, template *x509.Certificate, pub crypto.PublicKey, now time.Time, ttl time.Duration) ([]byte, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	switch {
	case s.Zone != c.zone:
		return nil, api.Errorf(api.CodeInvalid, "the authority of zone %s cannot sign for zone %s", c.zone, s.Zone)
	case !isP256(pub):
		return nil, api.Errorf(api.CodeInvalid, "the key of a certificate must be ECDSA P-256")
	case ttl <= 0:
		return nil, api.Errorf(api.CodeInvalid, "a certificate must be valid for some time, got %s", ttl)
	case now.Before(c.cert.NotBefore) || !now.Before(c.cert.NotAfter):
		return nil, fmt.Errorf("the authority of zone %s is valid from %s to %s, and now is %s", c.zone, c.cert.NotBefore, c.cert.NotAfter, now.UTC())
	}
	template.URIs = []*url.URL{{Scheme: "berth", Host: string(s.Zone), Path: "/" + string(s.Role) + "/" + s.ID}}
	template.NotBefore = now.Add(-min(backdate, now.Sub(c.cert.NotBefore)))
	template.NotAfter = now.Add(min(ttl, c.cert.NotAfter.Sub(now)))
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, pub, c.key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of %s: %w", s, err)
	}
	return der, nil
}

// Limits of DNS names (RFC 1035, part 2.3.4).
const (
	dnsNameMaxBytes  = 253
	dnsLabelMaxBytes = 63
)

// ValidHost reports whether s is an IP address or a DNS name of letters, digits
// and hyphens. A wildcard is neither.
func ValidHost(s string) bool {
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Zone() == "" // an interface's name means nothing elsewhere
	}
	if len(s) > dnsNameMaxBytes {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if len(label) > dnsLabelMaxBytes || strings.ContainsFunc(label, notDNS) ||
			label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return true
}

func notDNS(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-'
}

func isP256(pub crypto.PublicKey) bool {
	k, ok := pub.(*ecdsa.PublicKey)
	return ok && k != nil && k.Curve == elliptic.P256()
}
