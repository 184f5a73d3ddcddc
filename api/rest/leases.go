package rest

import (
	"encoding/json"
	"fmt"
	"time"

	"berth/api"
)

// The bodies of the reservation API. Its routes are those of httpd/reservation, which reads
// requests field by field for the sake of its refusals.

// LeaseNow is the date of this minute in requests about leases.
const LeaseNow LeaseDate = "now"

// LeaseDate is a date in a request about leases: LeaseNow, or a minute in UTC.
type LeaseDate string

// The forms of dates, all in UTC.
const (
	leaseDateForm = "2006-01-02 15:04"           // in requests
	leaseTimeForm = "2006-01-02T15:04:05.000000" // of leases and events; the stock client needs the fraction
	leaseMadeForm = "2006-01-02 15:04:05"        // when a record was made and changed
)

// LeaseDateOf returns the date of an instant, rounded down to a minute.
func LeaseDateOf(i api.Instant) LeaseDate { return LeaseDate(i.Time().Format(leaseDateForm)) }

// Instant returns the instant of a date other than LeaseNow, and false for a text that is none.
func (d LeaseDate) Instant() (api.Instant, bool) {
	if len(d) != len(leaseDateForm) {
		return 0, false
	}
	t, err := time.Parse(leaseDateForm, string(d))
	return api.InstantOf(t), err == nil && t.Year() >= 1970
}

// LeaseTime is an instant of a lease or an event in answers.
type LeaseTime api.Instant

// MarshalJSON writes the instant with microseconds and without a zone.
func (t LeaseTime) MarshalJSON() ([]byte, error) {
	return json.Marshal(api.Instant(t).Time().Format(leaseTimeForm))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *LeaseTime) UnmarshalJSON(b []byte) error {
	i, err := readLeaseTime(b, leaseTimeForm)
	*t = LeaseTime(i)
	return err
}

// RecordTime is when a lease, a reservation, an event or a host was made or changed; 0 for
// never, which is null in JSON.
type RecordTime api.Instant

// MarshalJSON writes whole seconds without a zone, or null.
func (t RecordTime) MarshalJSON() ([]byte, error) {
	if t == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(api.Instant(t).Time().Format(leaseMadeForm))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *RecordTime) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = 0
		return nil
	}
	i, err := readLeaseTime(b, leaseMadeForm)
	*t = RecordTime(i)
	return err
}

func readLeaseTime(b []byte, form string) (api.Instant, error) {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return 0, fmt.Errorf("reading a time: %w", err)
	}
	t, err := time.Parse(form, text)
	if err != nil {
		return 0, fmt.Errorf("reading a time: %w", err)
	}
	return api.InstantOf(t), nil
}

// LeaseCreate is a lease to create.
type LeaseCreate struct {
	Name         string            `json:"name"`
	Start        LeaseDate         `json:"start_date"`
	End          LeaseDate         `json:"end_date"`
	BeforeEnd    LeaseDate         `json:"before_end_date,omitempty"` // default: an hour before the end, never before the start
	Shared       []api.ProjectID   `json:"shared_with,omitempty"`
	Zones        []string          `json:"zones,omitempty"` // default: all
	Hosts        []string          `json:"maintenance_hosts,omitempty"`
	Grace        *Duration         `json:"grace,omitempty"`      // how long before its start preemptible instances are kept out, if more than the zone's
	ShareIdle    *bool             `json:"share_idle,omitempty"` // of all reservations that do not say: preemptible instances may use what is idle
	Reservations []ReservationSpec `json:"reservations"`
}

// SeriesCreate is a series of leases to create: its first lease, and when it repeats.
type SeriesCreate struct {
	LeaseCreate
	Rule     string `json:"rule"`      // such as FREQ=WEEKLY;COUNT=10
	TimeZone string `json:"time_zone"` // of the IANA database, such as Europe/Berlin
}

// Series is a series of leases in answers.
type Series struct {
	ID       api.SeriesID     `json:"id"`
	Name     string           `json:"name"`
	User     api.UserID       `json:"user_id"`
	Project  api.ProjectID    `json:"project_id"`
	Rule     string           `json:"rule"`
	TimeZone string           `json:"time_zone"`
	Status   api.SeriesStatus `json:"status"`
	Leases   []SeriesLease    `json:"leases"` // those that are left, by start
	Created  RecordTime       `json:"created_at"`
}

// SeriesLease is one lease of a series in answers.
type SeriesLease struct {
	ID     api.LeaseID     `json:"id"`
	Start  LeaseTime       `json:"start_date"`
	End    LeaseTime       `json:"end_date"`
	Local  string          `json:"local_start"` // by the clock of the series, with its distance to UTC
	Status api.LeaseStatus `json:"status"`
}

