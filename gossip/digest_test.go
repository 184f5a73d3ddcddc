package gossip

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
)

// sized returns a digest of zone z1 whose encoding has exactly size bytes.
func sized(t *testing.T, size int) *api.Digest {
	t.Helper()
	d := &api.Digest{Zone: "z1", Sequence: 5, At: 1, Health: "up"}
	length := func() int {
		raw, err := encodeRaw(*d)
		require.NoError(t, err)
		return len(raw)
	}
	for length() < size-300 {
		d.Traits = append(d.Traits, strings.Repeat("t", 200))
	}
	for rest := size - length(); rest > 0; rest = size - length() {
		n := min(rest-2, 200)
		if n < 1 {
			d.Traits[0] += strings.Repeat("x", rest)
			break
		}
		d.Traits = append(d.Traits, strings.Repeat("t", n))
	}
	require.Equal(t, size, length())
	return d
}

func encodeRaw(d api.Digest) ([]byte, error) { return codec.Marshal(d) }
