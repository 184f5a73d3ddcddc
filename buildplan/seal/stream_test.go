package seal

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	streamKEK  = [secretBytes]byte{1, 2, 3}
	streamSalt = [SaltBytes]byte{4, 5, 6}
)

func sealStream(tb require.TestingT, plain []byte, step int) []byte {
	var b bytes.Buffer
	w, err := NewStreamWriter(&b, streamKEK, "test", streamSalt)
	require.NoError(tb, err)
	for len(plain) > 0 {
		n := min(step, len(plain))
		written, err := w.Write(plain[:n])
		require.NoError(tb, err)
		require.Equal(tb, n, written)
		plain = plain[n:]
	}
	require.NoError(tb, w.Close())
	return b.Bytes()
}

func openStream(sealed []byte, kek [secretBytes]byte, label string) ([]byte, error) {
	r, key, err := NewStreamReader(bytes.NewReader(sealed), [][secretBytes]byte{{9}, kek}, label)
	if err != nil {
		return nil, err
	}
	if key != 1 {
		return nil, errors.New("opened with another key")
	}
	return io.ReadAll(r)
}

// TestStreamsOfAnyLength around the borders of chunks come back as they were, whatever the
// sizes of writes and reads.
func TestStreamsOfAnyLength(t *testing.T) {
	for _, n := range []int{0, 1, streamChunkBytes - 1, streamChunkBytes, streamChunkBytes + 1, 2 * streamChunkBytes, 2*streamChunkBytes + 7} {
		plain := bytes.Repeat([]byte{byte(n), 7}, n)[:n]
		for _, step := range []int{1000, streamChunkBytes, 3 * streamChunkBytes} {
			sealed := sealStream(t, plain, step)
			assert.True(t, IsStream(sealed))
			got, err := openStream(sealed, streamKEK, "test")
			require.NoError(t, err, "%d bytes", n)
			require.True(t, bytes.Equal(plain, got), "%d bytes", n)
			r, _, err := NewStreamReader(iotest.OneByteReader(bytes.NewReader(sealed)), [][secretBytes]byte{streamKEK}, "test")
			require.NoError(t, err)
			got, err = io.ReadAll(iotest.HalfReader(r))
			require.NoError(t, err)
			require.True(t, bytes.Equal(plain, got), "%d bytes", n)
		}
	}
}

// TestStreamsNoticeEveryBit, every cut, and every byte too many.
func TestStreamsNoticeEveryBit(t *testing.T) {
	sealed := sealStream(t, []byte("the state"), 4)
	refused := func(bad []byte, kek [secretBytes]byte, label string) {
		t.Helper()
		_, err := openStream(bad, kek, label)
		require.ErrorIs(t, err, ErrStream)
	}
	for bit := range len(sealed) * 8 {
		bad := bytes.Clone(sealed)
		bad[bit/8] ^= 1 << (bit % 8)
		refused(bad, streamKEK, "test")
	}
	for cut := range len(sealed) {
		refused(sealed[:cut], streamKEK, "test")
	}
	refused(append(bytes.Clone(sealed), 0), streamKEK, "test")
	refused(sealed, [secretBytes]byte{1, 2, 4}, "test")
	refused(sealed, streamKEK, "other")
}

// TestStreamsOfChunks: chunks of one stream, or of two with the same plaintext, do not open
// in any other order or number.
func TestStreamsOfChunks(t *testing.T) {
	const start, size = StreamStartBytes + SaltBytes, streamChunkBytes + tagBytes
	plain := bytes.Repeat([]byte("x"), 4*streamChunkBytes)
	sealed := sealStream(t, plain, streamChunkBytes)
	require.Len(t, sealed, start+4*size)
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.SliceOfN(rapid.IntRange(0, 3), 0, 5).Draw(t, "order")
		bad := bytes.Clone(sealed[:start])
		for _, i := range order {
			bad = append(bad, sealed[start+i*size:start+(i+1)*size]...)
		}
		got, err := openStream(bad, streamKEK, "test")
		if assert.ObjectsAreEqual([]int{0, 1, 2, 3}, order) {
			require.NoError(t, err)
			require.True(t, bytes.Equal(plain, got))
			return
		}
		require.ErrorIs(t, err, ErrStream)
	})
}

func TestStreamsPassErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	sealed := sealStream(t, make([]byte, streamChunkBytes+1), 1000)
	for _, n := range []int{3, 100, len(sealed) - 1} {
		r, _, err := NewStreamReader(io.MultiReader(bytes.NewReader(sealed[:n]), iotest.ErrReader(broken)), [][secretBytes]byte{streamKEK}, "test")
		if err == nil {
			_, err = io.ReadAll(r)
		}
		require.ErrorIs(t, err, broken, "after %d bytes", n)
	}
	_, err := NewStreamWriter(failing{broken}, streamKEK, "test", streamSalt)
	require.ErrorIs(t, err, broken)
	w := &streamWriter{to: failing{broken}, cipher: newStreamCipher(streamKEK, "test", nil), plain: make([]byte, streamChunkBytes)}
	_, err = w.Write([]byte("x"))
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, w.Close(), broken)
}

// failing is a writer that fails.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
