package reservation

import (
	"net/http"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/openstack"
)

// Mount is the path that the dialect is mounted at. Its calls are below Mount and root.
const (
	Mount = "/reservation"
	root  = "/v1"
)

// service describes the reservation API. Its only microversion is 1.0.
var service = openstack.Service{
	Name: "reservation", Mount: Mount, Area: api.AreaLeases, Major: 1, Shape: problemBody, Lax: true, Closed: true, Suffix: ".json",
}

// Config holds what the dialect needs.
type Config struct {
	Door   door.Config
	Leases Leases
	Book   Book
}

// dialect is the reservation API of one node.
type dialect struct {
	*openstack.Dialect
	leases Leases
	book   Book
}

// New returns the handler of the dialect, for requests whose path is Mount or begins with
// it and a slash. It may be called concurrently.
func New(c Config) http.Handler {
	d := &dialect{openstack.New(service, c.Door), c.Leases, c.Book}
	return d.Handler(d.listCalls())
}

// Routes returns every call of the dialect with its kind of read.
func Routes() []door.Route { return openstack.Routes(Mount, new(dialect).listCalls()) }

// listCalls returns the calls of the dialect. The calls of one path are in the order in
// which Allow lists their methods.
func (d *dialect) listCalls() []openstack.Call {
	const (
		get, put, post, patch, del = http.MethodGet, http.MethodPut, http.MethodPost, http.MethodPatch, http.MethodDelete

		leases     = root + "/leases"
		lease      = root + "/leases/{id}"
		series     = root + "/series"
		hosts      = root + "/os-hosts"
		host       = root + "/os-hosts/{id}"
		properties = root + "/os-hosts/properties"

		reader, member, admin = api.RoleReader, api.RoleMember, api.RoleAdmin
	)
	return []openstack.Call{
		{Method: get, Path: "/", Do: d.showVersions},
		{Method: get, Path: "/versions", Do: d.showVersions},

		{Method: get, Path: leases, Role: reader, Do: d.listLeases},
		{Method: post, Path: leases, Takes: true, Role: member, Do: d.createLease},
		{Method: post, Path: leases + "/plan", Takes: true, Reads: true, Role: member, Do: d.planLease},
		{Method: post, Path: lease + "/plan", Takes: true, Reads: true, Role: member, Do: d.planUpdate},
		{Method: get, Path: lease, Role: reader, Do: d.showLease},
		{Method: put, Path: lease, Takes: true, Role: member, Do: d.updateLease},
		{Method: del, Path: lease, Role: member, Do: d.deleteLease},
		{Method: get, Path: lease + "/hosts", Role: reader, Do: d.listLeaseHosts},

		{Method: get, Path: series, Role: reader, Do: d.listSeries},
		{Method: post, Path: series, Takes: true, Role: member, Do: d.createSeries},
		{Method: get, Path: series + "/{id}", Role: reader, Do: d.showOneSeries},
		{Method: del, Path: series + "/{id}", Role: member, Do: d.deleteSeries},

		{Method: get, Path: root + "/availability", Role: member, Do: d.findAvailability},
		{Method: post, Path: root + "/availability", Takes: true, Reads: true, Role: member, Do: d.askAvailability},

		{Method: get, Path: hosts, Role: admin, Do: d.listHosts},
		{Method: post, Path: hosts, Takes: true, Role: admin, Do: d.createHost},
		{Method: get, Path: properties, Role: admin, Do: d.listProperties},
		{Method: patch, Path: properties + "/{name}", Takes: true, Role: admin, Do: d.updateProperty},
		{Method: get, Path: hosts + "/allocations", Role: admin, Do: d.listAllocations},
		{Method: get, Path: host, Role: admin, Do: d.showHost},
		{Method: put, Path: host, Takes: true, Role: admin, Do: d.updateHost},
		{Method: del, Path: host, Role: admin, Do: d.deleteHost},
		{Method: get, Path: host + "/allocation", Role: admin, Do: d.showAllocation},
	}
}

// link is one link of an answer.
type link struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
}

// showVersions lists the versions. Its status is 300, as if there were several.
func (d *dialect) showVersions(w http.ResponseWriter, r *http.Request) error {
	type version struct {
		ID     string `json:"id"`
		Status string `json:"status"`
		Links  []link `json:"links"`
		Min    string `json:"min_version"`
		Max    string `json:"max_version"`
	}
	return openstack.Answer(w, http.StatusMultipleChoices, map[string][]version{"versions": {{
		ID: "v1.0", Status: "CURRENT", Links: []link{{d.URL(r, root), "self"}}, Min: "1.0", Max: "1.0",
	}}})
}

// answerEmpty answers a call that has nothing to show.
func answerEmpty(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}
