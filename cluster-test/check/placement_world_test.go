package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// The names that random calls of the placement API use.
var (
	wantedClasses    = []api.ResourceClass{api.VCPU, api.DiskGB, "CUSTOM_A", "CUSTOM_B"}
	wantedTraits     = []string{api.TraitShares, "HW_CPU_X86_VMX", "CUSTOM_T"}
	wantedAggregates = []string{"11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"}
)

// share makes a pool that some hosts share, and a part of another one.
func (w *world) share() {
	sets, traits := wantedAggregates[:1], wantedTraits[:1]
	give := func(n int64) *map[api.ResourceClass]api.Inventory {
		return &map[api.ResourceClass]api.Inventory{"CUSTOM_A": {Total: n}, api.DiskGB: {Total: 10 * n}}
	}
	w.add(command.ClassPut{Stamp: w.stamp(), Name: "CUSTOM_A"})
	w.add(command.ProviderCreate{Stamp: w.stamp(), ID: "p0", Name: "p0"})
	w.add(command.ProviderSet{Stamp: w.stamp(), ID: "p0", Inventory: give(12), Traits: &traits, Aggregates: &sets})
	for _, id := range []api.ProviderID{"h0", "h1", "h2"} {
		w.add(command.ProviderSet{Stamp: w.stamp(), ID: id, Aggregates: &sets})
	}
	w.add(command.ProviderCreate{Stamp: w.stamp(), ID: "p1", Name: "p1", Parent: "h3"})
	w.add(command.ProviderSet{Stamp: w.stamp(), ID: "p1", Inventory: give(4)})
}

// placement returns a random call of the placement API.
func (w *world) placement() command.Command {
	switch w.roll(16) {
	case 0, 1:
		name := fmt.Sprint("p", w.roll(8))
		c := command.ProviderCreate{Stamp: w.stamp(), ID: api.ProviderID(name), Name: name}
		if w.roll(2) == 0 {
			c.Parent = w.provider()
		}
		return c
	case 2, 3, 4, 5:
		return w.providerSet()
	case 6:
		return command.ProviderDelete{Stamp: w.stamp(), ID: w.provider()}
	case 7:
		return command.ClassPut{Stamp: w.stamp(), Name: pick[api.ResourceClass](w, "CUSTOM_A", "CUSTOM_B"), Was: pick[api.ResourceClass](w, "", "", "CUSTOM_A")}
	case 8:
		if at := w.stamp(); at.At%3 == 0 {
			return command.PropertySet{Stamp: at, ID: fmt.Sprint("property-", at.At), Name: []string{"gpu", "rack", ""}[at.At/3%3], Private: at.At%2 == 0}
		}
		return command.TraitPut{Stamp: w.stamp(), Name: "CUSTOM_T"}
	case 9:
		if w.roll(2) == 0 {
			return command.ClassDelete{Stamp: w.stamp(), Name: pick(w, append([]api.ResourceClass{"CUSTOM_A", "CUSTOM_B"}, wantedClasses...)...)}
		}
		return command.TraitDelete{Stamp: w.stamp(), Name: pick(w, wantedTraits...)}
	case 10:
		return command.ConsumerDelete{Stamp: w.stamp(), ID: w.consumer()}
	}
	return w.consumersPut()
}

func (w *world) provider() api.ProviderID {
	if w.roll(3) == 0 {
		return w.hostID()
	}
	return api.ProviderID(fmt.Sprint("p", w.roll(8)))
}

func (w *world) consumer() api.ConsumerID {
	if w.roll(12) == 0 {
		return w.instance()
	}
	return api.ConsumerID(fmt.Sprint("k", w.roll(12)))
}

// some returns a random part of a list, in order.
func some[T any](w *world, of []T) []T {
	return slices.DeleteFunc(slices.Clone(of), func(T) bool { return w.roll(2) == 0 })
}

func (w *world) providerSet() command.ProviderSet {
	c := command.ProviderSet{Stamp: w.stamp(), ID: w.provider(), Bump: w.roll(2) == 0}
	now, ok := w.s.Provider(c.ID)
	if !ok {
		now = &api.Provider{}
	}
	if w.roll(2) == 0 {
		g := now.Generation - uint64(w.roll(8)/7)
		c.Generation = &g
	}
	switch w.roll(8) {
	case 0:
		name := fmt.Sprint("p", w.roll(9))
		c.Name = &name
	case 1:
		parent := pick(w, w.provider(), "")
		c.Parent = &parent
	case 2, 3:
		traits := slices.Compact(slices.Sorted(slices.Values(append(some(w, wantedTraits), some(w, now.Traits)...))))
		c.Traits = &traits
	case 4, 5:
		sets := slices.Compact(slices.Sorted(slices.Values(append(some(w, wantedAggregates), now.Aggregates...))))
		c.Aggregates = &sets
	default:
		inv := w.stock(now.Inventory)
		c.Inventory = &inv
	}
	return c
}

// stock returns a random inventory, most often with all that there is now.
func (w *world) stock(now map[api.ResourceClass]api.Inventory) map[api.ResourceClass]api.Inventory {
	out := map[api.ResourceClass]api.Inventory{}
	if w.roll(6) > 0 {
		maps.Copy(out, now)
	}
	for _, class := range some(w, wantedClasses) {
		v := api.Inventory{Total: int64(w.roll(12)), MaxUnit: 1 << 20}
		if w.roll(4) == 0 {
			v = api.Inventory{Total: 12, Reserved: 1, MinUnit: 2, MaxUnit: 6, StepSize: 3, AllocationRatio: 15_000}
		}
		out[class] = v
	}
	return out
}

func (w *world) consumersPut() command.ConsumersPut {
	c := command.ConsumersPut{Stamp: w.stamp()}
	for range 1 + w.roll(2)*w.roll(3) {
		e := command.ConsumerEntry{ID: w.consumer(), Project: "p", User: "u"}
		if slices.ContainsFunc(c.Consumers, func(o command.ConsumerEntry) bool { return o.ID == e.ID }) {
			continue
		}
		if w.roll(3) == 0 {
			kind := pick(w, "A", "B")
			e.Type = &kind
		}
		if w.roll(2) == 0 {
			var g uint64
			if old, ok := w.s.Consumer(e.ID); ok {
				g = old.Generation - uint64(w.roll(8)/7)
			}
			e.Generation = &g
		}
		for range w.roll(3) {
			from := pick(w, w.provider(), "p0", "p1")
			class := pick(w, wantedClasses...)
			if p, ok := w.s.Provider(from); ok && len(p.Inventory) > 0 && w.roll(6) > 0 {
				class = pick(w, slices.Sorted(maps.Keys(p.Inventory))...)
			}
			sh := api.Share{Provider: from, Resources: api.Resources{class: int64(1 + w.roll(3))}}
			if !slices.ContainsFunc(e.Shares, func(o api.Share) bool { return o.Provider == sh.Provider }) {
				e.Shares = append(e.Shares, sh)
			}
		}
		slices.SortFunc(e.Shares, func(a, b api.Share) int { return cmp.Compare(a.Provider, b.Provider) })
		c.Consumers = append(c.Consumers, e)
	}
	if w.roll(6) == 0 {
		if p, ok := w.s.Provider(w.provider()); ok {
			c.Reshape = []command.Reshape{{ID: p.ID, Generation: p.Generation, Inventory: w.stock(p.Inventory)}}
		}
	}
	return c
}
