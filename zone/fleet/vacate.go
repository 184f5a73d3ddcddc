package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

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
	hosts, err := hostsNamed(v, t.Hosts)
	if err != nil {
		return err
	}
	latest := func() (*state.State, error) { return f.zone.Latest(ctx) }
	return f.vacate(v, hosts, t, latest, func(group []*api.Instance, to api.HostID) error { return f.moveTo(ctx, group, to, false) })
}

// PlanVacate is a dry run of VacateHosts on v, a view: it returns what v would be afterwards, and
// changes nothing.
func (f *Fleet) PlanVacate(v *state.State, t *api.LeaseTerms) (*state.State, error) {
	hosts, err := hostsNamed(v, t.Hosts)
	if err != nil {
		return nil, err
	}
	d := state.NewDraft(v)
	err = f.vacate(v, hosts, t, func() (*state.State, error) { return d.View(), nil }, func(group []*api.Instance, to api.HostID) error {
		return d.Move(moveCommand(group, to))
	})
	return d.View(), err
}

func hostsNamed(v *state.State, names []string) ([]api.HostID, error) {
	var out []api.HostID
	for _, name := range names {
		h, ok := v.HostByName(name)
		if !ok {
			return nil, api.Errorf(api.CodeNotFound, "there is no host %q in this zone", name)
		}
		out = append(out, h.ID)
	}
	return out, nil
}

// vacate refuses what is in the way of a maintenance lease, or moves its slots off, the soonest
// first. latest returns the state after the moves before.
func (f *Fleet) vacate(
	v *state.State, hosts []api.HostID, t *api.LeaseTerms, latest func() (*state.State, error), move func(group []*api.Instance, to api.HostID) error,
) error {
	if err := refuseInWay(v, hosts, t); err != nil {
		return err
	}
	var slots []*api.Instance
	for _, id := range hosts {
		slots = append(slots, slices.DeleteFunc(v.SlotsOn(id), func(i *api.Instance) bool { return !isInWay(v, i, t) })...)
	}
	sortSoonest(slots)
	for _, i := range slots {
		now, err := latest()
		if err != nil {
			return err
		}
		is, there := now.Instance(i.ID)
		if !there || is.Host != i.Host || !is.Live() {
			continue // it has gone meanwhile
		}
		group := together(now, is)
		if err := f.moveOff(now, group, t.Hosts, func(to api.HostID) error { return move(group, to) }); err != nil {
			return api.Errorf(api.CodeOf(err), "the slot %s of reservation %s cannot leave its host: %s", i.ID, i.Group, api.MessageOf(err))
		}
	}
	return nil
}

// refuseInWay refuses hosts on which something cannot be moved away by itself: instances, and
// slots with instances in them or of maintenance.
func refuseInWay(v *state.State, hosts []api.HostID, t *api.LeaseTerms) error {
	var inWay []string
	for _, id := range hosts {
		for _, i := range v.OnHost(id) {
			if isInWay(v, i, t) {
				inWay = append(inWay, fmt.Sprintf("instance %s until %s", i.ID, describeEnd(i.Window.End)))
			}
		}
		for _, i := range v.SlotsOn(id) {
			if isInWay(v, i, t) && (Maintains(v, i) || !v.IsEmpty(i)) {
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

// isInWay reports whether an instance or a slot keeps a maintenance lease from its host: between
// two windows there the host is cleaned.
func isInWay(v *state.State, i *api.Instance, t *api.LeaseTerms) bool {
	if i.Reserved && i.Origin == "" && i.Group == string(t.Reservations[0].ID) || i.Class != api.Firm || !i.Live() {
		return false
	}
	var cleaning time.Duration
	if h, ok := v.Host(i.Host); ok {
		cleaning = h.Cleaning
	}
	return i.Window.Start < t.Window.End.Add(cleaning) && t.Window.Start < i.Window.End.Add(cleaning)
}

// Maintains reports whether a slot is that of a maintenance lease: it is of that host alone.
func Maintains(v *state.State, i *api.Instance) bool {
	h, ok := v.Hold(i.Origin, i.Hold)
	return ok && h.Request.Maintains()
}
