package estimate_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/costs"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// fanOut configures which children a zone asks.
func fanOut(m *zonetest.Member, mode api.FanoutMode, slack int) {
	m.Configure(func(c *api.ZoneConfig) { c.Fanout = api.FanoutRule{Mode: mode, Slack: slack} })
}

// countAsked returns how many children a zone has asked for offers.
func countAsked(w *zonetest.World, from string) (n int) {
	for c, times := range w.AllMade() {
		if c.Op == "select" && c.From == from {
			n += times
		}
	}
	return n
}

// outcomeIn returns how a zone took part, and why.
func outcomeIn(a *api.SelectAnswer, name string) string {
	i := slices.IndexFunc(a.Zones, func(z api.ZoneOutcome) bool { return z.Zone == name })
	return a.Zones[i].Outcome + " " + a.Zones[i].Reason
}

const sparedOutcome = "skipped not asked: cheaper zones had enough"

// TestLeanFanoutAsksEnough: children are asked, the cheapest first, until they have room for slack times
// what is needed, and not one more.
func TestLeanFanoutAsksEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		for i := range 4 {
			w.Zone(fmt.Sprint("kid", i), root, 8) // room for 8 each, at the same price
		}
		w.HearAll()
		for _, c := range []struct{ slack, count, asks int }{
			{1, 8, 1}, {1, 9, 2}, {2, 4, 1}, {2, 5, 2}, {2, 8, 2}, {2, 9, 3}, {8, 4, 4}, {8, 1, 1},
		} {
			fanOut(root, api.FanoutLean, c.slack)
			before := countAsked(w, "root")
			_, offered := zonetest.OutcomesOf(root.Pick(c.count, api.SelectTimeout))
			assert.GreaterOrEqual(t, offered, c.count)
			assert.Equal(t, c.asks, countAsked(w, "root")-before, "slack %d, %d wanted", c.slack, c.count)
		}
		fanOut(root, api.FanoutAll, 0)
		before := countAsked(w, "root")
		root.Pick(1, api.SelectTimeout)
		assert.Equal(t, 4, countAsked(w, "root")-before)
	})
}

// TestLeanFanoutAsksTheCheapest: by what their digests say, adjusted by the links, and this zone's own
// hosts come first if they are cheaper. The others are named with the reason.
func TestLeanFanoutAsksTheCheapest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 20)
		w.Zone("dear", root, 40)
		w.Zone("cheap", root, 30)
		offset := int64(-100_000)
		root.Do(command.LinkSet{ID: "link-cheap", Offset: &offset})
		w.HearAll()
		a := root.Pick(2, api.SelectTimeout)
		assert.Equal(t, []string{"answered ", sparedOutcome, "answered "}, []string{outcomeIn(a, "root"), outcomeIn(a, "dear"), outcomeIn(a, "cheap")})
		offset = 0
		root.Do(command.LinkSet{ID: "link-cheap", Offset: &offset})
		a = root.Pick(2, api.SelectTimeout)
		assert.Equal(t, []string{"answered ", sparedOutcome, sparedOutcome}, []string{outcomeIn(a, "root"), outcomeIn(a, "dear"), outcomeIn(a, "cheap")},
			"the fullest host is cheapest, and it is here")
		assert.Equal(t, 1, countAsked(w, "root"))
	})
}

// TestLeanFanoutSpreads: of children at the same price it depends on the reservation which one is asked,
// and on nothing else.
func TestLeanFanoutSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		const kids, boots = 5, 100
		for i := range kids {
			w.Zone(fmt.Sprint("kid", i), root, 8)
		}
		w.HearAll()
		took := map[string]int{}
		for i := range boots {
			var first string
			for range 2 {
				req := zonetest.Order(fmt.Sprint("b", i), 1, 1).Request
				a, err := root.Lead().Select(t.Context(), "", &req)
				require.NoError(t, err)
				at := slices.IndexFunc(a.Zones, func(z api.ZoneOutcome) bool { return z.Taken == 1 })
				first = cmp.Or(first, a.Zones[at].Zone)
				require.Equal(t, first, a.Zones[at].Zone)
			}
			took[first]++
		}
		for name, n := range took {
			assert.InDelta(t, boots/kids, n, boots/kids/2, name)
		}
		assert.Len(t, took, kids)
	})
}

