package rest

import (
	"net/http"

	"berth/api"
)

// since is the version that all routes of the first release have.
const since = "0.1"

var service = []Route{
	{
		Method: http.MethodGet, Path: "/", Read: api.ReadLocal,
		Status: http.StatusOK, Answer: whole(Root{}), Since: since,
		Help: "the version of Berth and the name of the zone",
	},
}

var boots = []Route{
	{
		Method: http.MethodPost, Path: "/zones/select", Role: api.RoleMember, Read: api.ReadLocal,
		Body: BootBody{}, Status: http.StatusOK, Answer: whole(SelectAnswer{}), Since: since,
		Help: "estimates what the zone and all zones below it could offer, and changes nothing",
	},
	{
		Method: http.MethodPost, Path: "/zones/boot", Role: api.RoleMember, Read: api.ReadLog, Query: []Param{wait}, Keyed: true,
		Body: BootBody{}, Status: http.StatusAccepted, Answer: whole(BootAnswer{}), Since: since,
		Help: "asks for instances: the reservation id at once, or with `?wait=` the boot too, at its outcome or when the wait ends",
	},
	{
		Method: http.MethodGet, Path: "/zones/boot", Role: api.RoleReader, Read: api.ReadLocal, Query: []Param{limit, marker, project},
		Status: http.StatusOK, Answer: list("boots", Boot{}), Since: since,
		Help: "the boots of the project",
	},
	{
		Method: http.MethodGet, Path: "/zones/boot/{id}", ID: "reservation_id", Role: api.RoleReader, Read: api.ReadLocal,
		Query: []Param{wait, project}, Status: http.StatusOK, Answer: one("boot", Boot{}), Since: since,
		Help: "one boot, with `?wait=` at its outcome",
	},
	{
		Method: http.MethodDelete, Path: "/zones/boot/{id}", ID: "reservation_id", Role: api.RoleMember, Read: api.ReadLog,
		Query: []Param{wait, project}, Status: http.StatusAccepted, Answer: one("boot", Boot{}), Since: since,
		Help: "gives back everything that the boot made",
	},
	{
		Method: http.MethodGet, Path: "/explain/{id}", ID: "request_id or reservation_id", Role: api.RoleReader, Read: api.ReadLocal,
		Query: []Param{project}, Status: http.StatusOK, Answer: one("explanation", Explanation{}), Since: since,
		Help: "why a request got what it got; 404 when nothing is known of it",
	},
}

// serverFilters are what lists of servers take.
var serverFilters = []Param{
	{"all_projects", "true for those of all projects, and those made for a parent zone, with `origin`; for admins"},
	{"changes_since", "servers that changed at or after a time, deleted ones too"},
	{"flavor", "servers of this flavor"},
	{"group", "servers of this group of a boot"},
	{"host", "servers on this host, by name or id; for admins"},
	limit, marker,
	{"name", "servers with this part of a name"},
	{"reservation_id", "servers of this reservation"},
	{"status", "BUILD, ACTIVE, SHUTOFF, ERROR, DELETING or DELETED; others are refused"},
	{"zone", "servers in this zone, or below this direct child; others are refused"},
}

var servers = []Route{
	{
		Method: http.MethodPost, Path: "/servers", Role: api.RoleMember, Read: api.ReadLog, Keyed: true,
		Body: BootBody{}, Status: http.StatusAccepted, Answer: whole(ServerCreated{}), Since: since,
		Help: "asks for servers, and answers with the first one once it is decided, or a refusal with the `code` that the boot failed for, " +
			"such as 409 `no_capacity`; with `\"return_reservation_id\": true` only the reservation id, at once",
	},
	{
		Method: http.MethodGet, Path: "/servers", Role: api.RoleReader, Read: api.ReadLocal, Query: serverFilters,
		Status: http.StatusOK, Answer: list("servers", ServerSummary{}), Since: since,
		Help: "the servers of the project, in short",
	},
	{
		Method: http.MethodGet, Path: "/servers/detail", Role: api.RoleReader, Read: api.ReadLocal, Query: serverFilters,
		Status: http.StatusOK, Answer: list("servers", Server{}), Since: since,
		Help: "the servers of the project",
	},
	{
		Method: http.MethodGet, Path: "/servers/{id}", ID: "id", Role: api.RoleReader, Read: api.ReadLocal,
		Status: http.StatusOK, Answer: one("server", Server{}), Since: since,
		Help: "one server",
	},
	{
		Method: http.MethodDelete, Path: "/servers/{id}", ID: "id", Role: api.RoleMember, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "ends a server, which is DELETING until its host has ended it",
	},
}

var serverGroups = []Route{
	{
		Method: http.MethodGet, Path: "/server-groups", Role: api.RoleReader, Read: api.ReadLocal, Query: []Param{limit, marker, project},
		Status: http.StatusOK, Answer: list("server_groups", ServerGroup{}), Since: since,
		Help: "the server groups of the project",
	},
	{
		Method: http.MethodPost, Path: "/server-groups", Role: api.RoleMember, Read: api.ReadLog,
		Body: ServerGroupBody{}, Status: http.StatusCreated, Answer: one("server_group", ServerGroup{}), Since: since,
		Help: "creates a server group of the caller's project",
	},
	{
		Method: http.MethodGet, Path: "/server-groups/{id}", ID: "name or id", Role: api.RoleReader, Read: api.ReadLocal,
		Query: []Param{project}, Status: http.StatusOK, Answer: one("server_group", ServerGroup{}), Since: since,
		Help: "one server group of the project",
	},
	{
		Method: http.MethodDelete, Path: "/server-groups/{id}", ID: "name or id", Role: api.RoleMember, Read: api.ReadLog,
		Query: []Param{project}, Status: http.StatusNoContent, Since: since,
		Help: "deletes a server group; its members stay where they are",
	},
	{
		Method: http.MethodGet, Path: "/availability-zones", Role: api.RoleReader, Read: api.ReadLocal, Query: []Param{limit, marker},
		Status: http.StatusOK, Answer: list("availability_zones", AvailabilityZone{}), Since: since,
		Help: "the availability zones of this zone's hosts, and those that zones below report",
	},
}

var flavors = []Route{
	{
		Method: http.MethodGet, Path: "/flavors", Role: api.RoleReader, Read: api.ReadLocal, Query: []Param{limit, marker},
		Status: http.StatusOK, Answer: list("flavors", Flavor{}), Since: since,
		Help: "the flavors of the zone",
	},
	{
		Method: http.MethodGet, Path: "/flavors/detail", Role: api.RoleReader, Read: api.ReadLocal, Query: []Param{limit, marker},
		Status: http.StatusOK, Answer: list("flavors", Flavor{}), Since: since,
		Help: "the same as `GET /flavors`",
	},
	{
		Method: http.MethodPost, Path: "/flavors", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: FlavorBody{}, Status: http.StatusCreated, Answer: one("flavor", Flavor{}), Since: since,
		Help: "creates a flavor",
	},
	{
		Method: http.MethodGet, Path: "/flavors/{id}", ID: "id", Role: api.RoleReader, Read: api.ReadLocal,
		Status: http.StatusOK, Answer: one("flavor", Flavor{}), Since: since,
		Help: "one flavor",
	},
	{
		Method: http.MethodPut, Path: "/flavors/{id}", ID: "id", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: FlavorBody{}, Status: http.StatusOK, Answer: one("flavor", Flavor{}), Since: since,
		Help: "replaces a flavor as a whole",
	},
	{
		Method: http.MethodDelete, Path: "/flavors/{id}", ID: "id", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "deletes a flavor; what runs stays",
	},
}
