package bench

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/buildplan/seal"
	"berth/costs"
	"berth/dev"
	"berth/internal/await"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/estimate"
)

// BenchmarkFanout measures a boot at a root with 10 and 20 child zones, whose hosts are all alike, with
// a lean fan-out and with one to all: over HTTP, real gateways and logs on disk. p50-ms is the time until
// the decision is in the log, cpu-ms what the whole process, which is all zones and the client, has used
// until then; asked is how many zones were asked for an offer. The modes take turns, boot by boot.
func BenchmarkFanout(b *testing.B) {
	for _, zones := range []int{10, 20} {
		none := 0
		tree := dev.Spec{Name: "root", Hosts: &none}
		for n := range zones {
			tree.Children = append(tree.Children, dev.Spec{Name: fmt.Sprint("zone", n)})
		}
		b.Run(fmt.Sprintf("zones=%d", zones), func(b *testing.B) {
			f := startAll(b, tree, 1)
			w := &boundWorld{root: f.Zones[0], c: clientOf(b, f.Zones[0])}
			for _, z := range f.Zones[1:] {
				w.children = append(w.children, clientOf(b, z))
			}
			w.awaitPrices(b)
			for _, c := range []struct {
				name  string
				count int
				zones int
			}{{"1", 1, 0}, {"10", 10, 0}, {"10 over 2 zones", 10, 2}} {
				b.Run("count="+c.name, func(b *testing.B) { w.compareFanouts(b, c.count, c.zones) })
			}
		})
	}
}

// awaitPrices waits until a boot asks one zone alone: all have said what they cost.
func (w *boundWorld) awaitPrices(b *testing.B) {
	b.Helper()
	await.True(b, "a boot asks one zone alone", func() bool {
		a, err := w.c.Select(b.Context(), order(1))
		if err != nil {
			return false
		}
		asked := slices.DeleteFunc(a.Zones[1:], func(z rest.ZoneOutcome) bool { return z.Outcome == api.OutcomeSkipped })
		return len(asked) == 1
	})
}

// countAsked counts the children that were asked.
func countAsked(zones []api.ZoneOutcome) (n int) {
	for _, z := range zones {
		if z.Link != "" && z.Outcome != api.OutcomeSkipped {
			n++
		}
	}
	return n
}

// compareFanouts makes one boot after the other, by turns with each mode, and releases each unmeasured.
func (w *boundWorld) compareFanouts(b *testing.B, count int, zones int) {
	b.Helper()
	modes := []api.FanoutMode{api.FanoutLean, api.FanoutAll}
	took, cpu, asked := map[api.FanoutMode][]time.Duration{}, map[api.FanoutMode]time.Duration{}, map[api.FanoutMode]int{}
	for b.Loop() {
		for _, mode := range modes {
			b.StopTimer()
			c, err := w.c.Config(b.Context())
			require.NoError(b, err)
			c.Fanout.Mode = mode
			_, err = w.c.SetConfig(b.Context(), c)
			require.NoError(b, err)
			body := order(count)
			body.Zones = &rest.ZoneRule{MinZones: zones}
			before, began := processTime(b), time.Now()
			b.StartTimer()
			id, err := w.c.Boot(b.Context(), body, "")
			require.NoError(b, err)
			decided(b.Context(), b, w.root, id)
			b.StopTimer()
			took[mode] = append(took[mode], time.Since(began))
			cpu[mode] += processTime(b) - before
			boot, err := w.c.Reservation(b.Context(), id, patience)
			require.NoError(b, err)
			require.Equal(b, api.BootActive, boot.State)
			asked[mode] += w.asked(b, id)
			_, err = w.c.Release(b.Context(), id, patience)
			require.NoError(b, err)
			b.StartTimer()
		}
	}
	for _, mode := range modes {
		n := len(took[mode])
		slices.Sort(took[mode])
		b.ReportMetric(float64(asked[mode])/float64(n), string(mode)+"-asked")
		b.ReportMetric(float64(took[mode][n/2].Microseconds())/1000, string(mode)+"-p50-ms")
		b.ReportMetric(float64(cpu[mode].Microseconds())/1000/float64(n), string(mode)+"-cpu-ms")
	}
}

// Sizes of the federations in which prices are compared.
const (
	pricedHosts    = 50
	pricedMemory   = 1 << 18 // MiB of one host
	pricedRequests = 12
	pricedSeeds    = 2
)

