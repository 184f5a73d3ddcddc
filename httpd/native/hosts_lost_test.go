package native

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

// TestALostHostIsForgotten: a host that is down is written off with all that is on it, or one server of it; a
// dry run says what that is and changes nothing.
func TestALostHostIsForgotten(t *testing.T) {
	w := newWorld(t)
	off := func(target, body string) call {
		return call{method: "POST", target: target + "/write-off", token: admin, body: body}
	}
	loses := func(target, body string) rest.LostHost {
		t.Helper()
		var got struct{ Lost rest.LostHost }
		w.answered(t, off(target, body), 200, &got)
		return got.Lost
	}
	w.refused(t, off("/hosts/none", `{}`), api.CodeNotFound, `"none"`)
	w.refused(t, off("/hosts/host-1", `{}`), api.CodeConflict, "is up")
	w.refused(t, off("/servers/id-web", `{}`), api.CodeConflict, "is up")
	w.refused(t, off("/servers/id-far", `{}`), api.CodeConflict, "in another zone")
	w.place(t, "p1", "second", "r-second", "host-id-1")
	w.store.Must(t, command.HostsState{Stamp: w.zone.Stamp(), State: api.HostDown, Hosts: []api.HostID{"host-id-1", "host-id-2"}})
	w.refused(t, off("/hosts/host-2", `{}`), api.CodeConflict, "in flight") // a hold of the parent

	before := w.zone.View().Index()
	tried := loses("/hosts/host-1", `{"dry_run":true}`)
	assert.Equal(t, 2, tried.Servers)
	require.Len(t, tried.List, 2)
	assert.Equal(t, before, w.zone.View().Index(), "a dry run writes nothing")
	one := loses("/servers/id-web", `{}`)
	assert.False(t, one.Forgotten)
	require.Len(t, one.List, 1)
	assert.Equal(t, api.InstanceID("id-web"), one.List[0].ID)
	left := loses("/hosts/host-1", `{}`)
	assert.True(t, left.Forgotten)
	assert.Equal(t, 1, left.Servers)
	w.refused(t, call{method: "GET", target: "/hosts/host-1", token: admin}, api.CodeNotFound, "")
	w.refused(t, off("/servers/id-web", `{}`), api.CodeNotFound, "")
}

// TestAnAgentThatWasHeardIsNotLost: a host is not written off before its agent has been silent for as long as
// instances may outlive that.
func TestAnAgentThatWasHeardIsNotLost(t *testing.T) {
	w := newWorld(t)
	_, err := w.fleet.Report(t.Context(), "agent-1", &api.AgentReport{})
	require.NoError(t, err)
	w.store.Must(t, command.HostsState{Stamp: w.zone.Stamp(), State: api.HostDown, Hosts: []api.HostID{"host-id-1"}})
	w.refused(t, call{method: "POST", target: "/hosts/host-1/write-off", token: admin, body: `{}`}, api.CodeConflict, "was heard a moment ago")
}
