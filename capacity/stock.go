package capacity

import (
	"slices"

	"berth/api"
)

// stockMax bounds what one provider adds to the stock of a class, so that sums are exact whatever
// ratios are.
const stockMax = 1 << 45

// Stock returns the sum of the capacity of all providers in a class, whatever their state is and
// whatever is claimed. While the layout is hidden it is of the hosts that would be shown if all served, and of
// what is no host's.
func (t *Table) Stock(class api.ResourceClass) int64 {
	t.refreshLayout()
	return t.stockOf(class)
}

// Stock is Table.Stock of a view.
func (v View) Stock(class api.ResourceClass) int64 { return v.data().stockOf(class) }

func (d *data) stockOf(class api.ResourceClass) int64 {
	if d.layout != nil {
		return d.layout.stock[class]
	}
	if n := d.classes.numberOf(class); n >= 0 && n < len(d.stock) {
		return d.stock[n]
	}
	return 0
}

// addStock adds to the stock of a class, in a copy if a view may have it.
func (t *Table) addStock(class int, delta int64) {
	if class < 0 || delta == 0 {
		return
	}
	if t.stockEpoch != t.epoch {
		t.stock, t.stockEpoch = slices.Clone(t.stock), t.epoch
	}
	for len(t.stock) <= class {
		t.stock = append(t.stock, 0)
	}
	t.stock[class] += delta
}

// WholeCapacity returns what PlaceWhole takes of a host, which is nothing of an unknown one.
func (t *Table) WholeCapacity(id api.HostID) api.Resources {
	t.refreshReaches()
	row, known := t.rowOf(id)
	if !known {
		return nil
	}
	_, all := t.wholeParts(row, api.Claim{})
	return all
}
