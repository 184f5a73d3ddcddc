package capacity

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// host is a host with some inventory, in some aggregates.
func host(id api.HostID, has api.Resources, aggregates ...string) Spec {
	s := Spec{ID: id, Up: true, Enabled: true, Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{}, Aggregates: aggregates}
	for class, n := range has {
		s.Inventory[class] = api.Inventory{Total: n}
	}
	return s
}

// below is a provider below another.
func below(id, parent api.HostID, has api.Resources) Spec {
	s := host(id, has)
	s.Parent, s.Passive = parent, true
	return s
}

// shared is a provider that shares what it has.
func shared(id api.HostID, has api.Resources, aggregates ...string) Spec {
	s := host(id, has, aggregates...)
	s.Passive, s.Traits = true, []string{api.TraitShares}
	return s
}

func always(r api.Resources) api.Claim {
	return api.Claim{Resources: r, Class: api.Firm, Window: api.Window{End: api.Forever}}
}

func tableOf(specs ...Spec) *Table {
	t := NewTable()
	for _, s := range specs {
		t.Put(s)
	}
	return t
}

// A child that can give two classes goes before one that can give only one of
// them, though its id is later.
func TestPlaceKeepsClassesTogether(t *testing.T) {
	table := tableOf(
		host("h", api.Resources{api.DiskGB: 10}),
		below("numa0", "h", api.Resources{api.VCPU: 4, api.MemoryMB: 2}),
		below("numa1", "h", api.Resources{api.VCPU: 4, api.MemoryMB: 8}),
	)
	slot := always(api.Resources{api.VCPU: 2, api.MemoryMB: 4, api.DiskGB: 1})
	for range 2 {
		shares, err := table.Place("h", slot)
		require.NoError(t, err)
		assert.Equal(t, []api.Share{{Provider: "numa1", Resources: api.Resources{api.VCPU: 2, api.MemoryMB: 4}}}, shares)
	}
	_, err := table.Place("h", slot)
	assert.Equal(t, api.CodeNoCapacity, api.CodeOf(err))
	require.ErrorContains(t, err, "MEMORY_MB")
	small := always(api.Resources{api.VCPU: 2, api.MemoryMB: 2})
	shares, err := table.Place("h", small)
	require.NoError(t, err)
	assert.Equal(t, []api.Share{{Provider: "numa0", Resources: small.Resources}}, shares)
	v := table.View()
	row, _ := v.Row("h")
	assert.Equal(t, 3, v.Instances(row), "the host has a claim for what is left, even if that is nothing")
	assert.Equal(t, api.Resources{api.DiskGB: 2}, v.Usage("h"))
}

func TestPlaceRefusals(t *testing.T) {
	pool := shared("pool", nil, "g")
	pool.Inventory[api.DiskGB] = api.Inventory{Total: 100, MinUnit: 10, StepSize: 10}
	table := tableOf(host("h", api.Resources{api.VCPU: 4}, "g"), host("plain", api.Resources{api.VCPU: 4}), pool)
	for _, c := range []struct {
		host api.HostID
		r    api.Resources
		want api.Code
	}{
		{"h", api.Resources{api.VCPU: 1, api.DiskGB: 10}, ""},
		{"h", api.Resources{api.VCPU: 1, api.DiskGB: 15}, api.CodeInvalid},
		{"h", api.Resources{api.VCPU: 1, api.DiskGB: 100}, api.CodeNoCapacity},
		{"h", api.Resources{api.VCPU: 1, "CUSTOM_NONE": 1}, api.CodeNoCapacity},
		{"h", api.Resources{api.VCPU: 0}, api.CodeInvalid},
		{"plain", api.Resources{api.VCPU: 1, api.DiskGB: 10}, api.CodeNoCapacity},
		{"plain", api.Resources{api.VCPU: 4}, ""},
		{"pool", api.Resources{api.DiskGB: 10}, api.CodeNotFound},
		{"nobody", api.Resources{api.DiskGB: 10}, api.CodeNotFound},
	} {
		before := fingerprint(table.View())
		_, err := table.Place(c.host, always(c.r))
		assert.Equal(t, c.want, api.CodeOf(err), "%s %v", c.host, c.r)
		if c.want != "" {
			assert.Equal(t, before, fingerprint(table.View()), "nothing changes")
		}
	}
	table.Advance(20)
	late := always(api.Resources{api.VCPU: 1})
	late.Window.End = 10
	_, err := table.Place("h", late)
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	d := table.View().Draft(late.Window, late.Class)
	row, _ := table.View().Row("h")
	assert.Zero(t, d.Slots(row, nil, 5), "a window that has passed has no room")
	assert.Zero(t, d.Take(row, nil, 5))
}

