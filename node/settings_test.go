package node

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/await"
)

// TestScheduleOfBackupsIsReplaced while the one before runs; what was counted counts on.
func TestScheduleOfBackupsIsReplaced(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		schedule := func(name string, every time.Duration) *backups {
			s := newScheduled(t, filepath.Join(dir, name), 100)
			s.Every = every
			return s.backups
		}
		var now backupsNow
		now.replace(nil)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			now.run(ctx)
		}()
		await.Sleep(24 * time.Hour)
		a := schedule("a", time.Hour)
		now.replace(a)
		await.Sleep(150 * time.Minute)
		synctest.Wait()
		require.Equal(t, uint64(3), a.currentStatus().Written)
		b := schedule("b", 24*time.Hour)
		now.replace(b)
		await.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, uint64(4), b.currentStatus().Written, "one is due at once in another folder")
		await.Sleep(12 * time.Hour)
		synctest.Wait()
		assert.Equal(t, uint64(3), a.currentStatus().Written, "the one before has ended")
		now.replace(nil)
		await.Sleep(48 * time.Hour)
		synctest.Wait()
		assert.Equal(t, uint64(4), b.currentStatus().Written)
		stop()
		<-done
	})
}
