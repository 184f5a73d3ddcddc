package zone_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/zonetest"
)

// TestAStateThatIsTooLargeTakesNothingNew, neither of its own callers nor of a parent, and what it refuses
// is not logged.
func TestAStateThatIsTooLargeTakesNothingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		w.Full = map[string]bool{"mid": true}
		root := w.Zone("root", nil, 2)
		mid := w.Zone("mid", root, 4)
		w.Settle()
		before := mid.View().Index()
		_, err := mid.Lead().Boot(w.Ctx, zonetest.Order("own", 1, 1))
		require.Equal(t, api.CodeOverloaded, api.CodeOf(err))
		assert.Contains(t, api.MessageOf(err), "takes nothing new")
		assert.Equal(t, before, mid.View().Index())

		assert.Equal(t, api.BootActive, root.Run(zonetest.Order("some", 1, 4)).State(), "the parent has what it has itself")
		assert.Len(t, root.Instances("some"), 2)
		for _, h := range mid.View().Holds() { // the parent says that it does not want it any more
			assert.Empty(t, h.Slots)
		}
		w.Settle()
	})
}

// TestTheSizeOfAStateIsLimited at the limit and below it, which is below what a backup may have.
func TestTheSizeOfAStateIsLimited(t *testing.T) {
	s := memstore.New()
	n := s.View().SizeBytes()
	for most, ok := range map[int64]bool{n: false, n + 1: true, 0: true} {
		z := zone.New(zone.Config{Store: s, Now: time.Now, StateMaxBytes: most})
		assert.Equal(t, ok, z.CheckSize() == nil, "%d", most-n)
	}
	assert.Less(t, int64(zone.StateMaxBytes), int64(command.BackupMaxBytes))
}
