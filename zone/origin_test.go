package zone

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// TestIsolatedHostsAreNotForAParentsProject: a host that is kept for a project of its
// zone is not offered to a project of the parent that has the same name.
func TestIsolatedHostsAreNotForAParentsProject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		kid := w.zone("kid", w.zone("root", nil), 2)
		req := order("r", 1, 1).Request()
		var hosts []api.HostID
		for _, h := range kid.view().AllHosts() {
			hosts = append(hosts, h.ID)
		}
		kid.propose(func(at command.Stamp) command.Command {
			return command.AggregatePut{Stamp: at, Aggregate: api.Aggregate{
				ID: "vip", Name: "vip", Hosts: hosts, Metadata: map[string]string{api.MetaProjects: string(req.Project)},
			}}
		})
		up, _ := kid.view().Parent()
		for peer, want := range map[api.ZoneID]int{"": 1, up.Zone: 0} {
			ctx, cancel := kid.within(time.Minute)
			a, err := kid.lead().Select(ctx, peer, &req)
			cancel()
			require.NoError(t, err)
			assert.Len(t, a.Weights[0], want, "asked by %q", peer)
		}
	})
}
