package filters_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/capacity"
	"berth/filters"
)

func TestAdvise(t *testing.T) {
	ssd, down := spec("ssd", 1024, 10), spec("down", 1<<20, 1<<20)
	ssd.Traits, ssd.AZ, down.Up = []string{"SSD"}, "east", false
	plain := spec("plain", 4096, 100)
	plain.AZ = "west"
	v := view(ssd, down, plain)
	for _, x := range []struct {
		says string
		set  func(*api.Group)
		want []api.Advice
	}{
		{"all is well", func(*api.Group) {}, nil},
		{
			"too much memory", func(g *api.Group) { g.Resources = api.Resources{api.MemoryMB: 5000, api.DiskGB: 100} },
			[]api.Advice{{Change: api.AdviceAmount, Class: api.MemoryMB, Value: 4096}},
		},
		{"too much of both", func(g *api.Group) { g.Resources = api.Resources{api.MemoryMB: 5000, api.DiskGB: 101} }, nil},
		{"either would do, the smaller first", func(g *api.Group) {
			g.Resources, g.AZ = api.Resources{api.MemoryMB: 4096, api.DiskGB: 11}, ""
			g.Traits.Required = []string{"SSD"}
		}, []api.Advice{{Change: api.AdviceDrop, Name: "traits"}}},
		{
			"a trait in the wrong zone", func(g *api.Group) { g.AZ, g.Traits.Required = "west", []string{"SSD"} },
			[]api.Advice{{Change: api.AdviceDrop, Name: "availability_zone"}, {Change: api.AdviceDrop, Name: "traits"}},
		},
		{
			"more hosts for a plan that fell short", func(g *api.Group) { g.AZ = "west" },
			[]api.Advice{{Change: api.AdviceDrop, Name: "availability_zone"}},
		},
		{"amount before demand", func(g *api.Group) {
			g.AZ, g.Resources = "east", api.Resources{api.MemoryMB: 2000}
		}, []api.Advice{{Change: api.AdviceAmount, Class: api.MemoryMB, Value: 1024}, {Change: api.AdviceDrop, Name: "availability_zone"}}},
		{"a class that nobody has", func(g *api.Group) { g.Resources = api.Resources{"CUSTOM_GPU": 1} }, nil},
	} {
		assert.Equal(t, x.want, filters.Advise(filters.Default(), want(v, nil, x.set)), x.says)
	}
	assert.Nil(t, filters.Advise(nil, want(v, nil, func(*api.Group) {})))
}

// The smallest change in proportion comes first, and units are heeded.
func TestAdviseAmounts(t *testing.T) {
	a, b := spec("a", 0, 0), spec("b", 0, 0)
	a.Inventory = map[api.ResourceClass]api.Inventory{api.MemoryMB: {Total: 1000}, api.VCPU: {Total: 8, StepSize: 3}}
	b.Inventory = map[api.ResourceClass]api.Inventory{api.MemoryMB: {Total: 500}, api.VCPU: {Total: 80, MinUnit: 16}}
	v := view(a, b)
	for _, x := range []struct {
		r    api.Resources
		want []api.Advice
	}{
		{api.Resources{api.MemoryMB: 600, api.VCPU: 64}, []api.Advice{
			{Change: api.AdviceAmount, Class: api.MemoryMB, Value: 500}, {Change: api.AdviceAmount, Class: api.VCPU, Value: 6},
		}},
		{api.Resources{api.VCPU: 8}, []api.Advice{{Change: api.AdviceAmount, Class: api.VCPU, Value: 6}}},
		{api.Resources{api.VCPU: 1}, nil}, // fits on a
		{api.Resources{api.VCPU: 2}, []api.Advice{{Change: api.AdviceAmount, Class: api.VCPU, Value: 1}}},
		{api.Resources{api.MemoryMB: 400, api.VCPU: 81}, []api.Advice{{Change: api.AdviceAmount, Class: api.VCPU, Value: 80}}},
	} {
		l := want(v, nil, func(g *api.Group) { g.Resources = x.r })
		assert.Equal(t, x.want, filters.Advise(filters.Default(), l), "%v", x.r)
	}
	only := view(b)
	l := want(only, nil, func(g *api.Group) { g.Resources = api.Resources{api.VCPU: 3} })
	assert.Equal(t, []api.Advice{{Change: api.AdviceAmount, Class: api.VCPU, Value: 16}}, filters.Advise(filters.Default(), l), "the smallest above")
}

// A slot has all of a class from one provider: the advice is what the largest has,
// wherever it is, and never a sum.
func TestAdviseOfParts(t *testing.T) {
	a, left, right, pool := spec("a", 1024, 10), spec("left", 0, 30), spec("right", 0, 20), spec("pool", 0, 40)
	a.Inventory[api.DiskGB] = api.Inventory{Total: 10, MaxUnit: 100}
	for _, s := range []*capacity.Spec{&left, &right, &pool} {
		s.Passive = true
		delete(s.Inventory, api.MemoryMB)
	}
	left.Parent, right.Parent = "a", "a"
	left.Aggregates, pool.Aggregates, pool.Traits = []string{"g"}, []string{"g"}, []string{api.TraitShares}
	for most, parts := range map[int64][]capacity.Spec{10: nil, 30: {left, right}, 40: {pool, left}} {
		l := want(view(append(parts, a)...), nil, func(g *api.Group) { g.Resources = api.Resources{api.MemoryMB: 1, api.DiskGB: 70} })
		assert.Equal(t, []api.Advice{{Change: api.AdviceAmount, Class: api.DiskGB, Value: most}}, filters.Advise(filters.Default(), l))
	}
}

func TestAdviceMax(t *testing.T) {
	var fs []filters.Filter
	v := view(with("0"), with("1"), with("2"), with("3"), with("4"), with("5"), with("6"), with("7"), with("8"))
	for row := range v.Hosts().All() {
		fs = append(fs, filters.Filter{Name: string(v.ID(row)), Demand: true, Keep: func(_ *filters.Look, pass *capacity.Set) { pass.Remove(row) }})
	}
	assert.Len(t, filters.Advise(fs[:api.AdviceMax], want(v, nil, func(*api.Group) {})), api.AdviceMax)
	assert.Len(t, filters.Advise(fs, want(v, nil, func(*api.Group) {})), api.AdviceMax)
	deny := filters.Filter{Name: "deny", Demand: true, Keep: func(_ *filters.Look, pass *capacity.Set) { pass.And(capacity.NewSet(0)) }}
	assert.Empty(t, filters.Advise([]filters.Filter{deny, deny}, want(v, nil, func(*api.Group) {})), "to drop one alone does not help")
}
