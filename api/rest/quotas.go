package rest

import (
	"net/http"

	"berth/api"
)

// QuotaBody is the body of a call that changes limits of a project, or the defaults.
type QuotaBody struct {
	// Limits are by quota, such as hosts or reserved.VCPU: -1 for no limit, null for the default.
	// Those that are not named stay as they are.
	Limits map[string]*int64 `json:"limits"`
}

// Quota has the limits of a project and what it has, or the defaults of the zone.
type Quota struct {
	Project api.ProjectID    `json:"project_id,omitempty"` // absent for the defaults
	Limits  map[string]int64 `json:"limits"`               // its own, by quota; -1 for none. The defaults have those that each zone has
	Use     []QuotaUse       `json:"use"`                  // by quota; empty for the defaults
}

// QuotaUse is what a project may have and has of one quota.
type QuotaUse struct {
	Name    string      `json:"name"`             // such as hosts or reserved.VCPU
	Limit   int64       `json:"limit"`            // at any instant; -1 for none
	Default bool        `json:"default"`          // the limit is the default of the zone
	Used    int64       `json:"used"`             // now
	Peak    int64       `json:"peak"`             // the most at any instant from now on
	PeakAt  api.Instant `json:"peak_at,omitzero"` // the first such instant; absent if nothing is used
}

var quotas = []Route{
	{
		Method: http.MethodGet, Path: "/quotas", Role: api.RoleReader, Read: api.ReadLocal,
		Query:  []Param{limit, marker, {"own", "true for the defaults and the caller's own project alone"}},
		Status: http.StatusOK, Answer: list("quotas", Quota{}), Since: since,
		Help: "the defaults of the zone, and the projects that have limits or use anything that counts; for others than admins only their own project",
	},
	{
		Method: http.MethodPut, Path: "/quotas", Role: api.RoleAdmin, Read: api.ReadLog, Body: QuotaBody{},
		Status: http.StatusOK, Answer: one("quota", Quota{}), Since: since,
		Help: "changes the defaults of the zone, for projects without a limit of their own; what there is stays, whatever the limits",
	},
	{
		Method: http.MethodGet, Path: "/quotas/{id}", ID: "project", Role: api.RoleReader, Read: api.ReadLocal,
		Status: http.StatusOK, Answer: one("quota", Quota{}), Since: since,
		Help: "what a project may have and has; another project than the caller's own is for admins",
	},
	{
		Method: http.MethodPut, Path: "/quotas/{id}", ID: "project", Role: api.RoleAdmin, Read: api.ReadLog, Body: QuotaBody{},
		Status: http.StatusOK, Answer: one("quota", Quota{}), Since: since,
		Help: "changes limits of a project; what it has stays, whatever the limits",
	},
	{
		Method: http.MethodDelete, Path: "/quotas/{id}", ID: "project", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "deletes the limits of a project, which has the defaults then; 404 if it had none",
	},
}
