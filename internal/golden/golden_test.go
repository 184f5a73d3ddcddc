package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recorder stands in for a test that may fail.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper()                           {}
func (r *recorder) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) }
func (r *recorder) FailNow()                          { panic(r) }

// said returns what Check complains of, "" for nothing.
func said(t *testing.T, path string, got []byte) (complaint string) {
	t.Helper()
	r := &recorder{TB: t}
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
		complaint = r.said
	}()
	Check(r, path, got)
	return ""
}

func setUpdate(t *testing.T, on bool) {
	t.Helper()
	was := *update
	*update = on
	t.Cleanup(func() { *update = was })
}

func TestCheckCompares(t *testing.T) {
	setUpdate(t, false)
	path := filepath.Join(t.TempDir(), "a.txt")
	require.NoError(t, os.WriteFile(path, []byte("one\ntwo\n"), 0o600))

	assert.Empty(t, said(t, path, []byte("one\ntwo\n")))
	assert.Contains(t, said(t, path, []byte("one\nthree\n")), "+three")
	assert.Contains(t, said(t, path, []byte{0xff}), "00000000  ff", "bytes are shown in hex")
	assert.Contains(t, said(t, path+".missing", nil), "run this test with -update")
}

func TestCheckRewrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "testdata", "a.bin")
	setUpdate(t, true)
	Check(t, path, []byte{0, 0xff})

	setUpdate(t, false)
	Check(t, path, []byte{0, 0xff})
}
