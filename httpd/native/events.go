package native

import (
	"net/http"
	"strings"

	"berth/api"
	"berth/httpd/door"
	httpevents "berth/httpd/events"
	"berth/zone/events"
)

// afterNow is the value of ?after= for what happens from now on.
const afterNow = "now"

// streamEvents streams events from the replica of this node, whichever it is: ids mean the
// same on all of them.
func (d *dialect) streamEvents(w http.ResponseWriter, r *http.Request) error {
	watch, err := watchOf(r)
	if err != nil {
		return err
	}
	ask := httpevents.Ask{Caller: door.Caller(r), Watch: watch, Admits: func() bool { return d.Admits(r) }}
	if follow := r.URL.Query().Get("follow"); follow != "" {
		follows, err := boolParameter(r, "follow")
		if err != nil {
			return err
		}
		ask.Once = !follows
	}
	after := r.Header.Get(api.HeaderLastEventID)
	if after == "" { // a browser that comes back sends both, and the header is newer
		after = r.URL.Query().Get("after")
	}
	if ask.New = after == afterNow; !ask.New && after != "" {
		id, err := api.ParseEventID(after)
		if err != nil {
			return err
		}
		ask.After = &id
	}
	return d.Streams.Serve(w, r, ask)
}

// watchOf returns what the caller of a request wants to see, and may.
func watchOf(r *http.Request) (events.Watch, error) {
	c, q := door.Caller(r), r.URL.Query()
	watch := events.Watch{
		Project: c.Project, Operator: c.Allows(api.RoleAdmin), Reservation: api.ReservationID(q.Get("reservation_id")), Lease: api.LeaseID(q.Get("lease_id")),
		Server: api.InstanceID(q.Get("server_id")),
	}
	if watch.Operator {
		watch.Project = ""
	}
	if q.Get("project_id") != "" {
		project, err := projectOf(r)
		if err != nil {
			return watch, err
		}
		watch.Project = project
	}
	if kinds := q.Get("kind"); kinds != "" {
		watch.Kinds = strings.Split(kinds, ",")
	}
	return watch, events.CheckKinds(watch.Kinds)
}
