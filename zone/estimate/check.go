package estimate

import (
	"berth/api"
)

// checkRequest refuses a request that no caller of Berth makes. Names become parts of
// composite keys, so every entry point checks them.
func checkRequest(r *api.Request) error {
	for _, f := range []struct{ name, v string }{
		{"project_id", string(r.Project)}, {"reservation_id", string(r.Reservation)},
	} {
		if err := api.CheckName(f.name, f.v); err != nil {
			return err
		}
	}
	for _, g := range r.Groups {
		for _, f := range []struct{ name, v string }{{"flavor", string(g.Flavor)}, {"availability_zone", g.AZ}} {
			if f.v != "" && !api.ValidName(f.v) {
				return api.CheckName(f.name, f.v)
			}
		}
	}
	if r.User != "" && !api.ValidName(string(r.User)) {
		return api.CheckName("user_id", string(r.User))
	}
	return r.Validate()
}

// CheckForeign refuses a request of another zone that asks for hosts by name or
// address, or for something that no user could ask for here.
func (e *Estimator) CheckForeign(r *api.Request) error {
	for i := range r.Groups {
		if r.Groups[i].Hints.Local() {
			return api.Errorf(api.CodeForbidden, "another zone may not ask for hosts by name or address")
		}
	}
	if err := checkRequest(r); err != nil {
		return err
	}
	if r.Preempt && e.zone.View().Config.Preemptibles.Closed {
		return api.Errorf(api.CodeForbidden, "this zone ends no preemptible instances for other zones")
	}
	return r.ValidateAbroad(e.zone.Instant(), e.zone.View().LeaseLead())
}
