package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// leaseTables shows a lease, its reservations and its events.
func leaseTables(l rest.Lease) []table {
	var t table
	t.addRow("ID", l.ID)
	t.addRow("NAME", l.Name)
	t.addRow("STATUS", l.Status)
	if l.Reason != nil {
		t.addRow("REASON", *l.Reason)
	}
	t.addRow("START", showMinute(l.Start))
	t.addRow("END", fmt.Sprintf("%s (%s)", showMinute(l.End), showSpan(leaseLength(&l))))
	t.addRow("PROJECT", l.Project)
	t.addRow("USER", l.User)
	if len(l.Shared) > 0 {
		t.addRow("SHARED WITH", joinNames(l.Shared))
	}
	if l.Grace != nil {
		t.addRow("GRACE", time.Duration(*l.Grace))
	}
	if len(l.Zones) > 0 {
		t.addRow("ZONES", strings.Join(l.Zones, ", "))
	}
	t.addRow("CREATED", showInstant(api.Instant(l.Created)))
	if l.Updated != 0 {
		t.addRow("UPDATED", showInstant(api.Instant(l.Updated)))
	}
	reserved := table{header: []string{"RESERVATION", "STATUS", "HAS", "EACH", "NOTE"}}
	for i := range l.Reservations {
		r := &l.Reservations[i]
		reserved.addRow(r.ID, r.Status, showHas(r)+" "+showThings(r), showSize(r), showDefects(r))
	}
	events := table{header: []string{"EVENT", "DUE", "STATUS"}}
	for _, v := range l.Events {
		events.addRow(v.Type, showMinute(v.Time), v.Status)
	}
	return []table{t, reserved, events}
}

// slotTables shows where the slots of a lease are, with their hosts if these are known.
func slotTables(slots []rest.LeaseSlot) []table {
	type place struct {
		of     api.ReservationID
		zone   string
		status string
	}
	var places []place
	counts, hosts := map[place]int{}, map[place][]string{}
	for _, s := range slots {
		p := place{s.Reservation, s.Zone, string(s.Status)}
		if !s.Reach {
			p.status += " (unreachable)"
		}
		if counts[p] == 0 {
			places = append(places, p)
		}
		if counts[p]++; s.Host != nil && !slices.Contains(hosts[p], *s.Host) {
			hosts[p] = append(hosts[p], *s.Host)
		}
	}
	if len(places) == 0 {
		return nil
	}
	t := table{header: []string{"RESERVATION", "ZONE", "SLOTS", "STATUS", "HOSTS"}}
	for _, p := range places {
		t.addRow(p.of, p.zone, counts[p], p.status, showNames(hosts[p]))
	}
	return []table{t}
}

// namesShown is how many names a cell of a table lists.
const namesShown = 4

func showNames(names []string) string {
	if more := len(names) - namesShown; more > 0 {
		return strings.Join(names[:namesShown], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(names, ", ")
}

// showLeaseReservation prints one reservation of a lease, if there is one with this id.
func (e *env) showLeaseReservation(ctx context.Context, cl *client.Client, id api.ReservationID) (found bool, err error) {
	all, err := cl.Leases(ctx)
	if err != nil {
		return false, err
	}
	for n := range all {
		l := &all[n]
		i := slices.IndexFunc(l.Reservations, func(r rest.LeaseReservation) bool { return r.ID == id })
		if i < 0 {
			continue
		}
		body, err := json.Marshal(map[string]rest.LeaseReservation{"reservation": l.Reservations[i]})
		if err != nil {
			return true, fmt.Errorf("writing a reservation: %w", err)
		}
		return true, e.printAnswer(body, func() []table { return leaseReservationTables(l, &l.Reservations[i]) })
	}
	return false, nil
}

// leaseReservationTables shows a reservation of a lease.
func leaseReservationTables(l *rest.Lease, r *rest.LeaseReservation) []table {
	var t table
	t.addRow("RESERVATION", r.ID)
	t.addRow("TYPE", r.Type)
	t.addRow("STATUS", r.Status)
	t.addRow("HAS", showHas(r)+" "+showThings(r))
	if size := showSize(r); size != "" {
		t.addRow("EACH", size)
	}
	if r.ReservedHosts != nil {
		t.addRow("BEFORE END", r.BeforeEnd)
		if r.HypervisorProperties != "" {
			t.addRow("HYPERVISORS", r.HypervisorProperties)
		}
	}
	if _, flavor := readFlavor(r); !flavor && r.ResourceProperties != "" {
		t.addRow("RESOURCES", r.ResourceProperties)
	}
	if note := showDefects(r); note != "" {
		t.addRow("NOTE", note)
	}
	t.addRow("LEASE", l.ID)
	t.addRow("NAME", l.Name)
	t.addRow("LEASE STATUS", l.Status)
	t.addRow("START", showMinute(l.Start))
	t.addRow("END", fmt.Sprintf("%s (%s)", showMinute(l.End), showSpan(leaseLength(l))))
	t.addRow("PROJECT", l.Project)
	return []table{t}
}

func leaseLength(l *rest.Lease) time.Duration {
	return time.Duration(l.End-l.Start) * time.Millisecond
}

func joinNames[T ~string](names []T) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = string(n)
	}
	return strings.Join(out, ", ")
}

