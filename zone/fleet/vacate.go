package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/api"
	"berth/raftstore/state"
)

// inWayShown is how many instances a refusal names.
const inWayShown = 5

// VacateHosts moves the slots of other leases in which nothing runs off the hosts of a
// maintenance lease, if they overlap its window. It refuses, and moves nothing, if anything
// else is there then; it stops with CodeNoCapacity if no other host takes a slot. What has
// moved stays moved: its lease has all its room.
func (f *Fleet) VacateHosts(ctx context.Context, t *api.LeaseTerms) error {
	v, err := f.zone.Latest(ctx)
	if err != nil {
		return err
	}
	var hosts []api.HostID
	for _, name := range t.Hosts {
		h, ok := v.HostByName(name)
		if !ok {
			return api.Errorf(api.CodeNotFound, "there is no host %q in this zone", name)
		}
		hosts = append(hosts, h.ID)
	}
	if err := refuseInWay(v, hosts, t); err != nil {
		return err
	}
	for _, id := range hosts {
		for _, i := range v.SlotsOn(id) {
			if !isInWay(i, t) {
				continue
			}
			if err := f.vacateSlot(ctx, i, t.Hosts); err != nil {
				return err
			}
		}
	}
	return nil
}

// vacateSlot moves one slot to a host other than some of its zone.
func (f *Fleet) vacateSlot(ctx context.Context, i *api.Instance, names []string) error {
	v, err := f.zone.Latest(ctx)
	if err != nil {
		return err
	}
	h, ok := v.Hold(i.Origin, i.Hold)
	if now, there := v.Instance(i.ID); !ok || !there || now.Host != i.Host || !now.Live() {
		return nil // it has gone meanwhile
	}
	req := requestOf(h, i)
	req.Replaces = ""
	for g := range req.Groups {
		req.Groups[g].Hints.IgnoreHosts = append(slices.Clone(req.Groups[g].Hints.IgnoreHosts), names...)
	}
	if err := f.moveAs(ctx, v, i, &req, nil, false); err != nil {
		return api.Errorf(api.CodeOf(err), "the slot %s of reservation %s cannot leave its host: %s", i.ID, i.Group, api.MessageOf(err))
	}
	return nil
}

// refuseInWay refuses hosts on which something cannot be moved away by itself: instances, and
// slots with instances in them or of maintenance.
func refuseInWay(v *state.State, hosts []api.HostID, t *api.LeaseTerms) error {
	var inWay []string
	for _, id := range hosts {
		for _, i := range v.OnHost(id) {
			if isInWay(i, t) {
				inWay = append(inWay, fmt.Sprintf("instance %s until %s", i.ID, describeEnd(i.Window.End)))
			}
		}
		for _, i := range v.SlotsOn(id) {
			if isInWay(i, t) && (maintains(v, i) || !v.IsEmpty(i)) {
				inWay = append(inWay, fmt.Sprintf("reservation %s until %s", i.Group, describeEnd(i.Window.End)))
			}
		}
	}
	if len(inWay) == 0 {
		return nil
	}
	slices.Sort(inWay)
	more := ""
	if n := len(inWay) - inWayShown; n > 0 {
		inWay, more = inWay[:inWayShown], fmt.Sprintf(" and %d more", n)
	}
	return api.Errorf(api.CodeConflict, "the hosts are in use then, by %s%s: drain them first, or choose another window", strings.Join(inWay, ", "), more)
}

func describeEnd(end api.Instant) string {
	if end == api.Forever {
		return "its owner ends it"
	}
	return end.Time().UTC().Format("2006-01-02 15:04 UTC")
}

// isInWay reports whether an instance or a slot keeps a maintenance lease from its host.
func isInWay(i *api.Instance, t *api.LeaseTerms) bool {
	own := i.Reserved && i.Origin == "" && i.Group == string(t.Reservations[0].ID)
	return !own && i.Class == api.Firm && i.Live() && i.Window.Start < t.Window.End && t.Window.Start < i.Window.End
}

// maintains reports whether a slot is that of a maintenance lease: it is of that host alone.
func maintains(v *state.State, i *api.Instance) bool {
	h, ok := v.Hold(i.Origin, i.Hold)
	return ok && h.Request.Maintains()
}
