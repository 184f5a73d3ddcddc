// Package golden compares the output of a test with a reviewed file. It is the only
// package that registers the -update flag, because two registrations in one test binary
// panic; every test with golden files uses it. Only tests may import it, so that no
// shipped binary has the flag.
package golden

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite golden files instead of comparing with them")

// Check fails the test unless the file at path is exactly got; with -update it writes got
// there and creates the folder if necessary. path is relative to
// the folder of the package under test, and by custom under testdata. Text is
// reported as a diff of lines, other bytes as a diff of hex dumps.
//
// Check stops the test when the file cannot be read or written. Calls for
// different paths may run in parallel.
func Check(tb testing.TB, path string, got []byte) {
	tb.Helper()
	if *update {
		require.NoError(tb, os.MkdirAll(filepath.Dir(path), 0o755), "writing a golden file")
		require.NoError(tb, os.WriteFile(path, got, 0o644), "writing a golden file")
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(tb, err, "no golden file; run this test with -update and review what it writes")
	if bytes.Equal(want, got) {
		return
	}
	assert.Equal(tb, readableText(want), readableText(got), "%s differs; if the change is right, run with -update and say why", path)
}

// readableText returns b as text that people can compare.
func readableText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return hex.Dump(b)
}
