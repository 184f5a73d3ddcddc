package saga_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// limit gives the project of the orders a limit.
func limit(m *zonetest.Member, item quota.Item, most int64) {
	m.Propose(func(at command.Stamp) command.Command {
		return command.QuotaSet{Stamp: at, Project: zonetest.Caller.Project, Set: quota.Limits{item: most}}
	})
}

// TestBootsWithinTheirQuota: a boot gets as many instances as its quota allows, if that is its minimum at least, wherever
// they are; its record says how many were asked for, and a repeat is the same boot.
func TestBootsWithinTheirQuota(t *testing.T) {
	for name, kids := range map[string]int{"one zone": 0, "two zones": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 2, 4)
				for range kids {
					w.Zone("kid", root, 4)
				}
				limit(root, quota.Instances.Of(api.VCPU), 3)
				o := zonetest.Order("b", 2, 9)
				b := root.Run(o)
				require.Equal(t, api.BootActive, b.State())
				require.Len(t, root.Instances("b"), 3)
				assert.Equal(t, &command.QuotaCut{Asked: 9, Item: "instances.VCPU"}, b.Cut)
				root.Boot(o)
				require.Len(t, root.Instances("b"), 3, "a repeat")

				before := root.View().Index()
				_, err := root.Lead().Boot(w.Ctx, zonetest.Order("c", 1, 2))
				require.Equal(t, api.CodeOverQuota, api.CodeOf(err))
				assert.Equal(t, before, root.View().Index(), "a refusal writes nothing")
				w.Settle()
			})
		})
	}
}

// TestBootsShareTheirQuota: boots that are made at once have together what the quota allows, and none is refused whose
// minimum is left.
func TestBootsShareTheirQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 5
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 99)
		limit(root, quota.Instances, 7)
		names := []string{"a", "b"}
		var wg sync.WaitGroup
		for _, name := range names {
			wg.Go(func() {
				_, err := root.Lead().Boot(w.Ctx, zonetest.Order(name, 2, each))
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		all := 0
		for _, name := range names {
			require.Equal(t, api.BootActive, root.Outcome(name).State())
			all += len(root.Instances(name))
		}
		assert.Equal(t, 7, all)
		w.Settle()
	})
}
