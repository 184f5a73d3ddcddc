package leak

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// volumes lets a zone have volumes in one that is two below it, which has some of its own: with
// servers and alone, attached, refused, detached and deleted.
func volumes(t *testing.T, answers map[*place]told, root, west, edge *place) {
	t.Helper()
	withVolumes(t, edge, "canary-own-data", nil)
	withVolumes(t, root, "data", &rest.ZoneRule{Allowed: []string{west.name}})
	firmly(t, root, "apart", 3) // on every host that has room
	a, c := answers[root], root.client()
	vol := volumeOf(t, c)
	require.Equal(t, west.name, vol.Zone)
	with := vol.Attached
	require.NotEmpty(t, with)
	a.ask(t, root, "POST", "/volumes/"+string(vol.ID)+"/detach", nil)
	refused := 0
	for _, s := range serversOf(t, c, "apart") {
		status, text := root.say(t, "POST", "/volumes/"+string(vol.ID)+"/attach", rest.AttachBody{Server: s.ID})
		a["attach to "+string(s.ID)] = text
		if status >= 300 {
			refused++
			continue
		}
		a.ask(t, root, "POST", "/volumes/"+string(vol.ID)+"/detach", nil)
	}
	assert.Positive(t, refused, "some are on other hosts")
	a.ask(t, root, "POST", "/volumes/"+string(vol.ID)+"/attach", rest.AttachBody{Server: with})
	for p, res := range map[*place]string{root: "data", edge: "canary-own-data"} {
		for _, path := range []string{"/volumes", "/volumes/" + string(volumeOf(t, p.client()).ID), "/explain/" + res, "/zones/boot/" + res, "/events?follow=false"} {
			answers[p].ask(t, p, "GET", path, nil)
		}
	}
	release(t, root, "data", "apart")
	release(t, edge, "canary-own-data")
}

// withVolumes boots a server with a volume at a zone.
func withVolumes(t *testing.T, p *place, name string, zones *rest.ZoneRule) {
	t.Helper()
	p.boots(t, rest.ServerCreate{Name: name, Reservation: name, Zones: zones, Groups: []rest.GroupCreate{
		{Name: "web", FlavorRef: "small"},
		{Name: "data", Volume: &rest.GroupVolume{VolumeSpec: rest.VolumeSpec{Size: 1}, AttachTo: "web"}},
	}})
}

// volumeOf returns the only volume of a zone's own callers.
func volumeOf(t *testing.T, c *client.Client) rest.Volume {
	t.Helper()
	all, err := c.Volumes(t.Context(), client.VolumeQuery{}, client.ListOptions{})
	require.NoError(t, err)
	require.Len(t, all.Items, 1)
	return all.Items[0]
}

func serversOf(t *testing.T, c *client.Client, boot api.ReservationID) []rest.Server {
	t.Helper()
	all, err := c.Servers(t.Context(), client.ServerQuery{Reservation: boot}, client.ListOptions{})
	require.NoError(t, err)
	return all.Items
}
