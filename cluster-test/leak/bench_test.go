package leak

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/api"
)

// noise returns n bytes that follow from a seed.
func noise(seed uint64, n int) []byte {
	dice := rand.NewPCG(seed, 7)
	out := make([]byte, 0, n+8)
	for len(out) < n {
		v := dice.Uint64()
		for range 8 {
			out = append(out, byte(v))
			v >>= 8
		}
	}
	return out[:n]
}

// crowd returns as many canaries as a zone of so many hosts has.
func crowd(tb testing.TB, hosts int) []Canary {
	tb.Helper()
	out := Key("key", noise(1, 64))
	for i := range hosts {
		out = append(out, Canary{Kind: "host name", Text: fmt.Sprintf("edge-host-%05d", i)})
		out = append(out, idCanaries("host id", api.NewUUID())...)
	}
	var inner []string
	for i := range 20 {
		inner = append(inner, fmt.Sprintf("10.9.%d.7:%d", i, 7000+i))
	}
	a, err := addressCanaries("address", inner, nil)
	require.NoError(tb, err)
	return append(out, a...)
}

func benchmark(b *testing.B, s *Scanner, data []byte) {
	b.Helper()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		st := s.openStream("bench")
		for p := data; len(p) > 0; p = p[min(len(p), 4096):] {
			st.write(p[:min(len(p), 4096)])
		}
		st.end()
	}
	require.Empty(b, s.Hits())
}

// BenchmarkScan measures one stream on one processor: plans look like noise,
// gossip and errors like text.
func BenchmarkScan(b *testing.B) {
	for _, hosts := range []int{30, 300, 3000} {
		s := scanner(b, crowd(b, hosts)...)
		n, forms := len(s.canaries), len(s.patterns)
		for name, body := range map[string]string{
			"plans": string(noise(3, 8<<20)),
			"text":  strings.Repeat(`{"error":{"code":"not_found","message":"no such server 50%"}} `, 8<<20/62),
		} {
			b.Run(fmt.Sprintf("%d canaries in %d forms/%s", n, forms, name), func(b *testing.B) {
				benchmark(b, s, []byte(sized("", body)))
			})
		}
	}
}
