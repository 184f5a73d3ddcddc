package seal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/internal/dice"
)

// testKey returns a key that follows from its name.
func testKey(name string) Key {
	sum := sha256.Sum256([]byte(name))
	return Key{Epoch: [4]byte(sum[:4]), Secret: sha256.Sum256(sum[:])}
}

// testSalt returns a salt that follows from n.
func testSalt(n int) [24]byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n)))
	return [24]byte(sum[:24])
}

func testContext() Context {
	return Context{
		Zone: "zone-a", Peer: "zone-root", Project: "blue", Reservation: "r-0123456789ab",
		Digest: sha256.Sum256([]byte("request")),
	}
}

// helper is what testing.TB and rapid.T share.
type helper interface {
	require.TestingT
	Helper()
}

func mustSeal(t helper, k Key, ctx Context, plaintext []byte, salt [24]byte) []byte {
	t.Helper()
	blob, err := Seal(k, ctx, plaintext, salt)
	require.NoError(t, err)
	return blob
}

func TestOpenReturnsWhatWasSealed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ring := Keyring{testKey("new"), testKey("old"), testKey("older")}
		k := rapid.SampledFrom(ring).Draw(t, "key")
		ctx := drawContext(t, "context")
		plaintext := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "plaintext")
		kept := bytes.Clone(plaintext)
		blob := mustSeal(t, k, ctx, plaintext, testSalt(rapid.Int().Draw(t, "salt")))
		require.Contains(t, Sizes(), len(blob))
		require.Equal(t, kept, plaintext, "sealing must not change its input")
		keptBlob := bytes.Clone(blob)
		got, err := ring.Open(ctx, blob)
		require.NoError(t, err)
		require.True(t, bytes.Equal(plaintext, got))
		require.Equal(t, keptBlob, blob, "opening must not change its input")
		require.Equal(t, len(got), cap(got), "appending must not reach the padding")
	})
}

func TestEveryFlippedBitIsRefused(t *testing.T) {
	ctx, ring := testContext(), Keyring{testKey("new"), testKey("old")}
	blob := mustSeal(t, ring[1], ctx, []byte("slots"), testSalt(1))
	for bit := range len(blob) * 8 {
		blob[bit/8] ^= 1 << (bit % 8)
		_, err := ring.Open(ctx, blob)
		require.Equal(t, api.CodePlanRefused, api.CodeOf(err), "bit %d", bit)
		require.Equal(t, api.PlanRefusedMessage, api.MessageOf(err), "bit %d", bit)
		blob[bit/8] ^= 1 << (bit % 8)
	}
	_, err := ring.Open(ctx, blob)
	require.NoError(t, err)
}

func TestEveryLengthIsRefused(t *testing.T) {
	ctx, ring := testContext(), Keyring{testKey("new")}
	blob := mustSeal(t, ring[0], ctx, bytes.Repeat([]byte{7}, 2000), testSalt(1))
	for n := range len(blob) {
		_, err := ring.Open(ctx, blob[:n:n])
		require.Equal(t, api.CodePlanRefused, api.CodeOf(err), "cut to %d", n)
	}
	for n := range 1500 {
		_, err := ring.Open(ctx, append(bytes.Clone(blob), make([]byte, n+1)...))
		require.Equal(t, api.CodePlanRefused, api.CodeOf(err), "longer by %d", n+1)
	}
	assertRefused(t, reasonLength, ring, ctx, nil)
	assertRefused(t, reasonLength, ring, ctx, make([]byte, api.BlobMaxBytes+1))
	assertRefused(t, reasonSuite, ring, ctx, make([]byte, api.BlobMaxBytes))
}

func TestContextIsBoundFieldByField(t *testing.T) {
	ring := Keyring{testKey("new")}
	blob := mustSeal(t, ring[0], testContext(), []byte("slots"), testSalt(1))
	for name, change := range map[string]func(*Context){
		"peer":           func(c *Context) { c.Peer = "zone-other" },
		"no peer":        func(c *Context) { c.Peer = "" },
		"project":        func(c *Context) { c.Project = "red" },
		"reservation":    func(c *Context) { c.Reservation = "r-0123456789ac" },
		"digest":         func(c *Context) { c.Digest[31] ^= 1 },
		"fields shifted": func(c *Context) { c.Peer, c.Project = c.Peer+"b", c.Project[1:] },
		"fields swapped": func(c *Context) { c.Peer, c.Project = string(c.Project), api.ProjectID(c.Peer) },
	} {
		ctx := testContext()
		change(&ctx)
		t.Run(name, func(t *testing.T) { assertRefused(t, reasonTag, ring, ctx, blob) })
	}
	ctx := testContext()
	ctx.Zone = "zone-b"
	assertRefused(t, reasonCommit, ring, ctx, blob)
}

