package rest

import (
	"net/http"

	"berth/api"
)

// leadsByLink is how the calls that make a link lead to everything.
const leadsByLink = "a linked zone works here for any project, or is given the work of any"

var zones = []Route{
	{
		Method: http.MethodGet, Path: "/zones", Role: api.RoleReader, Read: api.ReadLocal, Query: []Param{limit, marker},
		Status: http.StatusOK, Answer: list("zones", Zone{}), Since: since,
		Help: "the parent and the direct children, but no zones beyond them",
	},
	{
		Method: http.MethodGet, Path: "/zones/detail", Role: api.RoleReader, Read: api.ReadLocal, Query: []Param{limit, marker},
		Status: http.StatusOK, Answer: list("zones", Zone{}), Since: since,
		Help: "the same as `GET /zones`",
	},
	{
		Method: http.MethodGet, Path: "/zones/info", Role: api.RoleReader, Read: api.ReadLocal,
		Status: http.StatusOK, Answer: one("zone", ZoneInfo{}), Since: since,
		Help: "this zone itself; its digest only for admins",
	},
	{
		Method: http.MethodPost, Path: "/zones", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: ZoneBody{}, Status: http.StatusCreated, Answer: one("token", ""), Since: since, Leads: leadsByLink,
		Help: "creates a link token for a future child, valid for one use and 15 minutes",
	},
	{
		Method: http.MethodPost, Path: "/zones/link", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: LinkBody{}, Status: http.StatusCreated, Answer: one("zone", Zone{}), Since: since, Leads: leadsByLink,
		Help: "on the child: enrols with the parent that created the token",
	},
	{
		Method: http.MethodGet, Path: "/zones/{id}", ID: "name or id", Role: api.RoleReader, Read: api.ReadLocal,
		Status: http.StatusOK, Answer: one("zone", Zone{}), Since: since,
		Help: "one linked zone",
	},
	{
		Method: http.MethodPut, Path: "/zones/{id}", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: ZoneBody{}, Status: http.StatusOK, Answer: one("zone", Zone{}), Since: since,
		Help: "changes a link; `state` is `active` or `paused`; `gateways`, 1 to 16 of `host:port`, replace the known ones until the zone itself reports others; " +
			"`availability_zone`, `tags`, `maintenance` and `headroom` are of children, see [bindings](bindings.md); `share_held` and `share_committed` are of the parent",
	},
	{
		Method: http.MethodPost, Path: "/zones/{id}/plan-maintenance", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLinearizable,
		Body: MaintenanceQuestion{}, Status: http.StatusOK, Answer: one("plan", MaintenancePlan{}), Since: since,
		Help: "which projects would be bound to another child if this one went into maintenance, and to which one; nothing is changed",
	},
	{
		Method: http.MethodPost, Path: "/zones/{id}/relink", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: Relink{}, Status: http.StatusOK, Answer: one("relinked", Relinked{}), Since: since,
		Help: "accepts that a linked zone was brought back from a backup, see below; 409 if it was not, or has another incarnation",
	},
	{
		Method: http.MethodPost, Path: "/zones/{id}/write-off", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: WriteOff{}, Status: http.StatusOK, Answer: one("losses", Losses{}), Since: since,
		Help: "removes the link to a zone that is gone for good, with all that depends on it; 409 unless the zone is paused, see below",
	},
	{
		Method: http.MethodDelete, Path: "/zones/{id}", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "removes a link; 409 while instances depend on it",
	},
	{
		Method: http.MethodGet, Path: "/capacity", Role: api.RoleAdmin, Read: api.ReadLocal,
		Query: []Param{
			{"at", "time of `free_at`, RFC 3339, up to 3650 days ahead (default: now)"},
			{"zone", "name of a single zone to show: this one or a direct child"},
		},
		Status: http.StatusOK, Answer: one("capacity", Capacity{}), Since: since,
		Help: "total and free capacity of each resource class, see below",
	},
}

