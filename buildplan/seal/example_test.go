package seal_test

import (
	"errors"
	"fmt"

	"berth/api"
	"berth/buildplan/seal"
)

func ExampleKeyring_Open() {
	key := seal.Key{Epoch: [4]byte{0xa1, 0xb2, 0xc3, 0xd4}, Secret: [32]byte{1}} // random in real life
	ctx := seal.Context{Zone: "oslo", Peer: "europe", Project: "blue", Reservation: "r-1"}
	blob, err := seal.Seal(key, ctx, []byte("400 slots"), [24]byte{2}) // so is the salt
	fmt.Println(len(blob), err)

	ring := seal.Keyring{key}
	plan, err := ring.Open(ctx, blob)
	fmt.Println(string(plan), err)

	ctx.Project = "red" // another tenant presents it
	_, err = ring.Open(ctx, blob)
	var reason seal.Reason
	errors.As(err, &reason)
	fmt.Println("caller:", api.CodeOf(err), "-", api.MessageOf(err))
	fmt.Println("audit: ", reason)
	// Output:
	// 1024 <nil>
	// 400 slots <nil>
	// caller: plan_refused - the plan cannot be used; select again
	// audit:  damaged, or sealed for another call
}
