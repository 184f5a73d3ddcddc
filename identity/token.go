package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"

	"berth/api"
)

// Lengths of a bearer token in bytes, before hexadecimal.
const (
	tokenIDBytes     = 8
	tokenSecretBytes = 32
)

// tokenPrefix lets people and secret scanners recognize tokens.
const tokenPrefix = "berth_"

// NewToken makes a bearer token, berth_<id>_<secret> in lower-case hexadecimal: its
// text, to be shown to its owner once, its public id, and the SHA-256 of its 256-bit
// secret, which is all that the zone stores.
func NewToken() (text Secret, id api.TokenID, hash []byte) {
	id, secret := newTokenID(), newTokenSecret()
	return newSecret(tokenPrefix + string(id) + "_" + hex.EncodeToString(secret)), id, hashOf(secret)
}

// ParseToken returns the id of a bearer token and the hash to compare with the stored
// one. It returns the same unauthenticated error for every text that NewToken cannot
// have made.
func ParseToken(text string) (id api.TokenID, hash []byte, err error) {
	rest, ok := strings.CutPrefix(text, tokenPrefix)
	idText, secretText, found := strings.Cut(rest, "_")
	secret, good := decodeHex(secretText, tokenSecretBytes)
	_, goodID := decodeHex(idText, tokenIDBytes)
	if !ok || !found || !good || !goodID {
		return "", nil, api.Errorf(api.CodeUnauthenticated, "the token is not one of this zone")
	}
	return api.TokenID(idText), hashOf(secret), nil
}

// CheckToken reports, in constant time, whether presented is the stored hash. A stored
// hash of a wrong length never matches.
func CheckToken(stored, presented []byte) bool {
	return len(stored) == sha256.Size && subtle.ConstantTimeCompare(stored, presented) == 1
}

func newTokenID() api.TokenID {
	var b [tokenIDBytes]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return api.TokenID(hex.EncodeToString(b[:]))
}

func newTokenSecret() []byte {
	b := make([]byte, tokenSecretBytes)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return b
}

func hashOf(secret []byte) []byte {
	sum := sha256.Sum256(secret)
	return sum[:]
}

// decodeHex returns the n bytes that s spells in lower-case hexadecimal.
func decodeHex(s string, n int) ([]byte, bool) {
	if len(s) != hex.EncodedLen(n) {
		return nil, false
	}
	b, err := hex.DecodeString(s)
	return b, err == nil && s == hex.EncodeToString(b)
}
