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

// TestAChildWithoutNewsIsAskedAtOnceSoOften: after followIdleMax answers without news at once, and after
// one more only when a pause is over.
func TestAChildWithoutNewsIsAskedAtOnceSoOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newSaga(t, func(s zone.Store) zone.Store { return s })
		store.Must(t, command.LinkPut{Link: api.Link{ID: "l", Name: "kid", Role: api.LinkChild, Zone: "k", State: api.LinkActive, Scale: 1}})
		q, began := &quiet{}, time.Now()
		s.peers = q
		ctx, cancel := context.WithTimeout(t.Context(), 3*retryPause/2)
		defer cancel()
		require.NoError(t, s.followLink(ctx, "l"))
		var at []time.Duration
		for _, asked := range q.asked {
			at = append(at, asked.Sub(began))
		}
		want := append(make([]time.Duration, followIdleMax+1), retryPause)
		assert.Equal(t, want, at)
	})
}
