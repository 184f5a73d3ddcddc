package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"berth/api"
	"berth/internal/durable"
)

// A zone changes its authority by an overlap, in which both are trusted. Whoever trusts the old one
// learns of the next one by a certificate for which the old one vouches.

// Vouch signs the certificate of the authority that follows c, in DER.
func (c *CA) Vouch(nextDER []byte) ([]byte, error) {
	sig, err := ecdsa.SignASN1(rand.Reader, c.key, vouchDigest(nextDER))
	if err != nil {
		return nil, fmt.Errorf("vouching for an authority: %w", err)
	}
	return sig, nil
}

// vouchDigest is what Vouch signs. No certificate has such a prefix.
func vouchDigest(nextDER []byte) []byte {
	sum := sha256.Sum256(append([]byte("berth/vouch/v1\x00"), nextDER...))
	return sum[:]
}

// isVouched reports whether sig is the Vouch of an authority for next.
func isVouched(by *x509.Certificate, nextDER, sig []byte) bool {
	pub, ok := by.PublicKey.(*ecdsa.PublicKey)
	return ok && ecdsa.VerifyASN1(pub, vouchDigest(nextDER), sig)
}

// parseAuthority reads the certificate of an authority of a zone, any zone for "".
func parseAuthority(der []byte, zone api.ZoneID) (*x509.Certificate, error) {
	if len(der) > api.AuthorityMaxBytes {
		return nil, fmt.Errorf("the certificate of an authority has at most %d bytes, got %d", api.AuthorityMaxBytes, len(der))
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of an authority: %w", err)
	}
	of, err := checkAuthority(cert)
	if err == nil && zone != "" && of != zone {
		err = fmt.Errorf("the authority is of zone %s, not of zone %s", of, zone)
	}
	return cert, err
}

// CheckTold checks what a zone reports of its authorities, the older one first, against those that are
// trusted, in DER. The first one must be trusted, and vouch for a second one that is not. It returns
// an invalid-input error for anything else, and for more than api.AuthoritiesMax.
func CheckTold(zone api.ZoneID, trusted [][]byte, told []api.Authority) error {
	const op = "identity.CheckTold"
	if len(told) == 0 || len(told) > api.AuthoritiesMax {
		return api.Errorf(api.CodeInvalid, "a zone has 1 to %d authorities, got %d", api.AuthoritiesMax, len(told))
	}
	var before *x509.Certificate
	for i, a := range told {
		cert, err := parseAuthority(a.Cert, zone)
		if err != nil {
			return api.Wrap(api.CodeInvalid, op, "this is no authority of the zone", err)
		}
		switch {
		case slices.ContainsFunc(told[:i], func(o api.Authority) bool { return bytes.Equal(o.Cert, a.Cert) }):
			return api.Errorf(api.CodeInvalid, "an authority is named twice")
		case slices.ContainsFunc(trusted, func(der []byte) bool { return bytes.Equal(der, a.Cert) }):
		case i == 0:
			return api.Errorf(api.CodeInvalid, "the first authority is none that is trusted")
		case len(a.Vouch) > api.VouchMaxBytes || !isVouched(before, a.Cert, a.Vouch):
			return api.Errorf(api.CodeInvalid, "the authority in use does not vouch for the next one")
		}
		before = cert
	}
	return nil
}

// SaveAuthorities writes the certificates of 1 to api.AuthoritiesMax authorities of one zone to
// caFile in dir, which it makes with mode 0700 if there is none. The file is whole, the old one or
// the new one, even after a crash.
func SaveAuthorities(dir string, ders [][]byte) error {
	var text []byte
	for _, der := range ders {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: der})...)
	}
	if _, err := parseAuthorities(text); err != nil {
		return fmt.Errorf("saving authorities: %w", err)
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("saving authorities: %w", err)
	}
	return durable.ReplaceFile(filepath.Join(dir, caFile), caMode, text)
}

// loadAuthorities returns what SaveAuthorities has written, nothing if there is no file.
func loadAuthorities(dir string) ([][]byte, error) {
	path := filepath.Join(dir, caFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && len(text) > pemMaxBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, pemMaxBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("loading authorities: %w", err)
	}
	ders, err := parseAuthorities(text)
	if err != nil {
		return nil, fmt.Errorf("loading authorities from %s: %w", path, err)
	}
	return ders, nil
}

// parseAuthorities reads 1 to api.AuthoritiesMax certificates of authorities of one zone.
func parseAuthorities(text []byte) (ders [][]byte, err error) {
	var zone api.ZoneID
	for len(bytes.TrimSpace(text)) > 0 {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil || block.Type != pemCert {
			return nil, errors.New("there is more than certificates")
		}
		cert, err := parseAuthority(block.Bytes, zone)
		if err != nil {
			return nil, err
		}
		if zone, err = checkAuthority(cert); err != nil {
			return nil, err
		}
		ders = append(ders, block.Bytes)
	}
	if len(ders) == 0 || len(ders) > api.AuthoritiesMax {
		return nil, fmt.Errorf("there are %d certificates of authorities; a zone has 1 to %d", len(ders), api.AuthoritiesMax)
	}
	return ders, nil
}
