package model

import (
	"cmp"
	"maps"

	"berth/api"
)

// overridden returns what a host has of a class of which own is the operators'; false for nothing.
func (h *Host) overridden(class api.ResourceClass, own api.Inventory) (api.Inventory, bool) {
	set, partly := h.OwnFields[class]
	reported, has := h.Inventory[class]
	switch {
	case !partly:
		return own, true
	case !has && set&api.FieldTotal == 0:
		return api.Inventory{}, false
	}
	return mixed(reported, own, set), true
}

// mixed returns what is reported, but for what operators have set.
func mixed(v, own api.Inventory, set api.InventoryFields) api.Inventory {
	if set&api.FieldTotal != 0 {
		v.Total = own.Total
	}
	if set&api.FieldReserved != 0 {
		v.Reserved = own.Reserved
	}
	if set&api.FieldMinUnit != 0 {
		v.MinUnit = own.MinUnit
	}
	if set&api.FieldStepSize != 0 {
		v.StepSize = own.StepSize
	}
	if set&api.FieldAllocationRatio != 0 {
		v.AllocationRatio = own.AllocationRatio
	}
	if v.Reserved > v.Total {
		v.Reserved = v.Total
	}
	switch {
	case set&api.FieldMaxUnit != 0:
		v.MaxUnit = own.MaxUnit
	case set&(api.FieldTotal|api.FieldAllocationRatio) == 0:
	case v.MaxUnit == 0:
		v.MaxUnit = min(capacityOf(v), v.Total)
	default:
		v.MaxUnit = min(v.MaxUnit, v.Total)
	}
	return v
}

// mostOf returns the largest amount of one claim.
func mostOf(v api.Inventory) int64 { return cmp.Or(v.MaxUnit, capacityOf(v)) }

// differing returns what of v is set and not as reported.
func differing(reported, v api.Inventory) (set api.InventoryFields) {
	if v.Total != reported.Total {
		set |= api.FieldTotal
	}
	if v.Reserved != min(reported.Reserved, v.Total) {
		set |= api.FieldReserved
	}
	if v.MinUnit > 0 && v.MinUnit != max(1, reported.MinUnit) {
		set |= api.FieldMinUnit
	}
	if v.StepSize > 0 && v.StepSize != max(1, reported.StepSize) {
		set |= api.FieldStepSize
	}
	if v.AllocationRatio > 0 && v.AllocationRatio != cmp.Or(reported.AllocationRatio, api.RatioOne) {
		set |= api.FieldAllocationRatio
	}
	if v.MaxUnit > 0 && v.MaxUnit != mostOf(mixed(reported, v, set)) {
		set |= api.FieldMaxUnit
	}
	return set
}

// followReports leaves of an override of a class as a whole, which is as old logs have them, what is not
// as reported: before, or for the first time.
func (h *Host) followReports(next map[api.ResourceClass]api.Inventory) {
	own, set := maps.Clone(h.OwnInventory), map[api.ResourceClass]api.InventoryFields{}
	maps.Copy(set, h.OwnFields)
	for class, v := range h.OwnInventory {
		reported, has := h.Inventory[class]
		if !has {
			reported, has = next[class]
		}
		if _, partly := h.OwnFields[class]; partly || !has {
			continue
		}
		if v.MaxUnit == api.UnitMax {
			v.MaxUnit = 0
		}
		if own[class], set[class] = v, differing(reported, v); set[class] == 0 {
			delete(own, class)
			delete(set, class)
		}
	}
	h.OwnInventory, h.OwnFields = own, set
}

// override gives a host the inventory that operators want.
func (h *Host) override(want map[api.ResourceClass]api.Inventory) {
	before := *h
	before.followReports(nil)
	now := before.Stock()
	own, all := map[api.ResourceClass]api.Inventory{}, map[api.ResourceClass]api.InventoryFields{}
	for class, v := range want {
		reported, has := h.Inventory[class]
		if !has {
			own[class] = v
			continue
		}
		set, had := differing(reported, v), before.OwnFields[class]
		if v.MaxUnit > 0 && v.MaxUnit == mostOf(now[class]) { // written as it was read
			set &^= api.FieldMaxUnit
			set |= had & api.FieldMaxUnit
		}
		if set&had&api.FieldReserved != 0 && v.Reserved == now[class].Reserved {
			v.Reserved = before.OwnInventory[class].Reserved
		}
		if set != 0 {
			own[class], all[class] = v, set
		}
	}
	h.OwnInventory, h.OwnFields = own, all
}