// TestFanoutPrices compares what lean fan-outs pay with what asking all pays, with digests that are up to
// date: at a root with 10 and 20 children, whose hosts are full
// to different degrees. It prints a table (go test ./bench -run FanoutPrices -v). The price is the sum of
// weights, in worths of a slot.
func TestFanoutPrices(t *testing.T) {
	for _, zones := range []int{10, 20} {
		for _, cost := range []string{costs.Spread, costs.FillFirst} {
			for _, count := range []int{1, 10, 100} {
				line := ""
				for _, slack := range []int{2, 8} {
					sum := &priceSum{}
					for seed := range uint64(pricedSeeds) {
						sum.compareOn(t, seed, zones, cost, count, slack, 0)
					}
					n := float64(sum.requests)
					line += fmt.Sprintf(" | %.1f/%.1f, %.2f, %.2f", float64(sum.lean)/n, float64(sum.all)/n, sum.dearer/n, sum.worst)
					assert.Less(t, sum.dearer/n, 4.0, "mean")
				}
				t.Logf("%d zones, %s, boots of %d; for slack 2 and 8 asked lean/all, mean and worst price of a slot above all in worths of it%s", zones, cost, count, line)
			}
		}
	}
}

// TestFanoutPricesOfStaleDigests does the same with digests that are old: since then each child has become
// fuller or emptier, by up to some percent of its room. It prints a table (go test ./bench -run StaleDigests -v).
func TestFanoutPricesOfStaleDigests(t *testing.T) {
	for _, cost := range []string{costs.Spread, costs.FillFirst} {
		for _, count := range []int{1, 10, 100} {
			line := ""
			for _, moved := range []int{0, 5, 20, 50} {
				sum := &priceSum{}
				for seed := range uint64(pricedSeeds) {
					sum.compareOn(t, seed, 10, cost, count, 2, moved)
				}
				n := float64(sum.requests)
				line += fmt.Sprintf(" | %.1f, %.2f, %.2f", float64(sum.lean)/n, sum.dearer/n, sum.worst)
				assert.LessOrEqual(t, sum.lean, sum.all, "asked")
			}
			t.Logf("%s, boots of %d; for rooms moved by 0, 5, 20 and 50 %%: asked, mean and worst price of a slot above all in worths of it%s", cost, count, line)
		}
	}
}

// priceSum adds up what was compared.
type priceSum struct {
	requests, lean, all int
	dearer, worst       float64
}

// pricedZone is a zone of a federation in memory. Its gateway is a call of its estimator.
type pricedZone struct {
	*estimate.Estimator
	id    api.ZoneID
	store *memstore.Store
	below map[api.LinkID]*pricedZone
	heard map[api.ZoneID]api.Digest
	full  []int // percent of each host that is used
}

var (
	_ estimate.Peers = (*pricedZone)(nil)
	_ zone.Digests   = (*pricedZone)(nil)
	_ estimate.Keys  = (*pricedZone)(nil)
)

// Ring implements estimate.Keys.
func (z *pricedZone) Ring(*state.State) (seal.Keyring, error) { return seal.Keyring{{}}, nil }

// Room implements estimate.Peers.
func (z *pricedZone) Room(context.Context, *api.Link, *api.RoomQuestion) (*api.RoomAnswer, error) {
	return nil, api.Errorf(api.CodeUnavailable, "not asked for")
}

// Digest implements zone.Digests.
func (z *pricedZone) Digest(id api.ZoneID) (api.Digest, time.Duration, bool) {
	d, ok := z.heard[id]
	return d, 0, ok
}

