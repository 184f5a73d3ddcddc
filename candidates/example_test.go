package candidates_test

import (
	"fmt"

	"berth/api"
	"berth/candidates"
	"berth/capacity"
)

func ExampleEach() {
	t := capacity.NewTable()
	disk := map[api.ResourceClass]api.Inventory{api.DiskGB: {Total: 1000}}
	t.Put(capacity.Spec{Up: true, Enabled: true, ID: "pool", Passive: true, Inventory: disk, Traits: []string{api.TraitShares}, Aggregates: []string{"rack"}})
	for _, id := range []api.HostID{"host-1", "host-2"} {
		t.Put(capacity.Spec{Up: true, Enabled: true, ID: id, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 8}}, Aggregates: []string{"rack"}})
	}
	v := t.View()

	q := &candidates.Query{Groups: []candidates.Group{{Resources: api.Resources{api.VCPU: 2, api.DiskGB: 10}}}, Work: &candidates.Work{}}
	for c := range candidates.Each(v, q) {
		for _, p := range c.Parts {
			fmt.Println(v.ID(p.Row), "gives", p.Resources)
		}
	}
	fmt.Println("all of them:", !q.Work.Cut)
	// Output:
	// host-1 gives VCPU=2
	// pool gives DISK_GB=10
	// host-2 gives VCPU=2
	// pool gives DISK_GB=10
	// all of them: true
}
