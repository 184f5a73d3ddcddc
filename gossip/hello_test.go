package gossip

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
)

// readBack sends b on a connection that stays open and reads a hello from it.
func readBack(t *testing.T, b []byte) (h Hello, err error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		near, far := net.Pipe()
		go func() { _, _ = near.Write(b) }() // cut off when the reader has seen enough
		h, err = ReadHello(far, time.Now().Add(time.Minute))
		_ = far.Close()
	})
	return h, err
}

func TestHelloRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := Hello{Version: 1, Pool: strings.Repeat("p", api.NameMaxBytes), Name: SyntheticName("p"), Kind: kindStream}
		near, far := net.Pipe()
		go func() { _ = writeHello(near, want, time.Now().Add(time.Minute)) }()
		got, err := ReadHello(far, time.Now().Add(time.Minute))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	})
}

func TestReadHelloRefuses(t *testing.T) {
	good := Hello{Version: 1, Pool: "zone", Name: SyntheticName("zone", "a"), Kind: KindPacket}
	with := func(change func(*Hello)) []byte {
		h := good
		change(&h)
		b, err := codec.Marshal(h)
		require.NoError(t, err)
		return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
	}
	raw := func(size int) []byte {
		return append(binary.BigEndian.AppendUint16(nil, uint16(size)), make([]byte, size)...)
	}
	cases := []struct {
		name string
		b    []byte
		want api.Code
	}{
		{"good", with(func(*Hello) {}), ""},
		{"nothing", nil, api.CodeUnavailable},
		{"cut short", with(func(*Hello) {})[:9], api.CodeUnavailable},
		{"empty", raw(0), api.CodeInvalid},
		{"garbage at the limit", raw(HelloMaxBytes), api.CodeInvalid},
		{"above the limit", raw(HelloMaxBytes + 1), api.CodeTooLarge},
		{"version", with(func(h *Hello) { h.Version = 2 }), api.CodeInvalid},
		{"pool", with(func(h *Hello) { h.Pool = "a pool" }), api.CodeInvalid},
		{"pool above the limit", with(func(h *Hello) { h.Pool = strings.Repeat("p", api.NameMaxBytes+1) }), api.CodeInvalid},
		{"name", with(func(h *Hello) { h.Name = "db-1.internal" }), api.CodeInvalid},
		{"upper case", with(func(h *Hello) { h.Name = "n-0123456789ABCDEF" }), api.CodeInvalid},
		{"kind", with(func(h *Hello) { h.Kind = 3 }), api.CodeInvalid},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := readBack(t, c.b)
			assert.Equal(t, c.want, api.CodeOf(err))
			if c.want == "" {
				assert.Equal(t, good, got)
			}
		})
	}
}

func TestReadHelloDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, far := net.Pipe()
		began := time.Now()
		_, err := ReadHello(far, began.Add(HelloTimeout))
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(err))
		assert.Equal(t, HelloTimeout, time.Since(began))
	})
}

func TestSyntheticNames(t *testing.T) {
	a := SyntheticName("zone", "ab", "c")
	require.NoError(t, checkName(a))
	assert.Equal(t, a, SyntheticName("zone", "ab", "c"))
	assert.NotEqual(t, a, SyntheticName("zone", "a", "bc"), "parts do not run together")
	assert.NotEqual(t, a, SyntheticName("link", "ab", "c"), "each pool has its own")
	assert.Equal(t, "[2001:db8:", address(a).String()[:10])
	assert.Equal(t, "gossip", address(a).Network())
	for _, s := range []string{"", "n-", a[:len(a)-1], a + "0", "m" + a[1:], "n-" + strings.Repeat("g", 16)} {
		assert.Error(t, checkName(s), "%q", s)
	}
}

func FuzzHello(f *testing.F) {
	b, err := codec.Marshal(Hello{Version: 1, Pool: "zone", Name: SyntheticName("zone"), Kind: KindPacket})
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte{0xa4, 1, 1, 2, 0x60})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b)
		if err == nil {
			again, err := codec.Marshal(h)
			require.NoError(t, err)
			assert.LessOrEqual(t, len(again), HelloMaxBytes)
			assert.NoError(t, checkName(h.Name))
		}
	})
}
