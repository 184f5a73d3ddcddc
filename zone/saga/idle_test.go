package saga

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/zone"
)

// quiet is a child that never has news, and answers at once.
type quiet struct {
	Peers

	asked []time.Time
}

func (q *quiet) Changes(_ context.Context, _ *api.Link, after uint64, _ time.Duration) (*api.Changes, error) {
	q.asked = append(q.asked, time.Now())
	return &api.Changes{Next: after}, nil
}

// TestAChildWithoutNewsIsAskedAtOnceSoOften: after followIdleMax answers without news at once, and then
// after pauses that double, up to retryPause.
func TestAChildWithoutNewsIsAskedAtOnceSoOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newSaga(t, func(s zone.Store) zone.Store { return s })
		store.Must(t, command.LinkPut{Link: api.Link{ID: "l", Name: "kid", Role: api.LinkChild, Zone: "k", State: api.LinkActive, Scale: 1}})
		q, began := &quiet{}, time.Now()
		s.peers = q
		ctx, cancel := context.WithTimeout(t.Context(), 3*retryPause)
		defer cancel()
		require.NoError(t, s.followLink(ctx, "l"))
		var at []time.Duration
		for _, asked := range q.asked {
			at = append(at, asked.Sub(began))
		}
		want := make([]time.Duration, followIdleMax+1)
		for pause, next := followIdlePause, followIdlePause; next < 3*retryPause; next += pause {
			want, pause = append(want, next), min(2*pause, retryPause)
		}
		assert.Equal(t, want, at)
		assert.Equal(t, retryPause, at[len(at)-1]-at[len(at)-2])
	})
}
