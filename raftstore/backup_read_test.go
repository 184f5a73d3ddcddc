package raftstore

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// TestReadBackup: a backup is read without a store, in pieces of any size; one of which any bit has changed is not.
func TestReadBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, nil)
		n.must(put("a", "1"))
		b, about := n.backup()
		for _, from := range []io.Reader{bytes.NewReader(b), iotest.OneByteReader(bytes.NewReader(b)), iotest.DataErrReader(bytes.NewReader(b))} {
			got, err := ReadBackup(from)
			require.NoError(t, err)
			assert.Equal(t, about, got.Backup)
			assert.Equal(t, "1", addrOf(got.State, "a"))
			assert.Equal(t, about.Index, got.State.Index())
		}
		refused := func(b []byte, why string) {
			t.Helper()
			_, err := ReadBackup(bytes.NewReader(b))
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err), why)
			assert.ErrorIs(t, err, ErrDamaged, why)
		}
		for at := range b {
			bad := bytes.Clone(b)
			bad[at] ^= 0x10
			refused(bad, "a changed bit")
		}
		for _, cut := range []int{0, 1, 12, 31, 32, 33, len(b) / 2, len(b) - 1} {
			refused(b[:cut], "cut")
		}
		refused(append(bytes.Clone(b), 0), "longer")

		whole := &bytes.Buffer{} // with a right checksum, but no state
		w, err := beginArchive(whole, archiveHeader{Index: 1})
		require.NoError(t, err)
		_, err = w.Write([]byte("nonsense"))
		require.NoError(t, err)
		_, err = w.finishArchive()
		require.NoError(t, err)
		_, err = ReadBackup(whole)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
		assert.NotErrorIs(t, err, ErrDamaged)

		broken := errors.New("the disk")
		_, err = ReadBackup(io.MultiReader(bytes.NewReader(b[:len(b)-40]), iotest.ErrReader(broken)))
		assert.ErrorIs(t, err, broken)

		_, err = readBackup(bytes.NewReader(b), int64(len(b)))
		require.NoError(t, err, "at the limit")
		_, err = readBackup(bytes.NewReader(b), int64(len(b))-1)
		assert.Equal(t, api.CodeTooLarge, api.CodeOf(err))
	})
}
