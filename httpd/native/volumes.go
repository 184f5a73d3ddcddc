package native

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// volumeStatuses are the possible statuses of a volume in a list, in the order of its life.
var volumeStatuses = []api.VolumeStatus{
	api.VolumeCreating, api.VolumeAvailable, api.VolumeInUse, api.VolumeDeleting, api.VolumeError,
}

func (d *dialect) volumeView(v *state.State, i *api.Instance, c api.Caller) rest.Volume {
	out := rest.VolumeOf(i)
	out.Zone, out.Reach = zoneName(v, i), d.reachOf(v, i)
	if l, ok := v.Link(i.Origin); ok {
		out.Origin = l.Name
	}
	if h, ok := v.Host(i.Host); ok && c.Allows(api.RoleAdmin) {
		out.Host = h.Name
	}
	return out
}

func (d *dialect) createVolume(w http.ResponseWriter, r *http.Request) error {
	var body rest.VolumeBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &body); err != nil {
		return err
	}
	o, err := intake.Order(d.Zone, d.Digests, d.sourceOf(r), intake.VolumeBody(&body.Volume))
	if err != nil {
		return err
	}
	b, err := d.bootOrder(r, o)
	if err != nil {
		return err
	}
	if body.Volume.ReturnRes {
		wire.JSON(w, http.StatusAccepted, rest.VolumeCreated{Reservation: b.Request.Reservation})
		return nil
	}
	b, v, err := d.waitDecision(w, r, b) //nolint:contextcheck // the request carries it
	if err != nil {
		return err
	}
	for _, i := range v.OfReservation(b.Request.Project, b.Request.Reservation) {
		volume := d.volumeView(v, i, door.Caller(r))
		wire.JSON(w, http.StatusAccepted, rest.VolumeCreated{Reservation: b.Request.Reservation, Volume: &volume})
		return nil
	}
	if b.Decision == api.DecisionPending {
		return api.Errorf(api.CodeTimeout, "reservation %s is not decided yet; see GET /zones/boot/%s", b.Request.Reservation, b.Request.Reservation)
	}
	code, reason := b.Cause()
	return api.Errorf(cmp.Or(code, api.CodeNoCapacity), "reservation %s: %s", b.Request.Reservation, reason)
}

func (d *dialect) listVolumes(w http.ResponseWriter, r *http.Request) error {
	limit, marker, err := wire.Page(r)
	if err != nil {
		return err
	}
	v, c := d.View(w), door.Caller(r)
	match, err := volumeMatch(v, r)
	if err != nil {
		return err
	}
	query := state.InstanceQuery{Project: c.Project, Volumes: true, Match: match, Page: state.Page{Marker: marker, Limit: limit + 1}}
	all, err := boolParameter(r, "all_projects")
	switch {
	case err != nil:
		return err
	case all && !c.Allows(api.RoleAdmin):
		return api.Errorf(api.CodeForbidden, "all_projects needs the role admin")
	case all:
		query.Project = ""
	}
	page, next := v.InstancesPage(query), ""
	if len(page) > limit {
		page, next = page[:limit], string(page[limit-1].ID)
	}
	wire.List[*api.Instance, rest.Volume]{
		Key: "volumes", Items: page, Next: next, ID: instanceID,
		View: func(i *api.Instance) rest.Volume { return d.volumeView(v, i, c) },
	}.Write(w)
	return nil
}

// volumeMatch returns the filter of a list of volumes. Those made for a parent are listed only
// with all_projects.
func volumeMatch(v *state.State, r *http.Request) (func(*api.Instance) bool, error) {
	q, c := r.URL.Query(), door.Caller(r)
	name, status, kind, zone := q.Get("name"), api.VolumeStatus(q.Get("status")), q.Get("type"), q.Get("zone")
	if status != "" && !slices.Contains(volumeStatuses, status) {
		return nil, api.Errorf(api.CodeInvalid, "status must be one of %s, got %q", wordsOf(volumeStatuses), string(status))
	}
	if zone != "" {
		if no := intake.UnknownZone(v, zone); no != "" {
			return nil, api.Errorf(api.CodeInvalid, "zone: %s", no)
		}
	}
	everyones := q.Get("all_projects") == "true"
	return func(i *api.Instance) bool {
		return isVisible(i, c) && (everyones || i.Origin == "") && strings.Contains(i.Name, name) && matchesWanted(status, i.VolumeStatus()) &&
			matchesWanted(kind, i.Volume) && (zone == "" || zoneName(v, i) == zone)
	}, nil
}

// visibleVolume returns a volume that the caller may see. Another project's volume is reported
// exactly like one that never existed.
func visibleVolume(v *state.State, r *http.Request) (*api.Instance, error) {
	i, ok := v.Volume(api.InstanceID(chi.URLParam(r, "id")))
	if !ok || !isVisible(i, door.Caller(r)) {
		return nil, api.Errorf(api.CodeNotFound, "no such volume")
	}
	return i, nil
}

// writeOffVolume takes a volume on a lost host of this zone as gone, with all that is in it.
func (d *dialect) writeOffVolume(w http.ResponseWriter, r *http.Request) error {
	i, err := visibleVolume(d.Zone.View(), r)
	switch {
	case err != nil:
		return err
	case i.Host == "":
		return api.Errorf(api.CodeConflict, "the volume is in another zone; its operator writes it off there")
	}
	return d.answerLost(w, r, i.Host, i.ID)
}

func (d *dialect) showVolume(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	i, err := visibleVolume(v, r)
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "volume", d.volumeView(v, i, door.Caller(r)))
}

func (d *dialect) deleteVolume(w http.ResponseWriter, r *http.Request) error {
	i, err := visibleVolume(d.Zone.View(), r)
	if err != nil {
		return err
	}
	return noContent(w, intake.DeleteServer(r.Context(), d.Zone, i.ID))
}

func (d *dialect) attachVolume(w http.ResponseWriter, r *http.Request) error {
	var body rest.AttachBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &body); err != nil {
		return err
	}
	if err := api.CheckName("server_id", string(body.Server)); err != nil {
		return err
	}
	return d.changeAttachment(w, r, body.Server, d.Saga.Attach)
}

func (d *dialect) detachVolume(w http.ResponseWriter, r *http.Request) error {
	return d.changeAttachment(w, r, "", d.Saga.Detach)
}

// changeAttachment makes a change for the tenant of a volume that the caller may see.
func (d *dialect) changeAttachment(
	w http.ResponseWriter, r *http.Request, server api.InstanceID, change func(context.Context, api.Tenant, *api.VolumeCall) error,
) error {
	i, err := visibleVolume(d.Zone.View(), r)
	if err != nil {
		return err
	}
	return noContent(w, change(r.Context(), i.Tenant(), &api.VolumeCall{Volume: i.ID, Instance: server}))
}