// TestEqualOffersAreSpread: also when all children are asked, requests at the same time take equal offers of
// different children, so that they do not take the same hosts.
func TestEqualOffersAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		const kids, boots = 4, 120
		for i := range kids {
			w.Zone(fmt.Sprint("kid", i), root, slices.Repeat([]int64{1}, boots/2)...) // hosts that are as good as each other
		}
		fanOut(root, api.FanoutAll, 0)
		w.Delay(func(zonetest.Call) time.Duration { return 20 * time.Millisecond })
		for i := range boots {
			root.Boot(zonetest.Order(fmt.Sprint("b", i), 1, 1))
		}
		attempts := 0
		for i := range boots {
			b := root.Outcome(fmt.Sprint("b", i))
			require.Equal(t, api.BootActive, b.State())
			attempts += b.Tried()
		}
		for _, kid := range w.Zones[1:] {
			assert.InDelta(t, boots/kids, kid.Used(), boots/kids/2, kid.Name)
		}
		assert.Equal(t, boots, attempts, "nothing was refused")
	})
}

// Limits of a lean fan-out whose cheapest child is slow.
const (
	fanoutPatienceMin = 100 * time.Millisecond // before others are asked, if a child usually answers at once
	fanoutPatience    = 300 * time.Millisecond // the same at the most
	fanoutGiveUp      = 3                      // times that, before it is done without
)

// TestLeanFanoutWithASlowChild: further children are asked as soon as a child takes much longer than usual; its
// answer counts if it comes before it is given up, and it is given up only if the others have enough.
func TestLeanFanoutWithASlowChild(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		usual, takes time.Duration
		count, asks  int
		after        time.Duration
		used         bool // the slots of the slow child
	}{
		"it is in time":                 {0, fanoutPatienceMin - 2*ms, 1, 1, fanoutPatienceMin - 2*ms, true},
		"it is slower than usual":       {0, fanoutPatienceMin + 2*ms, 1, 3, fanoutPatienceMin + 2*ms, true},
		"it is in time for one so slow": {20 * ms, 158 * ms, 1, 1, 158 * ms, true},
		"it is slower than one so slow": {20 * ms, 162 * ms, 1, 3, 162 * ms, true},
		"it is in time for the slowest": {200 * ms, fanoutPatience - 2*ms, 1, 1, fanoutPatience - 2*ms, true},
		"it is slower than the slowest": {200 * ms, fanoutPatience + 2*ms, 1, 3, fanoutPatience + 2*ms, true},
		"it is hardly in time":          {0, fanoutGiveUp*fanoutPatienceMin - 2*ms, 1, 3, fanoutGiveUp*fanoutPatienceMin - 2*ms, true},
		"it is hardly too late":         {0, fanoutGiveUp*fanoutPatienceMin + 2*ms, 1, 3, fanoutGiveUp * fanoutPatienceMin, false},
		"it hangs":                      {0, time.Hour, 1, 3, fanoutGiveUp * fanoutPatienceMin, false},
		"it hangs and all are needed":   {0, time.Hour, 50, 5, api.SelectTimeout - api.HopReserve, false}, // two again for more
		"it is late and all are needed": {0, 4 * time.Second, 50, 3, 4 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				w.Zone("cheap", root, 4)
				w.Zone("next", root, 16)
				w.Zone("last", root, 32)
				w.HearAll()
				fanOut(root, api.FanoutLean, 1)
				takes := func(d time.Duration) {
					w.Delay(func(now zonetest.Call) time.Duration {
						if now.Op == "select" && now.To == "cheap" {
							return d / 2
						}
						return 0
					})
				}
				takes(c.usual)
				root.Pick(1, api.SelectTimeout)
				w.HearAll()
				takes(c.takes)
				before, began := countAsked(w, "root"), time.Now()
				a := root.Pick(c.count, api.SelectTimeout)
				assert.Equal(t, c.after, time.Since(began))
				assert.Equal(t, c.asks, countAsked(w, "root")-before)
				for _, z := range a.Zones {
					if z.Zone == "cheap" {
						assert.Equal(t, c.used, z.Taken > 0, "%+v", z)
					}
				}
			})
		})
	}
}

