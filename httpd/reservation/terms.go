package reservation

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/openstack"
	rules "berth/lease"
	"berth/zone/intake"
)

// terms reads the bodies that create and update leases.
type terms struct {
	now       api.Instant
	beforeEnd time.Duration // default time of before_end_lease before the end; 0 for no such event
	flavor    func(api.FlavorID) (*api.Flavor, bool)

	// unknownZone describes the first name that is not of a zone here; "" if all are.
	unknownZone func(names []string) string
}

// readLease reads the body of POST /leases: all but the ids and the owner.
func (t *terms) readLease(body map[string]any) (api.LeaseTerms, error) {
	var out api.LeaseTerms
	f := newFields("", body)
	f.require("name", "start_date", "end_date")
	out.Name, _ = f.text("name", api.LeaseNameMax)
	out.Window.Start = t.date(f, "start_date")
	out.Window.End = t.date(f, "end_date")
	before := t.dateOrNull(f, "before_end_date")
	f.noEvents()
	shared, zones := f.projects("shared_with"), f.zones("zones")
	out.Hosts = f.maintenanceHosts()
	if grace := f.grace(); grace != nil {
		out.Grace = *grace
	}
	shareIdle := f.shareIdle()
	items, _ := f.list("reservations", api.ReservationsMax)
	if err := f.done(); err != nil {
		return out, err
	}
	if err := t.checkZones(zones); err != nil {
		return out, err
	}
	if !out.Window.Valid() {
		return out, invalidError("End date must be later than start date.")
	}
	var err error
	if out.BeforeEnd, err = rules.BeforeEndAt(out.Window, before, t.beforeEnd); err != nil {
		return out, err
	}
	if n := len(out.Hosts); n > 0 {
		if len(items) > 0 {
			return out, invalidError("A maintenance lease has no reservations but that of its hosts")
		}
		out.Reservations = []api.Reservation{{Type: api.ReserveHosts, Min: n, Max: n}}
	}
	for i, item := range items {
		r, err := t.readReservation("reservations["+strconv.Itoa(i)+"]", item, shareIdle)
		if err != nil {
			return out, err
		}
		out.Reservations = append(out.Reservations, r)
	}
	out.Shared, out.Zones = shared, zones
	return out, nil
}

// checkZones refuses the name of a zone that is not here, which is not one without room.
func (t *terms) checkZones(z api.ZoneRule) error {
	if no := t.unknownZone(z.Allowed); no != "" {
		return invalidError("zones: %s", no)
	}
	return nil
}

// date reads a date that must be one.
func (t *terms) date(f *fields, name string) api.Instant {
	v, given := f.take(name)
	if !given {
		return 0
	}
	if v == string(rest.LeaseNow) {
		return rules.Minute(t.now)
	}
	i, err := parseDate(v)
	if err != nil {
		f.refuse(err)
	}
	return i
}

// dateOrNull reads a date that may be missing or null; nil then.
func (t *terms) dateOrNull(f *fields, name string) *api.Instant {
	if f.left[name] == nil {
		f.take(name)
		return nil
	}
	i := t.date(f, name)
	return &i
}

// noEvents reads a list of events, which must be empty: the zone makes them.
func (f *fields) noEvents() {
	if items, _ := f.list("events", api.LeaseEventsMax); len(items) > 0 {
		f.refuse(invalidError("events cannot be set: give before_end_date for the event before the end"))
	}
}

// grace reads how long before its start the room of a lease is closed to preemptible instances,
// which null and nothing leave as it is; 0 is that of the zone.
func (f *fields) grace() *time.Duration {
	v, _ := f.take("grace")
	if v == nil {
		return nil
	}
	text, _ := v.(string)
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > api.PreemptGraceMax || d%time.Millisecond != 0 {
		f.malformed("grace", v, "a duration such as 5m, in whole milliseconds up to "+api.PreemptGraceMax.String())
		return nil
	}
	return &d
}

// shareIdle reads whether preemptible instances may use what is reserved and idle; nil if it is
// not given.
func (f *fields) shareIdle() *bool {
	yes, _ := f.affinity("share_idle")
	return yes
}

// projects reads names of projects, and returns them sorted, each once.
func (f *fields) projects(name string) []api.ProjectID {
	items, _ := f.texts(name, api.SharedProjectsMax)
	out := make([]api.ProjectID, 0, len(items))
	for _, item := range items {
		if err := api.CheckName(name, item); err != nil || item == "" {
			f.malformed(name, item, "a list of projects")
		}
		out = append(out, api.ProjectID(item))
	}
	if slices.Sort(out); len(out) == 0 {
		return nil
	}
	return slices.Compact(out)
}

// maintenanceHosts reads the names of the hosts of a maintenance lease. A list without any would make an
// ordinary lease, of nothing.
func (f *fields) maintenanceHosts() []string {
	const name = "maintenance_hosts"
	items, given := f.texts(name, api.MaintenanceMax)
	if given && len(items) == 0 {
		f.refuse(invalidError("%s: an empty list names no host; leave the field out for a lease without maintenance", name))
	}
	return items
}

