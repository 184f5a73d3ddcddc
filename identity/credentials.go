package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"

	"berth/api"
)

// CSRMaxBytes bounds a certificate request.
const CSRMaxBytes = 8 << 10

// Credentials are what a process presents to its peers. They are immutable; renewal
// makes new ones: see Wallet. Printed or logged, they show the subject only.
type Credentials struct {
	Cert    tls.Certificate   // leaf, authority and private key; Leaf is set
	CA      *x509.Certificate // the zone's authority
	Subject Subject
}

// NewCredentials combines a key, the leaf certificate issued for it and the certificate
// of its authority. It checks that they belong together, but not whether they are valid
// now.
func NewCredentials(key *ecdsa.PrivateKey, leafDER, caDER []byte) (*Credentials, error) {
	leaf, err := x509.ParseCertificate(leafDER)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate: %w", err)
	}
	ca, err := x509.ParseCertificate(caDER)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of an authority: %w", err)
	}
	subject, _, err := verifyChain([]*x509.Certificate{leaf, ca}, x509.ExtKeyUsageAny, leaf.NotBefore)
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(leaf.PublicKey) {
		return nil, fmt.Errorf("the key does not belong to the certificate of %s", subject)
	}
	return &Credentials{
		Cert:    tls.Certificate{Certificate: [][]byte{leaf.Raw, ca.Raw}, PrivateKey: key, Leaf: leaf},
		CA:      ca,
		Subject: subject,
	}, nil
}

// String returns the subject.
func (c Credentials) String() string { return c.Subject.String() }

// GoString is String.
func (c Credentials) GoString() string { return c.String() }

// Format writes String for every verb.
func (c Credentials) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) } // fmt reports write errors itself

// MarshalText returns String; encoding/json uses it too.
func (c Credentials) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// LogValue returns String.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// NewKey returns a new private key, ECDSA P-256.
func NewKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return key, nil
}

// CSR returns a certificate request in DER that proves possession of key. It names
// nobody: a join token identifies the requester.
func CSR(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate request: %w", err)
	}
	return der, nil
}

// CheckCSR returns the key of a certificate request in DER and ignores the rest. It
// returns an invalid-input error if it is longer than CSRMaxBytes, malformed, not
// signed with its own key, or of a key that is not ECDSA P-256.
func CheckCSR(der []byte) (crypto.PublicKey, error) {
	const op = "identity.CheckCSR"
	if len(der) > CSRMaxBytes {
		return nil, api.Errorf(api.CodeInvalid, "a certificate request may have at most %d bytes, got %d", CSRMaxBytes, len(der))
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, op, "the certificate request is malformed", err)
	}
	if !isP256(csr.PublicKey) {
		return nil, api.Errorf(api.CodeInvalid, "the key of a certificate request must be ECDSA P-256")
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, api.Wrap(api.CodeInvalid, op, "the certificate request is not signed with its own key", err)
	}
	return csr.PublicKey, nil
}

// KeyHash returns the SHA-256 of a public key in its DER form.
func KeyHash(pub crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil, fmt.Errorf("encoding a public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return sum[:], nil
}

func marshalKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a private key: %w", err)
	}
	return der, nil
}

func parseKey(der []byte) (*ecdsa.PrivateKey, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("the private key is malformed") // the cause could quote it
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !isP256(&key.PublicKey) {
		return nil, errors.New("the private key is not ECDSA P-256")
	}
	return key, nil
}