// What makes a provider shared comes and goes alone.
func TestSharingComesAndGoes(t *testing.T) {
	pool := shared("pool", api.Resources{api.DiskGB: 9}, "g", "other")
	table := tableOf(host("h", nil, "g"), pool)
	fits := func() bool {
		v := table.View()
		pass := v.Hosts()
		v.KeepFitting(&pass, api.Resources{api.DiskGB: 9}, api.Window{End: api.Forever}, api.Firm)
		assert.Equal(t, !pass.Empty(), !v.Compounds().Empty())
		return !pass.Empty()
	}
	require.True(t, fits())
	for _, change := range []func(*Spec){
		func(s *Spec) { s.Traits = nil },
		func(s *Spec) { s.Traits = []string{"SSD"} },
		func(s *Spec) { s.Aggregates = []string{"other"} },
		func(s *Spec) { s.Aggregates = nil },
		func(s *Spec) { s.Inventory = nil },
	} {
		s := pool
		change(&s)
		table.Put(s)
		if s.Inventory == nil {
			v := table.View()
			assert.Equal(t, 1, v.Compounds().Len(), "it shares what it may get one day")
		} else {
			assert.False(t, fits())
		}
		table.Put(pool)
		assert.True(t, fits())
	}
	table.Remove("pool")
	assert.False(t, fits())
}

// The caller allows no loops. If one comes all the same, a view has an end.
func TestLoopsHaveAnEnd(t *testing.T) {
	table := tableOf(below("self", "self", nil), below("a", "c", nil), below("b", "a", nil), below("c", "b", nil))
	v := table.View()
	for row := range v.Providers().All() {
		root := v.Root(row)
		assert.Equal(t, -1, v.Parent(root))
		assert.Contains(t, v.Tree(root), int32(row))
	}
	self, _ := v.Row("self")
	assert.Equal(t, self, v.Root(self))
	a, _ := v.Row("a")
	assert.Len(t, v.Tree(a), 3, "the link that would have closed the loop is left out")
}

// Trees and sharers reach over the chunks that rows are kept in, also where a
// chunk has no column of a class.
func TestReachOverChunks(t *testing.T) {
	table := NewTable()
	const n = 2*chunkHosts + 10
	for i := range n {
		table.Put(host(api.HostID(fmt.Sprintf("h%05d", i)), api.Resources{api.VCPU: 4}, "g"))
	}
	table.Put(shared("pool", api.Resources{api.DiskGB: 50}, "g"))
	for i := range 3 {
		table.Put(below(api.HostID(fmt.Sprintf("gpu%d", i)), "h00007", api.Resources{"PGPU": 1}))
	}
	v := table.View()
	assert.Equal(t, n, v.Len())
	assert.Equal(t, n+4, v.Providers().Len())
	assert.Equal(t, n, v.Compounds().Len())
	pass := v.Hosts()
	v.KeepFitting(&pass, api.Resources{api.VCPU: 1, api.DiskGB: 50}, api.Window{End: api.Forever}, api.Firm)
	assert.Equal(t, n, pass.Len())
	v.KeepFitting(&pass, api.Resources{"PGPU": 1}, api.Window{End: api.Forever}, api.Firm)
	row, _ := v.Row("h00007")
	assert.Equal(t, 1, pass.Len())
	assert.True(t, pass.Has(row))
	assert.EqualValues(t, 3, v.FreeColumn("PGPU", api.Window{End: api.Forever}, api.Firm)[row])
	assert.EqualValues(t, 50, v.CapacityColumn(api.DiskGB)[n-1])
	assert.EqualValues(t, 50, v.Totals()[api.DiskGB].Total, "a pool counts once")
	assert.Equal(t, ClassReport{Total: 50, Capacity: 50, FreeNow: 50, FreeAt: 50, Providers: 1}, v.Report(0)[api.DiskGB])

	table.Remove("pool")
	assert.Equal(t, 1, table.View().Compounds().Len())
	assert.Equal(t, n, v.Compounds().Len(), "an old view stays as it was")
	_, err := table.Place("h00001", always(api.Resources{api.DiskGB: 1}))
	assert.Equal(t, api.CodeNoCapacity, api.CodeOf(err))
}

