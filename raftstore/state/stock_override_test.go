package state

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/raftstore/command"
)

// hostReports has the agent of h1 report VCPU as v.
func (w *world) hostReports(v api.Inventory) {
	w.tb.Helper()
	put := hostPut(w.stamp(), "a1", "h1", 4)
	put.Hosts[0].Host.Inventory = inventory{api.VCPU: v}
	w.ok(put)
}

// TestOverridesFollowTheAgent overrides a class of an agent that reports another amount later: what
// the override does not name goes on with the reports.
func TestOverridesFollowTheAgent(t *testing.T) {
	const twice = 2 * api.RatioOne
	unit := func(v api.Inventory, most int64) api.Inventory {
		v = v.Normal()
		v.MaxUnit = most
		return v
	}
	for name, c := range map[string]struct {
		reported, set, next, want api.Inventory
		fields                    api.InventoryFields
	}{
		"nothing": {api.Inventory{Total: 64}, api.Inventory{Total: 64}, api.Inventory{Total: 32}, api.Inventory{Total: 32}, 0},
		"reserved, and less": {
			api.Inventory{Total: 64}, api.Inventory{Total: 64, Reserved: 4}, api.Inventory{Total: 32},
			unit(api.Inventory{Total: 32, Reserved: 4}, 28), api.FieldReserved,
		},
		"reserved, and more": {
			api.Inventory{Total: 64}, api.Inventory{Total: 64, Reserved: 4}, api.Inventory{Total: 128},
			unit(api.Inventory{Total: 128, Reserved: 4}, 124), api.FieldReserved,
		},
		"reserved, and less than that": {
			api.Inventory{Total: 64}, api.Inventory{Total: 64, Reserved: 4}, api.Inventory{Total: 3},
			api.Inventory{Total: 3, Reserved: 3, MinUnit: 1, StepSize: 1, AllocationRatio: api.RatioOne}, api.FieldReserved,
		},
		"reserved just so": {
			api.Inventory{Total: 64}, api.Inventory{Total: 64, Reserved: 4}, api.Inventory{Total: 4},
			api.Inventory{Total: 4, Reserved: 4, MinUnit: 1, StepSize: 1, AllocationRatio: api.RatioOne}, api.FieldReserved,
		},
		"none reserved": {
			api.Inventory{Total: 64, Reserved: 8}, api.Inventory{Total: 64}, api.Inventory{Total: 64, Reserved: 16},
			api.Inventory{Total: 64}, api.FieldReserved,
		},
		"ratio": {
			api.Inventory{Total: 64}, api.Inventory{Total: 64, AllocationRatio: twice}, api.Inventory{Total: 32},
			unit(api.Inventory{Total: 32, AllocationRatio: twice}, 32), api.FieldAllocationRatio,
		},
		"ratio below one": {
			api.Inventory{Total: 64}, api.Inventory{Total: 64, AllocationRatio: api.RatioOne / 2}, api.Inventory{Total: 32},
			unit(api.Inventory{Total: 32, AllocationRatio: api.RatioOne / 2}, 16), api.FieldAllocationRatio,
		},
		"ratio and units of the agent": {
			api.Inventory{Total: 64, MaxUnit: 16, StepSize: 2, MinUnit: 2}, api.Inventory{Total: 64, AllocationRatio: twice},
			api.Inventory{Total: 64, MaxUnit: 32, StepSize: 4, MinUnit: 4},
			api.Inventory{Total: 64, MaxUnit: 32, StepSize: 4, MinUnit: 4, AllocationRatio: twice}, api.FieldAllocationRatio,
		},
		"total": {
			api.Inventory{Total: 64}, api.Inventory{Total: 48}, api.Inventory{Total: 128}, api.Inventory{Total: 48}, api.FieldTotal,
		},
		"max_unit": {
			api.Inventory{Total: 64}, api.Inventory{Total: 64, MaxUnit: 100, AllocationRatio: twice}, api.Inventory{Total: 128},
			api.Inventory{Total: 128, MaxUnit: 100, AllocationRatio: twice}, api.FieldMaxUnit | api.FieldAllocationRatio,
		},
		"min_unit and step_size": {
			api.Inventory{Total: 64}, api.Inventory{Total: 64, MinUnit: 2, StepSize: 2}, api.Inventory{Total: 32, StepSize: 8},
			api.Inventory{Total: 32, MinUnit: 2, StepSize: 2}, api.FieldMinUnit | api.FieldStepSize,
		},
	} {
		w := newWorld(t)
		w.form = api.FormFifth
		w.hostReports(c.reported)
		w.ok(w.have("h1", inventory{api.VCPU: c.set}))
		h, _ := w.s.hosts.Get("h1")
		assert.Equal(t, c.fields, h.OwnFields[api.VCPU], name)
		w.hostReports(c.next)
		assert.Equal(t, c.want.Normal(), w.seen("h1").Inventory[api.VCPU], name)
		assert.Equal(t, c.want.Normal().Capacity(), specIn(w.s, "h1").Inventory[api.VCPU].Capacity(), name)
		host, _ := w.s.Host("h1")
		if c.fields != 0 {
			assert.Equal(t, inventory{api.VCPU: c.next.Normal()}, host.Reported, name)
		}

		w.ok(w.have("h1", w.seen("h1").Inventory)) // as it was read
		h, _ = w.s.hosts.Get("h1")
		assert.Equal(t, c.fields, h.OwnFields[api.VCPU], "%s: written as it was read", name)
		assert.Equal(t, c.want.Normal(), w.seen("h1").Inventory[api.VCPU], name)
		w.hostReports(api.Inventory{Total: 64})
		w.ok(w.have("h1", inventory{api.VCPU: {Total: 64}})) // an override ends
		h, _ = w.s.hosts.Get("h1")
		assert.Nil(t, h.OwnFields, name)
		assert.Nil(t, h.OwnInventory, name)
	}
}

