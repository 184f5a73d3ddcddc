package foreign

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/events"
	"berth/zone/zonetest"
)

// TestPagesWhileTheirItemsAreDeleted, report 17: who read a list page by page and deleted what he read missed
// every second page; elsewhere the list began anew when the item that the last page ended with was gone.
func TestPagesWhileTheirItemsAreDeleted(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		t.Run(fmt.Sprint("forgotten ", forgotten), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				m := w.Zone("root", nil, 20)
				require.Equal(t, api.BootActive, m.Run(zonetest.Order("a", 17, 17)).State())
				seen, marker := map[api.InstanceID]bool{}, ""
				for range 17 {
					page := m.View().InstancesPage(state.InstanceQuery{Project: "p", Page: state.Page{Marker: marker, Limit: 3}})
					if len(page) == 0 {
						break
					}
					for _, i := range page {
						require.False(t, seen[i.ID], "no item comes twice")
						seen[i.ID] = true
						m.Delete(i.ID)
						marker = string(i.ID)
					}
					m.Until("they are gone", func(v *state.State) bool { return 17-v.CountByStatus()[api.StatusActive] == len(seen) })
					if forgotten {
						m.Propose(func(at command.Stamp) command.Command {
							return command.Prune{Stamp: at, Before: at.At + 1, BeforeAbroad: at.At + 1, Limit: 100}
						})
					}
				}
				assert.Len(t, seen, 17, "none is passed over")
			})
		})
	}
}

// TestAWatcherLearnsWhatItMissed, report 18: a watcher that came back behind a compaction went on from there, and
// nothing told it of what lay between.
func TestAWatcherLearnsWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 9)
		watch := events.Watch{Project: "p"}
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("a", 1, 1)).State())
		_, at := watch.Read(m.View(), api.EventID{}, 100)
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("b", 1, 1)).State())
		list, next := watch.Read(m.View(), at, 100)
		require.NotEmpty(t, list)
		require.NotEqual(t, events.KindGap, list[0].Kind, "all is kept")

		m.Release("a") // its end is among what is dropped
		untilReleased(m, "a")
		m.Do(command.Tick{Stamp: command.Stamp{At: m.View().Now().Add(25 * time.Hour)}}) // events are kept for a day
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("c", 1, 1)).State())
		list, to := watch.Read(m.View(), next, 100)
		require.NotEmpty(t, list)
		require.Equal(t, events.KindGap, list[0].Kind)
		assert.Equal(t, "dropped", list[0].Gap.Reason)
		assert.Equal(t, next.String(), list[0].Gap.After, "it says from where on")
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("d", 1, 1)).State())
		list, _ = watch.Read(m.View(), to, 100)
		require.NotEmpty(t, list)
		assert.NotEqual(t, events.KindGap, list[0].Kind, "it is told once")
		w.Settle()
	})
}
