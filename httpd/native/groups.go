package native

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// groupBody is the JSON of a server group that is made.
type groupBody struct {
	Group struct {
		Name   string     `json:"name"`
		Policy api.Policy `json:"policy"`
		Max    int        `json:"max_per_host"` // of anti-affinity, default 1
	} `json:"server_group"`
}

// serverGroup finds a server group of a project by its id or name.
func serverGroup(v *state.State, p api.ProjectID, ref string) (*api.ServerGroup, bool) {
	if g, ok := v.ServerGroup(p, api.ServerGroupID(ref)); ok {
		return g, true
	}
	return v.ServerGroupByName(p, ref)
}

func (d *dialect) listGroups(w http.ResponseWriter, r *http.Request) error {
	limit, marker, err := wire.Page(r)
	if err != nil {
		return err
	}
	project, err := projectOf(r)
	if err != nil {
		return err
	}
	groups, next := d.View(w).ServerGroups(project, state.Page{Marker: marker, Limit: limit + 1}), ""
	if len(groups) > limit {
		groups, next = groups[:limit], string(groups[limit-1].ID)
	}
	return answerList(w, "server_groups", groups, next)
}

// findGroup finds the server group that a call names.
func findGroup(v *state.State, r *http.Request) (*api.ServerGroup, error) {
	project, err := projectOf(r)
	if err != nil {
		return nil, err
	}
	id := chi.URLParam(r, "id")
	if g, ok := serverGroup(v, project, id); ok {
		return g, nil
	}
	return nil, api.Errorf(api.CodeNotFound, "no server group %q", id)
}

func (d *dialect) showGroup(w http.ResponseWriter, r *http.Request) error {
	g, err := findGroup(d.View(w), r)
	if err != nil {
		return err
	}
	wire.JSON(w, http.StatusOK, map[string]any{"server_group": g})
	return nil
}

func (d *dialect) createGroup(w http.ResponseWriter, r *http.Request) error {
	var b groupBody
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	g := api.ServerGroup{
		ID: api.ServerGroupID(api.NewUUID()), Name: b.Group.Name, Project: door.Caller(r).Project, Policy: b.Group.Policy, Max: b.Group.Max,
	}
	if err := api.CheckName("server group name", g.Name); err != nil {
		return err
	}
	var err error
	if g.Max, err = checkPolicy("", g.Policy, g.Max); err != nil {
		return err
	}
	if _, err := d.Zone.Propose(r.Context(), command.GroupPut{Stamp: d.Zone.Stamp(), Group: g}); err != nil {
		return err
	}
	made, ok := d.View(w).ServerGroup(g.Project, g.ID)
	if !ok {
		return api.Errorf(api.CodeNotFound, "server group %q is gone again", g.Name)
	}
	wire.JSON(w, http.StatusCreated, map[string]any{"server_group": made})
	return nil
}

func (d *dialect) deleteGroup(w http.ResponseWriter, r *http.Request) error {
	g, err := findGroup(d.Zone.View(), r)
	if err != nil {
		return err
	}
	_, err = d.Zone.Propose(r.Context(), command.GroupDelete{Stamp: d.Zone.Stamp(), Project: g.Project, ID: g.ID})
	return noContent(w, err)
}

// checkPolicy returns how many members one host may have under a policy, and
// refuses what is none. The sentence begins with part and the name of the field.
func checkPolicy(part string, p api.Policy, most int) (int, error) {
	switch {
	case !p.Valid():
		return 0, api.Errorf(api.CodeInvalid, "%spolicy must be %s, %s, %s or %s, got %q",
			part, api.Affinity, api.AntiAffinity, api.SoftAffinity, api.SoftAntiAffinity, string(p))
	case p != api.AntiAffinity && most != 0:
		return 0, api.Errorf(api.CodeInvalid, "%smax_per_host is for %s alone", part, api.AntiAffinity)
	case p != api.AntiAffinity:
		return 0, nil
	case most == 0:
		return 1, nil
	case most < 0 || most > api.CountMax:
		return 0, api.Errorf(api.CodeInvalid, "%smax_per_host must be 1 to %d, got %d", part, api.CountMax, most)
	}
	return most, nil
}
