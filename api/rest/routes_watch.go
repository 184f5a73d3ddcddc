package rest

import (
	"net/http"

	"berth/api"
)

// MediaEvents is the media type of an event stream.
const MediaEvents = "text/event-stream"

var watching = []Route{
	{
		Method: http.MethodGet, Path: "/events", Role: api.RoleReader, Read: api.ReadLocal,
		Query: []Param{
			{"after", "id of an event, or now: the stream begins behind it (default: the oldest event that the zone keeps). The header Last-Event-ID goes before it"},
			{"follow", "false ends the stream after the events that there are now"},
			{"kind", "kinds of events to show, or their beginnings, separated by commas, such as boot,instance.error"},
			{"lease_id", "only events of this lease"},
			{"server_id", "only events of this server: its statuses, of which build after active is a move to another host, and faults"},
			{"project_id", "only events of this project of this zone; for admins, who otherwise see all"},
			{"reservation_id", "only events of this reservation"},
		},
		Status: http.StatusOK, Answer: whole(Event{}), Media: MediaEvents, Since: since,
		Help: "streams events as server-sent events, each with an `Event` as its data, see below",
	},
	{
		Method: http.MethodPost, Path: "/webhooks", Role: api.RoleMember, Read: api.ReadLog, Query: []Param{project},
		Body: WebhookBody{}, Status: http.StatusCreated, Answer: one("webhook", WebhookCreated{}), Since: since,
		Help: "creates a webhook: events of the project from now on are sent to it; `secret` is never shown again",
	},
	{
		Method: http.MethodGet, Path: "/webhooks", Role: api.RoleReader, Read: api.ReadLocal,
		Query:  []Param{{"all_projects", "true for the webhooks of all projects, at most 1,000; for admins"}, project},
		Status: http.StatusOK, Answer: list("webhooks", Webhook{}), Since: since,
		Help: "the webhooks of the project, at most 10",
	},
	{
		Method: http.MethodGet, Path: "/webhooks/{id}", ID: "name", Role: api.RoleReader, Read: api.ReadLocal, Query: []Param{project},
		Status: http.StatusOK, Answer: one("webhook", Webhook{}), Since: since,
		Help: "one webhook, and how far its deliveries are",
	},
	{
		Method: http.MethodDelete, Path: "/webhooks/{id}", ID: "name", Role: api.RoleMember, Read: api.ReadLog, Query: []Param{project},
		Status: http.StatusNoContent, Since: since,
		Help: "deletes a webhook",
	},
	{
		Method: http.MethodPost, Path: "/webhooks/{id}/resume", ID: "name", Role: api.RoleMember, Read: api.ReadLog, Query: []Param{project},
		Status: http.StatusOK, Answer: one("webhook", Webhook{}), Since: since,
		Help: "ends the pause of a webhook: deliveries go on where they stopped",
	},
}
