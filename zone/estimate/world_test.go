package estimate

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
)

// TestCommandsAreThisZonesOwn: a flavor has a command here if this zone has defined it so,
// with what the request says it is, whatever other flavors the request has.
func TestCommandsAreThisZonesOwn(t *testing.T) {
	v := memstore.New()
	flavor := api.Flavor{ID: "small", Name: "small", Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 256}}
	one, two := flavor, flavor
	one.ID, one.Name, one.Command = "one", "one", []string{"sleep"}
	two.ID, two.Name, two.Command, two.Resources = "two", "two", []string{"sleep"}, api.Resources{api.VCPU: 2}
	v.Must(t, command.Init{Zone: "z", Name: "z"}, command.FlavorPut{Flavor: flavor}, command.FlavorPut{Flavor: one}, command.FlavorPut{Flavor: two})
	req := &api.Request{Groups: []api.Group{{Flavor: "one", Resources: one.Resources}, {Flavor: "two", Resources: two.Resources}}}
	has := worldOf(v.View(), req).HasCommand
	for id, want := range map[api.FlavorID]bool{"one": true, "two": true, flavor.ID: false, "none": false} {
		assert.Equal(t, want, has(id), id)
	}
	req.Groups[1].Resources = one.Resources
	assert.False(t, worldOf(v.View(), req).HasCommand("two"), "it is not what it is here")
	assert.True(t, worldOf(v.View(), req).HasCommand("one"))
}
