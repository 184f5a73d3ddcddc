package rest

import (
	"net/http"

	"berth/api"
)

// since is the version of all routes in the first release.
const since = "0.1"

var service = []Route{
	{
		Method: http.MethodGet, Path: "/", Read: api.ReadLocal,
		Status: http.StatusOK, Answer: whole(Root{}), Since: since,
		Help: "that this is a zone of Berth; `GET /zones/info` has its name and version",
	},
}

var tokens = []Route{
	{
		Method: http.MethodGet, Path: "/tokens", Role: api.RoleReader, Read: api.ReadLocal, Query: []Param{limit, marker},
		Status: http.StatusOK, Answer: list("tokens", Token{}), Since: since,
		Help: "the tokens of the caller, those of the same user and project, without their secrets",
	},
	{
		Method: http.MethodDelete, Path: "/tokens/{id}", ID: "id", Role: api.RoleReader, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "revokes a token of the caller, also the one that the call is made with",
	},
}

var boots = []Route{
	{
		Method: http.MethodPost, Path: "/zones/select", Role: api.RoleMember, Read: api.ReadLocal,
		Body: BootBody{}, Most: api.BodyMaxBytes, Status: http.StatusOK, Answer: whole(SelectAnswer{}), Since: since,
		Help: "estimates what the zone and all zones below it could offer, and changes nothing",
	},
	{
		Method: http.MethodPost, Path: "/zones/boot", Role: api.RoleMember, Read: api.ReadLog, Query: []Param{wait}, Keyed: true,
		Body: BootBody{}, Most: api.BodyMaxBytes, Status: http.StatusAccepted, Answer: whole(BootAnswer{}), Since: since,
		Help: "boots instances; returns the reservation id at once, or with `?wait=` also the boot, at its outcome or when the wait ends",
	},
	{
		Method: http.MethodGet, Path: "/zones/boot", Role: api.RoleReader, Read: api.ReadLocal, Query: []Param{
			{"all_projects", "true for the boots of all projects; for admins"},
			limit, marker, project,
			{"state", "boots in this state, such as BUILDING, ACTIVE or FAILED; other values are refused"},
		},
		Status: http.StatusOK, Answer: list("boots", Boot{}), Since: since,
		Help: "the boots of the project",
	},
	{
		Method: http.MethodGet, Path: "/zones/boot/{id}", ID: "reservation_id", Role: api.RoleReader, Read: api.ReadLocal,
		Query: []Param{wait, project}, Status: http.StatusOK, Answer: one("boot", Boot{}), Since: since,
		Help: "one boot; with `?wait=` at its outcome or when the wait ends",
	},
	{
		Method: http.MethodDelete, Path: "/zones/boot/{id}", ID: "reservation_id", Role: api.RoleMember, Read: api.ReadLog,
		Query: []Param{wait, project}, Status: http.StatusAccepted, Answer: one("boot", Boot{}), Since: since,
		Help: "deletes all instances of the boot",
	},
	{
		Method: http.MethodGet, Path: "/explain/{id}", ID: "request_id or reservation_id", Role: api.RoleReader, Read: api.ReadLocal,
		Query: []Param{project}, Status: http.StatusOK, Answer: one("explanation", Explanation{}), Since: since,
		Help: "explains the outcome of a request; 404 if there is no record of it",
	},
}

// serverFilters are the parameters of lists of servers.
var serverFilters = []Param{
	{"all_projects", "true for the servers of all projects, including those created for a parent zone, which have `origin`; for admins"},
	{"changes_since", "servers changed at or after this time, including deleted ones"},
	{"flavor", "servers of this flavor"},
	{"group", "servers of this group of a boot"},
	{"host", "servers on this host, by name or id; for admins"},
	limit, marker,
	{"name", "servers with this text in their name"},
	{"preemptible", "true for preemptible servers, false for firm ones"},
	{"reservation_id", "servers of this reservation"},
	{"status", "BUILD, ACTIVE, SHUTOFF, ERROR, DELETING or DELETED; other values are refused"},
	{"zone", "servers in this zone, or in and below this direct child; other names are refused"},
}

var servers = []Route{
	{
		Method: http.MethodPost, Path: "/servers", Role: api.RoleMember, Read: api.ReadLog, Keyed: true,
		Body: BootBody{}, Most: api.PlanBodyMaxBytes, Status: http.StatusAccepted, Answer: whole(ServerCreated{}), Since: since,
		Help: "creates servers, and returns the first one once the boot is decided, or a refusal with the `code` of a failed boot, " +
			"such as 409 `no_capacity`; with `\"return_reservation_id\": true` it returns only the reservation id, at once",
	},
	{
		Method: http.MethodGet, Path: "/servers", Role: api.RoleReader, Read: api.ReadLocal, Query: serverFilters,
		Status: http.StatusOK, Answer: list("servers", ServerSummary{}), Since: since,
		Help: "short descriptions of the servers of the project",
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
		Help: "deletes a server, which is DELETING until its host has ended it",
	},
	readOutput,
	{
		Method: http.MethodPost, Path: "/servers/{id}/stop", ID: "id", Role: api.RoleMember, Read: api.ReadLog,
		Status: http.StatusAccepted, Answer: one("server", Server{}), Since: since,
		Help: "stops a server, here or in a zone below: it is SHUTOFF when its host has ended it, and keeps its room, its files and its volumes; 409 while it is being deleted, 503 if its zone cannot be reached",
	},
	{
		Method: http.MethodPost, Path: "/servers/{id}/start", ID: "id", Role: api.RoleMember, Read: api.ReadLog,
		Status: http.StatusAccepted, Answer: one("server", Server{}), Since: since,
		Help: "starts a server that was stopped, has ended or is in ERROR: it is BUILD until it runs; one that runs is left alone; refused like `stop`",
	},
	{
		Method: http.MethodPost, Path: "/servers/{id}/restart", ID: "id", Role: api.RoleMember, Read: api.ReadLog,
		Status: http.StatusAccepted, Answer: one("server", Server{}), Since: since,
		Help: "ends a server, if it runs, and starts it again, once for each call: it is BUILD until it runs; refused like `stop`",
	},
	{
		Method: http.MethodPost, Path: "/servers/{id}/write-off", ID: "id", Role: api.RoleAdmin, Read: api.ReadLog,
		Area: api.AreaHosts, // who may delete servers of his may not say that they have ended
		Body: LoseBody{}, Status: http.StatusOK, Answer: one("lost", LostHost{}), Since: since,
		Help: "takes a server on a lost host of this zone as gone; 409 while its host is up or may still run it, see `POST /hosts/{id}/write-off`",
	},
}