// TestWhatIsSetIsInEffect draws what an agent reports and what an operator sets, twice: each unit, total,
// reserve and ratio that is given is in effect at once. A max_unit that is written as it was read may
// follow the total.
func TestWhatIsSetIsInEffect(t *testing.T) {
	few := rapid.Int64Range(0, 3)
	drawn := rapid.Custom(func(t *rapid.T) api.Inventory {
		total := few.Draw(t, "total")
		return api.Inventory{
			Total: total, Reserved: rapid.Int64Range(0, total).Draw(t, "reserved"), MinUnit: few.Draw(t, "least"), MaxUnit: few.Draw(t, "most"),
			StepSize: few.Draw(t, "step"), AllocationRatio: rapid.SampledFrom([]api.Ratio{0, api.RatioOne / 2, api.RatioOne, 2 * api.RatioOne}).Draw(t, "ratio"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		var s stockBook
		s.form = api.FormFifth
		w := declaredProvider{declared: declaration{inventory: inventory{api.VCPU: drawn.Draw(t, "reported")}}}
		w.own.inventory, w.own.fields = s.ownInventory(&w, inventory{api.VCPU: drawn.Draw(t, "set before")})
		read := w.mergedInventory()[api.VCPU].Normal()
		set := drawn.Draw(t, "set")
		got := s.inventoryAfter(&w, inventory{api.VCPU: set})[api.VCPU].Normal()
		assert.Equal(t, set.Total, got.Total)
		assert.Equal(t, set.Reserved, got.Reserved)
		for field, pair := range map[string][2]int64{
			"min_unit": {set.MinUnit, got.MinUnit}, "max_unit": {set.MaxUnit, got.MaxUnit}, "step_size": {set.StepSize, got.StepSize},
			"allocation_ratio": {int64(set.AllocationRatio), int64(got.AllocationRatio)},
		} {
			if asRead := field == "max_unit" && set.MaxUnit == read.MaxUnit; pair[0] != 0 && !asRead {
				assert.Equal(t, pair[0], pair[1], field)
			}
		}
	})
}

// TestAUnitAsLargeAsWhatIsReported sets a max_unit that is as large as all that the agent reports, and not
// as it was read: it is kept.
func TestAUnitAsLargeAsWhatIsReported(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.hostReports(api.Inventory{Total: 6})
	w.ok(w.have("h1", inventory{api.VCPU: {Total: 4, MaxUnit: 100}}))
	w.ok(w.have("h1", inventory{api.VCPU: {Total: 12, MaxUnit: 6}}))
	assert.EqualValues(t, 6, w.seen("h1").Inventory[api.VCPU].MaxUnit)
}

// TestAReserveOutlivesASmallTotal has a reserve that a total has no room for written as it was read:
// it is as it was when the machine has more again.
func TestAReserveOutlivesASmallTotal(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.hostReports(api.Inventory{Total: 64})
	w.ok(w.have("h1", inventory{api.VCPU: {Total: 64, Reserved: 8}}))
	w.hostReports(api.Inventory{Total: 4})
	read := w.seen("h1").Inventory
	require.EqualValues(t, 4, read[api.VCPU].Reserved)
	w.ok(w.have("h1", read))
	w.hostReports(api.Inventory{Total: 64})
	assert.EqualValues(t, 56, w.seen("h1").Inventory[api.VCPU].Capacity())
}

// TestOverridesOfWhatIsReportedNoMore has an agent report a class no more, of which operators have set
// a part: only a total of theirs stays.
func TestOverridesOfWhatIsReportedNoMore(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	put := hostPut(w.stamp(), "a1", "h1", 4)
	put.Hosts[0].Host.Inventory = inventory{api.VCPU: {Total: 4}, api.DiskGB: {Total: 10}, api.MemoryMB: {Total: 100}}
	w.ok(put)
	w.ok(w.have("h1", inventory{api.VCPU: {Total: 4}, api.DiskGB: {Total: 10, Reserved: 1}, api.MemoryMB: {Total: 50, Reserved: 5}}))
	w.hostReports(api.Inventory{Total: 4})
	seen := w.seen("h1").Inventory
	assert.NotContains(t, seen, api.DiskGB)
	assert.EqualValues(t, 45, seen[api.MemoryMB].Capacity())
	put.Stamp = w.stamp()
	w.ok(put)
	assert.EqualValues(t, 9, w.seen("h1").Inventory[api.DiskGB].Capacity(), "it reports it again")
	checkIndexes(t, w.s)
}

// TestOldOverridesFollow has a log with an override of before api.FormFifth, which was of a whole class:
// from the next report on, what is as reported follows.
func TestOldOverridesFollow(t *testing.T) {
	for name, c := range map[string]struct{ set, want api.Inventory }{
		"ratio":  {api.Inventory{Total: 64, MaxUnit: 1<<31 - 1, AllocationRatio: 40000}, api.Inventory{Total: 32, MaxUnit: 32, AllocationRatio: 40000}},
		"total":  {api.Inventory{Total: 48, MaxUnit: 1<<31 - 1}, api.Inventory{Total: 48, MaxUnit: 48}},
		"a unit": {api.Inventory{Total: 64, MaxUnit: 1<<31 - 2}, api.Inventory{Total: 32, MaxUnit: 1<<31 - 2}},
	} {
		w := newWorld(t)
		w.hostReports(api.Inventory{Total: 64})
		w.ok(w.have("h1", inventory{api.VCPU: c.set, api.DiskGB: {Total: 10}}))
		w.hostReports(api.Inventory{Total: 32})
		assert.Equal(t, c.set.Total, w.seen("h1").Inventory[api.VCPU].Total, "%s: as old logs have it", name)
		w.hostReports(api.Inventory{Total: 64})

		w.form = api.FormFifth
		w.hostReports(api.Inventory{Total: 32})
		assert.Equal(t, c.want.Normal(), w.seen("h1").Inventory[api.VCPU], name)
		h, _ := w.s.hosts.Get("h1")
		assert.NotContains(t, h.OwnFields, api.DiskGB, "the agent does not report it")

		var b bytes.Buffer
		require.NoError(t, w.s.Save(&b))
		again, err := Load(&b, api.FormFifth)
		require.NoError(t, err)
		p, _ := again.Provider("h1")
		assert.Equal(t, w.seen("h1").Inventory, p.Inventory, name)
	}
}

// TestReshapesOverride replaces the inventory of a host with claims on it: they count against what is in
// effect then.
func TestReshapesOverride(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.hostReports(api.Inventory{Total: 4})
	claim := command.ConsumersPut{
		Stamp:     w.stamp(),
		Consumers: []command.ConsumerEntry{{ID: "c", Project: "p", User: "u", Shares: []api.Share{{Provider: "h1", Resources: api.Resources{api.VCPU: 5}}}}},
		Reshape:   []command.Reshape{w.reshape("h1", inventory{api.VCPU: {Total: 4, AllocationRatio: 2 * api.RatioOne}})},
	}
	w.refused(api.CodeNoCapacity, claim) // one claim is within the total
	claim.Consumers[0].Shares[0].Resources[api.VCPU] = 4
	claim.Stamp = w.stamp()
	w.ok(claim)
	assert.EqualValues(t, 8, w.seen("h1").Inventory[api.VCPU].Capacity())
	h, _ := w.s.hosts.Get("h1")
	assert.Equal(t, api.FieldAllocationRatio, h.OwnFields[api.VCPU])
}
