package leak

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/internal/await"
)

// bound lets a zone bind a project to a child, and ask everything that can be asked about that. What it
// says of the child is for nobody else, and what it is answered has nothing of the child's hosts.
func bound(t *testing.T, answers map[*place]told, parent, child *place) {
	t.Helper()
	c, a := parent.client(), answers[parent]
	was, err := c.Config(t.Context())
	require.NoError(t, err)
	conf := was
	conf.Bindings = rest.BindingRule{Mode: api.BindingPrefer, GeneralOnTagged: true}
	_, err = c.SetConfig(t.Context(), conf)
	require.NoError(t, err)
	key := parent.name + "-canary-tag"
	a.ask(t, parent, "PUT", "/zones/"+child.name, map[string]any{"zone": map[string]any{
		"availability_zone": parent.name + "-canary-az", "tags": []string{key + "=mine"}, "headroom": map[string]int{"VCPU": 1},
	}})
	_, err = c.CreateFlavor(t.Context(), rest.FlavorSpec{
		Name: parent.name + "-tagged", VCPUs: new(int64(1)), RAM: new(int64(512)), ExtraSpecs: map[string]string{key: "mine"},
	})
	require.NoError(t, err)
	var b rest.Boot
	tries := 0
	await.True(t, parent.name+" has heard that room is back", func() bool {
		tries++
		b = bootOf(t, c, parent.name+"-tagged", fmt.Sprint(parent.name, "-bound-", tries), 1)
		return b.State == api.BootActive
	})
	a.ask(t, parent, "POST", "/bindings", rest.BindingBody{Binding: rest.BindingSpec{Project: "bound", Zone: child.name, Tags: []string{key + "=mine"}}})
	for _, get := range []string{
		"/zones", "/zones/" + child.name, "/bindings?active=all", "/explain/" + string(b.Reservation), "/tricircle/v1.0/pods", "/tricircle/v1.0/bindings", "/tricircle/v1.0/pod-affinity-tag",
	} {
		a.ask(t, parent, "GET", get, nil)
	}
	a.ask(t, parent, "POST", "/zones/"+child.name+"/plan-maintenance", map[string]any{})
	a.ask(t, parent, "GET", "/events?follow=false&kind=binding", nil)
	release(t, parent, b.Reservation) // what follows needs its room
	_, err = c.SetConfig(t.Context(), was)
	require.NoError(t, err)
	made := 0
	for _, one := range parent.node.Store().View().Bindings() {
		if one.Reservation == b.Reservation {
			made++
		}
	}
	require.Equal(t, 1, made, "the boot made a binding")
}