// zones reads names of zones, of which one must have each slot. Null stands for all.
func (f *fields) zones(name string) api.ZoneRule {
	said := f.left[name] != nil
	items, _ := f.texts(name, api.ZoneNamesMax)
	if said && len(items) == 0 {
		f.refuse(invalidError("%s%s: an empty list names no zone; leave the field out for all zones", name, inPlace(f.place)))
	}
	for _, item := range items {
		if !api.ValidName(item) {
			f.malformed(name, item, "a list of this zone's name and of those of its children")
		}
	}
	return api.ZoneRule{Allowed: items}
}

// readReservation reads one reservation of a new lease.
func (t *terms) readReservation(place string, item map[string]any, shareIdle *bool) (api.Reservation, error) {
	var out api.Reservation
	f := newFields(place, item)
	if own := cmp.Or(f.shareIdle(), shareIdle); own != nil {
		out.ShareIdle = *own
	}
	f.require("resource_type")
	kind, _ := f.text("resource_type", api.NameMaxBytes)
	out.Type = api.ReservationType(kind)
	switch {
	case f.err != nil:
	case out.Type == api.ReserveHosts:
		readHosts(f, &out)
	case out.Type == api.ReserveInstances:
		readInstances(f, &out)
	case out.Type == api.ReserveFlavor:
		t.readFlavor(f, &out)
	default:
		return out, invalidError("The resource type %s is not supported: give %s, %s or %s", openstack.Show(kind), api.ReserveHosts, api.ReserveInstances, api.ReserveFlavor)
	}
	if err := f.done(); err != nil {
		return out, err
	}
	var err error
	out.Query, err = compileConditions(out.HypervisorProperties, out.ResourceProperties)
	return out, err
}

func readHosts(f *fields, out *api.Reservation) {
	f.require("min", "max")
	out.Min, out.Max = f.count("min"), f.count("max")
	if f.err == nil && out.Min > out.Max {
		f.refuse(invalidError("max must not be below min%s", inPlace(f.place)))
	}
	out.HypervisorProperties, _ = f.condition("hypervisor_properties", api.PropertiesMaxBytes)
	out.ResourceProperties, _ = f.condition("resource_properties", api.PropertiesMaxBytes)
	out.BeforeEnd = api.BeforeEndDefault
	if action, given := f.action("before_end"); given {
		out.BeforeEnd = action
	}
}

// count reads how many hosts or slots there must be.
func (f *fields) count(name string) int {
	n, _ := f.whole(name, 1, api.CountMax)
	return int(n)
}

// action reads what becomes of a reservation shortly before its end; "" for nothing.
func (f *fields) action(name string) (action string, given bool) {
	action, given = f.text(name, api.NameMaxBytes)
	switch action {
	case "", api.BeforeEndDefault, api.BeforeEndSnapshot, api.BeforeEndNotify:
	default:
		f.malformed(name, action, `"", "`+api.BeforeEndDefault+`", "`+api.BeforeEndSnapshot+`" or "`+api.BeforeEndNotify+`"`)
	}
	return action, given
}

// sizes has the fields that say how large an instance is, with the smallest amounts.
var sizes = []struct {
	name  string
	class api.ResourceClass
	least int64
}{
	{fieldVCPUs, api.VCPU, 1},
	{fieldMemory, api.MemoryMB, 1},
	{"disk_gb", api.DiskGB, 0},
}

func readInstances(f *fields, out *api.Reservation) {
	f.require(fieldVCPUs, fieldMemory, "disk_gb", "amount")
	out.Resources = api.Resources{}
	for _, s := range sizes {
		if n, _ := f.whole(s.name, s.least, api.AmountMax); n > 0 {
			out.Resources[s.class] = n
		}
	}
	out.Min = f.count("amount")
	out.Max = out.Min
	out.Affinity, _ = f.affinity("affinity")
	out.ResourceProperties, _ = f.condition("resource_properties", api.PropertiesMaxBytes)
}

// readFlavor reads room for instances of a flavor, with what that flavor asks for now.
func (t *terms) readFlavor(f *fields, out *api.Reservation) {
	f.require("flavor_id", "amount")
	id, _ := f.text("flavor_id", api.NameMaxBytes)
	out.Min = f.count("amount")
	out.Max = out.Min
	if a, _ := f.affinity("affinity"); a != nil {
		f.refuse(conflictError("A reservation of a flavor has no affinity: only null is possible"))
	}
	if f.err != nil {
		return
	}
	fl, known := t.flavor(api.FlavorID(id))
	if !known {
		f.refuse(invalidError("There is no flavor %s", openstack.Show(id)))
		return
	}
	if intake.IsPreemptible(fl) {
		f.refuse(invalidError("The flavor %s is one of preemptible instances, which cannot be reserved", openstack.Show(id)))
		return
	}
	intake.FillFlavor(out, fl)
}

