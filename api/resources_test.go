package api_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
)

func TestResourceClasses(t *testing.T) {
	for c, want := range map[api.ResourceClass]bool{
		api.VCPU: true, api.MemoryMB: true, api.DiskGB: true, "CUSTOM_FPGA_2": true, "PCPU": true, "A": false, "CUSTOM_": false,
		api.ResourceClass("CUSTOM_" + strings.Repeat("A", api.CustomMaxBytes-7)): true,
		api.ResourceClass("CUSTOM_" + strings.Repeat("A", api.CustomMaxBytes-6)): false,
		"": false, "vcpu": false, "_A": false, "2A": false, "A-B": false, "A B": false, "Ä": false,
	} {
		assert.Equal(t, want, c.Valid(), "%q", c)
	}
}

func TestResourcesAreInOrder(t *testing.T) {
	r := api.Resources{api.VCPU: 2, api.MemoryMB: 512, "CUSTOM_A": 1}
	for range 20 { // no map order
		assert.Equal(t, []api.ResourceClass{"CUSTOM_A", api.MemoryMB, api.VCPU}, r.Classes())
		assert.Equal(t, "CUSTOM_A=1,MEMORY_MB=512,VCPU=2", r.String())
	}
	assert.Empty(t, api.Resources(nil).String())
	bad := api.Resources{"b": 1, "a": 1, api.VCPU: 0}
	for range 20 {
		invalid(t, bad.Validate(), "amount of VCPU")
	}
}

func TestResourcesEqual(t *testing.T) {
	one := api.Resources{api.VCPU: 1}
	for _, c := range []struct {
		o    api.Resources
		want bool
	}{
		{api.Resources{api.VCPU: 1}, true},
		{api.Resources{api.VCPU: 1, api.DiskGB: 0}, true},
		{api.Resources{api.VCPU: 2}, false},
		{api.Resources{api.VCPU: 1, api.DiskGB: 1}, false},
		{nil, false},
	} {
		assert.Equal(t, c.want, one.Equal(c.o), "%v", c.o)
		assert.Equal(t, c.want, c.o.Equal(one), "%v", c.o)
	}
	assert.True(t, api.Resources(nil).Equal(api.Resources{api.VCPU: 0}))
}

func TestRatioJSON(t *testing.T) {
	for text, want := range map[string]api.Ratio{
		"1": api.RatioOne, "1.0": api.RatioOne, "16": 160_000, "1.5": 15_000, "0.0001": 1, "0.00005": 1, "1.23456": 12_346,
		"0": 0, "1e4": api.RatioMax, "10000": api.RatioMax, "0.3333": 3333,
	} {
		var r api.Ratio
		require.NoError(t, json.Unmarshal([]byte(text), &r), text)
		assert.Equal(t, want, r, text)
	}
	for _, text := range []string{"-1", "10000.0001", "0.00004", "1e-300", "1e300", `"1"`, "null", "true", "[]", "{}"} {
		var r api.Ratio
		invalid(t, json.Unmarshal([]byte(text), &r), "allocation_ratio must be a number from 0.0001 to 10000")
	}
	rapid.Check(t, func(t *rapid.T) {
		want := api.Ratio(rapid.Int64Range(0, int64(api.RatioMax)).Draw(t, "ratio"))
		b, err := json.Marshal(want)
		require.NoError(t, err)
		var got api.Ratio
		require.NoError(t, json.Unmarshal(b, &got))
		require.Equal(t, want, got, "%s", b)
	})
}

func TestInventoryValidate(t *testing.T) {
	for _, c := range []struct {
		v    api.Inventory
		says string // "" if it is valid
	}{
		{api.Inventory{}, ""},
		{api.Inventory{Total: api.AmountMax, Reserved: api.AmountMax, AllocationRatio: api.RatioMax}, ""},
		{api.Inventory{Total: api.AmountMax + 1}, "total of VCPU must be 0 to"},
		{api.Inventory{Total: -1}, "total of VCPU must be 0 to"},
		{api.Inventory{Total: 4, Reserved: 4}, ""},
		{api.Inventory{Total: 4, Reserved: 5}, "reserved of VCPU must be 0 to its total 4, got 5"},
		{api.Inventory{Total: 4, Reserved: -1}, "reserved of VCPU"},
		{api.Inventory{Total: 4, MinUnit: -1}, "must not be negative"},
		{api.Inventory{Total: 4, MaxUnit: -1}, "must not be negative"},
		{api.Inventory{Total: 4, StepSize: -1}, "must not be negative"},
		{api.Inventory{Total: 4, AllocationRatio: api.RatioMax + 1}, "allocation_ratio of VCPU is out of range"},
		{api.Inventory{Total: 4, AllocationRatio: -1}, "allocation_ratio of VCPU is out of range"},
		{api.Inventory{Total: 4, MinUnit: 2, MaxUnit: 2}, ""},
		{api.Inventory{Total: 4, MinUnit: 3, MaxUnit: 2}, ""},
	} {
		if err := c.v.Validate(api.VCPU); c.says != "" {
			invalid(t, err, c.says)
		} else {
			require.NoError(t, err, "%+v", c.v)
		}
	}
}