func TestKeysOfOneEpochAreAllTried(t *testing.T) {
	first, second := testKey("first"), testKey("second")
	second.Epoch = first.Epoch
	blob := mustSeal(t, second, testContext(), []byte("slots"), testSalt(1))
	got, err := Keyring{first, second}.Open(testContext(), blob)
	require.NoError(t, err)
	assert.Equal(t, []byte("slots"), got)
	assertRefused(t, reasonCommit, Keyring{first}, testContext(), blob)
	assertRefused(t, reasonEpoch, Keyring{testKey("other")}, testContext(), blob)
	assertRefused(t, reasonEpoch, nil, testContext(), blob)
}

// TestMalformedInside seals, with the right key, paddings that Seal never makes.
func TestMalformedInside(t *testing.T) {
	k, ctx, salt := testKey("new"), testContext(), testSalt(1)
	forge := func(size int, edit func(padded []byte)) []byte {
		aead, commit := k.deriveCipher(ctx.Zone, salt[:])
		blob := append([]byte{suite1}, k.Epoch[:]...)
		blob = append(append(blob, salt[:]...), commit...)
		padded := make([]byte, size-headerBytes-tagBytes)
		edit(padded)
		return aead.Seal(blob, salt[:], padded, ctx.associatedData(k.Epoch))
	}
	well := forge(sizeMinBytes, func([]byte) {})
	_, err := Keyring{k}.Open(ctx, well)
	require.NoError(t, err)
	for name, blob := range map[string][]byte{
		"length beyond the body": forge(sizeMinBytes, func(p []byte) { binary.BigEndian.PutUint32(p, uint32(len(p)-lengthBytes+1)) }),
		"length of all ones":     forge(sizeMinBytes, func(p []byte) { copy(p, "\xff\xff\xff\xff") }),
		"padding not zero":       forge(sizeMinBytes, func(p []byte) { p[len(p)-1] = 1 }),
		"padded too much":        forge(sizeMinBytes+sizeMinBytes/sizeSteps, func([]byte) {}),
	} {
		t.Run(name, func(t *testing.T) { assertRefused(t, reasonPadding, Keyring{k}, ctx, blob) })
	}
}

func TestPlaintextLimit(t *testing.T) {
	k, ctx := testKey("new"), testContext()
	plaintext := make([]byte, PlaintextMaxBytes+1)
	plaintext[0], plaintext[PlaintextMaxBytes-1] = 1, 2
	blob := mustSeal(t, k, ctx, plaintext[:PlaintextMaxBytes], testSalt(1))
	assert.Len(t, blob, api.BlobMaxBytes)
	got, err := Keyring{k}.Open(ctx, blob)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(plaintext[:PlaintextMaxBytes], got))
	_, err = Seal(k, ctx, plaintext, testSalt(2))
	assert.Equal(t, api.CodeTooLarge, api.CodeOf(err))
}

func TestSizes(t *testing.T) {
	sizes := Sizes()
	require.Len(t, sizes, 12*sizeSteps+1)
	assert.Equal(t, []int{1024, 1280, 1536, 1792, 2048, 2560}, sizes[:6])
	assert.Equal(t, api.BlobMaxBytes, sizes[len(sizes)-1])
	last := 0
	for _, size := range sizes {
		assert.Greater(t, size, last)
		assert.Equal(t, size, sizeFor(last+1), "the smallest that uses %d", size)
		assert.Equal(t, size, sizeFor(size))
		assert.True(t, isSize(size))
		assert.False(t, isSize(size-1))
		assert.False(t, isSize(size+1))
		last = size
	}
}

// TestBlobsLookRandom checks that no salt-dependent part of a blob repeats and
// that its bytes are spread evenly.
func TestBlobsLookRandom(t *testing.T) {
	const blobs = 4096
	k, ctx := testKey("new"), testContext()
	var histogram [256]int
	seen := map[[16]byte]bool{}
	draw := dice.Rand(t)
	for range blobs {
		var salt [24]byte
		for i := range salt {
			salt[i] = byte(draw.Uint32())
		}
		blob := mustSeal(t, k, ctx, nil, salt)
		for _, at := range []int{saltAt, commitAt, headerBytes, len(blob) - tagBytes} {
			part := [16]byte(blob[at:])
			require.False(t, seen[part], "a part of a blob repeats")
			seen[part] = true
		}
		for _, b := range blob[headerBytes:] {
			histogram[b]++
		}
	}
	mean := float64(blobs*(sizeMinBytes-headerBytes)) / 256
	for b, n := range histogram {
		assert.InEpsilon(t, mean, float64(n), 0.05, "byte %#x", b) // over six standard deviations
	}
}
