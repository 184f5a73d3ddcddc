package native

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/raftstore/state"
	"berth/zone/intake"
)

func (d *dialect) listGroups(w http.ResponseWriter, r *http.Request) error {
	limit, marker, err := wire.Page(r)
	if err != nil {
		return err
	}
	project, err := projectOf(r)
	if err != nil {
		return err
	}
	all, err := everyProject(r)
	if err != nil {
		return err
	}
	v, page := d.View(w), state.Page{Marker: marker, Limit: limit + 1}
	id := func(g *api.ServerGroup) string { return string(g.ID) }
	groups, next := v.ServerGroups(project, page), ""
	if all {
		id = func(g *api.ServerGroup) string { return string(g.Project) + "/" + string(g.ID) }
		groups = v.AllServerGroups(page)
	}
	if len(groups) > limit {
		groups, next = groups[:limit], id(groups[limit-1])
	}
	return answerList(w, "server_groups", viewsOf(groups, rest.ServerGroupOf), next)
}

// findGroup finds the server group that a call names.
func findGroup(v *state.State, r *http.Request) (*api.ServerGroup, error) {
	project, err := projectOf(r)
	if err != nil {
		return nil, err
	}
	return intake.ServerGroup(v, project, chi.URLParam(r, "id"))
}

func (d *dialect) showGroup(w http.ResponseWriter, r *http.Request) error {
	g, err := findGroup(d.View(w), r)
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "server_group", rest.ServerGroupOf(g))
}

func (d *dialect) createGroup(w http.ResponseWriter, r *http.Request) error {
	var b rest.ServerGroupBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	project := door.Caller(r).Project
	id, err := intake.CreateServerGroup(r.Context(), d.Zone, project, b.Group)
	if err != nil {
		return err
	}
	made, ok := d.View(w).ServerGroup(project, id)
	if !ok {
		return api.Errorf(api.CodeNotFound, "server group %q is gone again", b.Group.Name)
	}
	return answerOne(w, http.StatusCreated, "server_group", rest.ServerGroupOf(made))
}

func (d *dialect) deleteGroup(w http.ResponseWriter, r *http.Request) error {
	project, err := projectOf(r)
	if err != nil {
		return err
	}
	return noContent(w, intake.DeleteServerGroup(r.Context(), d.Zone, project, chi.URLParam(r, "id")))
}
