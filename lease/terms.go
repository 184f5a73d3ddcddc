package lease

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"berth/api"
)

// Limits are what a zone allows of all leases. 0, and more than the maximum, is the maximum.
type Limits struct {
	Duration time.Duration // of one lease; at most api.LeaseDurationMax
	Lead     time.Duration // from now to the start; at most api.LeaseLeadMax
	Grace    time.Duration // of the zone: how long before its start the room of a lease is closed to preemptible instances, unless it asks for more
}

// capped returns d, or most if d is no limit.
func capped(d, most time.Duration) time.Duration {
	if d <= 0 || d > most {
		return most
	}
	return d
}

// CheckTerms refuses terms that no lease can have, or none that is made at now. The ids of
// reservations may be allotted later.
func CheckTerms(t *api.LeaseTerms, now api.Instant, limits Limits) error {
	if err := checkName(t.Name); err != nil {
		return err
	}
	if err := checkStart(t.Window.Start, now, limits); err != nil {
		return err
	}
	if err := checkEnd(t, limits); err != nil {
		return err
	}
	if t.BeforeEnd != 0 && (t.BeforeEnd < t.Window.Start || t.BeforeEnd >= t.Window.End) {
		return api.Errorf(api.CodeForbidden, "Datetime is invalid: before_end_date must be earlier than the end date and not before the start")
	}
	if err := checkShared(t); err != nil {
		return err
	}
	if err := checkGrace(t.Grace); err != nil {
		return err
	}
	if err := checkMaintenance(t); err != nil {
		return err
	}
	return checkReservations(t.Reservations)
}

// checkGrace refuses a grace that no lease can have.
func checkGrace(grace time.Duration) error {
	if grace < 0 || grace > api.PreemptGraceMax || grace%time.Millisecond != 0 {
		return api.Errorf(api.CodeInvalid, "grace must be 1ms to %s, in whole milliseconds; 0s for that of the zone", api.PreemptGraceMax)
	}
	return nil
}

// checkMaintenance checks what a maintenance lease may have.
func checkMaintenance(t *api.LeaseTerms) error {
	if len(t.Hosts) == 0 {
		return nil
	}
	if len(t.Hosts) > api.MaintenanceMax {
		return api.Errorf(api.CodeInvalid, "a maintenance lease may have at most %d hosts, got %d", api.MaintenanceMax, len(t.Hosts))
	}
	seen := make(map[string]bool, len(t.Hosts))
	for _, name := range t.Hosts {
		if err := api.CheckName("host", name); err != nil {
			return err
		}
		if seen[name] {
			return api.Errorf(api.CodeInvalid, "host %q is there twice", name)
		}
		seen[name] = true
	}
	if len(t.Reservations) != 1 || !t.Reservations[0].Whole() || t.Reservations[0].Min != len(t.Hosts) || t.Reservations[0].Max != len(t.Hosts) {
		return api.Errorf(api.CodeInvalid, "a maintenance lease has one reservation, of all its hosts")
	}
	if len(t.Shared) > 0 || !t.Zones.IsZero() || t.Reservations[0].ShareIdle {
		return api.Errorf(api.CodeInvalid, "a maintenance lease is of hosts of this zone, and not shared")
	}
	return nil
}

func checkName(name string) error {
	switch {
	case !utf8.ValidString(name) || strings.ContainsFunc(name, api.IsHidden):
		return api.Errorf(api.CodeInvalid, "name must be plain text without control characters or marks of direction")
	case utf8.RuneCountInString(name) > api.LeaseNameMax:
		return api.Errorf(api.CodeInvalid, "name must be at most %d characters", api.LeaseNameMax)
	}
	return nil
}

func checkStart(start, now api.Instant, limits Limits) error {
	lead := capped(limits.Lead, api.LeaseLeadMax)
	switch {
	case start < Minute(now):
		return api.Errorf(api.CodeInvalid, "Start date must be later than current date")
	case start > now.Add(lead):
		return api.Errorf(api.CodeInvalid, "Start date must be within %s from now", spell(lead))
	}
	return nil
}

func checkEnd(t *api.LeaseTerms, limits Limits) error {
	w, longest := t.Window, capped(limits.Duration, api.LeaseDurationMax)
	switch {
	case w.End == api.Forever:
		return api.Errorf(api.CodeInvalid, "a lease needs an end date")
	case w.End <= w.Start:
		return api.Errorf(api.CodeInvalid, "End date must be later than start date.")
	case w.End > w.Start.Add(longest):
		return api.Errorf(api.CodeInvalid, "a lease may last at most %s", spell(longest))
	}
	return nil
}

func checkShared(t *api.LeaseTerms) error {
	if len(t.Shared) > api.SharedProjectsMax {
		return api.Errorf(api.CodeInvalid, "a lease may be shared with at most %d projects", api.SharedProjectsMax)
	}
	for i, p := range t.Shared {
		switch {
		case !api.ValidName(string(p)):
			return api.CheckName("shared project", string(p))
		case p == t.Project:
			return api.Errorf(api.CodeInvalid, "a lease is not shared with its own project %q", string(p))
		case i > 0 && t.Shared[i-1] >= p:
			return api.Errorf(api.CodeInvalid, "shared projects must be sorted, each once")
		}
	}
	return nil
}

