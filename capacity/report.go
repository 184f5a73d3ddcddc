package capacity

import (
	"math"
	"time"

	"berth/api"
)

// Totals returns, for each class that a serving host or a provider that slots
// there may draw from has, the sum of the capacity and of what is free from now
// on, each provider counted once, and the smallest and largest amount that one
// slot may have there. Sums stop at the largest int64; what is over-full counts as
// 0 free.
func (v View) Totals() map[api.ResourceClass]api.ClassTotals {
	reached := v.withSources(v.Serving())
	out := map[api.ResourceClass]api.ClassTotals{}
	for _, class := range v.data().classes.list {
		t := api.ClassTotals{SlotMin: math.MaxInt64}
		had := false
		for row := range reached.All() {
			c, i := v.data().chunkOf(row)
			have, ok := c.specs.at[i].Inventory[class]
			if !ok {
				continue
			}
			had = true
			n, capacity := have.Normal(), have.Capacity()
			t.Total = addCapped(t.Total, capacity)
			if !c.exclusive.has(i) {
				t.Free = addCapped(t.Free, max(0, min(v.FreeFromNow(row, class), v.FreeNow(row, class))))
			}
			t.SlotMin = min(t.SlotMin, n.MinUnit)
			t.SlotMax = max(t.SlotMax, min(n.MaxUnit, capacity))
		}
		if had {
			out[class] = t
		}
	}
	return out
}

// ClassReport is the capacity and use of one class over the providers of a view. Sums stop
// at the largest int64.
type ClassReport struct {
	Total     int64 // of inventories, before reserves and ratios
	Reserved  int64
	Capacity  int64
	Used      int64 // at this instant, firm and preemptible
	FreeNow   int64 // capacity less use; over-full counts as 0
	FreeAt    int64 // capacity less firm use at the given instant, likewise
	Providers int   // that have the class
}

// Report sums up every class that a provider has, or that is in use, over all providers,
// serving or not, each once. An instant before now means now.
func (v View) Report(at api.Instant) map[api.ResourceClass]ClassReport {
	d := v.data()
	at = max(at, d.now)
	out := map[api.ResourceClass]ClassReport{}
	for number, class := range d.classes.list {
		var r ClassReport
		for row := range v.Providers().All() {
			c, i := d.chunkOf(row)
			have, ok := c.specs.at[i].Inventory[class]
			if ok {
				r.Providers++
				r.Total = addCapped(r.Total, have.Total)
				r.Reserved = addCapped(r.Reserved, have.Reserved)
			}
			if col := c.column(number); col != nil {
				r.Capacity = addCapped(r.Capacity, col.capacity.at[i])
				r.Used = addCapped(r.Used, col.capacity.at[i]-col.now.at[i])
				r.FreeNow = addCapped(r.FreeNow, max(0, col.now.at[i]))
				firm := c.timelines.at[i].peakUse(number, col.firm.at[i], at, at.Add(time.Millisecond))
				r.FreeAt = addCapped(r.FreeAt, max(0, col.capacity.at[i]-firm))
			}
		}
		if r.Providers > 0 || r.Used > 0 {
			out[class] = r
		}
	}
	return out
}
