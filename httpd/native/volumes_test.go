package native

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

// makeVolume makes a volume of p1 that is available, on a host or in the child east.
func (w *world) makeVolume(tb testing.TB, name string, host api.HostID) {
	tb.Helper()
	h := w.create(tb, "p1", name, api.ReservationID("r-"+name))
	h.Request.Groups = []api.Group{{Count: 1, Volume: "standard", Resources: api.Resources{api.DiskGB: 5}}}
	spec := api.InstanceSpec{ID: api.InstanceID("id-" + name), Name: name}
	if host == "" {
		h.Parts = []command.Part{{Link: "link-east", Instances: [][]api.InstanceSpec{{spec}}}}
		w.store.Must(tb, h, command.HoldParts{Stamp: h.Stamp, ID: h.ID, Answers: []command.PartAnswer{
			{Link: "link-east", Held: []api.InstanceID{spec.ID}, Committed: true},
		}})
		return
	}
	h.Slots = []command.Slot{{Instance: spec, Host: host}}
	w.store.Must(tb, h, command.InstanceReport{Stamp: h.Stamp, Agent: "agent-1", Items: []api.InstanceReport{
		{Host: host, Instance: spec.ID, Status: api.StatusActive},
	}})
}

// makeDisk makes the volume id-disk of p1 on host-1, where id-web is.
func (w *world) makeDisk(tb testing.TB) {
	tb.Helper()
	w.store.Must(tb, command.HostsPut{Stamp: w.zone.Stamp(), Agent: "agent-1", Hosts: []command.HostEntry{{Host: api.AgentHost{
		Name: "host-1", Driver: "fake", Pool: api.PoolShared, Traits: []string{api.TraitVolumes},
		Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}, api.MemoryMB: {Total: 8192}, api.DiskGB: {Total: 20}},
	}}}})
	w.makeVolume(tb, "disk", "host-id-1")
}

func TestVolumes(t *testing.T) {
	w := newWorld(t)
	w.makeDisk(t)
	w.makeVolume(t, "away", "")
	to := func(volume, server string) call {
		return call{method: "POST", target: "/volumes/" + volume + "/attach", token: member, body: `{"server_id":"` + server + `"}`}
	}
	show := func(token string) rest.Volume {
		var out struct{ Volume rest.Volume }
		w.answered(t, call{method: "GET", target: "/volumes/id-disk", token: token}, http.StatusOK, &out)
		return out.Volume
	}
	is := show(reader)
	assert.Equal(t, api.VolumeAvailable, is.Status)
	assert.Equal(t, []any{int64(5), "standard", api.DiskGB, "root", ""}, []any{is.Size, is.Type, is.Class, is.Zone, is.Host})
	assert.Equal(t, "host-1", show(admin).Host)

	w.answered(t, to("id-disk", "id-web"), http.StatusNoContent, nil)
	w.answered(t, to("id-disk", "id-web"), http.StatusNoContent, nil)
	is = show(reader)
	assert.Equal(t, api.VolumeInUse, is.Status)
	assert.Equal(t, api.InstanceID("id-web"), is.Attached)
	gone := call{method: "DELETE", target: "/volumes/id-disk", token: member}
	w.refused(t, gone, api.CodeConflict, "the volume is attached to server id-web; detach it first")
	w.refused(t, to("id-away", "id-web"), api.CodeConflict, "the volume is in zone east (binding binding-1) and the server in zone root; what is attached must be in one zone")
	w.refused(t, to("id-disk", "id-far"), api.CodeConflict, "the volume is in zone root and the server in zone east")
	w.refused(t, to("id-disk", "id-hidden"), api.CodeNotFound, "no such server")
	w.refused(t, to("id-disk", "id-disk"), api.CodeNotFound, "no such server")
	w.refused(t, to("id-web", "id-web"), api.CodeNotFound, "no such volume")
	w.refused(t, to("id-disk", ""), api.CodeInvalid, "server_id")
	foreign := to("id-disk", "id-web")
	foreign.token = other
	w.refused(t, foreign, api.CodeNotFound, "no such volume")

	w.answered(t, call{method: "POST", target: "/volumes/id-disk/detach", token: member}, http.StatusNoContent, nil)
	w.answered(t, gone, http.StatusNoContent, nil)
	assert.Equal(t, api.VolumeDeleting, show(reader).Status)
	w.refused(t, call{method: "GET", target: "/servers/id-disk", token: reader}, api.CodeNotFound, "no such server")
}

