package seal

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

func TestKeyHidesItsSecret(t *testing.T) {
	k := testKey("new")
	ring := Keyring{k}
	var out bytes.Buffer
	for _, v := range []any{k, &k, ring, map[string]Key{"k": k}, struct{ K Key }{k}, struct{ K *Key }{&k}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		b, err := json.Marshal(v)
		require.NoError(t, err)
		out.Write(b)
		slog.New(slog.NewTextHandler(&out, nil)).Info("text", "key", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "key", v)
	}
	log := strings.ToLower(out.String())
	assert.Contains(t, log, "key("+hex.EncodeToString(k.Epoch[:])+")")
	assert.NotContains(t, log, hex.EncodeToString(k.Secret[:3]))
	assert.NotContains(t, log, strings.ToLower(base64.StdEncoding.EncodeToString(k.Secret[:6])))
	assert.NotContains(t, log, fmt.Sprintf("%d %d %d", k.Secret[0], k.Secret[1], k.Secret[2]))
	assert.NotContains(t, out.String(), string(k.Secret[:3]))
}

func TestDeriveKey(t *testing.T) {
	long := bytes.Repeat([]byte{7}, OperatorKeyMinBytes)
	for _, short := range [][]byte{nil, long[:OperatorKeyMinBytes-1]} {
		_, err := DeriveKey(short, "zone-a", [4]byte{1})
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
		_, err = OperatorKey(short)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	}
	secrets := map[[32]byte]bool{[32]byte(long): true}
	for _, zone := range []api.ZoneID{"zone-a", "zone-b"} {
		for _, epoch := range [][4]byte{{1}, {2}} {
			k, err := DeriveKey(long, zone, epoch)
			require.NoError(t, err)
			assert.Equal(t, epoch, k.Epoch)
			assert.False(t, secrets[k.Secret], "every zone and epoch has a secret of its own")
			secrets[k.Secret] = true
		}
	}
	k, err := OperatorKey(long)
	require.NoError(t, err)
	assert.False(t, secrets[k.Secret])
}

func TestKeyCheck(t *testing.T) {
	k := testKey("new")
	check := KeyCheck(k, "zone-a", "zone-b")
	assert.Len(t, check, 32)
	assert.Equal(t, check, KeyCheck(k, "zone-b", "zone-a"), "both ends see the same")
	assert.Equal(t, check, KeyCheck(Key{Secret: k.Secret}, "zone-a", "zone-b"), "the epoch does not matter")
	assert.NotEqual(t, check, KeyCheck(testKey("other"), "zone-a", "zone-b"))
	assert.NotEqual(t, check, KeyCheck(k, "zone-a", "zone-c"))
	assert.NotEqual(t, KeyCheck(k, "a", "bc"), KeyCheck(k, "ab", "c"))
}

func TestUnwrap(t *testing.T) {
	kek, secret := testKey("kek").Secret, []byte("the key of the CA")
	wrapped := Wrap(kek, "ca", secret, testSalt(1))
	assert.Len(t, wrapped, len(secret)+wrapOverhead)
	got, err := Unwrap(kek, "ca", wrapped)
	require.NoError(t, err)
	assert.Equal(t, secret, got)

	_, err = Unwrap(testKey("other").Secret, "ca", wrapped)
	require.ErrorIs(t, err, ErrUnwrap)
	_, err = Unwrap(kek, "epoch/00000000", wrapped)
	require.ErrorIs(t, err, ErrUnwrap)
	for bit := range len(wrapped) * 8 {
		wrapped[bit/8] ^= 1 << (bit % 8)
		_, err = Unwrap(kek, "ca", wrapped)
		require.ErrorIs(t, err, ErrUnwrap, "bit %d", bit)
		wrapped[bit/8] ^= 1 << (bit % 8)
	}
	for n := range wrapped {
		_, err = Unwrap(kek, "ca", wrapped[:n])
		require.ErrorIs(t, err, ErrUnwrap, "cut to %d", n)
	}
	_, err = Unwrap(kek, "ca", append(wrapped, 0))
	require.ErrorIs(t, err, ErrUnwrap)

	empty, err := Unwrap(kek, "", Wrap(kek, "", nil, testSalt(2)))
	require.NoError(t, err)
	assert.Empty(t, empty)
}
