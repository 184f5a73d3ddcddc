package estimate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

// TestIsolatedHostsAreNotForAParentsProject: a host that is kept for a project of its
// zone is not offered to a project of the parent that has the same name.
func TestIsolatedHostsAreNotForAParentsProject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		kid := w.Zone("kid", w.Zone("root", nil), 2)
		req := zonetest.Order("r", 1, 1).Request
		var hosts []api.HostID
		for _, h := range kid.View().AllHosts() {
			hosts = append(hosts, h.ID)
		}
		kid.Propose(func(at command.Stamp) command.Command {
			return command.AggregatePut{Stamp: at, Aggregate: api.Aggregate{
				ID: "vip", Name: "vip", Hosts: hosts, Metadata: map[string]string{api.MetaProjects: string(req.Project)},
			}}
		})
		up, _ := kid.View().Parent()
		for peer, want := range map[api.ZoneID]int{"": 1, up.Zone: 0} {
			ctx, cancel := kid.Within(time.Minute)
			a, err := kid.Lead().Select(ctx, peer, &req)
			cancel()
			require.NoError(t, err)
			assert.Len(t, a.Weights[0], want, "asked by %q", peer)
		}
	})
}

// TestAParentsProjectHasItsOwnMembers: who is under a rule, and where an instance is
// that a request names, is told of a zone's own project and of the parent's of the
// same name apart.
func TestAParentsProjectHasItsOwnMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kid := w.Zone("kid", root, 4)
		for _, m := range []*zonetest.Member{root, kid} {
			m.Do(command.GroupPut{Group: api.ServerGroup{ID: "sg", Project: "p", Name: "sg", Policy: api.AntiAffinity, Max: 1}})
		}
		alone := func(res string) *intake.BootOrder {
			o := zonetest.Order(res, 1, 1)
			o.Request.Rules = []api.Rule{{ID: "sg", Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
			return o
		}
		require.Equal(t, api.BootActive, kid.Run(alone("own")).State())
		require.Equal(t, api.BootFailed, kid.Run(alone("own-2")).State(), "the host has its member")
		require.Equal(t, api.BootActive, root.Run(alone("up")).State(), "and none of the parent's project")
		assert.Equal(t, api.BootFailed, root.Run(alone("up-2")).State())

		up, _ := kid.View().Parent()
		beside := func(peer api.ZoneID, hints api.Hints) int {
			req := zonetest.Order("r", 1, 1).Request
			req.Groups[0].Hints = hints
			return len(offerTo(kid, peer, req).Weights[0])
		}
		own, theirs := kid.Instances("own")[0].ID, kid.Instances("up")[0].ID
		for _, c := range []struct {
			peer       api.ZoneID
			same, diff api.InstanceID
		}{{"", own, theirs}, {up.Zone, theirs, own}} {
			assert.Equal(t, 1, beside(c.peer, api.Hints{SameHost: []api.InstanceID{c.same}}), "asked by %q", c.peer)
			assert.Equal(t, 0, beside(c.peer, api.Hints{SameHost: []api.InstanceID{c.diff}}), "asked by %q", c.peer)
			assert.Equal(t, 0, beside(c.peer, api.Hints{DifferentHost: []api.InstanceID{c.same}}), "asked by %q", c.peer)
			assert.Equal(t, 1, beside(c.peer, api.Hints{DifferentHost: []api.InstanceID{c.diff}}), "asked by %q", c.peer)
		}
		w.Settle()
	})
}