// showHas returns how much a reservation has of what it may have, such as "2 of 1-3".
func showHas(r *rest.LeaseReservation) string {
	switch {
	case r.ReservedHosts != nil && r.Min < r.Max:
		return fmt.Sprintf("%d of %d-%d", r.Allocated, r.Min, r.Max)
	case r.ReservedHosts != nil:
		return fmt.Sprintf("%d of %d", r.Allocated, r.Max)
	case r.ReservedInstances != nil:
		return fmt.Sprintf("%d of %d", r.Allocated, r.Amount)
	}
	return strconv.Itoa(r.Allocated)
}

// showThings returns what a reservation has several of.
func showThings(r *rest.LeaseReservation) string {
	if r.ReservedHosts != nil {
		return "hosts"
	}
	return "instances"
}

// showSize returns the size of each instance, and on which hosts they are; "" for hosts.
func showSize(r *rest.LeaseReservation) string {
	if r.ReservedInstances == nil {
		return ""
	}
	text := fmt.Sprintf("%d VCPU, %d MiB, %d GiB", r.VCPUs, r.Memory, r.Disk)
	if f, ok := readFlavor(r); ok {
		text = string(f.ID) + ": " + text
	}
	switch {
	case r.Affinity == nil:
	case *r.Affinity:
		text += "; all on one host"
	default:
		text += "; each on another host"
	}
	return text
}

// readFlavor returns the flavor of a reservation of one.
func readFlavor(r *rest.LeaseReservation) (rest.ReservedFlavor, bool) {
	var f rest.ReservedFlavor
	ok := r.Type == api.ReserveFlavor && json.Unmarshal([]byte(r.ResourceProperties), &f) == nil
	return f, ok
}

// showDefects returns what is not as it should be with a reservation, and whether others use it.
func showDefects(r *rest.LeaseReservation) string {
	var out []string
	if r.Missing {
		out = append(out, "room is missing")
	}
	if r.Changed {
		out = append(out, "moved to other hosts")
	}
	if r.ShareIdle {
		out = append(out, "shared while idle")
	}
	return strings.Join(out, "; ")
}

// showReserved returns what a lease reserves, such as "2 hosts, 3 instances".
func showReserved(l *rest.Lease) string {
	var hosts, instances int64
	for i := range l.Reservations {
		switch r := &l.Reservations[i]; {
		case r.ReservedHosts != nil && r.Allocated > 0:
			hosts += int64(r.Allocated)
		case r.ReservedHosts != nil:
			hosts += int64(r.Max)
		case r.ReservedInstances != nil:
			instances += int64(r.Amount)
		}
	}
	var parts []string
	if hosts > 0 {
		parts = append(parts, countThings(hosts, "host"))
	}
	if instances > 0 {
		parts = append(parts, countThings(instances, "instance"))
	}
	return strings.Join(parts, ", ")
}
