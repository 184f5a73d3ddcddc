package cli

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/rest"
)

// leaseWish holds the flags about a lease to create.
type leaseWish struct {
	when        leaseWhen
	shared      []string
	maintenance []string // names of hosts
	grace       time.Duration
	shareIdle   bool
	roomWish
}

func (w *leaseWish) addFlags(e *env, c *cobra.Command) {
	f := c.Flags()
	w.when.addFlags(c)
	f.StringArrayVar(&w.maintenance, "maintenance", nil, "take this `HOST` of the zone out of use, in place of reserving any; may be repeated; operators only")
	e.flagNames(c, "maintenance", hostNames)
	f.StringSliceVar(&w.shared, "shared-with", nil, "`PROJECT` that may use the lease too; may be repeated")
	addGraceFlags(c, &w.grace, &w.shareIdle)
	w.roomWish.addFlags(e, c)
}

// The flags about preemptible instances.
const (
	flagGrace     = "grace"
	flagShareIdle = "share-idle"
)

func addGraceFlags(c *cobra.Command, grace *time.Duration, shareIdle *bool) {
	c.Flags().DurationVar(grace, flagGrace, 0, "how long before the start preemptible instances are kept out, at most 1h (default: what the zone has, and never less)")
	c.Flags().BoolVar(shareIdle, flagShareIdle, false, "let preemptible instances use what is reserved while it is idle; a boot into it may wait for the grace")
}

// readGrace returns the values of the flags about preemptible instances, nil if they are not given.
func readGrace(c *cobra.Command, grace time.Duration, shareIdle bool) (*rest.Duration, *bool) {
	var d *rest.Duration
	if c.Flags().Changed(flagGrace) {
		d = new(rest.Duration(grace))
	}
	if c.Flags().Changed(flagShareIdle) {
		return d, &shareIdle
	}
	return d, nil
}

// roomWish holds the flags about the room of a lease: what to reserve, and in which zones.
type roomWish struct {
	zones        []string
	reservations []string // KEY=VALUE,KEY=VALUE
	hosts        string   // MIN[:MAX]
	instances    int
	flavor       string
	vcpus        int64
	ram, disk    string
	affinity     string
	where        string
}

func (w *roomWish) addFlags(e *env, c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.hosts, "hosts", "", "reserve whole hosts: `MIN[:MAX]`")
	f.IntVar(&w.instances, "instances", 0, "reserve room for `N` instances; goes with --flavor, or with --vcpus and --ram")
	f.StringVar(&w.flavor, "flavor", "", "flavor of each of the --instances")
	f.Int64Var(&w.vcpus, "vcpus", 0, "virtual CPUs of each of the --instances")
	f.StringVar(&w.ram, "ram", "", "memory of each of the --instances, such as 512M or 2G; a bare number is MiB")
	f.StringVar(&w.disk, "disk", "", "disk of each of the --instances, such as 10G; a bare number is GiB (default: none)")
	f.StringVar(&w.affinity, "affinity", "", "true: all --instances on one host, false: each on another (default: anywhere)")
	f.StringVar(&w.where, "where", "", "condition on the hosts of --hosts and --instances, as a `JSON` list such as '[\"==\",\"$gpu\",\"A\"]'")
	f.StringArrayVar(&w.reservations, "reservation", nil, "one kind of room as `KEY=VALUE,...`; may be repeated")
	f.StringArrayVar(&w.zones, "zone", nil, "only in this `ZONE`: the zone itself, or a direct child with all below it; may be repeated")
	e.flagNames(c, "flavor", flavorNames)
	e.flagNames(c, "zone", ownZoneNames)
}

// leaseCreate returns the wish in the form of the API.
func (w *leaseWish) leaseCreate(c *cobra.Command, name string, now time.Time) (rest.LeaseCreate, error) {
	s := rest.LeaseCreate{Name: name, Zones: w.zones, Shared: projectsOf(w.shared), Hosts: w.maintenance}
	s.Grace, s.ShareIdle = readGrace(c, w.grace, w.shareIdle)
	var err error
	if s.Start, s.End, s.BeforeEnd, err = w.when.readNew(c, now); err != nil {
		return s, err
	}
	if s.Reservations, err = w.readReservations(c); err != nil {
		return s, err
	}
	switch reserves := len(s.Reservations) > 0; {
	case reserves && len(s.Hosts) > 0:
		return s, usageError(c, "--maintenance takes the place of --hosts, --instances and --reservation")
	case !reserves && len(s.Hosts) == 0:
		return s, usageError(c, "give --hosts, --instances or --reservation: what to reserve")
	}
	return s, nil
}

