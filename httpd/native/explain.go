package native

import (
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/wire"
)

// explain tells why a request got what it got. Names of hosts are for admins of
// this zone alone.
func (d *dialect) explain(w http.ResponseWriter, r *http.Request) error {
	project, err := projectOf(r)
	if err != nil {
		return err
	}
	d.View(w)
	id := chi.URLParam(r, "id")
	e, ok := d.Estimator.Explanation(project, id)
	whole := door.Caller(r).Allows(api.RoleAdmin)
	if !ok && whole && !r.URL.Query().Has("project_id") {
		e, ok = d.Estimator.Explanation("", id)
	}
	if !ok {
		return api.Errorf(api.CodeNotFound,
			"nothing is known of a request or reservation %q; an estimate is told for %s, by the node that made it", id, api.ExplainKept)
	}
	out := *e
	if !whole {
		out.Groups = nameless(out.Groups)
	}
	wire.JSON(w, http.StatusOK, map[string]any{"explanation": out})
	return nil
}

// nameless returns tales without names of hosts; what it was given is shared and
// stays as it is.
func nameless(groups []api.GroupTale) []api.GroupTale {
	out := slices.Clone(groups)
	for i := range out {
		counts := slices.Clone(out[i].Refusals.Filters)
		for n := range counts {
			counts[n].Names = nil
		}
		out[i].Refusals.Filters = counts
	}
	return out
}