// TestLeanFanoutAsksMore: further children are asked when the first ones have less than they said, when
// they are dearer than they said, or when they are slow.
func TestLeanFanoutAsksMore(t *testing.T) {
	for name, c := range map[string]struct {
		count  int
		spoil  func(w *zonetest.World, cheap *zonetest.Member)
		asks   int
		within time.Duration
	}{
		"nothing is wrong": {1, func(*zonetest.World, *zonetest.Member) {}, 1, 0},
		"it is full": {1, func(_ *zonetest.World, cheap *zonetest.Member) {
			cheap.Run(zonetest.Order("other", 4, 4))
		}, 2, 0},
		"it has less": {4, func(_ *zonetest.World, cheap *zonetest.Member) {
			cheap.Run(zonetest.Order("other", 1, 1))
		}, 2, 0},
		"it is dearer": {1, func(w *zonetest.World, _ *zonetest.Member) {
			w.Twist("cheap", func(a *api.SelectAnswer) { a.Weights[0][0] += 50_000 })
		}, 2, 0},
		"it is a little dearer": {1, func(w *zonetest.World, _ *zonetest.Member) {
			w.Twist("cheap", func(a *api.SelectAnswer) { a.Weights[0][0] += 1_000 })
		}, 1, 0},
		"it does not answer": {1, func(w *zonetest.World, _ *zonetest.Member) {
			w.When(func(now zonetest.Call) zonetest.Fault {
				if now.To == "cheap" {
					return zonetest.Silenced
				}
				return ""
			})
		}, 3, fanoutGiveUp * fanoutPatience},
		"it refuses": {1, func(w *zonetest.World, _ *zonetest.Member) {
			w.When(func(now zonetest.Call) zonetest.Fault {
				if now.To == "cheap" {
					return zonetest.Refused
				}
				return ""
			})
		}, 2, 0},
		"all are full": {1, func(w *zonetest.World, cheap *zonetest.Member) {
			for _, m := range w.Zones[2:] {
				m.Run(zonetest.Order("other", 8, 99))
			}
			cheap.Run(zonetest.Order("other", 3, 3))
			w.Twist("cheap", func(a *api.SelectAnswer) { a.Weights[0][0] += 50_000 })
		}, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				cheap := w.Zone("cheap", root, 4)
				w.Zone("next", root, 16)
				w.Zone("last", root, 32)
				w.HearAll()
				fanOut(root, api.FanoutLean, 1)
				c.spoil(w, cheap)
				before, began := countAsked(w, "root"), time.Now()
				_, offered := zonetest.OutcomesOf(root.Pick(c.count, api.SelectTimeout))
				assert.GreaterOrEqual(t, offered, c.count)
				assert.Equal(t, c.asks, countAsked(w, "root")-before)
				assert.LessOrEqual(t, time.Since(began), c.within)
				w.When(nil)
			})
		})
	}
}

// TestLeanFanoutNeedsToKnow: children are left out only where what their digests say is enough to decide
// by; of min_zones more than that are asked.
func TestLeanFanoutNeedsToKnow(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*api.Request)
		hear func(w *zonetest.World, kids []*zonetest.Member)
		asks int
	}{
		"plain":            {nil, nil, 1},
		"a shape without":  {func(r *api.Request) { r.Groups[0].Resources = api.Resources{api.VCPU: 2} }, nil, 4},
		"two shapes":       {func(r *api.Request) { r.Groups = append(r.Groups, zonetest.Group("b", 1, 1)) }, nil, 1},
		"preemptible":      {func(r *api.Request) { r.Class = api.Preemptible }, nil, 4},
		"preempting":       {func(r *api.Request) { r.Preempt = true }, nil, 4},
		"a lifetime":       {func(r *api.Request) { r.Lifetime = time.Hour }, nil, 4},
		"anti-affinity":    {func(r *api.Request) { r.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}} }, nil, 4},
		"tags":             {func(r *api.Request) { r.Zones.ExcludedTags = []string{"x"} }, nil, 4},
		"skew":             {func(r *api.Request) { r.Zones.MaxSkew = 1 }, nil, 4},
		"pack":             {func(r *api.Request) { r.Zones.Pack = true }, nil, 4},
		"two zones":        {func(r *api.Request) { r.Groups[0].Count, r.Groups[0].Min, r.Zones.MinZones = 2, 2, 2 }, nil, 3},
		"an excluded zone": {func(r *api.Request) { r.Zones.Excluded = []string{"kid0"} }, nil, 1},
		"old": {nil, func(w *zonetest.World, kids []*zonetest.Member) {
			for _, k := range kids {
				w.Hear(k, digestAgeMax+1)
			}
		}, 4},
		"as old as may be": {nil, func(w *zonetest.World, kids []*zonetest.Member) {
			for _, k := range kids {
				w.Hear(k, digestAgeMax)
			}
		}, 1},
		"not heard": {nil, func(w *zonetest.World, kids []*zonetest.Member) {
			for _, k := range kids {
				w.Untell(k.Name)
			}
		}, 4},
		"no prices": {nil, func(w *zonetest.World, kids []*zonetest.Member) {
			for _, k := range kids {
				w.Tell(k.Name, k.Lead().Digest().WithoutPrices(), 0)
			}
		}, 4},
		"one is partial": {nil, func(w *zonetest.World, kids []*zonetest.Member) {
			d := *kids[3].Lead().Digest()
			d.Partial = true
			w.Tell(kids[3].Name, d, 0)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				var kids []*zonetest.Member
				for i := range 4 {
					kids = append(kids, w.Zone(fmt.Sprint("kid", i), root, 64))
				}
				w.HearAll()
				if c.hear != nil {
					c.hear(w, kids)
				}
				req := zonetest.Order("b", 1, 1).Request
				if c.edit != nil {
					c.edit(&req)
				}
				a, err := root.Lead().Select(t.Context(), "", &req)
				require.NoError(t, err)
				assert.Equal(t, c.asks, countAsked(w, "root"), "%v", a.Zones)
			})
		})
	}
}