// readChange reads the body of PUT /leases/{id} for a lease.
func (t *terms) readChange(body map[string]any, of *api.LeaseTerms) (*api.LeaseChange, error) {
	out := &api.LeaseChange{}
	f := newFields("", body)
	if name, given := f.text("name", api.LeaseNameMax); given {
		out.Name = &name
	}
	if _, given := body["start_date"]; given {
		at := t.date(f, "start_date")
		out.Start = &at
	}
	if _, given := body["end_date"]; given {
		at := t.date(f, "end_date")
		out.End = &at
	}
	out.BeforeEnd = t.dateOrNull(f, "before_end_date")
	f.noEvents()
	if _, given := body["shared_with"]; given {
		shared := f.projects("shared_with")
		out.Shared = &shared
	}
	out.Grace, out.ShareIdle = f.grace(), f.shareIdle()
	items, _ := f.list("reservations", api.ReservationsMax)
	if err := f.done(); err != nil {
		return nil, err
	}
	for i, item := range items {
		c, err := readReservationChange("reservations["+strconv.Itoa(i)+"]", item, of)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out.Reservations, func(o api.ReservationChange) bool { return o.ID == c.ID }) {
			return nil, invalidError("The reservation %s is named twice", c.ID)
		}
		out.Reservations = append(out.Reservations, *c)
	}
	return out, nil
}

// readReservationChange reads one reservation of an update. Its type decides which fields
// it may have.
func readReservationChange(place string, item map[string]any, of *api.LeaseTerms) (*api.ReservationChange, error) {
	f := newFields(place, item)
	f.require("id")
	id, _ := f.text("id", api.NameMaxBytes)
	if f.err != nil {
		return nil, f.err
	}
	i := slices.IndexFunc(of.Reservations, func(r api.Reservation) bool { return string(r.ID) == id })
	if i < 0 {
		return nil, invalidError("The lease has no reservation %s", openstack.Show(id))
	}
	was := &of.Reservations[i]
	out := &api.ReservationChange{ID: was.ID}
	if kind, given := f.text("resource_type", api.NameMaxBytes); given {
		of := api.ReservationType(kind)
		if out.Type = &of; of != was.Type {
			return nil, conflictError("The type of a reservation cannot be changed: %s is %s", was.ID, was.Type)
		}
	}
	out.ShareIdle = f.shareIdle()
	if was.Whole() {
		changeHosts(f, out)
	} else {
		changeInstances(f, out, was)
	}
	if err := f.done(); err != nil {
		return nil, err
	}
	return out, changeQuery(out, was)
}

func changeHosts(f *fields, out *api.ReservationChange) {
	out.Min, out.Max = f.countIfGiven("min"), f.countIfGiven("max")
	if f.err == nil && out.Min != nil && out.Max != nil && *out.Min > *out.Max {
		f.refuse(invalidError("max must not be below min%s", inPlace(f.place)))
	}
	out.HypervisorProperties = f.conditionIfGiven("hypervisor_properties")
	out.ResourceProperties = f.conditionIfGiven("resource_properties")
	if action, given := f.action("before_end"); given {
		out.BeforeEnd = &action
	}
}

func (f *fields) countIfGiven(name string) *int {
	if _, given := f.left[name]; !given {
		return nil
	}
	n := f.count(name)
	return &n
}

func (f *fields) conditionIfGiven(name string) *string {
	if text, given := f.condition(name, api.PropertiesMaxBytes); given {
		return &text
	}
	return nil
}

func changeInstances(f *fields, out *api.ReservationChange, was *api.Reservation) {
	if was.Type == api.ReserveFlavor && len(f.left) == 0 && out.ShareIdle != nil {
		return
	}
	if was.Type == api.ReserveFlavor {
		f.refuse(conflictError("A reservation of a flavor cannot be changed"))
		return
	}
	resources := maps.Clone(was.Resources)
	for _, s := range sizes {
		n, given := f.whole(s.name, s.least, api.AmountMax)
		if !given {
			continue
		}
		if resources[s.class] = n; n == 0 {
			delete(resources, s.class)
		}
		out.Resources = &resources
	}
	out.Min = f.countIfGiven("amount")
	out.Max = out.Min
	if a, given := f.affinity("affinity"); given {
		out.Affinity = &a
	}
	out.ResourceProperties = f.conditionIfGiven("resource_properties")
}

// changeQuery compiles the conditions of a reservation if one of them changes.
func changeQuery(c *api.ReservationChange, was *api.Reservation) error {
	if c.HypervisorProperties == nil && c.ResourceProperties == nil {
		return nil
	}
	texts := []string{was.HypervisorProperties, was.ResourceProperties}
	for i, text := range []*string{c.HypervisorProperties, c.ResourceProperties} {
		if text != nil {
			texts[i] = *text
		}
	}
	q, err := compileConditions(texts...)
	c.Query = &q
	return err
}
