package raftstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
)

// TestKnownUntil is the time at which the newest entry was written here, or that of its command if a leader's clock was ahead.
func TestKnownUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fresh := start(t, Config{ID: "n2", Dir: t.TempDir(), Timing: steady})
		assert.False(t, fresh.KnownUntil().After(api.Instant(0).Time()), "it knows nothing")

		n := solo(t, nil)
		await.Sleep(time.Hour)
		before := time.Now()
		n.must(put("a", "1"))
		known := n.KnownUntil()
		assert.False(t, known.Before(before))
		assert.False(t, known.After(time.Now()))

		ahead := api.InstantOf(time.Now().Add(24 * time.Hour))
		n.must(command.Tick{Stamp: command.Stamp{At: ahead}})
		assert.Equal(t, ahead.Time(), n.KnownUntil())
		n = n.restart().leads()
		assert.Equal(t, ahead.Time(), n.KnownUntil(), "after a restart")
	})
}
