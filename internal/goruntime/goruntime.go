// Package goruntime sets Go's runtime as a process of Berth wants it: one that writes a log to disk and keeps a large heap. It
// must not decide anything else.
package goruntime

import (
	"runtime"
	"runtime/debug"
)

const (
	// gcPercent is how much the heap may grow before it is collected, in percent of what is live. Twice Go's
	// default: a busy node spends a tenth less processor time.
	gcPercent = 200
	// writersBlocked is how many goroutines of a node usually wait for the disk: the log's and one more. Each
	// keeps one of Go's processors for as long as its system call takes.
	writersBlocked = 2
)

// Tune sets what the environment does not: GOGC and GOMAXPROCS have precedence. It is called once, before anything else runs.
func Tune(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + writersBlocked)
	}
}
