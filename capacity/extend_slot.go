package capacity

import (
	"maps"
	"slices"

	"berth/api"
)

// ExtendSlot is Extend for a slot on a host, whose claim from has shares of other providers:
// from and to are all that the slot takes, as Place gets it. Each class that from has comes from
// whoever gives it now, any other as Place would take it. It returns the shares of to and all
// that to takes, which for whole hosts is what PlaceWhole would take over its window, whatever
// to.Resources says.
func (t *Table) ExtendSlot(id api.HostID, from api.Claim, shares []api.Share, to api.Claim) ([]api.Share, api.Resources, error) {
	t.refreshReaches()
	row, known := t.rowOf(id)
	if !known || t.specOf(row).Passive {
		return nil, nil, api.Errorf(api.CodeNotFound, "no such host")
	}
	to, toShares, err := t.planInstead(row, from, shares, to)
	if err != nil {
		return nil, nil, err
	}
	t.sumSwaps(t.swapsOf(row, from, shares, to, toShares))
	return toShares, to.Resources, nil
}

// RestoreSlotExtension is RestoreExtension for a slot, with the shares that ExtendSlot returned.
func (t *Table) RestoreSlotExtension(id api.HostID, from api.Claim, shares []api.Share, to api.Claim, toShares []api.Share) bool {
	row, known := t.rowOf(id)
	if known {
		t.sumSwaps(t.swapsOf(row, from, shares, to, toShares))
	}
	return known
}

// ShrinkSlot is Shrink for a slot: only to, with toShares, is left.
func (t *Table) ShrinkSlot(id api.HostID, from api.Claim, shares []api.Share, to api.Claim, toShares []api.Share) {
	row, known := t.rowOf(id)
	if !known {
		return
	}
	for _, s := range t.swapsOf(row, from, shares, to, toShares) {
		t.addExtension(s.row, s.to, s.from, -1)
		t.moveRoom(s.row, from.Consumer, to.Consumer)
	}
}

// SlotFitsInstead is the error of ExtendSlot on the view.
func (v View) SlotFitsInstead(id api.HostID, from api.Claim, shares []api.Share, to api.Claim) error {
	row, known := v.Row(id)
	if !known || v.data().specOf(row).Passive {
		return api.Errorf(api.CodeNotFound, "no such host")
	}
	_, _, err := v.data().planInstead(row, from, shares, to)
	return err
}

// sumSwaps charges for what is new in some swaps.
func (t *Table) sumSwaps(list []swap) {
	for _, s := range list {
		t.addExtension(s.row, s.from, s.to, 1)
	}
}

// planInstead returns all that to takes in place of from on the host in row, and the shares of
// it, or why it does not fit.
func (d *data) planInstead(row int, from api.Claim, shares []api.Share, to api.Claim) (api.Claim, []api.Share, error) {
	if to.Whole {
		to.Resources = nil
	}
	if err := d.checkSwap(from, to); err != nil {
		return to, nil, err
	}
	var parts map[int]*api.Claim
	if to.Whole {
		parts, to.Resources = d.wholeParts(row, to)
	} else {
		var err error
		if parts, err = d.givenInstead(row, d.partsOf(row, from, shares), to); err != nil {
			return to, nil, err
		}
	}
	toShares := d.sharesOf(row, parts)
	for _, s := range d.swapsOf(row, from, shares, to, toShares) {
		if err := d.checkExtension(s.row, s.from, s.to); err != nil {
			return to, nil, err
		}
	}
	return to, toShares, nil
}

// givenInstead returns who gives what of to, in place of the parts of an earlier claim.
func (d *data) givenInstead(row int, before map[int]*api.Claim, to api.Claim) (map[int]*api.Claim, error) {
	own := to
	own.Resources = api.Resources{}
	parts := map[int]*api.Claim{row: &own}
	give := func(at int, a *amount) {
		if parts[at] == nil {
			part := to
			part.Resources = api.Resources{}
			parts[at] = &part
		}
		parts[at].Resources[a.name] = a.n
	}
	var need []amount
	givers := slices.Sorted(maps.Keys(before))
	for _, a := range d.appendAmounts(nil, to.Resources) {
		if n := slices.IndexFunc(givers, func(at int) bool { return before[at].Resources[a.name] > 0 }); n >= 0 {
			give(givers[n], &a)
		} else {
			need = append(need, a)
		}
	}
	from := make([]int, len(need))
	if !d.chooseSources(row, need, from, func(at int, a *amount) bool { return d.roomFor(at, a, to) >= a.n && d.admitsAmount(at, a) }) {
		return nil, d.explainLack(row, &need[slices.Index(from, nobody)], to)
	}
	for i, at := range from {
		give(at, &need[i])
	}
	return parts, nil
}
