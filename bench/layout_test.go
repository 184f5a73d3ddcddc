package bench

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/estimate"
)

// layoutHosts is how many hosts a zone has that hides its layout, and layoutKinds of how many kinds.
const (
	layoutHosts = 10_000
	layoutKinds = 10
)

// BenchmarkHiddenLayout measures what it costs a zone of 10,000 hosts to hide its layout: an estimate for its parent, and what
// it says of itself, each after an entry that changes no host, and an entry that changes one, with the view that follows.
func BenchmarkHiddenLayout(b *testing.B) {
	for _, hides := range []bool{false, true} {
		z := newLayoutZone(b, hides)
		turn := func() { z.store.Must(b, command.PropertySet{Name: "rack"}) }
		run := func(name string, do func(n int)) {
			b.Run(fmt.Sprintf("%s/hides=%t", name, hides), func(b *testing.B) {
				for n := 0; b.Loop(); n++ {
					do(n)
				}
			})
		}
		for _, count := range []int{1, 1000} {
			run(fmt.Sprintf("estimate of %d", count), func(int) {
				turn()
				req := &api.Request{
					Reservation: "r", Project: "p", Class: api.Firm, Window: api.Window{End: api.Forever},
					Groups: []api.Group{{Count: count, Flavor: pricedFlavor.ID, Resources: pricedFlavor.Resources}},
				}
				a, err := z.Estimator.Select(b.Context(), "root", req)
				require.NoError(b, err)
				require.Len(b, a.Weights[0], count)
			})
		}
		run("digest", func(int) {
			turn()
			require.NotNil(b, z.DigestOf(z.store.View()))
		})
		run("a host that comes and goes", func(n int) {
			st := api.HostUp
			if n%2 == 0 {
				st = api.HostDown
			}
			z.store.Must(b, command.HostsState{State: st, Hosts: []api.HostID{"low-5"}})
			_ = z.store.View()
		})
	}
}

// newLayoutZone returns a zone with a parent.
func newLayoutZone(b *testing.B, hides bool) *pricedZone {
	b.Helper()
	z := &pricedZone{id: "low", store: memstore.New()}
	z.store.Must(b, command.Init{Zone: z.id, Name: "low"}, command.FlavorPut{Flavor: pricedFlavor},
		command.LinkPut{Link: api.Link{ID: "up", Name: "parent", Role: api.LinkParent, Zone: "root", Scale: 1, State: api.LinkActive}})
	for at := 0; at < layoutHosts; at += 500 {
		put := command.HostsPut{Agent: "agent"}
		for n := at; n < at+500; n++ {
			put.Hosts = append(put.Hosts, command.HostEntry{ID: api.HostID(fmt.Sprint("low-", n)), Host: api.AgentHost{
				Name: fmt.Sprint("host-", n), Driver: "fake", Pool: api.PoolShared, Traits: []string{"HW_CPU_X86_AVX2"},
				Attributes: map[string]string{"arch": "x86_64", "rack": fmt.Sprint("r", n%100)},
				Inventory: map[api.ResourceClass]api.Inventory{
					api.VCPU: {Total: 64 + int64(n%layoutKinds)}, api.MemoryMB: {Total: pricedMemory}, api.DiskGB: {Total: 1000},
				},
			}})
		}
		z.store.Must(b, put)
	}
	z.store.Must(b, command.ConfigSet{Config: api.ZoneConfig{HidesLayout: hides}})
	base := zone.New(zone.Config{Store: z.store, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	z.Estimator = estimate.New(estimate.Config{Zone: base, Peers: z, Digests: z, Keys: z})
	return z
}
