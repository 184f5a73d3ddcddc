package seal

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// hexBytes is bytes that are hexadecimal text in JSON.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

type vectors struct {
	Sealed    []sealedVector
	Refused   []refusedVector
	Derived   []derivedVector
	KeyChecks []checkVector `json:"key_checks"`
	Wrapped   []wrapVector
}

type keyVector struct{ Epoch, Secret hexBytes }

func (v keyVector) key() Key { return Key{Epoch: [4]byte(v.Epoch), Secret: [32]byte(v.Secret)} }

type contextVector struct {
	Zone        api.ZoneID
	Peer        string
	Project     api.ProjectID
	Reservation api.ReservationID
	Digest      hexBytes
}

func (v contextVector) context() Context {
	return Context{v.Zone, v.Peer, v.Project, v.Reservation, [32]byte(v.Digest)}
}

type sealedVector struct {
	keyVector
	Name                  string
	Context               contextVector
	Plaintext, Salt, Blob hexBytes
}

// refusedVector says how to spoil the sealed vector named Of, its context or the
// keyring, and why it must then be refused.
type refusedVector struct {
	Name, Of     string
	Reason       Reason
	FlipByte     *int        `json:"flip_byte"`
	KeepBytes    *int        `json:"keep_bytes"`
	Append       hexBytes    `json:"append"`
	Swap         bool        `json:"swap_salt_and_commit"`
	ReplaceEpoch hexBytes    `json:"replace_epoch"`
	Keys         []keyVector `json:"keys"`
	Context      *contextVector
}

type derivedVector struct {
	OperatorKey    hexBytes `json:"operator_key"`
	Zone           api.ZoneID
	Epoch, Secret  hexBytes
	OperatorSecret hexBytes `json:"operator_secret"`
}

type checkVector struct {
	Secret, Check hexBytes
	A, B          api.ZoneID
}

type wrapVector struct {
	KEK                       hexBytes `json:"kek"`
	Label                     string
	Nonce, Plaintext, Wrapped hexBytes
}

func loadVectors(tb testing.TB) vectors {
	tb.Helper()
	b, err := os.ReadFile("testdata/vectors.json")
	require.NoError(tb, err)
	var v vectors
	require.NoError(tb, json.Unmarshal(b, &v))
	return v
}

func TestSealedVectors(t *testing.T) {
	v := loadVectors(t)
	require.Len(t, v.Sealed, 6)
	var ring Keyring
	for _, s := range v.Sealed {
		ring = append(ring, s.key())
	}
	for _, s := range v.Sealed {
		t.Run(s.Name, func(t *testing.T) {
			blob, err := Seal(s.key(), s.Context.context(), s.Plaintext, [24]byte(s.Salt))
			require.NoError(t, err)
			assert.Equal(t, []byte(s.Blob), blob)
			plaintext, err := ring.Open(s.Context.context(), s.Blob)
			require.NoError(t, err)
			assert.Equal(t, []byte(s.Plaintext), plaintext)
		})
	}
}

func TestRefusedVectors(t *testing.T) {
	v := loadVectors(t)
	require.NotEmpty(t, v.Refused)
	byName := map[string]sealedVector{}
	var ring Keyring
	for _, s := range v.Sealed {
		byName[s.Name] = s
		ring = append(ring, s.key())
	}
	for _, r := range v.Refused {
		t.Run(r.Name, func(t *testing.T) {
			s, known := byName[r.Of]
			require.True(t, known)
			ctx, keys := s.Context.context(), ring
			if r.Context != nil {
				ctx = r.Context.context()
			}
			if r.Keys != nil {
				keys = nil
				for _, k := range r.Keys {
					keys = append(keys, k.key())
				}
			}
			assertRefused(t, r.Reason, keys, ctx, r.spoil(s.Blob))
		})
	}
}

func (r refusedVector) spoil(blob []byte) []byte {
	out := append([]byte(nil), blob...)
	if r.FlipByte != nil {
		out[*r.FlipByte] ^= 0x10
	}
	if r.KeepBytes != nil {
		out = out[:*r.KeepBytes]
	}
	out = append(out, r.Append...)
	if r.Swap {
		swapped := append(append([]byte(nil), out[29:61]...), out[5:29]...)
		copy(out[5:61], swapped)
	}
	copy(out[1:5], r.ReplaceEpoch)
	return out
}

// assertRefused fails t unless blob is refused, with the one code and the one
// sentence and with reason for the audit log alone.
func assertRefused(tb testing.TB, reason Reason, r Keyring, ctx Context, blob []byte) {
	tb.Helper()
	plaintext, err := r.Open(ctx, blob)
	require.Error(tb, err)
	assert.Nil(tb, plaintext)
	assert.Equal(tb, &api.Error{Code: api.CodePlanRefused, Msg: api.PlanRefusedMessage, Err: reason}, err)
}

func TestDerivedVectors(t *testing.T) {
	for _, d := range loadVectors(t).Derived {
		k, err := DeriveKey(d.OperatorKey, d.Zone, [4]byte(d.Epoch))
		require.NoError(t, err)
		assert.Equal(t, Key{Epoch: [4]byte(d.Epoch), Secret: [32]byte(d.Secret)}, k)
		k, err = OperatorKey(d.OperatorKey)
		require.NoError(t, err)
		assert.Equal(t, Key{Secret: [32]byte(d.OperatorSecret)}, k)
	}
}

func TestKeyCheckVectors(t *testing.T) {
	for _, c := range loadVectors(t).KeyChecks {
		k := Key{Secret: [32]byte(c.Secret)}
		assert.Equal(t, []byte(c.Check), KeyCheck(k, c.A, c.B))
		assert.Equal(t, []byte(c.Check), KeyCheck(k, c.B, c.A))
	}
}

func TestWrapVectors(t *testing.T) {
	for _, w := range loadVectors(t).Wrapped {
		assert.Equal(t, []byte(w.Wrapped), Wrap([32]byte(w.KEK), w.Label, w.Plaintext, [24]byte(w.Nonce)))
	}
}