// Capacity is compared with the same sum in exact rationals.
func TestCapacityIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(0, api.AmountMax).Draw(t, "total")
		v := api.Inventory{
			Total: total, Reserved: rapid.Int64Range(0, total).Draw(t, "reserved"),
			AllocationRatio: api.Ratio(rapid.Int64Range(1, int64(api.RatioMax)).Draw(t, "ratio")),
		}
		require.NoError(t, v.Validate(api.VCPU))
		exact := new(big.Int).Mul(big.NewInt(v.Total-v.Reserved), big.NewInt(int64(v.AllocationRatio)))
		exact.Div(exact, big.NewInt(int64(api.RatioOne)))
		require.Equal(t, exact.Int64(), v.Capacity())
		require.GreaterOrEqual(t, v.Capacity(), int64(0))
	})
	most := api.Inventory{Total: api.AmountMax, AllocationRatio: api.RatioMax}
	assert.EqualValues(t, api.AmountMax*10_000, most.Capacity(), "the limits do not overflow")
	assert.EqualValues(t, 3, api.Inventory{Total: 4, Reserved: 1}.Capacity(), "no ratio means 1.0")
	assert.EqualValues(t, 128, api.Inventory{Total: 2 * 4, AllocationRatio: 16 * api.RatioOne}.Capacity(), "two quad cores with ratio 16")
	assert.EqualValues(t, 115, api.Inventory{Total: 100, AllocationRatio: 11_500}.Capacity(), "100 at 1.15")
}

func TestAdmits(t *testing.T) {
	for _, c := range []struct {
		v    api.Inventory
		yes  []int64
		no   []int64
		name string
	}{
		{api.Inventory{Total: 4}, []int64{1, 2, 4}, []int64{-1, 0, 5}, "defaults: 1 up to the capacity"},
		{api.Inventory{Total: 4, AllocationRatio: 2 * api.RatioOne}, []int64{8}, []int64{9}, "capacity counts the ratio"},
		{api.Inventory{Total: 100, MinUnit: 3, MaxUnit: 12, StepSize: 4}, []int64{3, 4, 8, 12}, []int64{1, 2, 5, 6, 11, 13, 16}, "min_unit itself or a step"},
		{api.Inventory{}, nil, []int64{0, 1}, "nothing"},
		{api.Inventory{Total: 1000, MinUnit: 5, MaxUnit: 1000, StepSize: 10}, []int64{5, 10, 20, 1000}, []int64{1, 4, 6, 15, 25, 1010}, "DISK_GB: 5 to 1000 in steps of 10"},
		{api.Inventory{Total: 64, MinUnit: 1, MaxUnit: 16, StepSize: 2}, []int64{1, 2, 4, 16}, []int64{0, 3, 15, 17, 18}, "VCPU: 1 to 16 in steps of 2"},
	} {
		for _, n := range c.yes {
			assert.True(t, c.v.Admits(n), "%s: %d", c.name, n)
		}
		for _, n := range c.no {
			assert.False(t, c.v.Admits(n), "%s: %d", c.name, n)
		}
	}
	n := api.Inventory{Total: 4}.Normal()
	assert.Equal(t, api.Inventory{Total: 4, MinUnit: 1, MaxUnit: 4, StepSize: 1, AllocationRatio: api.RatioOne}, n)
	assert.Equal(t, n, n.Normal())
}

// Admits is compared with a list of every amount that the units make.
func TestAdmitsIsMinimumOrStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := api.Inventory{
			Total:   rapid.Int64Range(0, 40).Draw(t, "total"),
			MinUnit: rapid.Int64Range(0, 12).Draw(t, "min"), MaxUnit: rapid.Int64Range(0, 50).Draw(t, "max"),
			StepSize: rapid.Int64Range(0, 12).Draw(t, "step"),
		}
		low, high, step := max(v.MinUnit, 1), v.MaxUnit, max(v.StepSize, 1)
		if high == 0 {
			high = v.Total // no ratio, no reserve
		}
		want := map[int64]bool{low: low <= high}
		for n := step; n <= high; n += step {
			want[n] = want[n] || n >= low
		}
		for n := int64(-2); n <= 60; n++ {
			require.Equal(t, want[n], v.Admits(n), "%d of %+v", n, v)
		}
	})
}

func TestPoolsAndClasses(t *testing.T) {
	for _, p := range []api.Pool{api.PoolOnDemand, api.PoolReservable, api.PoolShared} {
		assert.True(t, p.Valid())
	}
	assert.False(t, api.Pool("").Valid() || api.Pool("Shared").Valid())
	assert.True(t, api.Firm.Valid() && api.Preemptible.Valid())
	assert.False(t, api.Class("").Valid() || api.Class("Firm").Valid())
}
