package native

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/intake"
)

// createWait bounds how long POST /servers waits for the decision.
const createWait = 60 * time.Second

// reachOf returns whether the host of an instance is up, as its own zone reports it.
// For an instance in a zone below, it also returns whether this node has recently heard
// from the direct child that leads to it, which is only a hint.
func (d *dialect) reachOf(v *state.State, i *api.Instance) rest.Reach {
	yes, no := true, false
	if !i.Live() {
		return rest.Reach{}
	}
	if since := v.UnreachableSince(i); since != 0 {
		return rest.Reach{Reachable: &no, Since: since}
	}
	if i.Host != "" {
		return rest.Reach{Reachable: &yes}
	}
	l, ok := v.Link(i.Link)
	if !ok {
		return rest.Reach{}
	}
	switch _, age, heard := d.Digests.Digest(l.Zone); {
	case !heard:
		return rest.Reach{}
	case age > zone.LinkFresh:
		return rest.Reach{Reachable: &no, Since: api.InstantOf(d.Now().Add(-age))}
	}
	return rest.Reach{Reachable: &yes}
}

func (d *dialect) serverView(v *state.State, i *api.Instance, c api.Caller) rest.Server {
	out := rest.ServerOf(i)
	out.Zone, out.Reach = zoneName(v, i), d.reachOf(v, i)
	if l, ok := v.Link(i.Origin); ok {
		out.Origin = l.Name
	}
	if out.Preemptible {
		out.Until = v.RoomUntil(i)
	}
	if e := out.Eviction; e != nil && e.For == rest.EvictedForLease {
		if l, ok := v.LeaseWith(e.Reservation); ok {
			e.Lease = l.Terms.ID
		}
	}
	if i.Host != "" && c.Allows(api.RoleAdmin) {
		if h, ok := v.Host(i.Host); ok {
			out.Host = h.Name
		}
	}
	return out
}

func (d *dialect) createServer(w http.ResponseWriter, r *http.Request) error {
	o, s, err := d.readOrder(r)
	if err != nil {
		return err
	}
	if s.Blob != nil && s.Reservation == "" {
		return api.Errorf(api.CodeInvalid, "a blob needs the reservation_id that came with it")
	}
	b, err := d.bootOrder(r, o)
	if err != nil {
		return err
	}
	if s.ReturnRes {
		wire.JSON(w, http.StatusAccepted, rest.ServerCreated{Reservation: b.Request.Reservation})
		return nil
	}
	b, v, err := d.waitDecision(w, r, b)
	if err != nil {
		return err
	}
	if i := firstInstance(v, b); i != nil {
		server := d.serverView(v, i, door.Caller(r))
		wire.JSON(w, http.StatusAccepted, rest.ServerCreated{Reservation: b.Request.Reservation, Server: &server})
		return nil
	}
	if b.Decision == api.DecisionPending {
		return api.Errorf(api.CodeTimeout, "reservation %s is not decided yet; see GET /zones/boot/%s", b.Request.Reservation, b.Request.Reservation)
	}
	code, reason := b.Cause()
	return api.Errorf(cmp.Or(code, api.CodeNoCapacity), "reservation %s: %s", b.Request.Reservation, reason)
}

// firstInstance returns the instance of a boot that was placed first.
func firstInstance(v *state.State, b *state.Boot) *api.Instance {
	order := map[string]int{}
	for n, sp := range b.Instances {
		order[sp.Name] = n
	}
	var out *api.Instance
	for _, i := range v.OfReservation(b.Request.Project, b.Request.Reservation) {
		// A parent's own reservation may have the same name.
		if i.Origin == "" && i.Volume == "" && (out == nil || order[i.Name] < order[out.Name]) {
			out = i
		}
	}
	return out
}

func (d *dialect) listServers(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	page, next, err := serversPage(v, r)
	if err != nil {
		return err
	}
	out := make([]rest.ServerSummary, len(page))
	for n, i := range page {
		out[n] = rest.ServerSummary{ID: i.ID, Name: i.Name, Status: i.Status, Zone: zoneName(v, i), Reach: d.reachOf(v, i)}
	}
	return answerList(w, "servers", out, next)
}

