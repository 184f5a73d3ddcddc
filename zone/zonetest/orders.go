package zonetest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/zone/intake"
)

// Specs returns n instances with fresh ids.
func Specs(name string, n int) []api.InstanceSpec {
	out := make([]api.InstanceSpec, n)
	for i := range out {
		out[i] = api.InstanceSpec{ID: api.InstanceID(api.NewUUID()), Name: fmt.Sprintf("%s-%d", name, i+1)}
	}
	return out
}

// Flavor is what the boots of these tests ask for.
var Flavor = &api.Flavor{ID: "small", Name: "small", Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 256}}

// Order asks for the instances of a reservation.
func Order(res string, least, most int) *intake.BootOrder {
	return &intake.BootOrder{BootTerms: command.BootTerms{Name: res, Request: api.Request{
		Reservation: api.ReservationID(res), Project: "p", User: "u", Groups: []api.Group{Group("", least, most)},
		Window: api.Window{End: api.Forever}, Class: api.Firm,
	}}}
}

// Group asks for instances of the flavor of these tests.
func Group(name string, least, most int) api.Group {
	return OfFlavor(api.Group{Name: name, Min: least, Count: most}, Flavor)
}

// OfFlavor returns a group as f has it.
func OfFlavor(g api.Group, f *api.Flavor) api.Group {
	g.Flavor, g.Resources, g.ExtraSpecs = f.ID, f.Resources, f.ExtraSpecs
	return g
}

// SelectedHold returns a child with room for n, its parent's link, and a hold of n
// slots that it has offered.
func SelectedHold(w *World, n int) (*Member, *api.Link, *api.HoldRequest) {
	root := w.Zone("root", nil)
	kid := w.Zone("kid", root, int64(n))
	link, ok := kid.View().Parent()
	require.True(w.T, ok)
	req := Order("b", n, n).Request
	a, err := kid.Lead().Select(w.Ctx, link.Zone, &req)
	require.NoError(w.T, err)
	require.Len(w.T, a.Weights[0], n)
	return kid, link, &api.HoldRequest{
		ID: "hold", Attempt: 1, Request: req, Blob: a.Blob, Instances: [][]api.InstanceSpec{Specs("b", n)},
	}
}

// Groups asks for several kinds of instances at once.
func Groups(res string, gs ...api.Group) *intake.BootOrder {
	o := Order(res, 1, 1)
	o.Request.Groups = gs
	return o
}

// OutcomesOf returns the outcome of each zone by its name, and how many it offered.
func OutcomesOf(a *api.SelectAnswer) (outcomes map[string]string, offered int) {
	outcomes = map[string]string{}
	for _, z := range a.Zones {
		outcomes[z.Zone] = z.Outcome
		offered += z.Offered
	}
	return outcomes, offered
}

// Volumes asks for volumes.
func Volumes(res string, n int, gb int64) *intake.BootOrder {
	o := Order(res, n, n)
	o.Request.Groups[0] = api.Group{Name: "data", Count: n, Min: n, Volume: "standard", Resources: api.Resources{api.DiskGB: gb}}
	return o
}
