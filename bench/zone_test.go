package bench

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/agent"
	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/dev"
	"berth/node"
)

// hostsEach is how many hosts each zone has.
const hostsEach = 100

// patience bounds every wait.
const patience = time.Minute

// start runs a federation until the benchmark ends, and returns its root and a
// client of it.
func start(b *testing.B, tree dev.Spec, nodes int) (*dev.Zone, *client.Client) {
	b.Helper()
	f := startAll(b, tree, nodes)
	return f.Zones[0], clientOf(b, f.Zones[0])
}

// startAll runs a federation until the benchmark ends.
func startAll(b *testing.B, tree dev.Spec, nodes int) *dev.Federation {
	b.Helper()
	return startTapped(b, tree, nodes, nil)
}

// startTapped is startAll with a tap on the connections between zones.
func startTapped(b *testing.B, tree dev.Spec, nodes int, tap node.Tap) *dev.Federation {
	b.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	shape, err := agent.ParseShape("vcpus=64,memory_mb=262144,disk_gb=2000")
	require.NoError(b, err)
	f, err := dev.Start(ctx, dev.Options{
		Dir: b.TempDir(), Tree: tree, Nodes: nodes, Hosts: hostsEach, Shape: shape, StartDelay: dev.StartDelayDefault,
		Version: "bench", Insecure: true, Log: slog.New(slog.DiscardHandler), Now: time.Now, Tap: tap,
	})
	if err != nil {
		stop()
	}
	require.NoError(b, err)
	b.Cleanup(func() {
		stop()
		require.NoError(b, f.Wait())
	})
	return f
}

// clientOf returns a client of a zone until the benchmark ends.
func clientOf(b *testing.B, z *dev.Zone) *client.Client {
	b.Helper()
	c, err := client.New(client.Config{Addr: z.API()})
	require.NoError(b, err)
	b.Cleanup(c.Close)
	return c
}

// order asks for n instances, all or none.
func order(n int) rest.ServerCreate {
	return rest.ServerCreate{Name: "bench", FlavorRef: "tiny", MaxCount: &n}
}

// BenchmarkBoot measures a boot from POST /zones/boot until all its instances
// run, which includes the 20 ms that a simulated host takes to start one.
// ms/decided is the time until the decision is in the log. Giving back is not
// measured.
func BenchmarkBoot(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, count := range []int{1, 100} {
			b.Run(fmt.Sprintf("nodes=%d/count=%d", nodes, count), func(b *testing.B) {
				z, c := start(b, dev.Spec{Name: "root"}, nodes)
				ctx, cancel := context.WithTimeout(b.Context(), 10*patience)
				defer cancel()
				var untilDecided time.Duration
				for b.Loop() {
					begun := time.Now()
					id, err := c.Boot(ctx, order(count), "")
					require.NoError(b, err)
					decided(ctx, b, z, id)
					untilDecided += time.Since(begun)
					boot, err := c.Reservation(ctx, id, patience)
					require.NoError(b, err)
					require.Equal(b, api.BootActive, boot.State)

					b.StopTimer()
					boot, err = c.Release(ctx, id, patience)
					require.NoError(b, err)
					require.Equal(b, api.BootReleased, boot.State)
					b.StartTimer()
				}
				b.ReportMetric(float64(untilDecided.Microseconds())/1000/float64(b.N), "ms/decided")
			})
		}
	}
}

// decided waits for the decision of a boot, as the first node learns of it.
func decided(ctx context.Context, b *testing.B, z *dev.Zone, id api.ReservationID) {
	b.Helper()
	store := z.Nodes[0].Node.Store()
	for v := store.View(); ; {
		if boot, ok := v.Boot("admin", id); ok && boot.Decision != api.DecisionPending {
			return
		}
		next, err := store.Wait(ctx, v.Index())
		require.NoError(b, err)
		v = next
	}
}

// BenchmarkSelect measures an estimate at the root of four zones, three of which
// are asked over their gateways, the last one two links away.
func BenchmarkSelect(b *testing.B) {
	_, c := start(b, dev.DefaultTree(), 1)
	for _, count := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("zones=4/count=%d", count), func(b *testing.B) {
			for b.Loop() {
				a, err := c.Select(b.Context(), order(count))
				require.NoError(b, err)
				require.Len(b, a.Weights[0], count)
			}
		})
	}
}
