package placement

import (
	"net/http"
	"strconv"
	"time"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/openstack"
)

// Mount is the path that the dialect is mounted at; links in its answers begin with it.
const Mount = "/placement"

// version is the minor number of a microversion 1.n.
type version int

// The microversions of this dialect: every one from 1.0 to 1.39.
const (
	versionMin version = 0
	versionMax version = 39
)

func (v version) String() string { return "1." + strconv.Itoa(int(v)) }

// versionOf returns the microversion of a call.
func versionOf(r *http.Request) version { return version(openstack.Minor(r)) }

// service describes the placement API.
var service = openstack.Service{
	Area: api.AreaPlacement,
	Name: "placement", Mount: Mount, Major: 1, Oldest: int(versionMin), Newest: int(versionMax),
	Codes: codes, Code: codeUndefined, Shape: problemBody,
}

// Config holds what the dialect needs.
type Config struct {
	Door door.Config
}

// dialect is the placement API of one node.
type dialect struct{ *openstack.Dialect }

// New returns the handler of the dialect, for requests whose path is Mount or
// begins with it and a slash. It may be called concurrently.
func New(c Config) http.Handler {
	d := &dialect{openstack.New(service, c.Door)}
	return d.Handler(d.listCalls())
}

// Routes returns every call of the dialect with its kind of read.
func Routes() []door.Route { return openstack.Routes(Mount, new(dialect).listCalls()) }

// cached is the first microversion in which answers have Last-Modified.
const cached version = 15

// setModified sets Last-Modified, if the microversion of the call has it.
func setModified(w http.ResponseWriter, r *http.Request, modified time.Time) {
	if versionOf(r) >= cached {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Last-Modified", modified.UTC().Format(http.TimeFormat))
	}
}

// listCalls returns the calls of the dialect. The calls of one path are in the order in
// which Allow lists their methods.
func (d *dialect) listCalls() []openstack.Call {
	const (
		get, put, post, del = http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete

		all         = "/resource_providers"
		one         = "/resource_providers/{uuid}"
		inventories = "/resource_providers/{uuid}/inventories"
		inventory   = "/resource_providers/{uuid}/inventories/{resource_class}"
		ofProvider  = "/resource_providers/{uuid}/usages"
		aggregates  = "/resource_providers/{uuid}/aggregates"
		holders     = "/resource_providers/{uuid}/allocations"
		its         = "/resource_providers/{uuid}/traits"
		consumer    = "/allocations/{consumer_uuid}"
		classes     = "/resource_classes"
		class       = "/resource_classes/{name}"
		trait       = "/traits/{name}"
		end         = int(versionMax)
		admin       = api.RoleAdmin
	)
	return []openstack.Call{
		{Method: get, Path: "/", Until: end, Do: d.showVersions},

		{Method: get, Path: classes, Since: 2, Until: end, Gives: true, Role: admin, Do: d.listClasses},
		{Method: post, Path: classes, Since: 2, Until: end, Takes: true, Role: admin, Do: d.createClass},
		{Method: get, Path: class, Since: 2, Until: end, Gives: true, Role: admin, Do: d.showClass},
		{Method: put, Path: class, Since: 2, Until: 6, Takes: true, Role: admin, Do: d.renameClass},
		{Method: put, Path: class, Since: 7, Until: end, Role: admin, Do: d.ensureClass},
		{Method: del, Path: class, Since: 2, Until: end, Role: admin, Do: d.deleteClass},

		{Method: get, Path: all, Until: end, Gives: true, Role: admin, Do: d.listProviders},
		{Method: post, Path: all, Until: end, Takes: true, Role: admin, Do: d.createProvider},
		{Method: get, Path: one, Until: end, Gives: true, Role: admin, Do: d.showProvider},
		{Method: del, Path: one, Until: end, Role: admin, Do: d.deleteProvider},
		{Method: put, Path: one, Until: end, Takes: true, Role: admin, Do: d.updateProvider},

		{Method: get, Path: inventories, Until: end, Gives: true, Role: admin, Do: d.listInventories},
		{Method: post, Path: inventories, Until: end, Takes: true, Role: admin, Do: d.createInventory},
		{Method: put, Path: inventories, Until: end, Takes: true, Role: admin, Do: d.setInventories},
		{Method: del, Path: inventories, Since: 5, Until: end, NotAllowed: true, Role: admin, Do: d.deleteInventories},
		{Method: get, Path: inventory, Until: end, Gives: true, Role: admin, Do: d.showInventory},
		{Method: put, Path: inventory, Until: end, Takes: true, Role: admin, Do: d.updateInventory},
		{Method: del, Path: inventory, Until: end, Role: admin, Do: d.deleteInventory},

		{Method: get, Path: ofProvider, Until: end, Gives: true, Role: admin, Do: d.providerUsages},
		{Method: get, Path: aggregates, Since: 1, Until: end, Gives: true, Early: true, Role: admin, Do: d.listAggregates},
		{Method: put, Path: aggregates, Since: 1, Until: end, Takes: true, Early: true, Role: admin, Do: d.setAggregates},
		{Method: get, Path: holders, Until: end, Gives: true, Role: admin, Do: d.providerAllocations},
		{Method: get, Path: its, Since: 6, Until: end, Gives: true, Role: admin, Do: d.listProviderTraits},
		{Method: put, Path: its, Since: 6, Until: end, Takes: true, Role: admin, Do: d.setProviderTraits},
		{Method: del, Path: its, Since: 6, Until: end, Role: admin, Do: d.deleteProviderTraits},

		{Method: post, Path: "/allocations", Since: 13, Until: end, Takes: true, Role: admin, Do: d.postAllocations},
		{Method: get, Path: consumer, Until: end, Gives: true, Role: admin, Do: d.showAllocations},
		{Method: put, Path: consumer, Until: end, Takes: true, Role: admin, Do: d.putAllocations},
		{Method: del, Path: consumer, Until: end, Role: admin, Do: d.deleteAllocations},
		{Method: get, Path: "/allocation_candidates", Since: 10, Until: end, Gives: true, Role: admin, Do: d.listCandidates},

		{Method: get, Path: "/traits", Since: 6, Until: end, Gives: true, Role: admin, Do: d.listTraits},
		{Method: get, Path: trait, Since: 6, Until: end, Role: admin, Do: d.showTrait},
		{Method: put, Path: trait, Since: 6, Until: end, Role: admin, Do: d.putTrait},
		{Method: del, Path: trait, Since: 6, Until: end, Role: admin, Do: d.deleteTrait},
		{Method: get, Path: "/usages", Since: 9, Until: end, Gives: true, Do: d.projectUsages},
		{Method: post, Path: "/reshaper", Since: 30, Until: end, Takes: true, Role: admin, Do: d.postReshape},
	}
}

// link is one link of an answer.
type link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

// showVersions lists the microversions.
func (d *dialect) showVersions(w http.ResponseWriter, r *http.Request) error {
	setModified(w, r, d.Now())
	type entry struct {
		ID     string `json:"id"`
		Max    string `json:"max_version"`
		Min    string `json:"min_version"`
		Status string `json:"status"`
		Links  []link `json:"links"`
	}
	return openstack.Answer(w, http.StatusOK, map[string][]entry{"versions": {{
		ID: "v" + versionMin.String(), Max: versionMax.String(), Min: versionMin.String(), Status: "CURRENT",
		Links: []link{{Rel: "self"}},
	}}})
}
