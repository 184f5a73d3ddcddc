package buildplan_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/costs"
	"berth/filters"
)

// book is hosts of 8 processors with slots of an earlier request on them.
type book struct {
	t     *testing.T
	table *capacity.Table
	req   *api.Request
	keep  [][]buildplan.Keep
}

var (
	morning = api.Window{Start: 100, End: 200}
	longer  = api.Window{Start: 100, End: 300}
)

// newBook has some hosts and a request to change a group of slots, of which each host has some.
func newBook(t *testing.T, change api.Group, window api.Window, hosts ...api.HostID) *book {
	t.Helper()
	change.Name = "g"
	b := &book{t: t, table: capacity.NewTable(), keep: make([][]buildplan.Keep, 1), req: &api.Request{
		Reservation: "new", Replaces: "old", Reserves: true, Class: api.Firm, Window: window, Groups: []api.Group{change},
	}}
	for _, id := range hosts {
		b.table.Put(cpuHost(id))
	}
	return b
}

func cpuHost(id api.HostID) capacity.Spec {
	return capacity.Spec{
		ID: id, Up: true, Enabled: true, Pool: api.PoolReservable,
		Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 8}},
	}
}

// cpus is a group of slots of n processors each.
func cpus(n int64, count, least int) api.Group {
	return api.Group{Count: count, Min: least, Resources: api.Resources{api.VCPU: n}}
}

// claim claims n processors of a host for somebody else.
func (b *book) claim(id api.HostID, n int64, w api.Window) {
	b.t.Helper()
	require.NoError(b.t, b.table.Claim(id, api.Claim{Consumer: "other", Class: api.Firm, Window: w, Resources: api.Resources{api.VCPU: n}}))
}

// slot is an old slot of n processors, or of the whole host for 0.
func (b *book) slot(name api.InstanceID, id api.HostID, n int64, fixed bool) {
	b.t.Helper()
	c := api.Claim{Consumer: name, Class: api.Firm, Window: morning, Whole: n == 0}
	if c.Whole {
		_, all, err := b.table.PlaceWhole(id, c)
		require.NoError(b.t, err)
		c.Resources = all
	} else {
		c.Resources = api.Resources{api.VCPU: n}
		require.NoError(b.t, b.table.Claim(id, c))
	}
	b.keep[0] = append(b.keep[0], buildplan.Keep{Host: id, Claim: c, Fixed: fixed})
}

// slots plans, and says where the slots are; those that are kept are marked.
func (b *book) slots() []string {
	plan := b.plan()
	var out []string
	for _, s := range plan.Slots {
		if name := string(s.Host); s.Keeps != "" {
			require.Equal(b.t, int64(-costs.TotalMax), s.Weight, "nothing is cheaper")
			out = append(out, name+"="+string(s.Keeps))
		} else {
			out = append(out, name)
		}
	}
	return out
}

func (b *book) plan() buildplan.GroupPlan {
	s := &buildplan.Inputs{View: b.table.View(), Filters: filters.Default(), Costs: costs.Default(), Spare: 4, Keep: b.keep}
	return buildplan.Select(s, b.req).Groups[0]
}

// opening is newBook in a test.
type opening func(change api.Group, window api.Window, hosts ...api.HostID) *book