func (d *dialect) listServersDetail(w http.ResponseWriter, r *http.Request) error {
	v, c := d.View(w), door.Caller(r)
	page, next, err := serversPage(v, r)
	if err != nil {
		return err
	}
	wire.List[*api.Instance, rest.Server]{
		Key: "servers", Items: page, Next: next, ID: instanceID,
		View: func(i *api.Instance) rest.Server { return d.serverView(v, i, c) },
	}.Write(w)
	return nil
}

// pageOf returns the requested page of a list ordered by id, and the marker of the next
// page.
func pageOf[T any](r *http.Request, all []T, id func(T) string) (page []T, next string, err error) {
	limit, marker, err := wire.Page(r)
	if err != nil {
		return nil, "", err
	}
	page = slices.DeleteFunc(slices.Clone(all), func(v T) bool { return marker != "" && id(v) <= marker })
	if len(page) > limit {
		page = page[:limit]
		next = id(page[limit-1])
	}
	if page == nil {
		page = []T{}
	}
	return page, next, nil
}

// answerOne writes an answer that is one value under a key.
func answerOne(w http.ResponseWriter, status int, key string, value any) error {
	wire.JSON(w, status, map[string]any{key: value})
	return nil
}

// viewsOf returns what the API shows of each item.
func viewsOf[S, T any](items []S, view func(S) T) []T {
	out := make([]T, len(items))
	for n, i := range items {
		out[n] = view(i)
	}
	return out
}

// answerList writes one page of a list whose items are small.
func answerList[T any](w http.ResponseWriter, name string, items []T, next string) error {
	wire.List[T, T]{Key: name, Items: items, Next: next, View: func(v T) T { return v }}.Write(w)
	return nil
}

// instanceID is the marker of the page after an instance.
func instanceID(i *api.Instance) string { return string(i.ID) }

// serversPage returns one page of the caller's instances, and the marker of the next
// page.
func serversPage(v *state.State, r *http.Request) ([]*api.Instance, string, error) {
	limit, marker, err := wire.Page(r)
	if err != nil {
		return nil, "", err
	}
	match, err := serverMatch(v, r)
	if err != nil {
		return nil, "", err
	}
	q, c := r.URL.Query(), door.Caller(r)
	query := state.InstanceQuery{
		Project: c.Project, Reservation: api.ReservationID(q.Get("reservation_id")),
		Deleted: api.Status(q.Get("status")) == api.StatusDeleted || q.Get("changes_since") != "",
		Page:    state.Page{Marker: marker, Limit: limit + 1}, Match: match,
	}
	all, err := boolParameter(r, "all_projects")
	switch {
	case err != nil:
		return nil, "", err
	case all && !c.Allows(api.RoleAdmin):
		return nil, "", api.Errorf(api.CodeForbidden, "all_projects needs the role admin")
	case all:
		query.Project = ""
	}
	page := v.InstancesPage(query)
	if flavor := api.FlavorID(q.Get("flavor")); flavor != "" && len(page) == 0 && marker == "" { // servers may outlive their flavor
		if _, ok := v.Flavor(flavor); !ok {
			return nil, "", api.Errorf(api.CodeInvalid, "flavor: there is no flavor %q in this zone; see GET /flavors", string(flavor))
		}
	}
	if len(page) <= limit {
		return page, "", nil
	}
	return page[:limit], string(page[limit-1].ID), nil
}

// boolParameter reads a query parameter that is true or false.
func boolParameter(r *http.Request, name string) (bool, error) {
	switch r.URL.Query().Get(name) {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	}
	return false, api.Errorf(api.CodeInvalid, "%s must be true or false", name)
}

// statuses are the possible statuses of a server, in the order of its life.
var statuses = []api.Status{
	api.StatusBuild, api.StatusActive, api.StatusShutoff, api.StatusError, api.StatusDeleting, api.StatusDeleted,
}

// wordsOf joins words with commas.
func wordsOf[T ~string](list []T) string {
	var out []string
	for _, w := range list {
		out = append(out, string(w))
	}
	return strings.Join(out, ", ")
}

