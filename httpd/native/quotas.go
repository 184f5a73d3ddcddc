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

func (d *dialect) listQuotas(w http.ResponseWriter, r *http.Request) error {
	limit, marker, err := wire.Page(r)
	if err != nil {
		return err
	}
	own, err := boolParameter(r, "own")
	if err != nil {
		return err
	}
	v, now, c := d.View(w), d.Zone.Instant(), door.Caller(r)
	if own || !c.Allows(api.RoleAdmin) {
		return answerList(w, "quotas", []rest.Quota{intake.Quota(v, "", now), intake.Quota(v, c.Project, now)}, "")
	}
	out, next := intake.Quotas(v, state.Page{Marker: marker, Limit: limit + 1}, now), ""
	if len(out) > limit {
		out = out[:limit]
		next = string(out[limit-1].Project)
	}
	return answerList(w, "quotas", out, next)
}

func (d *dialect) showQuota(w http.ResponseWriter, r *http.Request) error {
	p, c := api.ProjectID(chi.URLParam(r, "id")), door.Caller(r)
	if p != c.Project && !c.Allows(api.RoleAdmin) {
		return api.Errorf(api.CodeForbidden, "the quota of another project needs the role admin")
	}
	return d.answerQuota(w, p)
}

func (d *dialect) answerQuota(w http.ResponseWriter, p api.ProjectID) error {
	return answerOne(w, http.StatusOK, "quota", intake.Quota(d.View(w), p, d.Zone.Instant()))
}

// setQuota changes limits of a project, or the defaults if the path names none.
func (d *dialect) setQuota(w http.ResponseWriter, r *http.Request) error {
	var b rest.QuotaBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	p := api.ProjectID(chi.URLParam(r, "id"))
	if err := intake.SetQuota(r.Context(), d.Zone, p, b.Limits); err != nil {
		return err
	}
	return d.answerQuota(w, p)
}

func (d *dialect) deleteQuota(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, intake.DeleteQuota(r.Context(), d.Zone, api.ProjectID(chi.URLParam(r, "id"))))
}
