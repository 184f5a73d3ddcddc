package identity

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
)

func TestToken(t *testing.T) {
	text, id, hash := NewToken()
	assert.Regexp(t, `^berth_[0-9a-f]{16}_[0-9a-f]{64}$`, text.Reveal())
	gotID, gotHash, err := ParseToken(text.Reveal())
	require.NoError(t, err)
	assert.Equal(t, id, gotID)
	assert.True(t, CheckToken(hash, gotHash))

	_, otherID, other := NewToken()
	assert.NotEqual(t, id, otherID)
	assert.False(t, CheckToken(other, gotHash))
	assert.False(t, CheckToken(nil, nil), "nothing stored is no match")
	assert.False(t, CheckToken(nil, gotHash))
	assert.False(t, CheckToken(hash, gotHash[:31]))
	assert.False(t, CheckToken(hash[:31], gotHash[:31]))
}

func TestParseTokenRefusesInOneWay(t *testing.T) {
	made, id, _ := NewToken()
	text := made.Reveal()
	secret := strings.TrimPrefix(text, "berth_"+string(id)+"_")
	want := api.Errorf(api.CodeUnauthenticated, "the token is not one of this zone")
	for _, bad := range []string{
		"", "berth_", "berth__", text[1:], text[:len(text)-1], text + "0", " " + text, text + "\n",
		strings.ToUpper(text), "berth_" + strings.ToUpper("abcdefabcdefabcd") + "_" + secret,
		"berth_" + string(id) + secret, "berth_" + string(id) + "__" + secret, "berth_" + secret + "_" + string(id),
		"berth_" + string(id) + "_" + strings.Repeat("g", 64), "berth_" + strings.Repeat("g", 16) + "_" + secret,
		strings.Repeat("a", 1<<20),
	} {
		_, _, err := ParseToken(bad)
		assert.Equal(t, want, err, "%.100q", bad)
	}
}

func newTestJoinToken(tb testing.TB, kind api.JoinKind, addresses ...string) (JoinToken, string) {
	tb.Helper()
	token, err := NewJoinToken(kind, "zone-a", addresses, PinOf([]byte("certificate")), Pin{})
	require.NoError(tb, err)
	text, err := token.Text()
	require.NoError(tb, err)
	return token, text.Reveal()
}

func TestJoinToken(t *testing.T) {
	for _, kind := range []api.JoinKind{api.JoinNode, api.JoinAgent, api.JoinLink} {
		token, text := newTestJoinToken(t, kind, "10.0.0.1:7443", "[2001:db8::1]:443", "gateway.example.org:65535")
		assert.Regexp(t, `^berth-join-[A-Za-z0-9_-]+$`, text)
		got, err := ParseJoinToken(text)
		require.NoError(t, err)
		assert.Equal(t, token, got)
		assert.True(t, CheckToken(token.Hash(), got.Hash()))
	}
	one, _ := newTestJoinToken(t, api.JoinNode, "a:1")
	two, _ := newTestJoinToken(t, api.JoinNode, "a:1")
	assert.NotEqual(t, one.ID, two.ID)
	assert.False(t, CheckToken(one.Hash(), two.Hash()))
}

func TestJoinTokenLimits(t *testing.T) {
	label := strings.Repeat("a", dnsLabelMaxBytes)
	host := strings.Join([]string{label, label, label, label[:61]}, ".")
	longest := host + ":65535"
	addresses := make([]string, JoinAddressesMax+1)
	for i := range addresses {
		addresses[i] = longest
	}
	_, text := newTestJoinToken(t, api.JoinLink, addresses[:JoinAddressesMax]...)
	assert.LessOrEqual(t, len(text), joinTextMaxBytes, "the longest valid token fits")
	_, err := ParseJoinToken(text)
	require.NoError(t, err)

	one := []string{"a:1"}
	for name, c := range map[string]struct {
		kind      api.JoinKind
		zone      api.ZoneID
		addresses []string
	}{
		"kind":               {"root", "zone-a", one},
		"zone":               {api.JoinNode, "Zone A", one},
		"no address":         {api.JoinNode, "zone-a", nil},
		"too many addresses": {api.JoinNode, "zone-a", addresses},
		"too long address":   {api.JoinNode, "zone-a", []string{"a" + longest}},
		"no port":            {api.JoinNode, "zone-a", []string{"a"}},
		"no host":            {api.JoinNode, "zone-a", []string{":1"}},
		"port 0":             {api.JoinNode, "zone-a", []string{"a:0"}},
		"port 65536":         {api.JoinNode, "zone-a", []string{"a:65536"}},
		"port by name":       {api.JoinNode, "zone-a", []string{"a:https"}},
		"port of two forms":  {api.JoinNode, "zone-a", []string{"a:01"}},
		"URL":                {api.JoinNode, "zone-a", []string{"https://a:1"}},
		"interface":          {api.JoinNode, "zone-a", []string{"[fe80::1%eth0]:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewJoinToken(c.kind, c.zone, c.addresses, Pin{}, Pin{})
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
		})
	}
	_, err = JoinToken{Kind: api.JoinNode, Zone: "zone-a", Addresses: one}.Text()
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err), "a token without a secret")
}

func TestParseJoinTokenRefuses(t *testing.T) {
	token, text := newTestJoinToken(t, api.JoinNode, "a:1")
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, joinPrefix))
	require.NoError(t, err)
	encode := func(b []byte) string { return joinPrefix + base64.RawURLEncoding.EncodeToString(b) }
	body := func(edit func(*joinBody)) string {
		var b joinBody
		require.NoError(t, codec.Unmarshal(raw, &b))
		edit(&b)
		out, err := codec.Marshal(b)
		require.NoError(t, err)
		return encode(out)
	}
	require.Equal(t, text, body(func(*joinBody) {}))
	for name, bad := range map[string]string{
		"nothing":              "",
		"bearer token":         "berth_" + string(token.ID) + "_" + strings.Repeat("0", 64),
		"prefix alone":         joinPrefix,
		"other prefix":         "berth-join_" + text[len(joinPrefix):],
		"line break":           text + "\n",
		"line break inside":    text[:40] + "\n" + text[40:],
		"padding":              text + "=",
		"cut":                  text[:len(text)-4],
		"too long":             text + strings.Repeat("A", joinTextMaxBytes),
		"more bytes":           encode(append(raw[:len(raw):len(raw)], 0)),
		"not shortest CBOR":    encode(append([]byte{0xb8, 6}, raw[1:]...)),
		"unknown field":        encode(append(append([]byte{raw[0] + 1}, raw[1:]...), 7, 0)),
		"short pin":            body(func(b *joinBody) { b.CA = b.CA[1:] }),
		"short secret":         body(func(b *joinBody) { b.Secret = b.Secret[1:] }),
		"no secret":            body(func(b *joinBody) { b.Secret = nil }),
		"id of another length": body(func(b *joinBody) { b.ID += "0" }),
		"kind":                 body(func(b *joinBody) { b.Kind = "root" }),
		"zone":                 body(func(b *joinBody) { b.Zone = "../zone" }),
		"address":              body(func(b *joinBody) { b.Addresses = []string{"a b:1"} }),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseJoinToken(bad)
			require.Error(t, err)
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
			assert.Equal(t, "the join token is malformed; copy all of it", api.MessageOf(err))
			assert.NotContains(t, fmt.Sprintf("%+v", err), token.secret.Reveal())
		})
	}
}
