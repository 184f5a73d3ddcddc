package capacity

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/dice"
)

func put(t *Table, id api.HostID, v api.Inventory) {
	t.Put(Spec{
		ID: id, Up: true, Enabled: true, Pool: api.PoolShared,
		Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: v},
	})
}

func open(n int64, kind api.Class) api.Claim {
	return api.Claim{
		Resources: api.Resources{api.VCPU: n}, Class: kind,
		Window: api.Window{Start: 0, End: api.Forever},
	}
}

func TestManyChunks(t *testing.T) {
	table := NewTable()
	const n = 2*chunkHosts + 1
	middle := api.HostID(fmt.Sprintf("h%05d", chunkHosts))
	for i := range n {
		put(table, api.HostID(fmt.Sprintf("h%05d", i)), api.Inventory{Total: 4})
	}
	require.NoError(t, table.Claim(middle, open(4, api.Firm)))
	v := table.View()
	assert.Equal(t, n, v.Len())
	assert.Equal(t, 3*chunkHosts, v.Rows())
	pass := v.Hosts()
	v.KeepFitting(&pass, api.Resources{api.VCPU: 1}, api.Window{Start: 0, End: api.Forever}, api.Firm)
	assert.Equal(t, n-1, pass.Len())
	assert.False(t, pass.Has(chunkHosts))
	assert.Equal(t, api.ClassTotals{Total: 4 * n, Free: 4*n - 4, SlotMin: 1, SlotMax: 4}, v.Totals()[api.VCPU])

	table.Remove(middle)
	assert.Empty(t, table.View().Name(chunkHosts), "a hole")
	put(table, "again", api.Inventory{Total: 1})
	row, ok := table.View().Row("again")
	assert.True(t, ok)
	assert.Equal(t, chunkHosts, row, "a hole is used again")
	assert.Equal(t, int64(1), table.View().FreeNow(row, api.VCPU), "the claims went with the host")
	assert.Equal(t, middle, v.ID(chunkHosts), "an old view stays as it was")
}

func TestUnits(t *testing.T) {
	table := NewTable()
	put(table, "h", api.Inventory{Total: 16, MinUnit: 3, MaxUnit: 8, StepSize: 4})
	for amount, want := range map[int64]api.Code{
		2: api.CodeInvalid, 3: "", 4: "", 5: api.CodeInvalid, 8: "", 9: api.CodeInvalid,
		12: api.CodeInvalid, 17: api.CodeNoCapacity, 0: api.CodeInvalid, api.AmountMax + 1: api.CodeInvalid,
	} {
		assert.Equal(t, want, api.CodeOf(table.Fits("h", open(amount, api.Firm))), "amount %d", amount)
	}
	assert.Equal(t, api.ClassTotals{Total: 16, Free: 16, SlotMin: 3, SlotMax: 8}, table.View().Totals()[api.VCPU])
}

func TestMalformedClaims(t *testing.T) {
	table := NewTable()
	put(table, "h", api.Inventory{Total: 16})
	c := open(1, api.Firm)
	c.Window.End = c.Window.Start
	assert.Equal(t, api.CodeInvalid, api.CodeOf(table.Claim("h", c)))
	table.Advance(10)
	c.Window = api.Window{Start: 1, End: 10}
	assert.Equal(t, api.CodeInvalid, api.CodeOf(table.Claim("h", c)), "a window that has passed")
	c = open(1, "soft")
	assert.Equal(t, api.CodeInvalid, api.CodeOf(table.Claim("h", c)))
	assert.Equal(t, api.CodeNotFound, api.CodeOf(table.Claim("nobody", open(1, api.Firm))))
	c = open(1, api.Firm)
	c.Resources = api.Resources{"CUSTOM_NONE": 1}
	assert.Equal(t, api.CodeNoCapacity, api.CodeOf(table.Claim("h", c)), "an unknown class has no room")
	c.Resources = nil
	assert.NoError(t, table.Claim("h", c), "nothing fits everywhere")
}

func TestUnknownHosts(t *testing.T) {
	table := NewTable()
	table.Remove("x")
	table.Release("x", open(1, api.Firm))
	assert.False(t, table.Restore("x", open(1, api.Firm)))
	assert.False(t, table.SetGeneration("x", 1))
	assert.Zero(t, table.Bump("x"))
	assert.Zero(t, table.Generation("x"))
	assert.Empty(t, table.View().Usage("x"))
	assert.Zero(t, View{}.Len())
	assert.Empty(t, View{}.Totals())
	assert.Zero(t, View{}.Up().Len())
}

func TestOverFull(t *testing.T) {
	table := NewTable()
	put(table, "h", api.Inventory{Total: 4})
	require.NoError(t, table.Claim("h", open(3, api.Firm)))
	put(table, "h", api.Inventory{Total: 2})
	row, _ := table.View().Row("h")
	assert.Equal(t, int64(-1), table.View().FreeNow(row, api.VCPU))
	assert.Equal(t, api.CodeNoCapacity, api.CodeOf(table.Claim("h", open(1, api.Firm))))
	table.Release("h", open(3, api.Firm))
	assert.NoError(t, table.Claim("h", open(2, api.Firm)))
}

