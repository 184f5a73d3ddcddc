package identity

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"berth/api"
)

// Limits of what an operator brings.
const (
	PairMaxBytes = pemMaxBytes // of each file, in bytes
	PairChainMax = 8           // certificates in a file: that of the server, and those that lead to its root
)

// Pair is a certificate that an operator brings for the public API, of any authority, with its key. It is
// immutable.
type Pair struct {
	cert tls.Certificate
	text []byte // of both files
}

// LoadPair reads a Pair from a file with certificates in PEM, that of the server first and each followed by the
// one that has signed it, and a file with its key, which others than its owner may not use. It returns an
// invalid-input error for files that cannot be read or are longer than PairMaxBytes, for more certificates than
// PairChainMax, for parts that do not belong together, and for a certificate that no server may ever show. Whether it may do so
// now is for CheckTime.
func LoadPair(certFile, keyFile string) (*Pair, error) {
	certs, err := readBounded(certFile)
	if err != nil {
		return nil, refusePair(err)
	}
	key, err := readPrivate(keyFile)
	if err != nil {
		return nil, refusePair(err)
	}
	p := &Pair{text: slices.Concat(certs, []byte{0}, key)}
	chain, err := parseChain(certs)
	if err != nil {
		return nil, refusePair(fmt.Errorf("%s: %w", certFile, err))
	}
	if err = checkServer(chain); err != nil {
		return nil, refusePair(fmt.Errorf("%s: %w", certFile, err))
	}
	if p.cert, err = tls.X509KeyPair(certs, key); err != nil {
		return nil, refusePair(fmt.Errorf("%s is not the key of the certificate in %s: %w", keyFile, certFile, err))
	}
	p.cert.Leaf = chain[0]
	return p, nil
}

func refusePair(err error) error {
	return api.Errorf(api.CodeInvalid, "the certificate cannot be used: %s", err.Error())
}

// readBounded reads a file of at most PairMaxBytes.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, PairMaxBytes+1))
	if err == nil && len(text) > PairMaxBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, PairMaxBytes)
	}
	return text, err
}

// parseChain reads 1 to PairChainMax certificates in PEM. Text between them is allowed, other blocks are not.
func parseChain(text []byte) (chain []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != pemCert {
			return nil, fmt.Errorf("it has a block %q and must have certificates alone", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("reading certificate %d: %w", len(chain)+1, err)
		}
		chain = append(chain, cert)
	}
	if len(chain) == 0 || len(chain) > PairChainMax {
		return nil, fmt.Errorf("it has %d certificates in PEM and must have 1 to %d", len(chain), PairChainMax)
	}
	return chain, nil
}

// checkServer refuses a chain that no client would ever accept from a server, whatever authorities it trusts.
func checkServer(chain []*x509.Certificate) error {
	for i, cert := range chain[1:] {
		if err := chain[i].CheckSignatureFrom(cert); err != nil {
			return fmt.Errorf("certificate %d has not signed certificate %d; the server's must be the first, and each be followed by the one that has signed it: %w", i+2, i+1, err)
		}
	}
	leaf := chain[0]
	switch {
	case len(leaf.DNSNames)+len(leaf.IPAddresses) == 0:
		return errors.New("the certificate has no DNS name and no IP address as subject alternative name")
	case len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0 &&
		!slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny):
		return errors.New("the certificate is not for servers: its extended key usage lacks serverAuth")
	}
	return nil
}

// CheckTime returns an invalid-input error if the certificate has expired or is not yet valid; nil for none.
func (p *Pair) CheckTime(now time.Time) error {
	switch {
	case p == nil:
		return nil
	case !now.Before(p.cert.Leaf.NotAfter):
		return refusePair(fmt.Errorf("it has expired at %s", p.cert.Leaf.NotAfter))
	case now.Before(p.cert.Leaf.NotBefore):
		return refusePair(fmt.Errorf("it is valid from %s on", p.cert.Leaf.NotBefore))
	}
	return nil
}

// Certificate returns what a server shows.
func (p *Pair) Certificate() *tls.Certificate { return &p.cert }

// Leaf returns the certificate itself.
func (p *Pair) Leaf() *x509.Certificate { return p.cert.Leaf }

// Covers reports whether a client that dials host, a DNS name or an IP address, finds that name in the certificate.
func (p *Pair) Covers(host string) bool { return p.cert.Leaf.VerifyHostname(host) == nil }

// Same reports whether both were read from the same bytes.
func (p *Pair) Same(other *Pair) bool {
	return p != nil && other != nil && bytes.Equal(p.text, other.text)
}