var volumes = []Route{
	{
		Method: http.MethodPost, Path: "/volumes", Role: api.RoleMember, Read: api.ReadLog, Keyed: true,
		Body: VolumeBody{}, Status: http.StatusAccepted, Answer: whole(VolumeCreated{}), Since: since,
		Help: "makes a volume, and returns it once its place is decided, or a refusal with the `code` of a failed boot, such as 409 `no_capacity`",
	},
	{
		Method: http.MethodGet, Path: "/volumes", Role: api.RoleReader, Read: api.ReadLocal,
		Query: []Param{
			{"all_projects", "true for the volumes of all projects, including those made for a parent zone, which have `origin`; for admins"},
			limit, marker,
			{"name", "volumes with this text in their name"},
			{"status", "creating, available, in-use, deleting or error; other values are refused"},
			{"type", "volumes of this type"},
			{"zone", "volumes in this zone, or in and below this direct child; other names are refused"},
		},
		Status: http.StatusOK, Answer: list("volumes", Volume{}), Since: since,
		Help: "the volumes of the project",
	},
	{
		Method: http.MethodGet, Path: "/volumes/{id}", ID: "id", Role: api.RoleReader, Read: api.ReadLocal,
		Status: http.StatusOK, Answer: one("volume", Volume{}), Since: since,
		Help: "one volume",
	},
	{
		Method: http.MethodDelete, Path: "/volumes/{id}", ID: "id", Role: api.RoleMember, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "deletes a volume and all that is in it; 409 while it is attached",
	},
	{
		Method: http.MethodPost, Path: "/volumes/{id}/write-off", ID: "id", Role: api.RoleAdmin, Read: api.ReadLog,
		Area: api.AreaHosts,
		Body: LoseBody{}, Status: http.StatusOK, Answer: one("lost", LostHost{}), Since: since,
		Help: "takes a volume on a lost host of this zone as gone, attached or not; 409 while its host is up or may still serve it, see `POST /hosts/{id}/write-off`",
	},
	{
		Method: http.MethodPost, Path: "/volumes/{id}/attach", ID: "id", Role: api.RoleMember, Read: api.ReadLog,
		Body: AttachBody{}, Status: http.StatusNoContent, Since: since,
		Help: "attaches a volume to a server of the same project that reaches it; 409 if it is in another zone, which the refusal names, on another host, or attached",
	},
	{
		Method: http.MethodPost, Path: "/volumes/{id}/detach", ID: "id", Role: api.RoleMember, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "ends the attachment of a volume, if it has one",
	},
}

var serverGroups = []Route{
	{
		Method: http.MethodGet, Path: "/server-groups", Role: api.RoleReader, Read: api.ReadLocal,
		Query:  []Param{{"all_projects", "true for the server groups of all projects; for admins"}, limit, marker, project},
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
		Help: "deletes a server group; its members stay where they are, and it binds them no more",
	},
	{
		Method: http.MethodGet, Path: "/availability-zones", Role: api.RoleReader, Read: api.ReadLocal, Query: []Param{limit, marker},
		Status: http.StatusOK, Answer: list("availability_zones", AvailabilityZone{}), Since: since,
		Help: "the availability zones of this zone's hosts, those reported by zones below, and those that operators say of children",
	},
}

// adminCommand is what only admins set of a flavor.
var adminCommand = []string{"flavor.command"}

const whyCommand = "it runs on hosts, as the user of the agent unless the agent has `--users`, which may be root; who replaces a flavor may leave the command as it is"

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
		Body: FlavorBody{}, Most: api.BodyMaxBytes, Status: http.StatusCreated, Answer: one("flavor", Flavor{}), Since: since, Admin: adminCommand, Why: whyCommand,
		Help: "creates a flavor; only admins give it a command",
	},
	{
		Method: http.MethodGet, Path: "/flavors/{id}", ID: "id", Role: api.RoleReader, Read: api.ReadLocal,
		Status: http.StatusOK, Answer: one("flavor", Flavor{}), Since: since,
		Help: "one flavor",
	},
	{
		Method: http.MethodPut, Path: "/flavors/{id}", ID: "id", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: FlavorBody{}, Most: api.BodyMaxBytes, Status: http.StatusOK, Answer: one("flavor", Flavor{}), Since: since, Admin: adminCommand, Why: whyCommand,
		Help: "replaces a flavor as a whole; only admins give it another command",
	},
	{
		Method: http.MethodDelete, Path: "/flavors/{id}", ID: "id", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "deletes a flavor; running instances are not affected",
	},
}
