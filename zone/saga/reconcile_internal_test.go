package saga

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone"
)

// ender is a child that is told to end instances.
type ender struct {
	Peers

	ended []api.InstanceID
}

func (e *ender) EndInstance(_ context.Context, _ *api.Link, id api.InstanceID) error {
	e.ended = append(e.ended, id)
	return nil
}

// TestStrangersThatEndAreLeft: of what a child has and this zone does not know, it is told to end what lives, and not what has ended or is
// ending: it may have very much of that, and each would be a call.
func TestStrangersThatEndAreLeft(t *testing.T) {
	s, _ := newSaga(t, func(s zone.Store) zone.Store { return s })
	e := &ender{}
	s.peers = e
	below := map[api.InstanceID]api.Status{
		"active": api.StatusActive, "build": api.StatusBuild, "error": api.StatusError, "shutoff": api.StatusShutoff,
		"deleted": api.StatusDeleted, "deleting": api.StatusDeleting,
	}
	ended, err := s.endStrangers(t.Context(), &api.Link{ID: "l", Name: "kid"}, below)
	require.NoError(t, err)
	assert.Equal(t, []api.InstanceID{"active", "build", "error", "shutoff"}, ended)
	assert.Equal(t, ended, e.ended)
}
