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

// TestALostVolumeIsWrittenOff: a volume on a lost host counts as gone though it is attached. The server that had it
// is left, and its host with what else is on it is forgotten afterwards.
func TestALostVolumeIsWrittenOff(t *testing.T) {
	w := newWorld(t)
	w.makeDisk(t)
	w.makeVolume(t, "other", "host-id-1")
	w.makeVolume(t, "third", "host-id-1")
	w.makeVolume(t, "away", "")
	off := func(target, body string) call {
		return call{method: "POST", target: target + "/write-off", token: admin, body: body}
	}
	w.answered(t, call{method: "POST", target: "/volumes/id-disk/attach", token: member, body: `{"server_id":"id-web"}`}, 204, nil)
	w.refused(t, off("/volumes/id-disk", `{}`), api.CodeConflict, "is up")
	w.refused(t, off("/volumes/id-away", `{}`), api.CodeConflict, "in another zone")
	w.refused(t, off("/volumes/id-web", `{}`), api.CodeNotFound, "no such volume")
	w.store.Must(t, command.HostsState{Stamp: w.zone.Stamp(), State: api.HostDown, Hosts: []api.HostID{"host-id-1"}})

	gone := call{method: "DELETE", target: "/volumes/id-other", token: member}
	w.answered(t, gone, 204, nil)
	i, ok := w.zone.View().Volume("id-other")
	require.True(t, ok)
	assert.Equal(t, api.StatusDeleting, i.Status, "nobody confirms that it is gone")

	var got struct{ Lost rest.LostHost }
	w.answered(t, off("/volumes/id-disk", `{"dry_run":true}`), 200, &got)
	assert.Equal(t, 1, got.Lost.Volumes)
	_, ok = w.zone.View().Volume("id-disk")
	assert.True(t, ok, "a dry run changes nothing")
	for _, id := range []string{"id-disk", "id-other"} {
		w.answered(t, off("/volumes/"+id, `{}`), 200, &got)
		require.Len(t, got.Lost.List, 1)
		assert.Equal(t, []any{api.InstanceID(id), "volume", false}, []any{got.Lost.List[0].ID, got.Lost.List[0].Kind, got.Lost.Forgotten})
		w.refused(t, call{method: "GET", target: "/volumes/" + id, token: member}, api.CodeNotFound, "no such volume")
		w.refused(t, off("/volumes/"+id, `{}`), api.CodeNotFound, "no such volume")
	}
	w.answered(t, call{method: "GET", target: "/servers/id-web", token: member}, 200, nil)
	w.answered(t, off("/hosts/host-1", `{}`), 200, &got)
	assert.Equal(t, []int{1, 1}, []int{got.Lost.Servers, got.Lost.Volumes}, "the host takes the volumes on it along")
	w.refused(t, call{method: "GET", target: "/volumes/id-third", token: member}, api.CodeNotFound, "no such volume")
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