func TestListsOfVolumes(t *testing.T) {
	w := newWorld(t)
	w.makeDisk(t)
	w.makeVolume(t, "away", "")
	list := func(query, token string) []api.InstanceID {
		var out struct{ Volumes []rest.Volume }
		w.answered(t, call{method: "GET", target: "/volumes" + query, token: token}, http.StatusOK, &out)
		var ids []api.InstanceID
		for _, v := range out.Volumes {
			ids = append(ids, v.ID)
		}
		return ids
	}
	both := []api.InstanceID{"id-away", "id-disk"}
	for query, want := range map[string][]api.InstanceID{
		"": both, "?limit=1": both[:1], "?marker=id-away": both[1:], "?zone=east": both[:1], "?zone=root": both[1:], "?name=dis": both[1:],
		"?status=available": both[1:], "?status=creating": both[:1], "?type=fast": nil, "?type=standard": both,
	} {
		assert.Equal(t, want, list(query, reader), query)
	}
	assert.Empty(t, list("", other))
	assert.Equal(t, both, list("?all_projects=true", admin))
	w.refused(t, call{method: "GET", target: "/volumes?all_projects=true", token: reader}, api.CodeForbidden, "all_projects")
	w.refused(t, call{method: "GET", target: "/volumes?status=ACTIVE", token: reader}, api.CodeInvalid, "status must be one of creating, available, in-use, deleting, error")
	w.refused(t, call{method: "GET", target: "/volumes?zone=mars", token: reader}, api.CodeInvalid, `there is no zone "mars"`)
	var servers struct{ Servers []rest.ServerSummary }
	w.answered(t, call{method: "GET", target: "/servers", token: reader}, http.StatusOK, &servers)
	for _, s := range servers.Servers {
		assert.NotContains(t, both, s.ID)
	}
}

func TestWhatMakesAVolume(t *testing.T) {
	w := newWorld(t)
	w.makeDisk(t)
	volume := func(text string) call {
		return call{method: "POST", target: "/volumes", token: member, body: `{"volume":{"name":"a","return_reservation_id":true` + text + `}}`}
	}
	boot := func(groups string) call {
		return call{method: "POST", target: "/zones/boot", token: member, body: `{"server":{"name":"a","groups":[` + groups + `]}}`}
	}
	for text, want := range map[string]string{
		``:                                 "volume.size must be 1 to 1048576 GiB, got 0",
		`,"size":1048577`:                  "volume.size must be 1 to 1048576 GiB, got 1048577",
		`,"size":1,"storage_class":"x"`:    `volume.storage_class must be DISK_GB or a custom class, got "x"`,
		`,"size":1,"storage_class":"VCPU"`: `volume.storage_class must be DISK_GB or a custom class, got "VCPU"`,
		`,"size":1,"type":"a b"`:           "volume.type",
		`,"size":1,"image_properties":{}`:  "are of instances",
		`,"size":1,"scheduler_hints":{"preemptible":true}`: "a volume is never preemptible",
		`,"size":1,"scheduler_hints":{"reservation":"r"}`:  "scheduler_hints.reservation: a volume is in no reservation",
	} {
		w.refused(t, volume(text), api.CodeInvalid, want)
	}
	w.answered(t, volume(`,"size":1048576,"type":"fast","storage_class":"CUSTOM_SSD"`), http.StatusAccepted, nil)
	const web = `{"name":"web","flavorRef":"small"}`
	for groups, want := range map[string]string{
		web + `,{"name":"data","flavorRef":"small","volume":{"size":1}}`:                   "flavorRef, imageRef and image_properties are of instances",
		web + `,{"name":"data","volume":{"size":1,"attach_to":"db"}}`:                      `this boot has no group "db" of instances`,
		web + `,{"name":"data","max_count":2,"volume":{"size":1,"attach_to":"web"}}`:       "each instance gets one volume",
		web + `,{"name":"data","volume":{"size":1,"attach_to":"data"}}`:                    `this boot has no group "data" of instances`,
		`{"name":"web","flavorRef":"none"},{"name":"data","volume":{"size":1,"type":"v"}}`: `there is no flavor "none"`,
	} {
		w.refused(t, boot(groups), api.CodeInvalid, want)
	}
	var made rest.BootAnswer
	w.answered(t, boot(web+`,{"name":"data","volume":{"size":3,"attach_to":"web"}}`), http.StatusAccepted, &made)
	b, ok := w.store.View().Boot("p1", made.Reservation)
	require.True(t, ok)
	assert.True(t, b.Request.Zones.Pack)
	assert.Equal(t, []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}, Pairs: true}}, b.Request.Rules)
	data := b.Request.Groups[1]
	assert.Equal(t, []any{"standard", "web", api.Resources{api.DiskGB: 3}, []string{api.TraitVolumes}}, []any{data.Volume, data.AttachTo, data.Resources, data.Traits.Required})
}
