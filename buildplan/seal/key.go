package seal

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"berth/api"
)

// Sizes of key material in bytes.
const (
	EpochBytes          = 4
	secretBytes         = 32
	OperatorKeyMinBytes = 32 // an operator-given key below this is refused
)

// Labels keep apart what one secret is used for. Each is used in one place.
const (
	labelPlan     = "berth/plan/v1"
	labelEpoch    = "berth/epoch/v1"
	labelOperator = "berth/operator/v1"
	labelCheck    = "berth/keycheck/v1"
	labelWrap     = "berth/wrap/v1"
	labelKEK      = "berth/kek/v1"
)

// Key is the secret of one epoch. Epoch names it in a blob; it is random, not a
// counter, so that it shows neither age nor how often keys are rotated.
//
// A Key hides its secret from package fmt, from encoding/json and from slog,
// which uses the two. The exception is a Key in an unexported field of a struct
// that is printed whole: there fmt calls no method, so hold it behind a pointer.
type Key struct {
	Epoch  [EpochBytes]byte
	Secret [secretBytes]byte
}

// String returns the epoch and never the secret.
func (k Key) String() string { return "Key(" + hex.EncodeToString(k.Epoch[:]) + ")" }

// GoString is String.
func (k Key) GoString() string { return k.String() }

// Format writes String for every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) } // fmt reports write errors itself

// MarshalText returns String; encoding/json uses it too.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// MarshalJSON returns String as a JSON string.
func (k Key) MarshalJSON() ([]byte, error) { return []byte(`"` + k.String() + `"`), nil }

// Keyring is the keys that a zone accepts. The first is the one to seal with; all
// of them open. Two keys may bear one epoch by chance, and both are tried.
type Keyring []Key

// DeriveKey makes the key of one epoch of one zone from a key that an operator
// has given. The operator's key is input to HKDF only and is never used itself;
// other zones and other epochs get unrelated secrets. It returns an invalid-input
// error for an operator key of fewer than OperatorKeyMinBytes bytes.
func DeriveKey(operatorKey []byte, zone api.ZoneID, epoch [EpochBytes]byte) (Key, error) {
	if err := checkOperatorKey(operatorKey); err != nil {
		return Key{}, err
	}
	k := Key{Epoch: epoch}
	copy(k.Secret[:], expandKey(operatorKey, epoch[:], labelEpoch+string(zone), secretBytes))
	return k, nil
}

// OperatorKey returns the form of an operator-given key that KeyCheck compares:
// it is the same in every zone that was given the same key, and cannot open what
// the keys of DeriveKey seal. Errors are those of DeriveKey.
func OperatorKey(operatorKey []byte) (Key, error) {
	if err := checkOperatorKey(operatorKey); err != nil {
		return Key{}, err
	}
	var k Key
	copy(k.Secret[:], expandKey(operatorKey, nil, labelOperator, secretBytes))
	return k, nil
}

func checkOperatorKey(operatorKey []byte) error {
	if len(operatorKey) < OperatorKeyMinBytes {
		return api.Errorf(api.CodeInvalid, "build_plan_encryption_key must have at least %d bytes, got %d; make one with `openssl rand -hex 32`",
			OperatorKeyMinBytes, len(operatorKey))
	}
	return nil
}

// KeyCheck returns 32 bytes that two zones can exchange to learn whether their
// keys hold the same secret, and nothing else: HMAC-SHA256, under a sub-key of
// k's secret, of the two zone ids in order. It is the same for (a, b) and (b, a),
// differs for every pair of zones, and does not depend on k's epoch. Zones with
// an operator-given key check OperatorKey; others check the key they seal with.
func KeyCheck(k Key, a, b api.ZoneID) []byte {
	mac := hmac.New(sha256.New, expandKey(k.Secret[:], nil, labelCheck, sha256.Size))
	mac.Write(appendField(appendField(nil, min(a, b)), max(a, b)))
	return mac.Sum(nil)
}

// expandKey is HKDF-SHA256 (RFC 5869).
func expandKey(secret, salt []byte, info string, n int) []byte {
	out, err := hkdf.Key(sha256.New, secret, salt, info, n)
	if err != nil {
		panic("seal: hkdf: " + err.Error()) // only for n > 255*32
	}
	return out
}
