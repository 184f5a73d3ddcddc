package rest

import "berth/api"

// The calls of an external service that checks leases, below its URL. It answers the first two
// with 204, or with 403 and a LeaseCheckRefusal.
const (
	LeaseCheckCreate = "check-create"
	LeaseCheckUpdate = "check-update"
	LeaseCheckOnEnd  = "on-end"
)

// LeaseCheckCall is the body of every call of the service.
type LeaseCheckCall struct {
	Context LeaseCheckContext `json:"context"`
	Current *CheckedLease     `json:"current_lease,omitempty"` // as it is; only in an update
	Lease   CheckedLease      `json:"lease"`                   // as it is to be
}

// LeaseCheckContext says who asks, and where.
type LeaseCheckContext struct {
	User    api.UserID    `json:"user_id"`
	Project api.ProjectID `json:"project_id"`
	AuthURL string        `json:"auth_url"` // always empty: tokens are the zone's own
	Region  string        `json:"region_name"`
	Zone    api.ZoneID    `json:"zone_id"`
}

// CheckedLease is a lease in a call of the service.
type CheckedLease struct {
	ID           api.LeaseID          `json:"id"`
	Name         string               `json:"name"`
	User         api.UserID           `json:"user_id"`
	Project      api.ProjectID        `json:"project_id"`
	Start        LeaseTime            `json:"start_date"`
	End          LeaseTime            `json:"end_date"`
	BeforeEnd    *LeaseTime           `json:"before_end_date"`
	Series       *api.SeriesID        `json:"series_id"`
	Shared       []api.ProjectID      `json:"shared_with"`
	Zones        []string             `json:"zones"`
	Grace        *Duration            `json:"grace,omitempty"` // absent if it asks for none of its own
	Reservations []CheckedReservation `json:"reservations"`
	Outcome      api.LeaseOutcome     `json:"outcome,omitempty"` // only of a lease that has ended
	Ended        *LeaseTime           `json:"ended_at,omitempty"`
}

// CheckedReservation is a reservation in a call of the service.
type CheckedReservation struct {
	ID                 api.ReservationID   `json:"id"`
	Type               api.ReservationType `json:"resource_type"`
	ResourceProperties string              `json:"resource_properties"`
	ShareIdle          bool                `json:"share_idle,omitempty"` // preemptible instances may use what is idle
	*ReservedHosts
	*ReservedInstances
	Allocations []CheckedPlace `json:"allocations"` // what it would get now; nothing is held for it yet
}

// CheckedPlace is where a reservation would get hosts or slots: on a host of this zone, or in
// a zone below, whose hosts nobody else knows.
type CheckedPlace struct {
	ID     api.HostID        `json:"id,omitempty"`
	Host   string            `json:"hypervisor_hostname,omitempty"`
	Zone   string            `json:"zone"`
	Amount int               `json:"amount"`
	Extra  map[string]string `json:"extra,omitempty"` // attributes of the host
}

// LeaseCheckRefusal is the body of a refusal of the service.
type LeaseCheckRefusal struct {
	Message string `json:"message"`
}

// CheckedLeaseOf returns a lease for a call of the service. places has those of each
// reservation; nil for none.
func CheckedLeaseOf(t *api.LeaseTerms, places [][]CheckedPlace) CheckedLease {
	out := CheckedLease{
		ID: t.ID, Name: t.Name, User: t.User, Project: t.Project, Start: LeaseTime(t.Window.Start), End: LeaseTime(t.Window.End),
		Shared: append([]api.ProjectID{}, t.Shared...), Zones: append([]string{}, t.Zones.Allowed...), Reservations: []CheckedReservation{},
	}
	if before := LeaseTime(t.BeforeEnd); t.BeforeEnd != 0 {
		out.BeforeEnd = &before
	}
	if t.Series != "" {
		out.Series = &t.Series
	}
	if t.Grace != 0 {
		out.Grace = new(Duration(t.Grace))
	}
	for i := range t.Reservations {
		r := &t.Reservations[i]
		one := CheckedReservation{ID: r.ID, Type: r.Type, ResourceProperties: r.ResourceProperties, ShareIdle: r.ShareIdle, Allocations: []CheckedPlace{}}
		if i < len(places) {
			one.Allocations = append(one.Allocations, places[i]...)
		}
		if r.Whole() {
			one.ReservedHosts = &ReservedHosts{Min: r.Min, Max: r.Max, HypervisorProperties: r.HypervisorProperties, BeforeEnd: r.BeforeEnd}
		} else {
			one.ReservedInstances = &ReservedInstances{
				VCPUs: r.Resources[api.VCPU], Memory: r.Resources[api.MemoryMB], Disk: r.Resources[api.DiskGB],
				Amount: r.Max, Affinity: r.Affinity, Flavor: r.ID,
			}
		}
		out.Reservations = append(out.Reservations, one)
	}
	return out
}

// CheckedEndOf returns a lease that has ended for a call of the service.
func CheckedEndOf(e *api.LeaseEnd) CheckedLease {
	out, at := CheckedLeaseOf(&e.Terms, nil), LeaseTime(e.At)
	out.Outcome, out.Ended = e.Outcome, &at
	return out
}