func projectsOf(names []string) []api.ProjectID {
	out := make([]api.ProjectID, len(names))
	for i, n := range names {
		out[i] = api.ProjectID(n)
	}
	return out
}

// readReservations returns the reservations that the flags describe.
func (w *roomWish) readReservations(c *cobra.Command) ([]rest.ReservationSpec, error) {
	var out []rest.ReservationSpec
	if w.where != "" && !json.Valid([]byte(w.where)) {
		return nil, usageError(c, "--where must be JSON, got %q", w.where)
	}
	if w.where != "" && w.hosts == "" && w.instances == 0 {
		return nil, usageError(c, "--where goes with --hosts or --instances; in a --reservation it is resource-properties")
	}
	if c.Flags().Changed("hosts") {
		r, err := w.readHosts(c)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	r, given, err := w.readInstances(c)
	if err != nil {
		return nil, err
	}
	if given {
		out = append(out, r)
	}
	for _, text := range w.reservations {
		r, err := readReservation(c, text)
		if err != nil {
			return nil, err
		}
		if r.ID != "" {
			return nil, usageError(c, "--reservation has no id yet, got %q", text)
		}
		if r.Type == "" {
			return nil, usageError(c, "--reservation needs type=%s, %s or %s, got %q", api.ReserveHosts, api.ReserveInstances, api.ReserveFlavor, text)
		}
		out = append(out, r)
	}
	return out, nil
}

func (w *roomWish) readHosts(c *cobra.Command) (rest.ReservationSpec, error) {
	r := rest.ReservationSpec{Type: api.ReserveHosts}
	lo, hi, ok := parseRange(w.hosts)
	if !ok {
		return r, usageError(c, "--hosts must look like 2 or 2:4, got %q", w.hosts)
	}
	r.Min, r.Max = &lo, &hi
	if w.where != "" {
		r.ResourceProperties = &w.where
	}
	return r, nil
}

// parseRange reads MIN[:MAX], whole numbers from 1.
func parseRange(text string) (lo, hi int, ok bool) {
	least, most, ranged := strings.Cut(text, ":")
	if !ranged {
		most = least
	}
	lo, err1 := strconv.Atoi(least)
	hi, err2 := strconv.Atoi(most)
	return lo, hi, err1 == nil && err2 == nil && lo >= 1 && hi >= lo
}

func (w *roomWish) readInstances(c *cobra.Command) (r rest.ReservationSpec, given bool, err error) {
	f := c.Flags()
	if !f.Changed("instances") {
		for _, flag := range []string{"flavor", "vcpus", "ram", "disk", "affinity"} {
			if f.Changed(flag) {
				return r, false, usageError(c, "--%s goes with --instances", flag)
			}
		}
		return r, false, nil
	}
	sized := f.Changed("vcpus") || f.Changed("ram") || f.Changed("disk")
	switch {
	case w.instances < 1 || w.instances > api.CountMax:
		return r, true, usageError(c, "--instances must be 1 to %d, got %d", api.CountMax, w.instances)
	case (w.flavor != "") == sized:
		return r, true, usageError(c, "--instances needs --flavor, or --vcpus and --ram")
	}
	r.Amount = &w.instances
	if w.flavor != "" {
		if w.affinity != "" || w.where != "" {
			return r, true, usageError(c, "room for a flavor has neither --affinity nor --where; give --vcpus and --ram in place of --flavor")
		}
		r.Type, r.Flavor = api.ReserveFlavor, w.flavor
		return r, true, nil
	}
	r.Type, r.Affinity = api.ReserveInstances, w.affinity
	if !slices.Contains([]string{"", "true", "false"}, w.affinity) {
		return r, true, usageError(c, "--affinity must be true or false, got %q", w.affinity)
	}
	if w.where != "" {
		r.ResourceProperties = &w.where
	}
	return r, true, w.readSizes(c, &r)
}

// readSizes sets the sizes of an instance.
func (w *roomWish) readSizes(c *cobra.Command, r *rest.ReservationSpec) error {
	if w.vcpus < 1 {
		return usageError(c, "--vcpus must be 1 or more, got %d", w.vcpus)
	}
	ram, ok := ParseSize(w.ram, 1)
	if !ok {
		return usageError(c, "--ram must be a size such as 512M or 2G, got %q", w.ram)
	}
	var disk int64
	if w.disk != "" {
		if disk, ok = ParseSize(w.disk, 1<<10); !ok {
			return usageError(c, "--disk must be a size such as 10G, got %q", w.disk)
		}
	}
	r.VCPUs, r.Memory, r.Disk = &w.vcpus, &ram, &disk
	return nil
}

// reservationKeys set the fields of a reservation from KEY=VALUE, and report whether the
// value is possible.
var reservationKeys = map[string]func(r *rest.ReservationSpec, value string) bool{
	"id":     func(r *rest.ReservationSpec, v string) bool { r.ID = api.ReservationID(v); return v != "" },
	"type":   func(r *rest.ReservationSpec, v string) bool { r.Type = api.ReservationType(v); return v != "" },
	"flavor": func(r *rest.ReservationSpec, v string) bool { r.Flavor = v; return v != "" },
	"affinity": func(r *rest.ReservationSpec, v string) bool {
		r.Affinity = v
		return v == "true" || v == "false" || v == "none"
	},
	"min":       func(r *rest.ReservationSpec, v string) bool { return readWhole(&r.Min, v) },
	"max":       func(r *rest.ReservationSpec, v string) bool { return readWhole(&r.Max, v) },
	"amount":    func(r *rest.ReservationSpec, v string) bool { return readWhole(&r.Amount, v) },
	"vcpus":     func(r *rest.ReservationSpec, v string) bool { return readWhole(&r.VCPUs, v) },
	"memory-mb": func(r *rest.ReservationSpec, v string) bool { return readWhole(&r.Memory, v) },
	"disk-gb":   func(r *rest.ReservationSpec, v string) bool { return readWhole(&r.Disk, v) },
	"share-idle": func(r *rest.ReservationSpec, v string) bool {
		yes, err := strconv.ParseBool(v)
		r.ShareIdle = &yes
		return err == nil
	},
	"before-end":            func(r *rest.ReservationSpec, v string) bool { r.BeforeEnd = &v; return true },
	"hypervisor-properties": func(r *rest.ReservationSpec, v string) bool { r.HypervisorProperties = &v; return isCondition(v) },
	"resource-properties":   func(r *rest.ReservationSpec, v string) bool { r.ResourceProperties = &v; return isCondition(v) },
}

// readWhole reads a whole number that is not negative.
func readWhole[N int | int64](to **N, text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	v := N(n)
	*to = &v
	return err == nil && n >= 0 && int64(v) == n
}

func isCondition(text string) bool { return text == "" || json.Valid([]byte(text)) }

// readReservation reads the value of --reservation. The names of the API are accepted as
// keys too.
func readReservation(c *cobra.Command, text string) (rest.ReservationSpec, error) {
	var r rest.ReservationSpec
	seen := map[string]bool{}
	for _, pair := range splitPairs(text) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return r, usageError(c, "--reservation must look like key=value,key=value, got %q", pair)
		}
		name := strings.ReplaceAll(strings.TrimSpace(key), "_", "-")
		switch name {
		case "resource-type":
			name = "type"
		case "flavor-id":
			name = "flavor"
		}
		set, known := reservationKeys[name]
		switch {
		case !known:
			return r, usageError(c, "--reservation has no key %q; it has %s", key, strings.Join(slices.Sorted(maps.Keys(reservationKeys)), ", "))
		case seen[name]:
			return r, usageError(c, "--reservation gives %q twice", key)
		case !set(&r, value):
			return r, usageError(c, "--reservation has an impossible value: %s=%s", key, value)
		}
		seen[name] = true
	}
	return r, nil
}

// splitPairs splits a text at its commas, but not within brackets or quotes, because
// conditions are JSON.
func splitPairs(text string) []string {
	var out []string
	depth, quoted, from := 0, false, 0
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\':
			i++ // the next byte is not a quote
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '[':
			depth++
		case b == ']':
			depth--
		case b == ',' && depth <= 0:
			out = append(out, text[from:i])
			from = i + 1
		}
	}
	return append(out, text[from:])
}