// LeaseUpdate is a change of a lease; absent fields stay as they are.
type LeaseUpdate struct {
	Name         *string           `json:"name,omitempty"`
	Start        LeaseDate         `json:"start_date,omitempty"`
	End          LeaseDate         `json:"end_date,omitempty"`
	BeforeEnd    LeaseDate         `json:"before_end_date,omitempty"`
	Shared       *[]api.ProjectID  `json:"shared_with,omitempty"`
	Grace        *Duration         `json:"grace,omitempty"` // 0s for that of the zone
	ShareIdle    *bool             `json:"share_idle,omitempty"`
	Reservations []ReservationSpec `json:"reservations,omitempty"` // the changed ones, by id
}

// ReservationSpec is a reservation to create or change. Which fields it may have depends on
// its type. Absent fields have their defaults, or stay as they are.
type ReservationSpec struct {
	ID        api.ReservationID   `json:"id,omitempty"` // of the one to change
	Type      api.ReservationType `json:"resource_type,omitempty"`
	Min       *int                `json:"min,omitempty"` // hosts
	Max       *int                `json:"max,omitempty"`
	VCPUs     *int64              `json:"vcpus,omitempty"` // of one instance
	Memory    *int64              `json:"memory_mb,omitempty"`
	Disk      *int64              `json:"disk_gb,omitempty"`
	Flavor    string              `json:"flavor_id,omitempty"`
	Amount    *int                `json:"amount,omitempty"`   // instances
	Affinity  string              `json:"affinity,omitempty"` // "true", "false" or "none"
	BeforeEnd *string             `json:"before_end,omitempty"`
	ShareIdle *bool               `json:"share_idle,omitempty"`

	// HypervisorProperties and ResourceProperties are conditions on hosts; "" for none.
	HypervisorProperties *string `json:"hypervisor_properties,omitempty"`
	ResourceProperties   *string `json:"resource_properties,omitempty"`
}

// Lease is a lease in answers.
type Lease struct {
	ID           api.LeaseID        `json:"id"`
	Name         string             `json:"name"`
	User         api.UserID         `json:"user_id"`
	Project      api.ProjectID      `json:"project_id"`
	Start        LeaseTime          `json:"start_date"`
	End          LeaseTime          `json:"end_date"`
	Status       api.LeaseStatus    `json:"status"`
	Reason       *string            `json:"status_reason"`
	Degraded     bool               `json:"degraded"`
	Trust        *string            `json:"trust_id"` // there are no trusts
	Shared       []api.ProjectID    `json:"shared_with"`
	Zones        []string           `json:"zones"`
	Series       *api.SeriesID      `json:"series_id"` // null if it does not repeat
	Maintenance  bool               `json:"maintenance"`
	Grace        *Duration          `json:"grace,omitempty"` // absent if it asks for none of its own
	Reservations []LeaseReservation `json:"reservations"`
	Events       []LeaseEvent       `json:"events"`
	Created      RecordTime         `json:"created_at"`
	Updated      RecordTime         `json:"updated_at"`
}

// LeaseEvent is an event of a lease in answers.
type LeaseEvent struct {
	ID      string               `json:"id"`
	Lease   api.LeaseID          `json:"lease_id"`
	Type    api.LeaseEventType   `json:"event_type"`
	Time    LeaseTime            `json:"time"`
	Status  api.LeaseEventStatus `json:"status"`
	Created RecordTime           `json:"created_at"`
	Updated RecordTime           `json:"updated_at"`
}

// LeaseReservation is a reservation of a lease in answers: of hosts or of instances, by its
// type.
type LeaseReservation struct {
	ID        api.ReservationID     `json:"id"`
	Lease     api.LeaseID           `json:"lease_id"`
	Resource  api.ReservationID     `json:"resource_id"`
	Type      api.ReservationType   `json:"resource_type"`
	Status    api.ReservationStatus `json:"status"`
	Missing   bool                  `json:"missing_resources"`
	Changed   bool                  `json:"resources_changed"`
	Allocated int                   `json:"allocated"`            // hosts or slots that it has
	ShareIdle bool                  `json:"share_idle,omitempty"` // preemptible instances may use what is idle
	Created   RecordTime            `json:"created_at"`
	Updated   RecordTime            `json:"updated_at"`

	// ResourceProperties is a condition on hosts, or the flavor of a reservation of one.
	ResourceProperties string `json:"resource_properties"`
	*ReservedHosts
	*ReservedInstances
}

// ReservedHosts is the part of a reservation of whole hosts.
type ReservedHosts struct {
	Min                  int    `json:"min"`
	Max                  int    `json:"max"`
	HypervisorProperties string `json:"hypervisor_properties"`
	BeforeEnd            string `json:"before_end"`
}