// The room of a preemptible is not there for a firm claim that starts now, but
// time may bring a firm claim into it: whoever keeps the claims must end one.
func TestPreemptibleCountsNow(t *testing.T) {
	table := NewTable()
	put(table, "h", api.Inventory{Total: 4})
	require.NoError(t, table.Claim("h", open(3, api.Preemptible)))
	assert.Equal(t, api.CodeNoCapacity, api.CodeOf(table.Fits("h", open(2, api.Firm))))
	lease := open(4, api.Firm)
	lease.Window.Start = 10
	require.NoError(t, table.Claim("h", lease))
	table.Advance(10)
	row, _ := table.View().Row("h")
	assert.Equal(t, int64(-3), table.View().FreeNow(row, api.VCPU))
	table.Release("h", open(3, api.Preemptible))
	assert.Zero(t, table.View().FreeNow(row, api.VCPU))
}

func TestTotalsStopAtTheLargestNumber(t *testing.T) {
	assert.Equal(t, int64(math.MaxInt64), addCapped(math.MaxInt64, 0))
	assert.Equal(t, int64(math.MaxInt64), addCapped(math.MaxInt64, 1))
	assert.Equal(t, int64(math.MaxInt64), addCapped(math.MaxInt64-1, 1))
	table := NewTable()
	put(table, "down", api.Inventory{Total: 4})
	table.Put(Spec{ID: "down", Enabled: true, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}}})
	assert.Empty(t, table.View().Totals(), "a host that is down counts for nothing")
}

func TestSetEdges(t *testing.T) {
	s := NewSet(65)
	for _, row := range []int{-1, 0, 64, 127, 128} {
		s.Add(row)
		s.Remove(1000)
	}
	assert.Equal(t, 3, s.Len(), "there is room up to the end of the word")
	assert.False(t, s.Has(-1))
	assert.False(t, s.Has(128))
	o := s.Clone()
	o.Remove(64)
	s.And(o)
	assert.False(t, s.Has(64))
	s.Or(NewSet(0))
	s.And(NewSet(64))
	assert.Zero(t, s.Len())
	assert.Equal(t, 2, o.Len())
	for row := range o.All() {
		assert.Zero(t, row)
		break
	}
}

func fleet(n int) *Table {
	t := NewTable()
	for i := range n {
		t.Put(Spec{
			ID: api.HostID(fmt.Sprintf("%08x-host", uint32(i)*2654435761)), Up: true, Enabled: true, Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{
				api.VCPU: {Total: 64}, api.MemoryMB: {Total: 262144}, api.DiskGB: {Total: 4096},
			},
		})
	}
	return t
}

func BenchmarkClaimWithViewEach(b *testing.B) {
	t := fleet(10_000)
	c := api.Claim{
		Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 1, api.DiskGB: 1}, Class: api.Firm,
		Window: api.Window{Start: 0, End: api.Forever},
	}
	id := t.View().ID(77)
	for b.Loop() {
		_ = t.View()
		_ = t.Claim(id, c)
		t.Release(id, c)
	}
}

// BenchmarkPut says that a host is up and then down, with a view taken of each.
func BenchmarkPut(b *testing.B) {
	for _, attributes := range []int{0, 16} {
		b.Run(strconv.Itoa(attributes), func(b *testing.B) {
			t := fleet(10_000)
			s := t.View().Spec(77)
			s.Attributes = map[string]string{}
			for i := range attributes {
				s.Attributes[fmt.Sprint("attribute", i)] = strconv.Itoa(i)
			}
			for b.Loop() {
				_ = t.View()
				s.Up = !s.Up
				t.Put(s)
			}
		})
	}
}

func BenchmarkKeepFitting(b *testing.B) {
	v := fleet(10_000).View()
	r := api.Resources{api.VCPU: 1, api.MemoryMB: 1, api.DiskGB: 1}
	for b.Loop() {
		pass := v.Hosts()
		v.KeepFitting(&pass, r, api.Window{Start: 0, End: api.Forever}, api.Firm)
	}
}

// UpToPrefix agrees with IDPrefix, for hosts that came into the rows of others too.
func TestUpToPrefix(t *testing.T) {
	table := NewTable()
	draw := dice.Rand(t)
	id := func() api.HostID { return api.HostID(fmt.Sprintf("%08x-host", draw.Uint32())) }
	var ids []api.HostID
	for range chunkHosts + wordBits/2 {
		ids = append(ids, id())
		put(table, ids[len(ids)-1], api.Inventory{Total: 1})
	}
	for i := range 100 {
		table.Remove(ids[i*2])
		if i%3 > 0 {
			put(table, id(), api.Inventory{Total: 1})
		}
	}
	v := table.View()
	hosts := v.Hosts()
	for n := range hosts.Words() {
		for _, prefix := range []uint64{0, prefixOf("00"), prefixOf("02"), prefixOf("1"), prefixOf("8"), math.MaxUint64} {
			got := v.UpToPrefix(n, hosts.Word(n), prefix)
			for i := range wordBits {
				row := n*wordBits + i
				require.Equal(t, hosts.Has(row) && v.IDPrefix(row) <= prefix, got>>i&1 == 1, "row %d, prefix %x", row, prefix)
			}
		}
	}
}