// TestPricesOfDigests: they are the weights that a zone's parent would be told, of the zone and all below
// it, and multiples of what weights are rounded to.
func TestPricesOfDigests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root, mid, leaf := zonetest.Three(w)
		priceOf := func(m *zonetest.Member) *int64 {
			w.HearAll()
			return m.Lead().Digest().Sketches[0].Price
		}
		for _, offset := range []int64{0, -3000, 3000, -3001} {
			mid.Do(command.LinkSet{ID: "link-leaf", Offset: &offset})
			for _, m := range []*zonetest.Member{mid, leaf} {
				l, _ := m.View().Parent()
				req := zonetest.Order("b", 1, 1).Request
				a, err := m.Lead().Select(t.Context(), l.Zone, &req)
				require.NoError(t, err)
				price := priceOf(m)
				assert.Equal(t, a.Weights[0][0], *price, "%s with %d", m.Name, offset)
				assert.Zero(t, *price%64)
			}
		}
		req := zonetest.Order("all", 1, 99).Request
		a, err := root.Lead().Select(t.Context(), "", &req)
		require.NoError(t, err)
		_, room := zonetest.OutcomesOf(a)
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("b", room, room)).State())
		assert.Nil(t, priceOf(root), "there is no slot to have a price")
		root.Release("b")
		w.Settle()
		assert.NotNil(t, priceOf(root))
		w.Tell(leaf.Name, leaf.Lead().Digest().WithoutPrices(), 0)
		assert.Nil(t, mid.Lead().Digest().Sketches[0].Price, "a part of the zone has none")
	})
}

// fanoutSeeds is how many random federations the oracle is tried on.
const fanoutSeeds = 60

// TestLeanFanoutAgreesWithAll compares with asking all, on random trees with digests that are up to date,
// stale, partial, false or missing: it never has fewer slots, of any group. What it costs is measured in
// package bench.
func TestLeanFanoutAgreesWithAll(t *testing.T) {
	var sum fanoutSum
	seeds := zonetest.Few(fanoutSeeds, fanoutSeeds/8)
	for _, seed := range dice.Seeds(t, seeds) {
		synctest.Test(t, func(t *testing.T) { compareFanouts(t, seed, &sum) })
	}
	t.Logf("%+v", sum)
	if testing.Short() {
		return
	}
	assert.Greater(t, sum.short, seeds/2, "requests that nobody can meet in full")
	assert.Greater(t, sum.fewer, sum.requests/4, "requests for which fewer zones were asked")
	assert.Positive(t, sum.dearer)
}

// fanoutSum counts what was compared.
type fanoutSum struct{ requests, all, lean, fewer, short, dearer int }

