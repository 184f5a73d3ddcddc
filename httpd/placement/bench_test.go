package placement

import (
	"fmt"
	"net/http"
	"testing"

	"berth/api"
	"berth/raftstore/command"
)

// A list of all providers, and one of them.
func BenchmarkProviders(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		w := newTalk(b)
		for i := range n {
			id := api.ProviderID(fmt.Sprintf("%08d-0000-4000-8000-000000000000", i))
			inventory := map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 64}, api.MemoryMB: {Total: 65536}}
			w.Store.Must(b, command.ProviderCreate{Stamp: w.Zone.Stamp(), ID: id, Name: fmt.Sprint("provider-", i)},
				command.ProviderSet{Stamp: w.Zone.Stamp(), ID: id, Inventory: &inventory})
		}
		for name, target := range map[string]string{
			"list": "/resource_providers", "some": "/resource_providers?resources=VCPU:65",
			"one": "/resource_providers/00000007-0000-4000-8000-000000000000",
		} {
			b.Run(fmt.Sprintf("call=%s/providers=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if rec := w.ask(http.MethodGet, target, ""); rec.Code != http.StatusOK {
						b.Fatal(rec.Body)
					}
				}
			})
		}
	}
}
