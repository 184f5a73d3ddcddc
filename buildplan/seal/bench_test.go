package seal

import (
	"fmt"
	"testing"
)

var benchBytes = []int{256, 1 << 10, 4 << 10, 64 << 10}

func BenchmarkSeal(b *testing.B) {
	k, ctx, salt := testKey("new"), testContext(), testSalt(1)
	for _, n := range benchBytes {
		plaintext := make([]byte, n)
		b.Run(fmt.Sprintf("%dB", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				_, _ = Seal(k, ctx, plaintext, salt)
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	ring, ctx := Keyring{testKey("new")}, testContext()
	for _, n := range benchBytes {
		blob := mustSeal(b, ring[0], ctx, make([]byte, n), testSalt(1))
		b.Run(fmt.Sprintf("%dB", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				_, _ = ring.Open(ctx, blob)
			}
		})
	}
}

// BenchmarkRefuse measures a forgery that names a known epoch: the commitment
// refuses it at a cost that does not grow with its length.
func BenchmarkRefuse(b *testing.B) {
	ring, ctx := Keyring{testKey("new")}, testContext()
	for _, n := range benchBytes {
		blob := mustSeal(b, ring[0], ctx, make([]byte, n), testSalt(1))
		blob[commitAt] ^= 1
		b.Run(fmt.Sprintf("%dB", n), func(b *testing.B) {
			for b.Loop() {
				_, _ = ring.Open(ctx, blob)
			}
		})
	}
}
