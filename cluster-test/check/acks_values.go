package check

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"berth/api"
	"berth/cluster-test/check/model"
	"berth/cluster-test/check/promise"
	"berth/raftstore/state"
)

// register is one value that acknowledged calls set, such as the end of a lease. It has the value of a call
// after which no other acknowledged call certainly came.
type register struct {
	zone, what string
	read       func(*audit, *state.State) (value string, ok bool) // ok is false if what has the value is gone
}

// key names the register.
func (r *register) key() string { return r.zone + "\x00" + r.what }

// write is one call that sets a register.
type write struct {
	ack   *Ack
	value string
}

// writesOf returns what a call sets.
func writesOf(k *Ack) (of []register, values []string) {
	add := func(what, value string, read func(*audit, *state.State) (string, bool)) {
		of, values = append(of, register{k.Zone, what, read}), append(values, value)
	}
	switch k.Kind { //nolint:exhaustive // the others set no value
	case AckLease, AckLeaseUpdate:
		if k.End != 0 {
			add("the end of lease "+string(k.Lease), k.End.String(), readLease(k.Lease, func(t *api.LeaseTerms) string { return t.Window.End.String() }))
		}
		if k.Amount != 0 {
			add("the size of lease "+string(k.Lease), strconv.Itoa(k.Amount), readLease(k.Lease, func(t *api.LeaseTerms) string {
				if len(t.Reservations) == 0 {
					return "0"
				}
				return strconv.Itoa(t.Reservations[0].Max)
			}))
		}
	case AckAttach, AckDetach:
		add("the server of volume "+string(k.Instance), string(k.Server), readAttached(k.Instance))
	case AckQuota:
		add(fmt.Sprintf("the quota %s of project %s", k.Item, k.Project), strconv.FormatInt(k.Limit, 10), func(_ *audit, s *state.State) (string, bool) {
			n, ok := s.Quota(k.Project)[k.Item]
			if !ok {
				return "unset", true
			}
			return strconv.FormatInt(n, 10), true
		})
	case AckPower:
		add("whether instance "+string(k.Instance)+" is stopped", strconv.FormatBool(k.Halted), readHalted(k.Instance))
	}
	return of, values
}

func readLease(id api.LeaseID, value func(*api.LeaseTerms) string) func(*audit, *state.State) (string, bool) {
	return func(_ *audit, s *state.State) (string, bool) {
		l, ok := s.Lease(id)
		if !ok || l.Status == api.LeaseDeleting {
			return "", false
		}
		return value(&l.Terms), true
	}
}

// readAttached returns a reader of the server of a volume. One whose server has ended since has none, whatever
// was acknowledged.
func readAttached(id api.InstanceID) func(*audit, *state.State) (string, bool) {
	return func(a *audit, s *state.State) (string, bool) {
		v, ok := s.Volume(id)
		return string(attachedOf(a, v)), ok
	}
}

func attachedOf(a *audit, v *api.Instance) api.InstanceID {
	if v == nil {
		return ""
	}
	if o := a.owners[v.ID]; o != nil {
		return o.Attached
	}
	return v.Attached
}

// readHalted returns a reader of whether an instance is stopped, in the zone that owns it.
func readHalted(id api.InstanceID) func(*audit, *state.State) (string, bool) {
	return func(a *audit, _ *state.State) (string, bool) {
		o := a.owners[id]
		if o == nil || o.Status == api.StatusDeleting || o.Status == api.StatusError {
			return "", false
		}
		return strconv.FormatBool(o.Halted), true
	}
}

// checkValues checks that every value which acknowledged calls have set is that of one of the last of them, on
// every node: a call of unknown outcome may have set it at any time since, and a refused one never has.
func (a *audit) checkValues(acks []Ack) {
	var order []string
	of, writes := map[string]register{}, map[string][]write{}
	for i := range acks {
		if acks[i].Outcome == Refused {
			continue
		}
		regs, values := writesOf(&acks[i])
		for n, r := range regs {
			if _, known := of[r.key()]; !known {
				of[r.key()], order = r, append(order, r.key())
			}
			writes[r.key()] = append(writes[r.key()], write{&acks[i], values[n]})
		}
	}
	for _, key := range order {
		if last := lastOf(writes[key]); last != nil {
			a.checkValue(of[key], last)
		}
	}
}

// lastOf returns the values that calls may have left; nil if none of them is acknowledged.
func lastOf(all []write) (values []string) {
	latest, known := int64(math.MinInt64), false // of all that are acknowledged, the latest begin
	for _, w := range all {
		if w.ack.Outcome == OK {
			latest, known = max(latest, w.ack.Call), true
		}
	}
	for _, w := range all {
		if known && (w.ack.Outcome != OK || w.ack.Return >= latest) && !slices.Contains(values, w.value) {
			values = append(values, w.value)
		}
	}
	return values
}