var bindings = []Route{
	{
		Method: http.MethodGet, Path: "/bindings", Role: api.RoleAdmin, Read: api.ReadLocal,
		Query: []Param{
			{"active", "true, false for past ones, or all (default: true)"},
			{"after", "bindings that were active after this time, RFC 3339"},
			{"availability_zone", "bindings for work that asks for this availability zone"},
			{"before", "bindings that began before this time, RFC 3339"},
			limit, marker,
			{"project_id", "bindings of this project"},
			{"tag", "bindings with this affinity tag, as key=value"},
			{"zone", "bindings to this child, by its name, or by the name or id of its link"},
		},
		Status: http.StatusOK, Answer: list("bindings", Binding{}), Since: since,
		Help: "which child the new work of each project goes to, and where it went before; the newest first",
	},
	{
		Method: http.MethodPost, Path: "/bindings", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: BindingBody{}, Status: http.StatusOK, Answer: one("binding", Binding{}), Since: since,
		Help: "binds a project to a child, and ends the binding that it has for the same work; nothing happens if that is to the same child",
	},
	{
		Method: http.MethodGet, Path: "/bindings/{id}", ID: "id", Role: api.RoleAdmin, Read: api.ReadLocal,
		Status: http.StatusOK, Answer: one("binding", Binding{}), Since: since,
		Help: "one binding, active or past",
	},
	{
		Method: http.MethodDelete, Path: "/bindings/{id}", ID: "id", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "ends a binding: the next work of its project chooses anew; nothing happens if it has ended",
	},
	{
		Method: http.MethodPost, Path: "/bindings/{id}/move", ID: "id", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: BindingMove{}, Status: http.StatusOK, Answer: one("binding", Binding{}), Since: since,
		Help: "ends an active binding and binds its project to another child; 409 if it is not active any more",
	},
}

var hosts = []Route{
	{
		Method: http.MethodGet, Path: "/hosts", Role: api.RoleAdmin, Read: api.ReadLocal,
		Query: []Param{
			{"aggregate", "hosts of this aggregate, by name or id"},
			{"availability_zone", "hosts of this availability zone"},
			limit, marker,
			{"pool", "hosts of this pool"},
			{"state", "up or down"},
		},
		Status: http.StatusOK, Answer: list("hosts", Host{}), Since: since,
		Help: "the hosts of this zone",
	},
	{
		Method: http.MethodGet, Path: "/hosts/{id}", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLocal,
		Status: http.StatusOK, Answer: one("host", Host{}), Since: since,
		Help: "one host; a draining host has `leaving`, with numbers of instances; `own_inventory` is what operators have set of its inventory, and `reported_inventory` what its agent reports of these classes",
	},
	{
		Method: http.MethodPut, Path: "/hosts/{id}", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: HostBody{}, Most: api.BodyMaxBytes, Status: http.StatusOK, Answer: one("host", Host{}), Since: since,
		Help: "changes a host; 409 `stale_generation`. `attributes` override those of the agent one by one, `\"\"` removes an override; " +
			"`maintenance` is the reason why the host takes no new instances, `\"\"` ends maintenance and any drain",
	},
	{
		Method: http.MethodDelete, Path: "/hosts/{id}", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "deletes a host; 409 while it has instances",
	},
	{
		Method: http.MethodPost, Path: "/hosts/{id}/drain", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: DrainBody{}, Status: http.StatusAccepted, Answer: one("host", Host{}), Since: since,
		Help: "drains a host: with `policy` `wait` its instances stay until they end by themselves, with `end` they are deleted, with `move` they are started on another host",
	},
	{
		Method: http.MethodDelete, Path: "/hosts/{id}/drain", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusOK, Answer: one("host", Host{}), Since: since,
		Help: "ends the drain of a host",
	},
	{
		Method: http.MethodPost, Path: "/hosts/plan-drain", Role: api.RoleAdmin, Read: api.ReadLinearizable,
		Body: DrainQuestion{}, Status: http.StatusOK, Answer: one("plan", DrainPlan{}), Since: since,
		Help: "what would become of the leases and instances on `hosts` if they were drained by moving `at` a time, planned as a drain plans it; nothing is moved or held. " +
			"413 for more than 2000 slots and instances",
	},
	{
		Method: http.MethodGet, Path: "/hosts/{id}/evacuation", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLinearizable,
		Status: http.StatusOK, Answer: one("evacuation", Evacuation{}), Since: since,
		Help: "the progress of evacuating a host that is down, which the zone does by itself; 409 while the host is up",
	},
	{
		Method: http.MethodPost, Path: "/hosts/{id}/write-off", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: LoseBody{}, Status: http.StatusOK, Answer: one("lost", LostHost{}), Since: since,
		Help: "forgets a host whose agent is gone for good, with all that is on it; 409 while it is up or may still run something, see below",
	},
	{
		Method: http.MethodGet, Path: "/aggregates", Role: api.RoleAdmin, Read: api.ReadLocal, Query: []Param{limit, marker},
		Status: http.StatusOK, Answer: list("aggregates", Aggregate{}), Since: since,
		Help: "the aggregates of the zone",
	},
	{
		Method: http.MethodPost, Path: "/aggregates", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: AggregateBody{}, Most: api.BodyMaxBytes, Status: http.StatusCreated, Answer: one("aggregate", Aggregate{}), Since: since,
		Help: "creates an aggregate",
	},
	{
		Method: http.MethodGet, Path: "/aggregates/{id}", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLocal,
		Status: http.StatusOK, Answer: one("aggregate", Aggregate{}), Since: since,
		Help: "one aggregate",
	},
	{
		Method: http.MethodPut, Path: "/aggregates/{id}", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: AggregateBody{}, Most: api.BodyMaxBytes, Status: http.StatusOK, Answer: one("aggregate", Aggregate{}), Since: since,
		Help: "changes an aggregate; absent fields stay as they are, given ones are replaced as a whole",
	},
	{
		Method: http.MethodDelete, Path: "/aggregates/{id}", ID: "name or id", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "deletes an aggregate; its hosts stay",
	},
}