func compareFanouts(t *testing.T, seed uint64, sum *fanoutSum) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 11))
	w := zonetest.NewWorld(t)
	var own []int64
	if rnd.IntN(3) == 0 {
		own = []int64{1 + rnd.Int64N(16), 1 + rnd.Int64N(16)}
	}
	root := w.Zone("root", nil, own...)
	parents := []*zonetest.Member{root}
	for i := range 3 + rnd.IntN(6) {
		m := w.Zone(fmt.Sprint("zone", i), parents[rnd.IntN(min(len(parents), 2))], hostsDrawn(rnd)...)
		parents = append(parents, m)
	}
	for _, m := range w.Zones {
		m.Configure(func(c *api.ZoneConfig) {
			c.Costs = []api.CostWeight{{Name: []string{costs.FillFirst, costs.Spread}[rnd.IntN(2)], Weight: 1}}
		})
		for _, l := range m.View().Children() {
			if rnd.IntN(3) == 0 {
				offset, scale := rnd.Int64N(20_000)-10_000, 1+rnd.Int64N(2)
				m.Do(command.LinkSet{ID: l.ID, Offset: &offset, Scale: &scale})
			}
		}
	}
	w.HearAll()
	if rnd.IntN(3) > 0 {
		spoilDigests(w, rnd)
	}
	slack := 1 + rnd.IntN(4)
	for n := range 8 {
		req := drawFanoutRequest(rnd, fmt.Sprint("b", n))
		answers, asks := map[api.FanoutMode]*api.SelectAnswer{}, map[api.FanoutMode]int{}
		for _, mode := range []api.FanoutMode{api.FanoutAll, api.FanoutLean} {
			for _, m := range w.Zones {
				fanOut(m, mode, slack)
			}
			its, before := *req, totalCalls(w, "select")
			a, err := root.Lead().Select(t.Context(), "", &its)
			require.NoError(t, err)
			answers[mode], asks[mode] = a, totalCalls(w, "select")-before
		}
		all, lean := answers[api.FanoutAll], answers[api.FanoutLean]
		sum.requests++
		sum.all += asks[api.FanoutAll]
		sum.lean += asks[api.FanoutLean]
		if asks[api.FanoutLean] < asks[api.FanoutAll] {
			sum.fewer++
		}
		for g := range req.Groups {
			require.Len(t, lean.Weights[g], len(all.Weights[g]), "seed %d, request %d, group %d: %v", seed, n, g, lean.Zones)
			if len(all.Weights[g]) < req.Groups[g].Count {
				sum.short++
			}
			if costOf(lean.Weights[g]) > costOf(all.Weights[g]) {
				sum.dearer++
			}
		}
		if n%3 == 2 { // the digests that are known get older
			root.Run(zonetest.Order(fmt.Sprint("real", n), 1, 1+rnd.IntN(4)))
		}
	}
	w.Settle()
}

// costOf adds up weights.
func costOf(weights []int64) (sum int64) {
	for _, w := range weights {
		sum += w
	}
	return sum
}

// totalCalls returns how many calls of a kind were made between any two zones.
func totalCalls(w *zonetest.World, op string) (n int) {
	for c, times := range w.AllMade() {
		if c.Op == op {
			n += times
		}
	}
	return n
}

func hostsDrawn(rnd *rand.Rand) []int64 {
	out := make([]int64, 1+rnd.IntN(3))
	for i := range out {
		out[i] = 1 + rnd.Int64N(24)
	}
	return out
}

// drawFanoutRequest draws a request that a lean fan-out may be used for, most of the time.
func drawFanoutRequest(rnd *rand.Rand, name string) *api.Request {
	n := 1 + rnd.IntN(12)
	if rnd.IntN(4) == 0 {
		n = 1 + rnd.IntN(120)
	}
	req := zonetest.Order(name, rnd.IntN(n+1), n).Request
	if rnd.IntN(4) == 0 {
		m := 1 + rnd.IntN(8)
		req.Groups[0].Name = "a"
		req.Groups = append(req.Groups, zonetest.Group("b", rnd.IntN(m+1), m))
	}
	switch rnd.IntN(5) {
	case 0:
		req.Zones.MinZones = min(1+rnd.IntN(4), req.Count())
	case 1:
		req.Zones.Excluded = []string{fmt.Sprint("zone", rnd.IntN(4))}
	case 2:
		req.Groups[0].AZ = fmt.Sprint("zone", rnd.IntN(4))
	}
	return &req
}

// spoilDigests makes the digests that are known say something else, or nothing.
func spoilDigests(w *zonetest.World, rnd *rand.Rand) {
	for _, m := range w.Zones {
		d, age, ok := w.Heard(m.Name)
		if !ok {
			continue
		}
		d.Sketches = slices.Clone(d.Sketches)
		s := &d.Sketches[0]
		switch rnd.IntN(10) {
		case 0:
			age = time.Hour
		case 1:
			d.Partial = true
		case 2, 7, 8:
			s.Fits = 1 << rnd.IntN(11)
		case 3:
			s.Fits, s.Price = 0, nil
		case 4:
			s.Price = new(rnd.Int64N(1<<20) - 1<<19)
		case 5:
			s.Price = nil
		case 6:
			w.Untell(m.Name)
			continue
		}
		w.Tell(m.Name, d, age)
	}
}