// ReservedInstances is the part of a reservation of room for instances. An instance asks for
// its room by the flavor, whose id is that of the reservation. There is neither a server
// group nor an aggregate.
type ReservedInstances struct {
	VCPUs       int64             `json:"vcpus"`
	Memory      int64             `json:"memory_mb"`
	Disk        int64             `json:"disk_gb"`
	Amount      int               `json:"amount"`
	Affinity    *bool             `json:"affinity"`
	Flavor      api.ReservationID `json:"flavor_id"`
	ServerGroup *string           `json:"server_group_id"`
	Aggregate   *int64            `json:"aggregate_id"`
}

// ReservedFlavor is the flavor of a reservation, as its resource_properties have it.
type ReservedFlavor struct {
	ID         api.FlavorID      `json:"id"`
	VCPUs      int64             `json:"vcpus"`
	RAM        int64             `json:"ram"`
	Disk       int64             `json:"disk"`
	ExtraSpecs map[string]string `json:"extra_specs"`
}

// LeaseHost is a host that leases may use, in answers.
type LeaseHost struct {
	LeaseHostFields
	Capabilities map[string]string // extra ones; in JSON they are beside the fields
}

// LeaseHostFields are the fields of every host that leases may use.
type LeaseHostFields struct {
	ID         string     `json:"id"` // a number
	Name       string     `json:"hypervisor_hostname"`
	Service    string     `json:"service_name"`
	Type       string     `json:"hypervisor_type"`
	Version    int64      `json:"hypervisor_version"`
	CPU        string     `json:"cpu_info"`
	VCPUs      int64      `json:"vcpus"`
	Memory     int64      `json:"memory_mb"`
	Disk       int64      `json:"local_gb"`
	AZ         string     `json:"availability_zone"`
	Status     *string    `json:"status"`
	Trust      *string    `json:"trust_id"`
	Reservable bool       `json:"reservable"`
	Created    RecordTime `json:"created_at"`
	Updated    RecordTime `json:"updated_at"`
}

// MarshalJSON writes fields and capabilities as one object.
func (h LeaseHost) MarshalJSON() ([]byte, error) {
	fields, err := objectOf(h.LeaseHostFields)
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	for name, text := range h.Capabilities {
		all[name] = text
	}
	for name, v := range fields {
		all[name] = v // over a capability of that name
	}
	return json.Marshal(all)
}

// UnmarshalJSON reads what MarshalJSON writes. Fields that it does not know are capabilities
// if they are texts.
func (h *LeaseHost) UnmarshalJSON(b []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return fmt.Errorf("reading a host: %w", err)
	}
	names, err := objectOf(LeaseHostFields{})
	if err != nil {
		return err
	}
	h.Capabilities = map[string]string{}
	for name, v := range all {
		var text string
		if _, known := names[name]; known {
			continue
		} else if json.Unmarshal(v, &text) == nil {
			h.Capabilities[name] = text
		}
		delete(all, name) // a name that differs from a field's by case alone would be read as that field
	}
	fields, err := json.Marshal(all)
	if err == nil {
		err = json.Unmarshal(fields, &h.LeaseHostFields)
	}
	if err != nil {
		return fmt.Errorf("reading a host: %w", err)
	}
	return nil
}

// objectOf returns the fields of a host by name.
func objectOf(h LeaseHostFields) (map[string]json.RawMessage, error) {
	var out map[string]json.RawMessage
	b, err := json.Marshal(h)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("writing a host: %w", err)
	}
	return out, nil
}

// LeaseAllocation is what leases have of one host: an entry for each slot, so that a
// reservation of two slots on a host has two.
type LeaseAllocation struct {
	Resource     string           `json:"resource_id"` // number of the host
	Reservations []LeaseAllotment `json:"reservations"`
}

// LeaseAllotment is one slot of a reservation.
type LeaseAllotment struct {
	ID    api.ReservationID `json:"id"`
	Lease api.LeaseID       `json:"lease_id"`
	Start LeaseTime         `json:"start_date"`
	End   LeaseTime         `json:"end_date"`
}

// LeaseSlot is one slot of a lease: a whole host, or room for one instance. Callers other
// than admins do not learn its host, and nobody that of another zone.
type LeaseSlot struct {
	Reservation api.ReservationID     `json:"reservation_id"`
	Zone        string                `json:"zone"`        // this zone, or the direct child with all below it
	Resource    *string               `json:"resource_id"` // number of the host
	Host        *string               `json:"hypervisor_hostname"`
	Status      api.ReservationStatus `json:"status"`
	Changed     bool                  `json:"resources_changed"` // it has replaced one whose host was lost
	Reach       bool                  `json:"reachable"`
	Start       LeaseTime             `json:"start_date"`
	End         LeaseTime             `json:"end_date"`
}
