package command_test

import (
	"fmt"
	"testing"

	"berth/api"
	"berth/raftstore/command"
)

// BenchmarkCodec writes and reads the entries of a boot with long lists, packed and not.
func BenchmarkCodec(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		boot, hold := bootOf(n, 1_000)
		for _, c := range []command.Command{boot, hold, reportOf(hold)} {
			for _, form := range []api.Form{api.FormFourth, api.FormFifth} {
				e, err := command.Encode(c, form)
				if err != nil {
					b.Fatal(err)
				}
				b.Run(fmt.Sprintf("%T/n=%d/form=%d/write", c, n, form), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						_, _ = command.Encode(c, form)
					}
					b.ReportMetric(float64(len(e)), "B/entry")
				})
				b.Run(fmt.Sprintf("%T/n=%d/form=%d/read", c, n, form), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						_, _ = command.Decode(e, api.FormNewest)
					}
				})
			}
		}
	}
}
