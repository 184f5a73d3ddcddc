package seal

import (
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"

	"golang.org/x/crypto/chacha20poly1305"

	"berth/api"
)

// SaltBytes is the length of a salt. A salt is drawn at random for each blob; it
// is long enough never to repeat by chance.
const SaltBytes = chacha20poly1305.NonceSizeX

// Layout of a blob of suite 1, in bytes.
const (
	suite1      = 0x01
	commitBytes = 32
	tagBytes    = chacha20poly1305.Overhead
	lengthBytes = 4

	epochAt     = 1
	saltAt      = epochAt + EpochBytes
	commitAt    = saltAt + SaltBytes
	headerBytes = commitAt + commitBytes
)

// Reason is why a blob was refused. It is for the audit log of the refusing zone, and must
// not reach the sender of the blob.
type Reason string

// The reasons of this package, in the order in which they are looked for.
const (
	reasonLength  Reason = "no blob has this length"
	reasonSuite   Reason = "unknown suite"
	reasonEpoch   Reason = "unknown epoch"
	reasonCommit  Reason = "sealed with another key"
	reasonTag     Reason = "damaged, or sealed for another call"
	reasonPadding Reason = "sealed by this zone, but not well-formed"
)

// Error returns the reason.
func (r Reason) Error() string { return string(r) }

// Seal returns plaintext sealed under k for ctx, padded to one of Sizes. The salt
// must be random and never used before. It returns a too-large error for more
// than PlaintextMaxBytes bytes. Plaintext is not kept and not changed.
func Seal(k Key, ctx Context, plaintext []byte, salt [SaltBytes]byte) ([]byte, error) {
	if len(plaintext) > PlaintextMaxBytes {
		return nil, api.Errorf(api.CodeTooLarge, "a plan may have at most %d bytes, got %d; ask for fewer instances",
			PlaintextMaxBytes, len(plaintext))
	}
	aead, commit := k.deriveCipher(ctx.Zone, salt[:])
	blob := make([]byte, sizeFor(overhead+len(plaintext)))
	blob[0] = suite1
	copy(blob[epochAt:], k.Epoch[:])
	copy(blob[saltAt:], salt[:])
	copy(blob[commitAt:], commit)
	padded := blob[headerBytes : len(blob)-tagBytes]
	binary.BigEndian.PutUint32(padded, uint32(len(plaintext)))
	copy(padded[lengthBytes:], plaintext)
	return aead.Seal(blob[:headerBytes], salt[:], padded, ctx.associatedData(k.Epoch)), nil // in place
}

// Open returns what was sealed for ctx under a key of r, as a slice of its own.
// Any other blob, of any length and content, gets the same refusal: code plan_refused and
// its one sentence. The reason is kept in Err.
func (r Keyring) Open(ctx Context, blob []byte) ([]byte, error) {
	plaintext, reason := r.openBlob(ctx, blob)
	if reason != "" {
		return nil, &api.Error{Code: api.CodePlanRefused, Msg: api.PlanRefusedMessage, Err: reason}
	}
	return plaintext, nil
}

func (r Keyring) openBlob(ctx Context, blob []byte) ([]byte, Reason) {
	if !isSize(len(blob)) {
		return nil, reasonLength
	}
	if blob[0] != suite1 {
		return nil, reasonSuite
	}
	reason := reasonEpoch
	for i := range r {
		if r[i].Epoch != [EpochBytes]byte(blob[epochAt:saltAt]) {
			continue
		}
		aead, commit := r[i].deriveCipher(ctx.Zone, blob[saltAt:commitAt])
		if subtle.ConstantTimeCompare(commit, blob[commitAt:headerBytes]) == 1 {
			return openWith(aead, ctx.associatedData(r[i].Epoch), blob)
		}
		reason = reasonCommit
	}
	return nil, reason
}

// openWith opens a blob whose commitment is that of aead's key.
func openWith(aead cipher.AEAD, associated, blob []byte) ([]byte, Reason) {
	padded, err := aead.Open(nil, blob[saltAt:commitAt], blob[headerBytes:], associated)
	if err != nil {
		return nil, reasonTag // err has no more detail
	}
	n := uint64(binary.BigEndian.Uint32(padded))
	body := padded[lengthBytes:]
	if n > uint64(len(body)) || len(blob) != sizeFor(overhead+int(n)) || !isZero(body[n:]) {
		return nil, reasonPadding
	}
	return body[:n:n], ""
}

// deriveCipher returns the cipher and the commitment of one blob.
func (k Key) deriveCipher(zone api.ZoneID, salt []byte) (cipher.AEAD, []byte) {
	okm := expandKey(k.Secret[:], salt, labelPlan+string(zone), chacha20poly1305.KeySize+commitBytes)
	return newCipher(okm[:chacha20poly1305.KeySize]), okm[chacha20poly1305.KeySize:]
}

func newCipher(key []byte) cipher.AEAD {
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		panic("seal: " + err.Error()) // only for a key that is not 32 bytes long
	}
	return aead
}

func isZero(b []byte) bool {
	var or byte
	for _, c := range b {
		or |= c
	}
	return or == 0
}
