package leases_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// TestACallSaysThatTheLogFailed: each call that changes leases says so when its entry is not written, or when the
// node that it reaches leads the zone no more, and has changed nothing; made again it takes place.
func TestACallSaysThatTheLogFailed(t *testing.T) {
	terms := func() api.LeaseTerms { return zonetest.LeaseOf("new", time.Hour, time.Hour, 1) }
	daily := api.Repeat{Rule: "FREQ=DAILY;COUNT=2", TimeZone: "UTC"}
	for name, c := range map[string]struct {
		kind command.Kind
		call func(ctx context.Context, l *zonetest.Conduct, id api.LeaseID, series api.SeriesID) error
	}{
		"create": {command.KindLeaseCreate, func(ctx context.Context, l *zonetest.Conduct, _ api.LeaseID, _ api.SeriesID) error {
			_, err := l.Create(ctx, zonetest.Caller, terms(), "key")
			return err
		}},
		"create series": {command.KindSeriesCreate, func(ctx context.Context, l *zonetest.Conduct, _ api.LeaseID, _ api.SeriesID) error {
			_, err := l.CreateSeries(ctx, zonetest.Caller, terms(), daily, "key")
			return err
		}},
		"update": {command.KindLeaseSet, func(ctx context.Context, l *zonetest.Conduct, id api.LeaseID, _ api.SeriesID) error {
			renamed := "renamed"
			return l.Update(ctx, zonetest.Caller, id, api.LeaseChange{Name: &renamed})
		}},
		"delete": {command.KindLeaseDelete, func(ctx context.Context, l *zonetest.Conduct, id api.LeaseID, _ api.SeriesID) error {
			return l.Delete(ctx, zonetest.Caller, id)
		}},
		"delete series": {command.KindSeriesDelete, func(ctx context.Context, l *zonetest.Conduct, _ api.LeaseID, series api.SeriesID) error {
			return l.DeleteSeries(ctx, zonetest.Caller, series)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 4)
				id, err := root.Lease(zonetest.LeaseOf("l", time.Hour, time.Hour, 1))
				require.NoError(t, err)
				series, err := root.Lead().CreateSeries(w.Ctx, zonetest.Caller, zonetest.LeaseOf("s", 3*time.Hour, time.Hour, 1), daily, "")
				require.NoError(t, err)
				w.Settle()
				changed := false // since the entry went wrong
				for mishap, code := range map[zonetest.Mishap]api.Code{zonetest.NotLeader: api.CodeUnavailable, zonetest.Unapplied: api.CodeTimeout} {
					root.Log.When(func(k command.Kind, _ int) zonetest.Mishap {
						if k == c.kind {
							return mishap
						}
						return ""
					})
					w.Unchanged(func() {
						assert.Equal(t, code, api.CodeOf(c.call(w.Ctx, root.Lead(), id, series)), "%s", mishap)
					})
				}
				root.Log.When(nil)
				deposed := root.Lead()
				root.Elect()
				await.Sleep(time.Second) // what a new leader writes
				w.Unchanged(func() {
					require.Error(t, c.call(w.Ctx, deposed, id, series), "it leads no more")
				})
				root.Log.When(func(k command.Kind, _ int) zonetest.Mishap {
					changed = changed || k == c.kind
					return ""
				})
				require.NoError(t, c.call(w.Ctx, root.Lead(), id, series))
				assert.True(t, changed)
			})
		})
	}
}
