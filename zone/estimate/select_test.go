package estimate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// TestSelectWithBadChildren has one child answer, and others be late, fail, be
// paused or give nonsense (case 63): the answer comes within the deadline, with
// the slots of the good one, and tells of each of the others.
func TestSelectWithBadChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 1)
		for _, n := range []string{"good", "late", "broken", "paused", "shut"} {
			w.Zone(n, root, 2)
		}
		paused := api.LinkPaused
		root.Do(command.LinkSet{ID: "link-paused", State: &paused})
		w.Zones[5].Do(command.LinkSet{ID: "link-shut", State: &paused}) // by its own operator
		w.When(func(now zonetest.Call) zonetest.Fault {
			switch now.To {
			case "late":
				return zonetest.Silenced
			case "broken":
				return zonetest.Refused
			}
			return ""
		})
		began := time.Now()
		const budget = 2 * time.Second
		a := root.Pick(11, budget)
		assert.LessOrEqual(t, time.Since(began), budget-api.HopReserve, "a part of the budget is kept to answer with")
		got, offered := zonetest.OutcomesOf(a)
		assert.Equal(t, map[string]string{
			"root": api.OutcomeAnswered, "good": api.OutcomeAnswered, "late": api.OutcomeLate,
			"broken": api.OutcomeFailed, "paused": api.OutcomePaused, "shut": api.OutcomePaused,
		}, got)
		assert.Equal(t, 3, offered)
		assert.Len(t, a.Weights[0], 3)
		assert.Zero(t, w.Made("select", "root", "paused"))
	})
}

// TestSelectBelowABadChild has a grandchild be late: each hop keeps its reserve,
// so the child between still answers in time.
func TestSelectBelowABadChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root, _, _ := zonetest.Three(w)
		w.When(func(now zonetest.Call) zonetest.Fault {
			if now.To == "leaf" {
				return zonetest.Vanished
			}
			return ""
		})
		began := time.Now()
		got, offered := zonetest.OutcomesOf(root.Pick(6, api.SelectTimeout))
		assert.Equal(t, map[string]string{"root": api.OutcomeAnswered, "mid": api.OutcomeAnswered}, got)
		assert.Equal(t, 4, offered)
		assert.LessOrEqual(t, time.Since(began), api.SelectTimeout-2*api.HopReserve)
	})
}

// TestDigestsPrune shows which children a digest keeps from being asked.
func TestDigestsPrune(t *testing.T) {
	room := func(free, largest int64) api.Digest {
		return api.Digest{Classes: map[api.ResourceClass]api.ClassTotals{
			api.VCPU:     {Total: 8, Free: free, SlotMax: largest},
			api.MemoryMB: {Total: 8192, Free: 8192, SlotMax: 8192},
		}}
	}
	partial := room(0, 0)
	partial.Partial = true
	sketched := room(8, 8)
	sketched.Sketches = []api.FitSketch{{Flavor: zonetest.Flavor.ID, Resources: zonetest.Flavor.Resources}}
	own := room(8, 8)
	own.Paused = true
	for _, c := range []struct {
		name    string
		digest  api.Digest
		age     time.Duration
		want    int // wanted slots; the root has 1 and the child 2
		outcome string
	}{
		{"room", room(8, 8), 0, 3, api.OutcomeAnswered},
		{"full, and not needed", room(0, 8), 0, 1, api.OutcomeSkipped},
		{"full it says, but needed", room(0, 8), 0, 3, api.OutcomeAnswered},
		{"fragmented, and not needed", sketched, 0, 1, api.OutcomeSkipped},
		{"fragmented it says, but needed", sketched, 0, 3, api.OutcomeAnswered},
		{"never fits, and not needed", room(8, 0), 0, 1, api.OutcomeSkipped},
		{"never fits it says, but needed", room(8, 0), 0, 3, api.OutcomeAnswered},
		{"never fits, but too old to say", room(8, 0), digestAgeMax + 1, 1, api.OutcomeAnswered},
		{"never fits, as old as may be", room(8, 0), digestAgeMax, 1, api.OutcomeSkipped},
		{"a part was not heard", partial, 0, 1, api.OutcomeAnswered},
		{"paused", own, 0, 3, api.OutcomePaused},
		{"no hosts yet, and not needed", api.Digest{}, 0, 1, api.OutcomeSkipped},
		{"no hosts yet it says, but needed", api.Digest{}, 0, 3, api.OutcomeAnswered},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 1)
				kid := w.Zone("kid", root, 2)
				w.Tell(kid.Name, c.digest, c.age)
				got, _ := zonetest.OutcomesOf(root.Pick(c.want, api.SelectTimeout))
				assert.Equal(t, c.outcome, got["kid"])
				asked := 0
				if c.outcome == api.OutcomeAnswered {
					asked = 1
				}
				assert.Equal(t, asked, w.Made("select", "root", "kid"))
			})
		})
	}
}