// TestReportAt follows one claim over time: it has what operators ask for.
func TestReportAt(t *testing.T) {
	h := host("h", nil)
	h.Up = false
	h.Inventory[api.VCPU] = api.Inventory{Total: 8, Reserved: 2, AllocationRatio: 2 * api.RatioOne}
	table := tableOf(h)
	lease := always(api.Resources{api.VCPU: 5})
	lease.Window = api.Window{Start: 10, End: 20}
	require.NoError(t, table.Claim("h", lease))
	pre := always(api.Resources{api.VCPU: 3})
	pre.Class = api.Preemptible
	require.NoError(t, table.Claim("h", pre))
	table.Advance(5)
	for at, free := range map[api.Instant]int64{0: 12, 5: 12, 9: 12, 10: 7, 19: 7, 20: 12, api.Forever: 12} {
		want := ClassReport{Total: 8, Reserved: 2, Capacity: 12, Used: 3, FreeNow: 9, FreeAt: free, Providers: 1}
		assert.Equal(t, want, table.View().Report(at)[api.VCPU], "at %d", at)
	}
	table.Advance(15)
	assert.EqualValues(t, 7, table.View().Report(0)[api.VCPU].FreeAt, "an instant before now means now")
	assert.Empty(t, View{}.Report(0))
}

// pooled is a fleet whose hosts keep nothing but processors and memory: disk
// comes from one pool for each hundred, and every tenth host has four cards.
func pooled(n int) *Table {
	t := NewTable()
	for i := range n {
		id := api.HostID(fmt.Sprintf("%08x-host", uint32(i)*2654435761))
		group := fmt.Sprint("g", i/100)
		t.Put(host(id, api.Resources{api.VCPU: 64, api.MemoryMB: 262144}, group))
		if i%100 == 0 {
			t.Put(shared(api.HostID("pool"+group), api.Resources{api.DiskGB: 400_000}, group))
		}
		if i%10 == 0 {
			for card := range 4 {
				t.Put(below(api.HostID(fmt.Sprint(id, "-card", card)), id, api.Resources{"PGPU": 1}))
			}
		}
	}
	return t
}

// sharing is 10,000 hosts that all draw from each of n pools.
func sharing(n int) *Table {
	t := NewTable()
	for i := range n {
		t.Put(shared(api.HostID(fmt.Sprintf("other%05d", i)), api.Resources{api.DiskGB: 1}, "g"))
	}
	for i := range 10_000 {
		t.Put(host(api.HostID(fmt.Sprintf("%08x-host", uint32(i)*2654435761)), api.Resources{api.VCPU: 64}, "g"))
	}
	return t
}

func BenchmarkKeepFittingPooled(b *testing.B) {
	v := pooled(10_000).View()
	r := api.Resources{api.VCPU: 1, api.MemoryMB: 1, api.DiskGB: 1}
	for b.Loop() {
		pass := v.Hosts()
		v.KeepFitting(&pass, r, api.Window{Start: 0, End: api.Forever}, api.Firm)
	}
}

func BenchmarkFreeColumn(b *testing.B) {
	for name, t := range map[string]*Table{"plain": fleet(10_000), "pooled": pooled(10_000), "shared": sharing(1000)} {
		v := t.View()
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				v.FreeColumn(api.DiskGB, api.Window{Start: 0, End: api.Forever}, api.Firm)
			}
		})
	}
}

func BenchmarkDraftSlots(b *testing.B) {
	for name, t := range map[string]*Table{"plain": fleet(10_000), "pooled": pooled(10_000)} {
		v := t.View()
		d := v.Draft(api.Window{Start: 0, End: api.Forever}, api.Firm)
		r := api.Resources{api.VCPU: 1, api.MemoryMB: 1, api.DiskGB: 1}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				d.Slots(77, r, 1000)
			}
		})
	}
}

// BenchmarkPlace places a slot and gives it back, with a view taken of each.
func BenchmarkPlace(b *testing.B) {
	for name, t := range map[string]*Table{"plain": fleet(10_000), "pooled": pooled(10_000)} {
		id := api.HostID(fmt.Sprintf("%08x-host", 0))
		c := always(api.Resources{api.VCPU: 1, api.MemoryMB: 1, api.DiskGB: 1})
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_ = t.View()
				shares, err := t.Place(id, c)
				require.NoError(b, err)
				rest := always(api.Resources{api.VCPU: 1, api.MemoryMB: 1})
				if len(shares) == 0 {
					rest = c
				}
				t.Release(id, rest)
				for _, s := range shares {
					t.Release(s.Provider, always(s.Resources))
				}
			}
		})
	}
}

// BenchmarkPutPool takes one pool away from 10,000 hosts and gives it back, with a
// view of each; the hosts keep some other pools.
func BenchmarkPutPool(b *testing.B) {
	for _, others := range []int{0, 1000} {
		b.Run(fmt.Sprint("others=", others), func(b *testing.B) { benchmarkPutPool(b, others) })
	}
}

func benchmarkPutPool(b *testing.B, others int) {
	b.Helper()
	t := sharing(others)
	pool := shared("pool", api.Resources{api.DiskGB: 1}, "g")
	for b.Loop() {
		_ = t.View()
		t.Put(pool)
		if len(pool.Aggregates) > 0 {
			pool.Aggregates = nil
		} else {
			pool.Aggregates = []string{"g"}
		}
	}
}