// newPricedZone returns a zone with hosts of which a part drawn at random is used.
func newPricedZone(t *testing.T, name, cost string, hosts int, dice *rand.Rand) *pricedZone {
	t.Helper()
	z := &pricedZone{id: api.ZoneID(name), store: memstore.New(), below: map[api.LinkID]*pricedZone{}, heard: map[api.ZoneID]api.Digest{}}
	z.store.Must(t, command.Init{Zone: z.id, Name: name, Config: api.ZoneConfig{Costs: []api.CostWeight{{Name: cost, Weight: 1}}}}, command.FlavorPut{Flavor: pricedFlavor})
	z.full = make([]int, hosts)
	full := dice.IntN(60)
	for n := range hosts {
		z.full[n] = full + dice.IntN(40)
	}
	z.fillHosts(t, 0)
	base := zone.New(zone.Config{Store: z.store, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	z.Estimator = estimate.New(estimate.Config{Zone: base, Peers: z, Digests: z, Keys: z})
	return z
}

// fillHosts makes its hosts fuller by some percent of their room.
func (z *pricedZone) fillHosts(t *testing.T, more int) {
	t.Helper()
	put := command.HostsPut{Agent: "agent"}
	for n, full := range z.full {
		used := int64(max(0, min(full+more, 95)))
		put.Hosts = append(put.Hosts, command.HostEntry{ID: api.HostID(fmt.Sprint(z.id, "-", n)), Host: api.AgentHost{
			Name: fmt.Sprint("host", n), Driver: "fake", Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 128}, api.MemoryMB: {Total: pricedMemory, Reserved: pricedMemory * used / 100}},
		}})
	}
	if len(put.Hosts) > 0 {
		z.store.Must(t, put)
	}
}

var pricedFlavor = api.Flavor{ID: "small", Name: "small", Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 4096}}

// Select implements estimate.Peers.
func (z *pricedZone) Select(ctx context.Context, l *api.Link, r *api.Request) (*api.SelectAnswer, error) {
	return z.below[l.ID].Estimator.Select(ctx, z.id, r)
}

// compareOn draws a federation, and requests at its root. The rooms of the children have moved by up to some
// percent since their digests.
func (s *priceSum) compareOn(t *testing.T, seed uint64, zones int, cost string, count, slack, moved int) {
	t.Helper()
	dice := rand.New(rand.NewPCG(seed, uint64(zones)))
	root := newPricedZone(t, "root", cost, 0, dice)
	for n := range zones {
		name := fmt.Sprint("zone", n)
		z, link := newPricedZone(t, name, cost, pricedHosts, dice), api.LinkID("link-"+name)
		root.store.Must(t, command.LinkPut{Link: api.Link{ID: link, Name: name, Role: api.LinkChild, Zone: z.id, Scale: 1, State: api.LinkActive}})
		z.store.Must(t, command.LinkPut{Link: api.Link{ID: link, Name: "parent", Role: api.LinkParent, Zone: root.id, Scale: 1, State: api.LinkActive}})
		root.below[link], root.heard[z.id] = z, *z.DigestOf(z.store.View())
	}
	if moved > 0 {
		for _, z := range slices.SortedFunc(maps.Values(root.below), func(a, b *pricedZone) int { return cmp.Compare(a.id, b.id) }) {
			z.fillHosts(t, dice.IntN(2*moved+1)-moved)
		}
	}
	for n := range pricedRequests {
		req := &api.Request{
			Reservation: api.ReservationID(fmt.Sprint("r", n)), Project: "p", Class: api.Firm, Window: api.Window{End: api.Forever},
			Groups: []api.Group{{Count: count, Min: count, Flavor: pricedFlavor.ID, Resources: pricedFlavor.Resources}},
		}
		all := root.estimate(t, api.FanoutRule{Mode: api.FanoutAll}, req, &s.all)
		lean := root.estimate(t, api.FanoutRule{Slack: slack}, req, &s.lean)
		require.Len(t, lean.Weights[0], len(all.Weights[0]))
		worth := float64(costs.Points(api.VCPU) + pricedFlavor.Resources[api.MemoryMB])
		above := float64(sumWeights(lean)-sumWeights(all)) / worth / float64(count)
		s.requests++
		s.dearer += above
		s.worst = max(s.worst, above)
	}
}

// estimate estimates a request with a rule, and adds up how many children are asked.
func (z *pricedZone) estimate(t *testing.T, rule api.FanoutRule, req *api.Request, asked *int) *api.SelectAnswer {
	t.Helper()
	c := z.store.View().Config
	c.Fanout = rule
	z.store.Must(t, command.ConfigSet{Config: c})
	a, err := z.Estimator.Select(t.Context(), "", req)
	require.NoError(t, err)
	*asked += countAsked(a.Zones)
	return a
}

// sumWeights adds up the weights of an answer.
func sumWeights(a *api.SelectAnswer) (sum int64) {
	for _, w := range a.Weights[0] {
		sum += w
	}
	return sum
}