// checkReservations refuses reservations that one lease cannot have together.
func checkReservations(rs []api.Reservation) error {
	if len(rs) > api.ReservationsMax {
		return api.Errorf(api.CodeInvalid, "a lease may have at most %d reservations, got %d", api.ReservationsMax, len(rs))
	}
	ids, slots := map[api.ReservationID]bool{}, 0
	for i := range rs {
		r := &rs[i]
		if err := checkReservation(r); err != nil {
			return api.Errorf(api.CodeOf(err), "reservation %d: %s", i+1, api.MessageOf(err))
		}
		if ids[r.ID] && r.ID != "" {
			return api.Errorf(api.CodeInvalid, "reservation %d: id %q is there twice", i+1, string(r.ID))
		}
		ids[r.ID] = true
		slots += r.Max
	}
	if slots > api.CountMax {
		return api.Errorf(api.CodeInvalid, "the reservations of a lease may have at most %d hosts and instances in all, got %d", api.CountMax, slots)
	}
	return nil
}

func checkReservation(r *api.Reservation) error {
	if r.ID != "" && !api.ValidName(string(r.ID)) {
		return api.CheckName("id", string(r.ID))
	}
	if err := checkShape(r); err != nil {
		return err
	}
	switch r.BeforeEnd {
	case "", api.BeforeEndDefault, api.BeforeEndSnapshot, api.BeforeEndNotify:
	default:
		return api.Errorf(api.CodeInvalid, "before_end must be empty, %s, %s or %s", api.BeforeEndDefault, api.BeforeEndSnapshot, api.BeforeEndNotify)
	}
	for _, c := range []struct{ name, text string }{
		{"hypervisor_properties", r.HypervisorProperties}, {"resource_properties", r.ResourceProperties}, {"the condition on hosts", r.Query},
	} {
		if len(c.text) > api.PropertiesMaxBytes {
			return api.Errorf(api.CodeInvalid, "%s must be at most %d bytes", c.name, api.PropertiesMaxBytes)
		}
	}
	return nil
}

// checkShape checks what depends on the type of a reservation.
func checkShape(r *api.Reservation) error {
	switch r.Type {
	case api.ReserveHosts:
		return checkHosts(r)
	case api.ReserveInstances, api.ReserveFlavor:
		return checkInstances(r)
	}
	return api.Errorf(api.CodeInvalid, "resource_type must be %s, %s or %s", api.ReserveHosts, api.ReserveInstances, api.ReserveFlavor)
}

func checkHosts(r *api.Reservation) error {
	switch {
	case r.Min < 1:
		return api.Errorf(api.CodeInvalid, "min must be at least 1, got %d", r.Min)
	case r.Max < r.Min:
		return api.Errorf(api.CodeInvalid, "max must be at least min, got %d and %d", r.Max, r.Min)
	case r.Max > api.CountMax:
		return api.Errorf(api.CodeInvalid, "max must be at most %d, got %d", api.CountMax, r.Max)
	case len(r.Resources) > 0 || r.Flavor != "" || r.Affinity != nil:
		return api.Errorf(api.CodeInvalid, "whole hosts take no sizes, flavor or affinity")
	}
	return nil
}

func checkInstances(r *api.Reservation) error {
	switch {
	case r.Min != r.Max:
		return api.Errorf(api.CodeInvalid, "instances are reserved by one amount, got %d to %d", r.Min, r.Max)
	case r.Max < 1 || r.Max > api.CountMax:
		return api.Errorf(api.CodeInvalid, "amount must be 1 to %d, got %d", api.CountMax, r.Max)
	case r.HypervisorProperties != "":
		return api.Errorf(api.CodeInvalid, "hypervisor_properties are for %s only", api.ReserveHosts)
	case (r.Type == api.ReserveFlavor) != (r.Flavor != ""):
		return api.Errorf(api.CodeInvalid, "a flavor is for %s, and needed there", api.ReserveFlavor)
	case len(r.Resources) == 0:
		return api.Errorf(api.CodeInvalid, "instances need sizes")
	}
	if r.Type == api.ReserveInstances {
		for _, c := range []struct {
			class api.ResourceClass
			name  string
		}{{api.VCPU, "vcpus"}, {api.MemoryMB, "memory_mb"}} {
			if n := r.Resources[c.class]; n < 1 {
				return api.Errorf(api.CodeInvalid, "%s must be at least 1, got %d", c.name, n)
			}
		}
	}
	return r.Resources.Validate()
}

// spell writes a duration for people: in whole days if it is one.
func spell(d time.Duration) string {
	if day := 24 * time.Hour; d%day == 0 && d > day {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}
