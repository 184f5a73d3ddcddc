package raftstore

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWritersYield writes on the only processor, which another goroutine waits for.
func TestWritersYield(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var out bytes.Buffer
	w := &yieldingWriter{to: &out}
	done := make(chan struct{})
	go func() { close(done) }()
	part := make([]byte, yieldBytes/2)
	for range 8 {
		n, err := w.Write(part)
		require.NoError(t, err)
		require.Len(t, part, n)
	}
	select {
	case <-done:
	default:
		assert.Fail(t, "the other goroutine has not run")
	}
	assert.Equal(t, 4*yieldBytes, out.Len())
}