var operators = []Route{
	{
		Method: http.MethodGet, Path: "/operator/members", Role: api.RoleAdmin, Read: api.ReadLocal,
		Status: http.StatusOK, Answer: list("members", Member{}), Since: since,
		Help: "the nodes of the zone, each with what the node that answers knows of its clock and its disk",
	},
	{
		Method: http.MethodDelete, Path: "/operator/members/{id}", ID: "id", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "removes a node from the zone",
	},
	{
		Method: http.MethodPost, Path: "/operator/transfer", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: TransferBody{}, Status: http.StatusNoContent, Since: since,
		Help: "makes another node the leader, by default the most up-to-date one",
	},
	{
		Method: http.MethodGet, Path: "/operator/snapshot", Role: api.RoleAdmin, Read: api.ReadLinearizable, Stream: true,
		Status: http.StatusOK, Since: since,
		Help: "the whole state of the zone, as a file sealed with its key-encryption key",
	},
	{
		Method: http.MethodPut, Path: "/operator/snapshot", Role: api.RoleAdmin, Read: api.ReadLog, Stream: true,
		Query:  []Param{{"unauthenticated", "true to accept a file that does not prove that this zone wrote it: a backup of an older release"}},
		Status: http.StatusNoContent, Since: since, Leads: "a backup brings its own tokens",
		Help: "replaces the whole state of the zone with that of such a file",
	},
	{
		Method: http.MethodGet, Path: "/operator/audit", Role: api.RoleAdmin, Read: api.ReadLinearizable, Query: []Param{limit, marker},
		Status: http.StatusOK, Answer: list("audit", AuditRecord{}), Since: since,
		Help: "who changed what in the zone, oldest first. Each record has the sum of the one before it; the newest 10,000 are kept",
	},
	{
		Method: http.MethodGet, Path: "/operator/tokens", Role: api.RoleAdmin, Read: api.ReadLocal, Query: []Param{limit, marker},
		Status: http.StatusOK, Answer: list("tokens", Token{}), Since: since,
		Help: "the bearer tokens of the zone, without their secrets",
	},
	{
		Method: http.MethodPost, Path: "/operator/tokens", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: TokenSpec{}, Status: http.StatusCreated, Answer: whole(TokenCreated{}), Since: since,
		Help: "creates a bearer token, which is shown only once",
	},
	{
		Method: http.MethodDelete, Path: "/operator/tokens/{id}", ID: "id", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "revokes a bearer token",
	},
	{
		Method: http.MethodGet, Path: "/operator/roles", Role: api.RoleAdmin, Read: api.ReadLocal, Query: []Param{limit, marker},
		Status: http.StatusOK, Answer: list("roles", Role{}), Since: since,
		Help: "the roles that operators have made; those of every zone are `reader`, `member` and `admin`",
	},
	{
		Method: http.MethodPut, Path: "/operator/roles/{id}", ID: "name", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: RoleBody{}, Status: http.StatusOK, Answer: one("role", Role{}), Since: since,
		Help: "makes a role, or replaces it together with what its tokens may do; `allow` has groups of calls such as `servers:read`, see [policies](policies.md)",
	},
	{
		Method: http.MethodDelete, Path: "/operator/roles/{id}", ID: "name", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "deletes a role; 409 while a token has it",
	},
	{
		Method: http.MethodGet, Path: "/operator/agents", Role: api.RoleAdmin, Read: api.ReadLinearizable, Query: []Param{limit, marker},
		Status: http.StatusOK, Answer: list("agents", Agent{}), Since: since,
		Help: "the agents of the zone by their certificates; the leader answers, because it knows when each was last seen",
	},
	{
		Method: http.MethodDelete, Path: "/operator/agents/{id}", ID: "id", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "revokes an agent: its certificates are refused, its connections closed, its hosts down and disabled. It may join again with a new token",
	},
	{
		Method: http.MethodPost, Path: "/operator/join-tokens", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: JoinTokenSpec{}, Status: http.StatusCreated, Answer: one("token", ""), Since: since, Leads: "a node that joins gets the keys of the zone",
		Help: "creates a token with which one node or agent may join; `kind` is `node` or `agent`. For an agent, `host_prefix` and `hosts_max` bound the names and the number of its hosts, `host_capacity` what each may offer of a resource class, and with `disabled` its new hosts wait until an operator enables them",
	},
	{
		Method: http.MethodPost, Path: "/operator/join", Read: api.ReadLog,
		Body: JoinBody{}, Most: api.JoinBodyMaxBytes, Status: http.StatusOK, Answer: whole(JoinAnswer{}), Since: since,
		Help: "for new nodes and agents: needs only a join token. More than 16 calls per second with unknown tokens are refused with 429; none of them is logged",
	},
	{
		Method: http.MethodGet, Path: "/operator/config", Role: api.RoleAdmin, Read: api.ReadLocal,
		Status: http.StatusOK, Answer: one("config", ZoneConfig{}), Since: since,
		Help: "the configuration of the zone; durations are texts such as `\"60s\"`",
	},
	{
		Method: http.MethodPut, Path: "/operator/config", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: ConfigBody{}, Most: api.BodyMaxBytes, Status: http.StatusOK, Answer: one("config", ZoneConfig{}), Since: since,
		Help: "replaces the configuration of the zone as a whole",
	},
	{
		Method: http.MethodGet, Path: "/operator/scheduler", Role: api.RoleAdmin, Read: api.ReadLocal,
		Status: http.StatusOK, Answer: whole(SchedulerAnswer{}), Since: since,
		Help: "the filters and costs in use, and all available ones",
	},
	{
		Method: http.MethodPut, Path: "/operator/scheduler", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: SchedulerBody{}, Most: api.BodyMaxBytes, Status: http.StatusOK, Answer: whole(SchedulerAnswer{}), Since: since,
		Help: "replaces filters and costs as a whole; an empty list stands for the default",
	},
	{
		Method: http.MethodPost, Path: "/operator/keyring/rotate", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "creates a new key for sealing plans; the old one still opens the plans it has sealed",
	},
	{
		Method: http.MethodPost, Path: "/operator/kek/rotate", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "creates a new key-encryption key, gives it to the nodes, wraps all secrets by it, and creates a new key for sealing plans; needs a majority of the nodes",
	},
	{
		Method: http.MethodGet, Path: "/operator/ca", Role: api.RoleAdmin, Read: api.ReadLinearizable,
		Status: http.StatusOK, Answer: one("authority", CA{}), Since: since,
		Help: "the certificate authority of the zone, how far its change is, and for whom that waits; the leader answers, because it knows why a linked zone could not be told",
	},
	{
		Method: http.MethodPost, Path: "/operator/ca/rotate", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: CABrought{}, Status: http.StatusNoContent, Since: since, Admin: []string{"certificate", "key"},
		Why:  "whoever has the key of an authority makes himself the certificate of any node",
		Help: "begins the change of the certificate authority: makes the next one, or takes the one that is given, by an admin alone, both parts in PEM, which nodes, agents and linked zones are told to trust beside the one in use. Until the change is finished no zone can be linked",
	},
	{
		Method: http.MethodPost, Path: "/operator/ca/use", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: CAForce{}, Status: http.StatusNoContent, Since: since,
		Help: "lets the next authority issue: nodes and agents get certificates of it, and the key of the old one is destroyed. 409 while somebody does not trust it yet, unless `force` is set",
	},
	{
		Method: http.MethodPost, Path: "/operator/ca/finish", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: CAForce{}, Status: http.StatusNoContent, Since: since,
		Help: "ends the trust in the old authority, here and in linked zones: its certificates are refused and their connections closed. 409 while somebody has no certificate of the new one, unless `force` is set",
	},
	{
		Method: http.MethodGet, Path: "/operator/upgrade", Role: api.RoleAdmin, Read: api.ReadLinearizable,
		Status: http.StatusOK, Answer: one("upgrade", Upgrade{}), Since: since,
		Help: "which releases the nodes of the zone run, the form that it writes, the newest that all of them read, and what linked zones write; the leader answers, because it asks them",
	},
	{
		Method: http.MethodPost, Path: "/operator/upgrade/finish", Role: api.RoleAdmin, Read: api.ReadLog,
		Status: http.StatusNoContent, Since: since,
		Help: "has the zone write the newest form that all its nodes read. No node can go back to an older release then. 409 if there is nothing to finish, or a node has not said what it reads",
	},
	{
		Method: http.MethodGet, Path: "/operator/holds", Role: api.RoleAdmin, Read: api.ReadLocal,
		Status: http.StatusOK, Answer: list("holds", Hold{}), Since: since,
		Help: "the undecided holds of parents in this zone",
	},
	{
		Method: http.MethodPost, Path: "/operator/holds/{id}", ID: "id", Role: api.RoleAdmin, Read: api.ReadLog,
		Body: DecisionBody{}, Status: http.StatusNoContent, Since: since,
		Help: "decides a hold by force, in place of a parent that will not return",
	},
}
