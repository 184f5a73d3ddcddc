package state

import (
	"cmp"
	"maps"

	"berth/api"
)

// unitUnset is the max_unit of records of before api.FormFifth in which none was given.
const unitUnset = 1<<31 - 1

// mergedInventory returns the inventory that is in effect. It may be that of a record.
func (w *declaredProvider) mergedInventory() map[api.ResourceClass]api.Inventory {
	switch {
	case len(w.own.inventory) == 0 && len(w.declared.inventory) > 0:
		return w.declared.inventory
	case len(w.declared.inventory) == 0 && len(w.own.fields) == 0:
		return w.own.inventory
	}
	out := maps.Clone(w.declared.inventory)
	if out == nil {
		out = map[api.ResourceClass]api.Inventory{}
	}
	for class, own := range w.own.inventory {
		fields, partial := w.own.fields[class]
		reported, has := w.declared.inventory[class]
		switch {
		case !partial:
			out[class] = own
		case has:
			out[class] = overrideInventory(reported, own, fields)
		case fields.Has(api.FieldTotal): // the agent reports the class no more
			out[class] = overrideInventory(api.Inventory{}, own, fields)
		}
	}
	return out
}

// overrideInventory returns what an agent reports with the fields of own. What is reserved is never
// more than the total, and where the total or the ratio is overridden, max_unit is within the total
// unless it is overridden too.
func overrideInventory(reported, own api.Inventory, fields api.InventoryFields) api.Inventory {
	out := withFields(reported, own, fields)
	out.Reserved = min(out.Reserved, out.Total)
	if !fields.Has(api.FieldMaxUnit) && fields.Has(api.FieldTotal|api.FieldAllocationRatio) {
		out.MaxUnit = min(cmp.Or(out.MaxUnit, out.Capacity()), out.Total)
	}
	return out
}

// withFields returns v with some fields of another.
func withFields(v, other api.Inventory, fields api.InventoryFields) api.Inventory {
	set := func(field api.InventoryFields, to *int64, value int64) {
		if fields.Has(field) {
			*to = value
		}
	}
	set(api.FieldTotal, &v.Total, other.Total)
	set(api.FieldReserved, &v.Reserved, other.Reserved)
	set(api.FieldMinUnit, &v.MinUnit, other.MinUnit)
	set(api.FieldMaxUnit, &v.MaxUnit, other.MaxUnit)
	set(api.FieldStepSize, &v.StepSize, other.StepSize)
	if fields.Has(api.FieldAllocationRatio) {
		v.AllocationRatio = other.AllocationRatio
	}
	return v
}

// narrowed returns the operators' inventory with only the fields that they have set, and these. Only
// records of before api.FormFifth, and of classes that the agent had not reported, change: what is as
// reported follows the reports from then on. next is what the agent reports now.
func (w *declaredProvider) narrowed(next map[api.ResourceClass]api.Inventory) (map[api.ResourceClass]api.Inventory, map[api.ResourceClass]api.InventoryFields) {
	own, fields := maps.Clone(w.own.inventory), maps.Clone(w.own.fields)
	for class, v := range w.own.inventory {
		_, partial := w.own.fields[class]
		reported, has := w.declared.inventory[class]
		if !has {
			reported, has = next[class]
		}
		if partial || !has {
			continue
		}
		if v.MaxUnit == unitUnset {
			v.MaxUnit = 0
		}
		setOwnFields(&own, &fields, class, v, fieldsSet(reported, v))
	}
	return own, fields
}

// fieldsSet returns the fields of v that are set and not as reported. Zero units and a zero ratio are
// not set.
func fieldsSet(report, v api.Inventory) (set api.InventoryFields) {
	reported := report.Normal()
	note := func(field api.InventoryFields, differs bool) {
		if differs {
			set |= field
		}
	}
	note(api.FieldTotal, v.Total != reported.Total)
	note(api.FieldReserved, v.Reserved != min(reported.Reserved, v.Total))
	note(api.FieldMinUnit, v.MinUnit != 0 && v.MinUnit != reported.MinUnit)
	note(api.FieldStepSize, v.StepSize != 0 && v.StepSize != reported.StepSize)
	note(api.FieldAllocationRatio, v.AllocationRatio != 0 && v.AllocationRatio != reported.AllocationRatio)
	note(api.FieldMaxUnit, v.MaxUnit != 0 && v.MaxUnit != overrideInventory(report, v, set).Normal().MaxUnit)
	return set
}

// setOwnFields stores the set fields of v as the operators' own, or removes the class if there are none.
func setOwnFields(own *map[api.ResourceClass]api.Inventory, fields *map[api.ResourceClass]api.InventoryFields, class api.ResourceClass, v api.Inventory, set api.InventoryFields) {
	if set == 0 {
		delete(*own, class)
		delete(*fields, class)
	} else {
		if *own == nil {
			*own = map[api.ResourceClass]api.Inventory{}
		}
		if *fields == nil {
			*fields = map[api.ResourceClass]api.InventoryFields{}
		}
		(*own)[class], (*fields)[class] = withFields(api.Inventory{}, v, set), set
	}
	if len(*own) == 0 {
		*own = nil
	}
	if len(*fields) == 0 {
		*fields = nil
	}
}

// ownInventory returns the part of an inventory that is the operators' own: the classes that the agent
// does not report, and of the others the fields that differ. What is written as it is in effect
// stays as it is, whether it is set or follows the agent; a total that the agent reports follows it.
func (s *stockBook) ownInventory(w *declaredProvider, want map[api.ResourceClass]api.Inventory) (map[api.ResourceClass]api.Inventory, map[api.ResourceClass]api.InventoryFields) {
	own := maps.Clone(want)
	if s.Form() < api.FormFifth {
		maps.DeleteFunc(own, func(class api.ResourceClass, v api.Inventory) bool {
			declared, ok := w.declared.inventory[class]
			return ok && declared.Normal() == v.Normal()
		})
		if len(own) == 0 {
			return nil, nil
		}
		return own, nil
	}
	var fields map[api.ResourceClass]api.InventoryFields
	before, had := w.narrowed(nil)
	now := (&declaredProvider{declared: w.declared, own: declaration{inventory: before, fields: had}}).mergedInventory()
	for class, v := range want {
		reported, has := w.declared.inventory[class]
		if !has {
			continue
		}
		set := fieldsSet(reported, v)
		if v.MaxUnit != 0 && v.MaxUnit == now[class].Normal().MaxUnit { // as it was read
			set = set&^api.FieldMaxUnit | had[class]&api.FieldMaxUnit
		}
		if set.Has(api.FieldReserved) && v.Reserved == now[class].Reserved && had[class].Has(api.FieldReserved) {
			v.Reserved = before[class].Reserved // it may be more than the total has room for
		}
		setOwnFields(&own, &fields, class, v, set)
	}
	if len(own) == 0 {
		own = nil
	}
	return own, fields
}

// inventoryAfter returns the inventory of a provider after want is set.
func (s *stockBook) inventoryAfter(w *declaredProvider, want map[api.ResourceClass]api.Inventory) map[api.ResourceClass]api.Inventory {
	after := declaredProvider{declared: w.declared}
	after.own.inventory, after.own.fields = s.ownInventory(w, want)
	return after.mergedInventory()
}

// InventoryAfter returns what the inventory of a provider would be, were want set.
func (s *stockBook) InventoryAfter(id api.ProviderID, want map[api.ResourceClass]api.Inventory) map[api.ResourceClass]api.Inventory {
	w, ok := s.declaredOf(id)
	if !ok {
		return nil
	}
	return s.inventoryAfter(w, want)
}
