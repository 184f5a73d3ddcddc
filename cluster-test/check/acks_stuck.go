package check

import (
	"berth/api"
	"berth/cluster-test/check/promise"
)

// checkStuckLeases lists the leases and series of a zone on which somebody still works.
func (a *audit) checkStuckLeases(f Final) {
	for _, l := range f.State.Leases("") {
		a.sum.Leases++
		if !l.Status.Stable() {
			a.addViolation(promise.Progress, f.Zone, "lease %s is stuck at %s", l.Terms.ID, l.Status)
		}
		for _, slot := range f.State.LeaseSlots(l) {
			a.checkDirectorySlot(f, slot)
		}
	}
	for _, s := range f.State.AllSeries("") {
		if s.Status != api.SeriesReady {
			a.addViolation(promise.Progress, f.Zone, "series %s is stuck at %s", s.ID, s.Status)
		}
	}
	for _, h := range f.State.AllHosts() {
		for _, slot := range f.State.SlotsOn(h.ID) {
			a.sum.Slots++
			a.checkSlot(f, slot)
		}
	}
}

// checkSlot checks that a slot on a host is as its window wants it, and that there is a lease that it is for.
func (a *audit) checkSlot(f Final, slot *api.Instance) {
	now := f.State.Now()
	switch {
	case slot.Status == api.StatusDeleting:
		a.addViolation(promise.Progress, f.Zone, "slot %s is stuck at %s", slot.ID, slot.Status)
	case slot.Window.End <= now:
		a.addViolation(promise.Progress, f.Zone, "slot %s is %s although its window ended at %s, and it is %s", slot.ID, slot.Status, slot.Window.End, now)
	case slot.Status == api.StatusBuild && slot.Window.Start <= now:
		a.addViolation(promise.Progress, f.Zone, "slot %s waits although its window began at %s, and it is %s", slot.ID, slot.Window.Start, now)
	}
	_, leased := f.State.LeaseWith(api.ReservationID(slot.Group))
	switch {
	case slot.Origin == "" && !leased:
		a.addViolation(promise.Lease, f.Zone, "slot %s is for reservation %s of no lease", slot.ID, slot.Group)
	case slot.Origin != "" && !a.knownAbove(f, slot):
		a.addViolation(promise.Saga, f.Zone, "slot %s of reservation %s was made for a parent, and no other zone knows of it", slot.ID, slot.Group)
	}
}

// checkDirectorySlot checks that some zone has a slot that a lease has elsewhere.
func (a *audit) checkDirectorySlot(f Final, slot *api.Instance) {
	if slot.Link == "" || slot.Status == api.StatusError {
		return
	}
	for _, o := range a.order {
		if i, ok := o.State.Instance(slot.ID); ok && i.Live() && i.Host != "" {
			return
		}
	}
	a.addViolation(promise.Saga, f.Zone, "slot %s of reservation %s is %s here, and no zone has it", slot.ID, slot.Group, slot.Status)
}
