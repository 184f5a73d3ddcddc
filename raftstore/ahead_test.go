package raftstore

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReadAhead returns what is read in order, and the error or panic behind it.
func TestReadAhead(t *testing.T) {
	broken := errors.New("broken")
	for _, n := range []int{0, 1, aheadRecords - 1, aheadRecords, aheadRecords + 1, 3 * aheadRecords * aheadBatches} {
		for name, fail := range map[string]func() error{
			"EOF": func() error { return io.EOF }, "broken": func() error { return broken }, "panic": func() error { panic("oh") },
		} {
			count := 0
			next, stop := readAhead(func() (any, error) {
				if count == n {
					return nil, fail()
				}
				count++
				return count, nil
			})
			for want := range n {
				got, err := next()
				require.NoError(t, err)
				require.Equal(t, want+1, got)
			}
			for range 2 {
				_, err := next()
				require.Error(t, err, "%s behind %d", name, n)
				if name != "panic" {
					require.ErrorIs(t, err, fail())
				} else {
					require.ErrorContains(t, err, "panic: oh")
				}
			}
			stop()
		}
	}
}

// TestReadAheadStops reads nothing any more when it was stopped.
func TestReadAheadStops(t *testing.T) {
	count := 0 // not guarded: stop waits
	next, stop := readAhead(func() (any, error) {
		count++
		return count, nil
	})
	got, err := next()
	require.NoError(t, err)
	assert.Equal(t, 1, got)
	stop()
	at := count
	assert.LessOrEqual(t, at, aheadRecords*(aheadBatches+3))
	assert.Equal(t, at, count)
}