// TestStaleDigestCostsNoBoot boots into a child whose digest says that it is full.
func TestStaleDigestCostsNoBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 1)
		kid := w.Zone("kid", root, 2)
		w.Tell(kid.Name, api.Digest{Classes: map[api.ResourceClass]api.ClassTotals{
			api.VCPU: {Total: 2, SlotMax: 2}, api.MemoryMB: {Total: 2048, SlotMax: 2048},
		}}, 0)
		assert.Equal(t, api.BootActive, root.Run(zonetest.Order("b", 3, 3)).State())
		w.Settle()
	})
}

// TestStaleDigestNeverRefuses boots into a grandchild that has just got what the
// boot needs, while the digests on both levels still say that nothing like it ever
// fits below. A child that the request itself excludes is not asked for that.
func TestStaleDigestNeverRefuses(t *testing.T) {
	small := api.Digest{
		Classes: map[api.ResourceClass]api.ClassTotals{
			api.VCPU: {Total: 2, Free: 2, SlotMax: 1}, api.MemoryMB: {Total: 2048, Free: 2048, SlotMax: 1024},
		},
		AZs: []string{"az1"},
	}
	large := &api.Flavor{ID: "large", Name: "large", Resources: api.Resources{api.VCPU: 4}}
	for name, edit := range map[string]func(*api.Request){
		"a trait":       func(r *api.Request) { r.Groups[0].Traits.Required = []string{"CUSTOM_NEW"} },
		"a zone":        func(r *api.Request) { r.Groups[0].AZ = "leaf" },
		"a larger host": func(r *api.Request) { r.Groups[0] = zonetest.OfFlavor(r.Groups[0], large) },
		"a tag":         func(r *api.Request) { r.Zones.AllowedTags = []string{"new"} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root, mid, leaf := zonetest.Three(w)
				other := w.Zone("other", root, 2)
				h := leaf.IdleAgent("", 4).Hosts()[0]
				h.Traits = []string{"CUSTOM_NEW"}
				leaf.Do(command.HostsPut{Agent: "agent-leaf", Hosts: []command.HostEntry{{Host: h}}})
				leaf.Configure(func(c *api.ZoneConfig) { c.Tags = []string{"new"} })
				for _, m := range []*zonetest.Member{mid, leaf, other} {
					w.Tell(m.Name, small, 0)
				}
				o := zonetest.Order("b", 1, 1)
				o.Request.Zones.Excluded = []string{"other"}
				edit(&o.Request)
				b := root.Run(o)
				assert.Equal(t, api.BootActive, b.State(), b.Reason)
				assert.Len(t, b.Attempts, 1)
				assert.Zero(t, w.Made("select", "root", "other"))
				w.Settle()
			})
		})
	}
}

// TestWeightsAreQuantised says of the weights that leave a zone no more than
// their multiple of estimate.WeightQuantum; links then adjust them.
func TestWeightsAreQuantised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kid := w.Zone("kid", root, 1, 2, 3)
		offset, scale := int64(-1000), int64(3)
		root.Do(command.LinkSet{ID: "link-kid", Offset: &offset, Scale: &scale})
		odd := kid.IdleAgent("", 1)
		h := odd.Hosts()[0]
		h.Inventory[api.MemoryMB] = api.Inventory{Total: 1001}
		kid.Do(command.HostsPut{Agent: odd.ID(), Hosts: []command.HostEntry{{Host: h}}})

		link, _ := kid.View().Parent()
		req := zonetest.Order("b", 6, 6).Request
		a, err := kid.Lead().Select(t.Context(), link.Zone, &req)
		require.NoError(t, err)
		assert.Equal(t, []int64{960, 2048, 1792, 3072, 2816, 2560}, a.Weights[0])
		assert.Equal(t, []int64{1856, 5120, 4352, 8192, 7424, 6656}, root.Pick(6, api.SelectTimeout).Weights[0])
	})
}

