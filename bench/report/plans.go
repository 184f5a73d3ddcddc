package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/costs"
	"berth/filters"
)

// Sizes of plans.
const (
	planHosts = 10_000
	planSlots = 1_000
)

// What one slot of a plan asks for.
const (
	slotVCPUs = 2
	slotMB    = 4096
	slotGB    = 20
)

// planFor is how long one plan is repeated.
const planFor = 500 * time.Millisecond

// measurePlans returns the milliseconds of planning one slot, and many, over many hosts.
func measurePlans(_ context.Context, b *bencher) ([]float64, error) {
	v := fleetOf(planHosts)
	return []float64{b.measurePlan(v, 1), b.measurePlan(v, planSlots)}, nil
}

// measurePlan returns the least milliseconds of planning count slots with all default filters
// and costs.
func (b *bencher) measurePlan(v capacity.View, count int) float64 {
	req := &api.Request{
		Reservation: "r", Project: "p", Class: api.Firm, Window: api.Window{Start: 0, End: api.Forever},
		Groups: []api.Group{{Count: count, Resources: api.Resources{api.VCPU: slotVCPUs, api.MemoryMB: slotMB, api.DiskGB: slotGB}}},
	}
	in := &buildplan.Inputs{View: v, Filters: filters.Default(), Costs: costs.Default(), Spare: 4}
	return b.leastMs(func() { buildplan.Select(in, req) })
}

// leastMs returns the least milliseconds that f takes, of as many runs as there is time for.
// The least is what f costs when nothing else disturbs it.
func (b *bencher) leastMs(f func()) float64 {
	least := time.Duration(0)
	for begun := b.now(); b.now().Sub(begun) < planFor; {
		before := b.now()
		f()
		if took := b.now().Sub(before); least == 0 || took < least {
			least = took
		}
	}
	return float64(least) / float64(time.Millisecond)
}

// sizes returns the inventories of n hosts of three sizes, partly used, always the same.
func sizes(n int, see func(i int, vcpus, memoryMB, diskGB, usedVCPUs, usedMB int64)) {
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		size := int64(1) << dice.IntN(3)
		see(i, 32*size, 65536*size, 1000*size, 1+dice.Int64N(16), 1+dice.Int64N(32768))
	}
}

// fleetOf returns a view of n hosts.
func fleetOf(n int) capacity.View {
	t := capacity.NewTable()
	sizes(n, func(i int, vcpus, memoryMB, diskGB, usedVCPUs, usedMB int64) {
		id := api.HostID(fmt.Sprintf("%08x-host", uint32(i)*2654435761)) // in no order
		t.Put(capacity.Spec{
			ID: id, Name: fmt.Sprint("host", i), Up: true, Enabled: true, Pool: api.PoolShared, AZ: fmt.Sprint("az", i%3),
			Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: vcpus}, api.MemoryMB: {Total: memoryMB}, api.DiskGB: {Total: diskGB}},
		})
		_ = t.Claim(id, api.Claim{ // fits: the host is empty
			Class: api.Firm, Window: api.Window{Start: 0, End: api.Forever},
			Resources: api.Resources{api.VCPU: usedVCPUs, api.MemoryMB: usedMB},
		})
	})
	return t.View()
}

// columns is what a scan needs of hosts, and nothing else.
type columns struct{ vcpus, memoryMB, diskGB, total []int64 }

// measureScan returns the least milliseconds of choosing count slots in columns.
func (b *bencher) measureScan(count int) float64 {
	var c columns
	sizes(planHosts, func(_ int, vcpus, memoryMB, diskGB, usedVCPUs, usedMB int64) {
		c.vcpus, c.memoryMB = append(c.vcpus, vcpus-usedVCPUs), append(c.memoryMB, memoryMB-usedMB)
		c.diskGB, c.total = append(c.diskGB, diskGB), append(c.total, vcpus)
	})
	heap, slots, taken := make([]offer, 0, planHosts), make([]int32, 0, count), make([]int64, planHosts)
	return b.leastMs(func() {
		clear(taken)
		slots = c.choose(count, heap, slots[:0], taken)
	})
}

// offer is the price of one more slot on a host.
type offer struct {
	price int64
	row   int32
}

// choose returns the rows of count slots, the emptiest hosts first. taken counts the slots of
// each row; heap is memory to use.
func (c *columns) choose(count int, heap []offer, slots []int32, taken []int64) []int32 {
	heap = heap[:0]
	best := offer{price: 1 << 62}
	for i := range c.vcpus {
		if c.vcpus[i] < slotVCPUs || c.memoryMB[i] < slotMB || c.diskGB[i] < slotGB {
			continue
		}
		o := offer{c.price(i, 0), int32(i)}
		if count > 1 {
			heap = append(heap, o)
		} else if o.price < best.price {
			best = o
		}
	}
	if count == 1 {
		return append(slots, best.row)
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		sink(heap, i)
	}
	for len(slots) < count && len(heap) > 0 {
		row := heap[0].row
		slots = append(slots, row)
		taken[row]++
		n := taken[row] + 1
		if c.vcpus[row] >= n*slotVCPUs && c.memoryMB[row] >= n*slotMB && c.diskGB[row] >= n*slotGB {
			heap[0].price = c.price(int(row), taken[row])
		} else {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		sink(heap, 0)
	}
	return slots
}

// price is the used part of a host, in thousandths.
func (c *columns) price(i int, taken int64) int64 {
	return 1000 - 1000*(c.vcpus[i]-taken*slotVCPUs)/c.total[i]
}

// sink moves the offer at i down to its place in a heap.
func sink(heap []offer, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child+1].price < heap[child].price {
			child++
		}
		if heap[i].price <= heap[child].price {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
