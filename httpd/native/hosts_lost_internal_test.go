package native

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/state"
)

// TestWhatIsLostIsListedUpToALimit, and counted beyond it.
func TestWhatIsLostIsListedUpToALimit(t *testing.T) {
	admin := api.Caller{Role: api.RoleAdmin}
	for _, n := range []int{rest.LostServersMax, rest.LostServersMax + 1} {
		l := state.Lost{Host: &state.Host{}}
		for range n {
			l.Instances = append(l.Instances, &api.Instance{InstanceTerms: new(api.InstanceTerms), InstanceExtras: new(api.InstanceExtras)})
		}
		view := lostView(&l, admin, true, false)
		assert.Len(t, view.List, rest.LostServersMax)
		assert.Equal(t, n, view.Servers)
	}
}
