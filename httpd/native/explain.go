package native

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
)

// getExplanation explains the outcome of a request. Only admins of this zone see names
// of hosts.
func (d *dialect) getExplanation(w http.ResponseWriter, r *http.Request) error {
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
	return answerOne(w, http.StatusOK, "explanation", rest.ExplanationOf(e, whole))
}
