package native

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

// TestHostShowsMissingTraits: a host shows the traits that its agent reports no more with who needs them, at most so
// many by name, and its drain which of them no other host has.
func TestHostShowsMissingTraits(t *testing.T) {
	w := newWorld(t)
	n := rest.DemandersMax + 1
	req := request("p1", "r-ssd")
	req.Groups[0].Count = n
	req.Groups[0].Resources = api.Resources{}
	req.Groups[0].Traits = api.Traits{Required: []string{"CUSTOM_SSD"}}
	var specs []api.InstanceSpec
	var slots []command.Slot
	for _, id := range api.NewInstanceIDs(n) {
		one := api.InstanceSpec{ID: id, Name: string(id)}
		specs = append(specs, one)
		slots = append(slots, command.Slot{Instance: one, Host: "host-id-2"})
	}
	at := w.zone.Stamp()
	w.store.Must(
		t, command.BootCreate{Stamp: at, BootTerms: command.BootTerms{Digest: []byte("ssd"), Name: "ssd", Request: req, Min: n, Instances: specs}},
		command.Hold{Stamp: at, ID: "hold-ssd", Attempt: 1, Request: req, Expires: api.Forever, Commit: true, Slots: slots},
	)
	var got struct{ Host rest.Host }
	w.answered(t, call{method: "GET", target: "/hosts/host-2", token: admin}, 200, &got)
	check := func(all []rest.TraitDemand) {
		t.Helper()
		require.Len(t, all, 1)
		assert.Equal(t, []string{"CUSTOM_SSD"}, all[0].Traits)
		assert.Len(t, all[0].Servers, rest.DemandersMax)
		assert.Equal(t, n, all[0].Count)
	}
	check(got.Host.MissingTraits)
	assert.Nil(t, got.Host.Leaving)
	w.answered(t, call{method: "POST", target: "/hosts/host-2/drain", token: admin, body: `{"policy":"move"}`}, 202, &got)
	check(got.Host.Leaving.Traits)
}
