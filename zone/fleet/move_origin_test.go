package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// TestAMoveKeepsTheOrigin: an instance of a parent's project is not moved to a host
// that is kept for a project of the zone of the same name.
func TestAMoveKeepsTheOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kid := w.Zone("kid", root, 2, 3)
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("up", 1, 1)).State())
		require.Equal(t, api.BootActive, kid.Run(zonetest.Order("own", 2, 2)).State())
		from := kid.Instances("up")[0].Host
		var kept []api.HostID
		for _, h := range kid.View().AllHosts() {
			if h.ID != from {
				kept = append(kept, h.ID)
			}
		}
		kid.Propose(func(at command.Stamp) command.Command {
			return command.AggregatePut{Stamp: at, Aggregate: api.Aggregate{
				ID: "vip", Name: "vip", Hosts: kept, Metadata: map[string]string{api.MetaProjects: "p"},
			}}
		})
		kid.Drain(from, api.DrainMove)
		kid.Until("only the parent's is left", func(v *state.State) bool {
			return len(v.OnHost(from)) == 1
		})
		await.Sleep(time.Minute)
		assert.Equal(t, from, kid.Instances("up")[0].Host)
		for _, i := range kid.Instances("own") {
			assert.NotEqual(t, from, i.Host)
		}
		w.Settle()
	})
}
