package estimate

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/memstore"
	"berth/zone"
)

// TestSelectsHaveTurns: when a node is asked for more than it can plan, what cannot be answered in time is refused while its
// parent may still ask another zone, nothing is planned for who has gone, and no parent keeps another out.
func TestSelectsHaveTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := func() float64 { return 0 }
		z := zone.New(zone.Config{Store: memstore.New(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		e := New(Config{Zone: z, Share: short})
		first, err := e.takeTurn(t.Context(), "greedy")
		require.NoError(t, err)
		first.Leave()
		await.Sleep(time.Second) // it is the only one that asks
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		var had []func()
		for range selectsAtOnce {
			turn, err := e.takeTurn(ctx, "greedy")
			require.NoError(t, err)
			had = append(had, turn.Leave)
		}
		own, err := e.takeTurn(ctx, "")
		require.NoError(t, err)
		own.Leave()

		began := time.Now()
		_, err = e.takeTurn(ctx, "greedy")
		assert.Equal(t, api.CodeOverloaded, api.CodeOf(err))
		assert.Equal(t, time.Second/selectWaits, time.Since(began))
		gone, leave := context.WithCancel(ctx)
		leave()
		_, err = e.takeTurn(gone, "greedy")
		require.Error(t, err)

		var order []api.ZoneID
		for _, peer := range []api.ZoneID{"greedy", "greedy", "other"} {
			go func() {
				turn, err := e.takeTurn(ctx, peer)
				if assert.NoError(t, err) {
					order = append(order, peer)
					turn.Leave()
				}
			}()
			synctest.Wait()
		}
		for _, leave := range had {
			leave()
			synctest.Wait()
		}
		assert.Equal(t, []api.ZoneID{"greedy", "other", "greedy"}, order)
	})
}
