package identity

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"berth/api"
	"berth/internal/durable"
)

// caFile is the name of the file with the certificates of the zone's authorities that
// are trusted, by the process whose directory it is in and by clients of the public API.
// It is no secret.
const caFile = "ca.pem"

// Modes and limits of credentials on disk.
const (
	dirMode     = 0o700
	keyMode     = 0o600
	caMode      = 0o644
	othersMode  = 0o077 // forbidden for a file with a key
	pemMaxBytes = 64 << 10
)

// Types of PEM blocks.
const (
	pemKey  = "PRIVATE KEY"
	pemCert = "CERTIFICATE"
)

// SaveDir writes c to dir, which it makes with mode 0700 if there is none:
// <role>.pem with key, certificate and the authority's certificate (mode 0600).
// The file is on disk and whole, the old one or the new one, even after a crash.
// Calls for one dir must not overlap.
func (c *Credentials) SaveDir(dir string) error {
	key, ok := c.Cert.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || len(c.Cert.Certificate) != chainLength {
		return errors.New("saving credentials: not made by NewCredentials")
	}
	keyDER, err := marshalKey(key)
	if err != nil {
		return err
	}
	leafPEM := pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: c.Cert.Certificate[0]})
	caPEM := pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: c.Cert.Certificate[1]})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: keyDER})
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("saving credentials: %w", err)
	}
	return durable.ReplaceFile(credentialsFile(dir, c.Subject.Role), keyMode, bytes.Join([][]byte{keyPEM, leafPEM, caPEM}, nil))
}

// LoadDir returns the credentials of one role that SaveDir wrote to dir. It returns
// fs.ErrNotExist if there are none, and a plain error if others than the owner may read
// or write the file, if its parts do not belong together, or if they are of another
// role. It does not check whether they are valid now.
func LoadDir(dir string, role Role) (*Credentials, error) {
	path := credentialsFile(dir, role)
	text, err := readPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("loading credentials: %w", err)
	}
	c, err := parsePEM(text)
	if err != nil {
		return nil, fmt.Errorf("loading credentials from %s: %w", path, err)
	}
	if c.Subject.Role != role {
		return nil, fmt.Errorf("loading credentials from %s: they are of role %s, not %s", path, c.Subject.Role, role)
	}
	return c, nil
}

func credentialsFile(dir string, role Role) string {
	return filepath.Join(dir, string(role)+".pem")
}

// parsePEM reads a key, its certificate and the authority's, in that order.
func parsePEM(text []byte) (*Credentials, error) {
	var der [1 + chainLength][]byte
	for i := range der {
		var block *pem.Block
		block, text = pem.Decode(text)
		want := pemCert
		if i == 0 {
			want = pemKey
		}
		if block == nil || block.Type != want {
			return nil, fmt.Errorf("part %d must be a PEM block %s", i+1, want)
		}
		der[i] = block.Bytes
	}
	if len(bytes.TrimSpace(text)) != 0 {
		return nil, errors.New("there is more than a key and two certificates")
	}
	key, err := parseKey(der[0])
	if err != nil {
		return nil, err
	}
	return NewCredentials(key, der[1], der[2])
}

// readPrivate returns the content of a file that only its owner can access.
func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&othersMode != 0 {
		return nil, api.Errorf(api.CodeForbidden, "%s holds a private key, but its mode is %v: others must not have access; run chmod 600 on it",
			path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, pemMaxBytes+1))
	if err == nil && len(text) > pemMaxBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, pemMaxBytes)
	}
	return text, err
}