// serverMatch returns the filter of a list of servers. Instances made for a parent
// belong to a project of the parent: they are listed only with all_projects, and never
// under a project of this zone with the same name.
func serverMatch(v *state.State, r *http.Request) (func(*api.Instance) bool, error) {
	q, c := r.URL.Query(), door.Caller(r)
	name, status, res := q.Get("name"), api.Status(q.Get("status")), api.ReservationID(q.Get("reservation_id"))
	flavor, group, zone := api.FlavorID(q.Get("flavor")), q.Get("group"), q.Get("zone")
	if status != "" && !slices.Contains(statuses, status) {
		return nil, api.Errorf(api.CodeInvalid, "status must be one of %s, got %q", wordsOf(statuses), string(status))
	}
	everyones := q.Get("all_projects") == "true"
	class, err := classParam(r)
	if err != nil {
		return nil, err
	}
	host, err := hostParam(v, c, q.Get("host"))
	if err != nil {
		return nil, err
	}
	if zone != "" {
		if no := intake.UnknownZone(v, zone); no != "" {
			return nil, api.Errorf(api.CodeInvalid, "zone: %s", no)
		}
	}
	var since api.Instant
	if text := q.Get("changes_since"); text != "" {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, api.Errorf(api.CodeInvalid, "changes_since must be a time such as 2030-01-31T12:00:00Z, got %q", text)
		}
		since = api.InstantOf(at)
	}
	return func(i *api.Instance) bool {
		return isVisible(i, c) && (everyones || i.Origin == "") && strings.Contains(i.Name, name) && matchesWanted(status, i.Status) && matchesWanted(res, i.Reservation) &&
			matchesWanted(flavor, i.Flavor) && matchesWanted(group, i.Group) && matchesWanted(host, i.Host) && i.Updated >= since && matchesWanted(class, i.Class) &&
			(zone == "" || zoneName(v, i) == zone)
	}, nil
}

// matchesWanted reports whether a value equals the wanted one, or none is wanted.
func matchesWanted[T ~string](want, have T) bool { return want == "" || want == have }

// classParam returns the class of the wanted instances, "" for any.
func classParam(r *http.Request) (api.Class, error) {
	yes, err := boolParameter(r, "preemptible")
	switch {
	case err != nil || !r.URL.Query().Has("preemptible"):
		return "", err
	case yes:
		return api.Preemptible, nil
	}
	return api.Firm, nil
}

// hostParam returns the id of the host that an admin names, "" for none.
func hostParam(v *state.State, c api.Caller, ref string) (api.HostID, error) {
	if ref == "" {
		return "", nil
	}
	if !c.Allows(api.RoleAdmin) {
		return "", api.Errorf(api.CodeForbidden, "host needs the role admin")
	}
	h, err := intake.Host(v, ref)
	if err != nil {
		return "", api.Errorf(api.CodeInvalid, "host: there is no host %q in this zone", ref)
	}
	return h.ID, nil
}

// isVisible reports whether a caller may see an instance. An instance made for a parent
// zone belongs to a project of that zone, whatever its name: here only operators see
// it.
func isVisible(i *api.Instance, c api.Caller) bool {
	return c.Allows(api.RoleAdmin) || i.Origin == "" && i.Project == c.Project
}

// visibleInstance returns an instance that the caller may see. Another project's
// instance is reported exactly like one that never existed.
func visibleInstance(v *state.State, r *http.Request) (*api.Instance, error) {
	c := door.Caller(r)
	i, ok := v.Instance(api.InstanceID(chi.URLParam(r, "id")))
	if !ok || !i.Live() || i.Volume != "" || !isVisible(i, c) {
		return nil, api.Errorf(api.CodeNotFound, "no such server")
	}
	return i, nil
}

func (d *dialect) showServer(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	i, err := visibleInstance(v, r)
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "server", d.serverView(v, i, door.Caller(r)))
}

func (d *dialect) deleteServer(w http.ResponseWriter, r *http.Request) error {
	i, err := visibleInstance(d.Zone.View(), r)
	if err != nil {
		return err
	}
	return noContent(w, intake.DeleteServer(r.Context(), d.Zone, i.ID))
}

// writeOffServer takes a server on a lost host of this zone as gone.
func (d *dialect) writeOffServer(w http.ResponseWriter, r *http.Request) error {
	i, err := visibleInstance(d.Zone.View(), r)
	switch {
	case err != nil:
		return err
	case i.Host == "":
		return api.Errorf(api.CodeConflict, "the server is in another zone; its operator writes it off there")
	}
	return d.answerLost(w, r, i.Host, i.ID)
}
