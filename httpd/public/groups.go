package public

import (
	"berth/api"
	"berth/raftstore/state"
)

func serverGroup(_ *state.State, _ api.ProjectID, _ string) (*api.ServerGroup, bool) {
	return nil, false
}
