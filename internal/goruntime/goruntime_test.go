package goruntime

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTune(t *testing.T) {
	procs, percent := runtime.GOMAXPROCS(0), debug.SetGCPercent(100)
	defer runtime.GOMAXPROCS(procs)
	defer debug.SetGCPercent(percent)

	Tune(func(string) string { return "set" })
	assert.Equal(t, procs, runtime.GOMAXPROCS(0), "the environment has precedence")
	assert.Equal(t, 100, debug.SetGCPercent(100))

	Tune(func(string) string { return "" })
	assert.Equal(t, procs+writersBlocked, runtime.GOMAXPROCS(0))
	assert.Equal(t, gcPercent, debug.SetGCPercent(100))
}