// TestSealedPlanIsBound presents a plan in every other context than the one it
// was sealed for: each refusal has one code and one sentence.
func TestSealedPlanIsBound(t *testing.T) {
	for _, c := range []struct {
		name  string
		twist func(r *api.HoldRequest, l *api.Link)
	}{
		{"project", func(r *api.HoldRequest, _ *api.Link) { r.Request.Project = "other" }},
		{"reservation", func(r *api.HoldRequest, _ *api.Link) { r.Request.Reservation = "other" }},
		{"user", func(r *api.HoldRequest, _ *api.Link) { r.Request.User = "other" }},
		{"count", func(r *api.HoldRequest, _ *api.Link) { r.Request.Groups[0].Count++ }},
		{"resources", func(r *api.HoldRequest, _ *api.Link) { r.Request.Groups[0].Resources = api.Resources{api.VCPU: 1} }},
		{"flavor", func(r *api.HoldRequest, _ *api.Link) { r.Request.Groups[0].Flavor = "large" }},
		{"window", func(r *api.HoldRequest, _ *api.Link) { r.Request.Window.Start++ }},
		{"lifetime", func(r *api.HoldRequest, _ *api.Link) { r.Request.Lifetime = time.Hour }},
		{"peer", func(_ *api.HoldRequest, l *api.Link) { l.Zone = "zone-other" }},
		{"no blob", func(r *api.HoldRequest, _ *api.Link) { r.Blob = nil }},
		{"a byte", func(r *api.HoldRequest, _ *api.Link) { r.Blob[len(r.Blob)/2] ^= 1 }},
		{"more than offered", func(r *api.HoldRequest, _ *api.Link) { r.Instances[0] = zonetest.Specs("b", 3) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				kid, link, r := zonetest.SelectedHold(w, 2)
				r, l := zonetest.Spelt(r), *link
				c.twist(r, &l)
				_, err := kid.Lead().Hold(t.Context(), &l, r)
				assert.Equal(t, api.CodePlanRefused, api.CodeOf(err))
				assert.Equal(t, api.PlanRefusedMessage, api.MessageOf(err))
				assert.Zero(t, kid.Used())
				assert.Empty(t, kid.View().Holds(), "a refused call changes nothing")
			})
		})
	}
}

// TestSealedPlanOfAnotherZone presents a child's plan to its sibling, and a
// caller's own plan to the parent's door.
func TestSealedPlanOfAnotherZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		kid, link, r := zonetest.SelectedHold(w, 2)
		other := w.Zone("other", w.Zones[0], 2)
		back, _ := other.View().Parent()
		_, err := other.Lead().Hold(t.Context(), back, r)
		assert.Equal(t, api.CodePlanRefused, api.CodeOf(err))

		r.Blob = kid.Pick(2, api.SelectTimeout).Blob
		_, err = kid.Lead().Hold(t.Context(), link, r)
		assert.Equal(t, api.CodePlanRefused, api.CodeOf(err))
	})
}

// TestSealedPlanExpires takes a plan up at the last moment, and one too late.
func TestSealedPlanExpires(t *testing.T) {
	for _, late := range []time.Duration{-time.Millisecond, 0} {
		synctest.Test(t, func(t *testing.T) {
			w := zonetest.NewWorld(t)
			kid, link, r := zonetest.SelectedHold(w, 2)
			await.Sleep(api.PlanTTLDefault + late)
			_, err := kid.Lead().Hold(t.Context(), link, r)
			if late < 0 {
				require.NoError(t, err)
				await.Sleep(time.Hour)
				_, err = kid.Lead().Hold(t.Context(), link, r)
				assert.NoError(t, err, "a repeat of what was taken up is not late")
				return
			}
			assert.Equal(t, api.CodePlanRefused, api.CodeOf(err))
			assert.Zero(t, kid.Used())
		})
	}
}
