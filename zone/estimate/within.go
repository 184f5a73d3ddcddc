package estimate

import (
	"slices"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/raftstore/state"
)

// insideOf returns the inside of a reservation as a host table: each slot that has begun is a
// host with the slot's id, the room that is left in it, and the properties of the host that
// it is on. One that another instance has is full.
func insideOf(v *state.State, req *api.Request) capacity.View {
	hosts := v.Hosts()
	t := capacity.NewTable()
	t.Advance(hosts.Now())
	free := map[api.InstanceID]bool{}
	for _, slot := range v.FreeSlots(req.Origin, req.Within, req.Project) {
		free[slot.ID] = true
	}
	for _, slot := range v.UsableSlots(req.Origin, req.Within, req.Project) {
		spec, ok := specOf(v, slot)
		if !ok {
			continue
		}
		t.Put(spec)
		if !free[slot.ID] {
			full := capacity.OwnPart(v.ClaimOf(slot), slot.Shares)
			full.Whole = false
			t.Restore(spec.ID, full)
			continue
		}
		for _, i := range v.Within(slot.ID) {
			if c := v.ClaimOf(i); i.Class != api.Preemptible { // those leave
				c.Within = nil
				t.Restore(spec.ID, c)
			}
		}
	}
	return t.View()
}

// besideOf returns where volumes of a request go whose instances run within a reservation: to the hosts of
// the slots, into the room that is not reserved there.
func besideOf(v *state.State, in *buildplan.Inputs) *buildplan.Beside {
	outside := *in
	return &buildplan.Beside{Inputs: &outside, HostOf: func(slot api.HostID) api.HostID {
		i, _ := v.Instance(api.InstanceID(slot)) // the view has no others
		return i.Host
	}}
}

// specOf describes a slot as a host; false if its host is not known.
func specOf(v *state.State, slot *api.Instance) (capacity.Spec, bool) {
	hosts := v.Hosts()
	row, ok := hosts.Row(slot.Host)
	if !ok {
		return capacity.Spec{}, false
	}
	spec := hosts.Spec(row)
	spec.ID, spec.Parent, spec.Gap, spec.Name = api.HostID(slot.ID), "", 0, ""
	spec.Inventory = inventoryOf(capacity.OwnPart(v.ClaimOf(slot), slot.Shares).Resources, spec.Inventory)
	return spec, true
}

// lentView returns what owners of leases lend to preemptibles as a host table: each slot is a host
// with the slot's id and what nobody uses of it.
// Of those on hosts that are not shown there are none.
func lentView(v *state.State, shown capacity.View) capacity.View {
	hosts := shown.Hosts()
	t := capacity.NewTable()
	t.Advance(v.Now())
	for _, slot := range v.LentSlots() {
		spec, ok := specOf(v, slot)
		if row, _ := shown.Row(slot.Host); !ok || !hosts.Has(row) {
			continue
		}
		t.Put(spec)
		for _, i := range v.Within(slot.ID) {
			c := v.ClaimOf(i)
			c.Within = nil
			t.Restore(spec.ID, c)
		}
	}
	return t.View()
}

// addLent adds to a plan of preemptibles that came out short what owners of leases lend: their
// slots come last, because whoever is there has to leave when the owner comes. Groups under rules
// get none: a plan of slots knows no members on other hosts.
func (e *Estimator) addLent(v *state.State, req *api.Request, p *buildplan.Plan) {
	if req.Class != api.Preemptible || req.Within != "" || len(v.LentSlots()) == 0 {
		return
	}
	short := *req
	short.Groups, short.Rules = slices.Clone(req.Groups), nil
	for g := range short.Groups {
		short.Groups[g].Min = 0
		if short.Groups[g].Count -= len(p.Groups[g].Slots); len(req.RulesOf(g)) > 0 {
			short.Groups[g].Count = 0
		}
	}
	if short.Count() == 0 {
		return
	}
	in := e.Inputs(v, &short)
	in.View, in.Spare = lentView(v, in.View), 0
	in.World.Census = slotCensus{v, v.LentSlots()}
	lent := buildplan.Select(in, &short)
	for g := range lent.Groups {
		p.Groups[g].Slots = append(p.Groups[g].Slots, lent.Groups[g].Slots...)
	}
}

// inventoryOf returns the inventory of a slot: what it reserves, in the units of its host.
func inventoryOf(r api.Resources, host map[api.ResourceClass]api.Inventory) map[api.ResourceClass]api.Inventory {
	out := make(map[api.ResourceClass]api.Inventory, len(r))
	for class, n := range r {
		inv := host[class]
		inv.Total, inv.Reserved, inv.AllocationRatio = n, 0, 0
		if inv.MaxUnit > n {
			inv.MaxUnit = 0
		}
		out[class] = inv
	}
	return out
}

// slotCensus is a census in which slots stand for the hosts that they are on.
type slotCensus struct {
	*state.State
	slots []*api.Instance
}

// Members counts the members of a rule on the host of each slot.
func (c slotCensus) Members(t api.Tenant, rule string) (map[api.HostID]int, map[api.LinkID]int) {
	here, elsewhere := c.State.Members(t, rule)
	out := make(map[api.HostID]int, len(c.slots))
	for _, slot := range c.slots {
		if n := here[slot.Host]; n > 0 {
			out[api.HostID(slot.ID)] = n
		}
	}
	return out, elsewhere
}

// slotsToKeep returns, by group, the slots on own hosts that a request may take over in place
// from the one that it replaces. Those of a lease that has begun must not move.
func slotsToKeep(v *state.State, req *api.Request) [][]buildplan.Keep {
	out := make([][]buildplan.Keep, len(req.Groups))
	for g := range req.Groups {
		for _, slot := range v.SlotsOf(req.Origin, api.ReservationID(req.Groups[g].Name)) {
			if slot.Host == "" || slot.Project != req.Project || slot.Reservation != req.Replaces || slot.Status == api.StatusDeleting {
				continue
			}
			out[g] = append(out[g], buildplan.Keep{
				Host: slot.Host, Claim: v.ClaimOf(slot), Shares: slot.Shares, Fixed: slot.Status == api.StatusActive,
			})
		}
	}
	return out
}
