package zone

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/internal/memstore"
)

// TestFailuresAreForgotten lets a job fail that nobody wants any more: a leader
// that reigns for long does not remember it for ever.
func TestFailuresAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runner{
			z: New(Config{Store: memstore.New(), Now: time.Now, Log: slog.New(slog.DiscardHandler)}), room: make(chan struct{}, 1), busy: map[string]bool{}, failed: map[string]failure{},
		}
		r.startJob(t.Context(), Job{"j", func(context.Context) error { return errors.New("in vain") }})
		r.wg.Wait()
		assert.Equal(t, retryPause+time.Millisecond, r.nextTry())
		time.Sleep(retryPause + failureKept)
		r.nextTry()
		assert.Len(t, r.failed, 1)
		time.Sleep(time.Millisecond)
		assert.Equal(t, sweepEvery+time.Millisecond, r.nextTry())
		assert.Empty(t, r.failed)
	})
}