func TestKeepInPlace(t *testing.T) {
	whole := api.Group{Count: 2, Min: 1, Whole: true}
	for _, c := range []struct {
		name string
		book func(open opening) *book
		want []string
	}{
		{"shrinking what fills the pool needs no second copy", func(open opening) *book {
			b := open(cpus(4, 2, 2), morning, "a", "b")
			b.slot("1", "a", 8, false)
			b.slot("2", "b", 8, false)
			return b
		}, []string{"a=1", "b=2"}},
		{"longer, where the room is free", func(open opening) *book {
			b := open(cpus(8, 1, 1), longer, "a", "b")
			b.slot("1", "b", 8, false)
			return b
		}, []string{"b=1"}},
		{"longer, and moved because another lease follows", func(open opening) *book {
			b := open(cpus(8, 1, 1), longer, "a", "b")
			b.slot("1", "b", 8, false)
			b.claim("b", 1, api.Window{Start: 200, End: 201})
			return b
		}, []string{"a"}},
		{"so too if it is active: it must not move", func(open opening) *book {
			b := open(cpus(8, 1, 1), longer, "a", "b")
			b.slot("1", "b", 8, true)
			b.claim("b", 1, api.Window{Start: 200, End: 201})
			return b
		}, nil},
		{"one more, beside the one that is kept", func(open opening) *book {
			b := open(cpus(4, 2, 2), morning, "a")
			b.slot("1", "a", 4, true)
			return b
		}, []string{"a=1", "a"}},
		{"two on one host grow together", func(open opening) *book {
			b := open(cpus(4, 2, 2), morning, "a")
			b.slot("1", "a", 2, true)
			b.slot("2", "a", 2, true)
			return b
		}, []string{"a=1", "a=2"}},
		{"and not beyond what there is", func(open opening) *book {
			b := open(cpus(5, 2, 2), morning, "a", "b")
			b.slot("1", "a", 2, false)
			b.slot("2", "a", 2, false)
			return b
		}, []string{"a=1", "b"}},
		{"fewer are wanted: the first ones stay", func(open opening) *book {
			b := open(cpus(2, 1, 1), morning, "a", "b")
			b.slot("1", "b", 2, false)
			b.slot("2", "a", 2, false)
			return b
		}, []string{"b=1"}},
		{"more are fixed than are wanted", func(open opening) *book {
			b := open(cpus(2, 1, 1), morning, "a", "b")
			b.slot("1", "b", 2, true)
			b.slot("2", "a", 2, true)
			return b
		}, nil},
		{"all move if only so they are on one host", func(open opening) *book {
			b := open(cpus(4, 2, 2), morning, "a", "b")
			b.req.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{0}}}
			b.slot("1", "b", 4, false)
			b.claim("b", 1, morning)
			return b
		}, []string{"a", "a"}},
		{"and stay if there is room", func(open opening) *book {
			b := open(cpus(4, 2, 2), morning, "a", "b")
			b.req.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{0}}}
			b.slot("1", "b", 4, false)
			return b
		}, []string{"b=1", "b"}},
		{"apart, the others go elsewhere", func(open opening) *book {
			b := open(cpus(2, 2, 2), morning, "a", "b")
			b.req.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
			b.slot("1", "a", 2, false)
			b.slot("2", "a", 2, false)
			return b
		}, []string{"a=1", "b"}},
		{"a host that is down keeps what it has, and gets nothing", func(open opening) *book {
			b := open(cpus(2, 2, 2), longer, "a", "b")
			b.slot("1", "a", 2, false)
			down := cpuHost("a")
			down.Up = false
			b.table.Put(down)
			return b
		}, []string{"a=1", "b"}},
		{"a whole host stays, and another comes", func(open opening) *book {
			b := open(whole, longer, "a", "b", "c")
			b.slot("1", "b", 0, true)
			b.claim("a", 1, morning)
			return b
		}, []string{"b=1", "c"}},
		{"a whole host is not idle any longer", func(open opening) *book {
			b := open(whole, longer, "a", "b")
			b.slot("1", "b", 0, false)
			b.claim("b", 1, api.Window{Start: 299, End: 400})
			return b
		}, []string{"a"}},
		{"a host that has gone keeps nothing", func(open opening) *book {
			b := open(cpus(2, 1, 1), morning, "a", "b")
			b.slot("1", "b", 2, false)
			b.table.Remove("b")
			return b
		}, []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, c.book(func(change api.Group, window api.Window, hosts ...api.HostID) *book {
				return newBook(t, change, window, hosts...)
			}).slots())
		})
	}
}

func TestKeepRefusal(t *testing.T) {
	b := newBook(t, cpus(8, 1, 1), longer, "a", "b")
	b.slot("1", "b", 8, true)
	b.claim("b", 1, api.Window{Start: 200, End: 201})
	assert.Equal(t, api.Refusals{
		Considered: 2, Filters: []api.FilterCount{{Filter: buildplan.RefusedInPlace, Hosts: 2, Tier: api.TierNotNow}},
	}, b.plan().Refusals)
	b = newBook(t, cpus(5, 3, 1), morning, "a", "b")
	b.slot("1", "a", 2, true)
	plan := b.plan()
	assert.Len(t, plan.Slots, 2)
	assert.Equal(t, api.Advice{Change: api.AdviceCount, Value: 2}, plan.Refusals.Advice[0])
}

// A slot may draw from others: each class that it has comes from where it came before.
func TestKeepDrawing(t *testing.T) {
	b := newBook(t, api.Group{Count: 1, Resources: api.Resources{api.VCPU: 2, api.DiskGB: 60}}, morning)
	for _, id := range []api.ProviderID{"p", "q"} {
		b.table.Put(capacity.Spec{
			ID: id, Passive: true, Traits: []string{api.TraitShares}, Aggregates: []string{"x"},
			Inventory: map[api.ResourceClass]api.Inventory{api.DiskGB: {Total: 100}},
		})
	}
	a := cpuHost("a")
	a.Aggregates = []string{"x"}
	b.table.Put(a)
	old := api.Claim{Consumer: "1", Class: api.Firm, Window: morning, Resources: api.Resources{api.VCPU: 1, api.DiskGB: 50}}
	shares, err := b.table.Place("a", old)
	require.NoError(t, err)
	b.keep[0] = []buildplan.Keep{{Host: "a", Claim: old, Shares: shares, Fixed: true}}
	assert.Equal(t, []string{"a=1"}, b.slots())
	b.req.Groups[0].Resources[api.DiskGB] = 101
	assert.Empty(t, b.slots(), "not from two, and not from q")
}