func (a *audit) checkValue(r register, may []string) {
	a.sum.Values++
	for _, f := range a.zones[r.zone] {
		got, ok := r.read(a, f.State)
		if ok && !slices.Contains(may, got) && !a.mayBeEmpty(got, may) {
			a.addViolation(promise.Durable, r.zone, "node %s: %s is %q, and the last acknowledged calls have left %q", f.Node, r.what, got, may)
		}
	}
}

// mayBeEmpty reports whether a value is empty because the server that a volume was attached to has ended.
func (a *audit) mayBeEmpty(got string, may []string) bool {
	return got == "" && slices.ContainsFunc(may, func(id string) bool {
		o := a.owners[api.InstanceID(id)]
		return o == nil || o.Status == api.StatusDeleting
	})
}

// checkLeft checks that every lease, series and binding that was acknowledged is on every node, unless somebody
// has asked for its end, and that none is there whose end was acknowledged.
func (a *audit) checkLeft(acks []Ack) {
	ended := map[api.LeaseID]bool{}
	gone := map[api.SeriesID]bool{}
	for i := range acks {
		k := &acks[i]
		if k.Kind == AckLeaseDelete && k.Outcome != Refused {
			ended[k.Lease] = true
		}
		if k.Kind == AckSeriesDelete && k.Outcome != Refused {
			gone[k.Series] = true
		}
	}
	for i := range acks {
		k := &acks[i]
		if k.Outcome != OK {
			continue
		}
		for _, f := range a.zones[k.Zone] {
			if why := leftOf(k, f.State, ended[k.Lease], gone[k.Series]); why != "" {
				a.addViolation(promise.Durable, k.Zone, "node %s: %s", f.Node, why)
			}
		}
	}
}

// leftOf describes what of an acknowledged call is not as it should be in s, "" for nothing. ended and gone say
// whether somebody has asked for the end of its lease and its series.
func leftOf(k *Ack, s *state.State, ended, gone bool) string {
	switch k.Kind { //nolint:exhaustive // missingOf has the others
	case AckLease, AckLeaseUpdate:
		l, there := s.Lease(k.Lease)
		if !there && !ended && !gone {
			return fmt.Sprintf("lease %s is lost", k.Lease)
		}
		if there && l.Status == api.LeaseError {
			return fmt.Sprintf("lease %s was acknowledged, and is %s: %s", k.Lease, l.Status, l.Reason)
		}
	case AckLeaseDelete:
		if l, there := s.Lease(k.Lease); there && l.Status != api.LeaseDeleting {
			return fmt.Sprintf("the delete of lease %s is lost: it is %s", k.Lease, l.Status)
		}
	case AckSeries:
		if _, there := s.OneSeries(k.Series); !there && !gone {
			return fmt.Sprintf("series %s is lost", k.Series)
		}
	case AckSeriesDelete:
		if r, there := s.OneSeries(k.Series); there && r.Status != api.SeriesDeleting {
			return fmt.Sprintf("the delete of series %s is lost: it is %s", k.Series, r.Status)
		}
	}
	return ""
}

// missingInto describes what of an acknowledged boot into a lease is missing from s, "" for nothing.
func missingInto(k *Ack, b *state.Boot) string {
	if within := b.Request.Within; k.Into != "" && within != k.Into {
		return fmt.Sprintf("reservation %s was booted into reservation %s, and runs in %q", k.Reservation, k.Into, within)
	}
	return ""
}

// missingBinding describes the effect of a call about a binding that is missing from s, "" for none.
func missingBinding(k *Ack, s *state.State) string {
	b, ok := s.Binding(k.Binding)
	switch {
	case k.Kind == AckBind && !ok:
		return fmt.Sprintf("binding %s is lost", k.Binding)
	case k.Kind == AckBindingEnd && ok && b.Active():
		return fmt.Sprintf("the end of binding %s is lost", k.Binding)
	}
	return ""
}

// checkInto checks that what was booted into a lease runs in a slot of it.
func (a *audit) checkInto(acks []Ack) {
	into := map[model.BootID]api.ReservationID{}
	for i := range acks {
		if k := &acks[i]; k.Kind == AckBoot && k.Outcome == OK && k.Into != "" {
			into[model.BootID{Project: k.Project, Reservation: k.Reservation}] = k.Into
		}
	}
	for _, f := range a.order {
		for _, i := range instancesOf(f.State) {
			lease, asked := into[model.BootID{Project: i.Project, Reservation: i.Reservation}]
			if !asked || i.Host == "" || i.Volume != "" { // volumes are in no lease
				continue
			}
			a.sum.Into++
			if slot, ok := f.State.Instance(i.Within); !ok || !slot.Live() || slot.Group != string(lease) {
				a.addViolation(promise.Within, f.Zone, "instance %s was booted into reservation %s, and is in slot %q", i.ID, lease, i.Within)
			}
		}
	}
}
