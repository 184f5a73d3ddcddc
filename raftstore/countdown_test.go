package raftstore

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/internal/await"
)

func TestCountdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int64
		p := startCountdown(10*time.Second, func() { ended.Add(1) })
		await.Sleep(10*time.Second - time.Millisecond)
		assert.Zero(t, ended.Load())
		await.Sleep(2 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, int64(1), ended.Load())
		assert.False(t, p.timer.Stop(), "nothing is to come")
		assert.False(t, p.stopWait(), "too late")

		p = startCountdown(10*time.Second, func() { ended.Add(1) })
		await.Sleep(10*time.Second - time.Millisecond)
		assert.True(t, p.stopWait(), "in its last slice")
		assert.False(t, p.stopWait())
		assert.False(t, p.countSlice(time.Second), "a slice that ended while it was stopped")
		assert.False(t, p.timer.Stop(), "nothing is to come")
		await.Sleep(time.Minute)
		assert.Equal(t, int64(1), ended.Load())
	})
}

// TestAStallIsNotCounted: a process that was stopped finds one slice used up,
// however long that was.
func TestAStallIsNotCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		p := startCountdown(10*time.Second, func() { ended.Store(true) })
		p.timer.Stop() // as if nothing ran: the slice that is due comes late
		await.Sleep(time.Minute)
		p.timer.Reset(0)
		synctest.Wait()
		assert.False(t, ended.Load())
		await.Sleep(9*time.Second - time.Millisecond)
		assert.False(t, ended.Load())
		await.Sleep(2 * time.Millisecond)
		synctest.Wait()
		assert.True(t, ended.Load())
	})
}
