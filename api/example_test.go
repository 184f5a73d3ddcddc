package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"berth/api"
)

func ExampleCodeOf() {
	err := fmt.Errorf("booting web: %w", api.Wrap(api.CodeUnavailable, "zone.Boot", "try again", errors.New("no quorum")))
	fmt.Println(api.CodeOf(err), api.CodeOf(err).HTTPStatus())
	fmt.Println(api.MessageOf(err)) // for the caller
	fmt.Println(err)                // for the log
	// Output:
	// unavailable 503
	// try again
	// booting web: zone.Boot: try again: no quorum
}

func ExampleInventory_Capacity() {
	v := api.Inventory{Total: 64, Reserved: 4, AllocationRatio: 15 * api.RatioOne / 10}
	fmt.Println(v.Capacity())
	// Output: 90
}

func ExampleInventory_Admits() {
	v := api.Inventory{Total: 100, MinUnit: 10, StepSize: 25}
	for _, amount := range []int64{5, 10, 20, 25, 50, 125} {
		fmt.Print(amount, " ", v.Admits(amount), "; ")
	}
	// Output: 5 false; 10 true; 20 false; 25 true; 50 true; 125 false;
}

func ExampleResources_String() {
	fmt.Println(api.Resources{api.VCPU: 2, api.MemoryMB: 512})
	// Output: MEMORY_MB=512,VCPU=2
}

func ExampleRatio() {
	var r api.Ratio
	_ = json.Unmarshal([]byte("1.5"), &r) // a number in range
	b, _ := json.Marshal(r)               // every ratio can be written
	fmt.Println(int64(r), string(b))
	// Output: 15000 1.5
}

func ExampleInstant() {
	b, _ := json.Marshal([]api.Instant{api.InstantOf(time.Date(2030, 6, 1, 8, 0, 0, 0, time.UTC)), api.Forever}) // always can be
	fmt.Println(string(b))
	// Output: ["2030-06-01T08:00:00.000Z",null]
}

func ExampleCheckName() {
	fmt.Println(api.CheckName("zone name", "west-1"))
	fmt.Println(api.CheckName("zone name", "west 1"))
	// Output:
	// <nil>
	// zone name must be 1 to 64 characters of A-Z a-z 0-9 . _ - and start with a letter or digit
}

func ExampleCaller_Allows() {
	c := api.Caller{Role: api.RoleMember}
	fmt.Println(c.Allows(api.RoleReader), c.Allows(api.RoleMember), c.Allows(api.RoleAdmin))
	// Output: true true false
}
