package raftstore

import (
	"io"
	"runtime"
)

// yieldBytes is how much of a state is written between two chances for others to run: what a
// processor saves in a tenth of a millisecond.
const yieldBytes = 8 << 10

// yieldingWriter lets other goroutines run between its writes. Saving a large state takes seconds
// without waiting for anything; whoever applies entries beside it would wait for its share of
// the processor each time.
type yieldingWriter struct {
	to      io.Writer
	written int // since it let others run
}

// Write implements io.Writer.
func (w *yieldingWriter) Write(b []byte) (int, error) {
	if w.written += len(b); w.written >= yieldBytes {
		w.written = 0
		runtime.Gosched()
	}
	return w.to.Write(b)
}
