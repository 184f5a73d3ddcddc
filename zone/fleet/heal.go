package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	"berth/api"
	"berth/raftstore/state"
	"berth/zone"
)

// HealWithin is how long before its window a slot leaves a host that is lost: until then
// the host may come back.
const HealWithin = time.Hour

// dueHeals returns the jobs that move slots of leases off hosts that are lost, being drained by
// moving, or whose room others have not left in time, those whose window begins first. What
// runs in a slot keeps it where it is, but for preemptibles: they leave first. A group under affinity
// leaves as a whole.
func (f *Fleet) dueHeals(v *state.State) []zone.Job {
	var slots []*api.Instance
	until := f.zone.Instant().Add(HealWithin)
	leave := func(from []*api.Instance, until api.Instant) {
		for _, i := range from {
			if isRunning(i) && (v.IsEmpty(i) || v.HasOnlyLent(i)) && i.Window.Start <= until && !Maintains(v, i) {
				slots = append(slots, i)
			}
		}
	}
	hosts := v.Hosts()
	lost := hosts.Hosts()
	lost.AndNot(hosts.Up())
	for row := range lost.All() {
		leave(v.SlotsOn(hosts.ID(row)), until)
	}
	for _, h := range v.Draining() {
		if h.Drain == api.DrainMove && h.State == api.HostUp {
			leave(v.SlotsOn(h.ID), api.Forever)
		}
	}
	leave(v.LateSlots(f.zone.Instant().Add(-api.StartWithin)), api.Forever)
	sortSoonest(slots)
	var out []zone.Job
	for _, group := range groupLeaving(v, slices.Compact(slots)) {
		out = append(out, zone.Job{Key: string(group[0].ID), Run: func(ctx context.Context) error { return f.healSlots(ctx, group) }})
	}
	return out
}

// sortSoonest sorts instances and slots: those whose window begins first come first.
func sortSoonest(all []*api.Instance) {
	slices.SortFunc(all, func(a, b *api.Instance) int {
		return cmp.Or(cmp.Compare(a.Window.Start, b.Window.Start), cmp.Compare(a.ID, b.ID))
	})
}

// healSlots moves a slot, or a group that leaves its host together, to another host of the zone, planned as if
// it were asked for now.
func (f *Fleet) healSlots(ctx context.Context, group []*api.Instance) error {
	v := f.zone.View()
	for _, i := range group {
		if now, ok := v.Instance(i.ID); !ok || now.Host != i.Host || !isRunning(now) || !v.IsEmpty(now) && !v.HasOnlyLent(now) {
			return nil
		}
	}
	return f.moveOff(v, group, nil, func(to api.HostID) error { return f.moveTo(ctx, group, to, false) })
}
