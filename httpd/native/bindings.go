package native

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// listBindings answers the bindings that match, the newest first.
func (d *dialect) listBindings(w http.ResponseWriter, r *http.Request) error {
	limit, marker, err := wire.Page(r)
	if err != nil {
		return err
	}
	v := d.View(w)
	match, err := bindingMatch(v, r.URL.Query())
	if err != nil {
		return err
	}
	after, err := readBindingMarker(marker)
	if err != nil {
		return err
	}
	var all []*api.Binding
	for _, b := range v.Bindings() {
		if match(b) && (marker == "" || newestFirst(after, b) < 0) {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, newestFirst)
	next := ""
	if len(all) > limit {
		all = all[:limit]
		next = bindingMarker(all[limit-1])
	}
	return answerList(w, "bindings", viewsOf(all, func(b *api.Binding) rest.Binding { return intake.BindingBody(v, b) }), next)
}

// newestFirst orders bindings by their start, the newest first.
func newestFirst(a, b *api.Binding) int {
	return cmp.Or(cmp.Compare(b.Start, a.Start), cmp.Compare(a.ID, b.ID))
}

// bindingMarker returns the marker of the page after a binding.
func bindingMarker(b *api.Binding) string {
	return strconv.FormatInt(int64(b.Start), 10) + "." + string(b.ID)
}

// readBindingMarker returns a binding with the start and id of a marker, and nothing else.
func readBindingMarker(marker string) (*api.Binding, error) {
	if marker == "" {
		return nil, nil
	}
	start, id, _ := strings.Cut(marker, ".")
	n, err := strconv.ParseInt(start, 10, 64)
	if err != nil || id == "" {
		return nil, api.Errorf(api.CodeInvalid, "marker is not one that a list has returned")
	}
	return &api.Binding{Start: api.Instant(n), ID: api.BindingID(id)}, nil
}

// bindingMatch returns the filter of a list of bindings.
func bindingMatch(v *state.State, q url.Values) (func(*api.Binding) bool, error) {
	active, err := readActive(q.Get("active"))
	if err != nil {
		return nil, err
	}
	after, err := bindingTime(q, "after", 0)
	if err != nil {
		return nil, err
	}
	before, err := bindingTime(q, "before", api.Forever)
	if err != nil {
		return nil, err
	}
	zone := q.Get("zone")
	l, linked := v.LinkByName(zone)
	project, az, tag := api.ProjectID(q.Get("project_id")), q.Get("availability_zone"), q.Get("tag")
	isTo := func(b *api.Binding) bool {
		return zone == "" || b.Zone == zone || string(b.Link) == zone || linked && b.Link == l.ID
	}
	return func(b *api.Binding) bool {
		return (active == nil || b.Active() == *active) && b.End > after && b.Start < before && isTo(b) &&
			(project == "" || b.Project == project) && (az == "" || b.Key.AZ == az) && (tag == "" || slices.Contains(b.Key.Tags, tag))
	}, nil
}

// readActive reads which bindings are asked for: nil for all.
func readActive(text string) (*bool, error) {
	switch text {
	case "", "true":
		return new(true), nil
	case "false":
		return new(false), nil
	case "all":
		return nil, nil
	}
	return nil, api.Errorf(api.CodeInvalid, "active must be true, false or all, got %q", text)
}

// bindingTime reads a time of the query.
func bindingTime(q url.Values, name string, none api.Instant) (api.Instant, error) {
	text := q.Get(name)
	if text == "" {
		return none, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, api.Errorf(api.CodeInvalid, "%s must be a time such as 2030-01-31T12:00:00Z, got %q", name, text)
	}
	return api.InstantOf(t), nil
}

func (d *dialect) showBinding(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	b, err := intake.Binding(v, api.BindingID(chi.URLParam(r, "id")))
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "binding", intake.BindingBody(v, b))
}

func (d *dialect) setBinding(w http.ResponseWriter, r *http.Request) error {
	var b rest.BindingBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	is, err := intake.SetBinding(r.Context(), d.Zone, door.Caller(r).User, &b.Binding)
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "binding", intake.BindingBody(d.View(w), is))
}

func (d *dialect) moveBinding(w http.ResponseWriter, r *http.Request) error {
	var b rest.BindingMove
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	is, err := intake.MoveBinding(r.Context(), d.Zone, door.Caller(r).User, api.BindingID(chi.URLParam(r, "id")), b.Zone)
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "binding", intake.BindingBody(d.View(w), is))
}

func (d *dialect) endBinding(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, intake.EndBinding(r.Context(), d.Zone, api.BindingID(chi.URLParam(r, "id"))))
}

// planMaintenance answers who would move if a child went into maintenance.
func (d *dialect) planMaintenance(w http.ResponseWriter, r *http.Request) error {
	var b rest.MaintenanceQuestion
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	p, err := intake.PlanMaintenance(d.View(w), d.Digests, d.Zone.Instant(), chi.URLParam(r, "id"), b.Maintenance == nil || *b.Maintenance)
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "plan", p)
}
