package seal

import (
	"crypto/cipher"
	"encoding/binary"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/chacha20"
)

// TestBlobOfTwoKeys builds what an attacker who knows the keys of two zones
// could: one ciphertext that XChaCha20-Poly1305 accepts under both. The plan is
// well-formed under the first key. The commitment makes the second zone refuse.
func TestBlobOfTwoKeys(t *testing.T) {
	ctx, salt := testContext(), testSalt(1)
	one, two := testKey("one"), testKey("two")
	two.Epoch = one.Epoch
	blob := mustSeal(t, one, ctx, make([]byte, 900), salt)
	aad := ctx.associatedData(one.Epoch)

	collide(t, blob[headerBytes:], aad, messageKeys(t, one, ctx, salt), messageKeys(t, two, ctx, salt))

	for _, k := range []Key{one, two} {
		aead, _ := k.deriveCipher(ctx.Zone, salt[:])
		requireAccepts(t, aead, salt, blob[headerBytes:], aad)
	}
	_, err := Keyring{one}.Open(ctx, blob)
	require.NoError(t, err)
	assertRefused(t, reasonCommit, Keyring{two}, ctx, blob)

	_, commit := two.deriveCipher(ctx.Zone, salt[:])
	copy(blob[commitAt:], commit)
	assertRefused(t, reasonCommit, Keyring{one}, ctx, blob)
}

func requireAccepts(t *testing.T, aead cipher.AEAD, salt [24]byte, ciphertext, aad []byte) {
	t.Helper()
	_, err := aead.Open(nil, salt[:], ciphertext, aad)
	require.NoError(t, err, "the bare cipher should accept the ciphertext under both keys")
}

// poly is the one-time key of Poly1305 (RFC 8439, part 2.5).
type poly struct{ r, s *big.Int }

var prime = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 130), big.NewInt(5))

func little(b []byte) *big.Int {
	b = slices.Clone(b)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

func messageKeys(t *testing.T, k Key, ctx Context, salt [24]byte) poly {
	t.Helper()
	okm := expandKey(k.Secret[:], salt[:], labelPlan+string(ctx.Zone), 64)
	stream, err := chacha20.NewUnauthenticatedCipher(okm[:32], salt[:])
	require.NoError(t, err)
	var block [32]byte
	stream.XORKeyStream(block[:], block[:])
	for _, i := range []int{3, 7, 11, 15} {
		block[i] &= 15
	}
	for _, i := range []int{4, 8, 12} {
		block[i] &= 252
	}
	return poly{little(block[:16]), little(block[16:])}
}

// blocks returns the numbers that Poly1305 evaluates for aad and a ciphertext.
func blocks(aad, ciphertext []byte) []*big.Int {
	pad := func(b []byte) []byte { return append(slices.Clone(b), make([]byte, (16-len(b)%16)%16)...) }
	data := append(pad(aad), pad(ciphertext)...)
	data = binary.LittleEndian.AppendUint64(data, uint64(len(aad)))
	data = binary.LittleEndian.AppendUint64(data, uint64(len(ciphertext)))
	var out []*big.Int
	for b := range slices.Chunk(data, 16) {
		out = append(out, new(big.Int).SetBit(little(b), 128, 1))
	}
	return out
}

// collide changes two blocks inside the plaintext of sealed, and its tag, so that
// the tag is right under both keys. The two blocks solve two linear equations
// modulo the prime; a third block is varied until the solution is two blocks.
func collide(t *testing.T, sealed, aad []byte, a, b poly) {
	t.Helper()
	body, tag := sealed[:len(sealed)-tagBytes], sealed[len(sealed)-tagBytes:]
	const first, second, varied = 3, 4, 5 // blocks within the plaintext
	low := new(big.Int).Lsh(big.NewInt(1), 128)
	for try := range uint64(1000) {
		clear(body[first*16 : (second+1)*16])
		binary.LittleEndian.PutUint64(body[varied*16:], try)
		m := blocks(aad, body)
		at := (len(aad) + 15) / 16
		m[at+first], m[at+second] = new(big.Int), new(big.Int)
		x, y := solve(m, at+first, a, b)
		if x.BitLen() != 129 || y.BitLen() != 129 {
			continue // not low + a block
		}
		for i, v := range []*big.Int{x, y} {
			v.Sub(v, low).FillBytes(body[(first+i)*16 : (first+i+1)*16])
			slices.Reverse(body[(first+i)*16 : (first+i+1)*16])
		}
		new(big.Int).SetBytes(targetTag).FillBytes(tag)
		slices.Reverse(tag)
		return
	}
	assert.Fail(t, "no collision found")
}

// targetTag is the tag to reach, big endian; any will do.
var targetTag = []byte("sixteen byte tag")

// solve returns the numbers that, at places i and i+1 of m, make the tag under
// both keys targetTag.
func solve(m []*big.Int, i int, keys ...poly) (x, y *big.Int) {
	var row [2][3]*big.Int // x*row[0] + y*row[1] = row[2]
	for n, k := range keys {
		rest := new(big.Int)
		for _, v := range m {
			rest.Mod(rest.Mul(rest.Add(rest, v), k.r), prime)
		}
		power := func(place int) *big.Int {
			return new(big.Int).Exp(k.r, big.NewInt(int64(len(m)-place)), prime)
		}
		want := new(big.Int).Sub(new(big.Int).SetBytes(targetTag), k.s)
		want.Mod(want, new(big.Int).Lsh(big.NewInt(1), 128))
		row[n] = [3]*big.Int{power(i), power(i + 1), want.Mod(want.Sub(want, rest), prime)}
	}
	det := func(p, q int) *big.Int {
		d := new(big.Int).Mul(row[0][p], row[1][q])
		return d.Mod(d.Sub(d, new(big.Int).Mul(row[0][q], row[1][p])), prime)
	}
	inverse := new(big.Int).ModInverse(det(0, 1), prime)
	x = det(2, 1)
	y = det(0, 2)
	return x.Mod(x.Mul(x, inverse), prime), y.Mod(y.Mul(y, inverse), prime)
}
