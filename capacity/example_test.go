package capacity_test

import (
	"fmt"
	"time"

	"berth/api"
	"berth/capacity"
)

func hosts(cpus int64, ids ...api.HostID) *capacity.Table {
	t := capacity.NewTable()
	for _, id := range ids {
		t.Put(capacity.Spec{
			ID: id, Pool: api.PoolShared, Up: true, Enabled: true,
			Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: cpus}},
		})
	}
	return t
}

func claim(cpus int64, kind api.Class, start, end api.Instant) api.Claim {
	return api.Claim{
		Resources: api.Resources{api.VCPU: cpus}, Class: kind,
		Window: api.Window{Start: start, End: end},
	}
}

func ExampleTable_Claim() {
	t := hosts(4, "h1")
	fmt.Println(t.Claim("h1", claim(3, api.Firm, 100, 200)))         // a lease
	fmt.Println(t.Claim("h1", claim(2, api.Firm, 0, 100)))           // ends before it starts
	fmt.Println(t.Claim("h1", claim(2, api.Firm, 0, api.Forever)))   // would meet it
	fmt.Println(t.Claim("h1", claim(1, api.Firm, 200, api.Forever))) // starts after it
	// Output:
	// <nil>
	// <nil>
	// the host has 1 of VCPU left over the window, 2 wanted
	// <nil>
}

// The host has no disk of its own: it comes from a pool in the same aggregate.
func ExampleTable_Place() {
	t := capacity.NewTable()
	t.Put(capacity.Spec{
		ID: "h1", Pool: api.PoolShared, Up: true, Enabled: true, Aggregates: []string{"rack1"},
		Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
	})
	t.Put(capacity.Spec{
		ID: "pool", Passive: true, Traits: []string{api.TraitShares}, Aggregates: []string{"rack1"},
		Inventory: map[api.ResourceClass]api.Inventory{api.DiskGB: {Total: 100}},
	})
	slot := api.Claim{
		Resources: api.Resources{api.VCPU: 1, api.DiskGB: 60}, Class: api.Firm, Window: api.Window{End: api.Forever},
	}
	fmt.Println(t.Place("h1", slot))
	fmt.Println(t.Place("h1", slot))
	// Output:
	// [{pool DISK_GB=60}] <nil>
	// [] neither the host nor what it draws from has 60 of DISK_GB left in one place over the window, at most 40
}

// The cleaning time must pass between the end of one claim and the start of the next.
func ExampleSpec_gap() {
	t := capacity.NewTable()
	t.Put(capacity.Spec{
		ID: "h1", Gap: 10 * time.Millisecond,
		Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 1}},
	})
	fmt.Println(t.Claim("h1", claim(1, api.Firm, 100, 200)))
	for _, w := range []api.Window{{Start: 0, End: 90}, {Start: 0, End: 91}, {Start: 209, End: 300}, {Start: 210, End: 300}} {
		fmt.Println(w.Start, w.End, t.Fits("h1", claim(1, api.Firm, w.Start, w.End)) == nil)
	}
	// Output:
	// <nil>
	// 1970-01-01T00:00:00.000Z 1970-01-01T00:00:00.090Z true
	// 1970-01-01T00:00:00.000Z 1970-01-01T00:00:00.091Z false
	// 1970-01-01T00:00:00.209Z 1970-01-01T00:00:00.300Z false
	// 1970-01-01T00:00:00.210Z 1970-01-01T00:00:00.300Z true
}

func ExampleTable_Release() {
	t := hosts(4, "h1")
	c := claim(4, api.Firm, 0, api.Forever)
	fmt.Println(t.Claim("h1", c), t.View().Usage("h1"))
	t.Release("h1", c)
	fmt.Println(len(t.View().Usage("h1")), t.Claim("h1", c))
	// Output:
	// <nil> VCPU=4
	// 0 <nil>
}

func ExampleTable_View() {
	t := hosts(4, "h1")
	before := t.View()
	_ = t.Claim("h1", claim(3, api.Firm, 0, api.Forever)) // fits; ignored to keep the example short
	row, _ := before.Row("h1")
	fmt.Println(before.FreeNow(row, api.VCPU), t.View().FreeNow(row, api.VCPU))
	// Output: 4 1
}

func ExampleView_FreeOver() {
	t := hosts(4, "h1")
	_ = t.Claim("h1", claim(3, api.Firm, 100, 200))              // fits
	_ = t.Claim("h1", claim(4, api.Preemptible, 0, api.Forever)) // fits: it counts only now
	v := t.View()
	row, _ := v.Row("h1")
	fmt.Println(v.FreeOver(row, api.VCPU, api.Window{Start: 10, End: 100}, api.Firm),
		v.FreeOver(row, api.VCPU, api.Window{Start: 10, End: 101}, api.Firm),
		v.FreeOver(row, api.VCPU, api.Window{Start: 0, End: 10}, api.Firm))
	// Output: 4 1 0
}

func ExampleSet() {
	s := capacity.NewSet(100)
	s.Add(70)
	s.Add(3)
	o := capacity.NewSet(100)
	o.Add(70)
	s.AndNot(o)
	for row := range s.All() {
		fmt.Println(row)
	}
	// Output: 3
}
