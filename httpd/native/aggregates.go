package native

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/wire"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// readAggregate reads the body of a call that creates or changes an aggregate.
func readAggregate(r *http.Request) (rest.AggregateSpec, error) {
	var b rest.AggregateBody
	err := wire.ReadJSON(r, wire.LimitOf(r), &b)
	return b.Aggregate, err
}

func aggregateView(v *state.State, a *api.Aggregate) rest.Aggregate {
	names := []string{}
	for _, id := range a.Hosts {
		if h, ok := v.Host(id); ok {
			names = append(names, h.Name)
		}
	}
	return rest.AggregateOf(a, names)
}

func (d *dialect) listAggregates(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	page, next, err := pageOf(r, v.Aggregates(), func(a *api.Aggregate) string { return string(a.ID) })
	if err != nil {
		return err
	}
	out := []rest.Aggregate{}
	for _, a := range page {
		out = append(out, aggregateView(v, a))
	}
	return answerList(w, "aggregates", out, next)
}

func (d *dialect) showAggregate(w http.ResponseWriter, r *http.Request) error {
	return d.answerAggregate(w, http.StatusOK, chi.URLParam(r, "id"))
}

func (d *dialect) answerAggregate(w http.ResponseWriter, status int, ref string) error {
	v := d.View(w)
	a, err := intake.Aggregate(v, ref)
	if err != nil {
		return err
	}
	return answerOne(w, status, "aggregate", aggregateView(v, a))
}

func (d *dialect) createAggregate(w http.ResponseWriter, r *http.Request) error {
	c, err := readAggregate(r)
	if err != nil {
		return err
	}
	id, err := intake.CreateAggregate(r.Context(), d.Zone, c)
	if err != nil {
		return err
	}
	return d.answerAggregate(w, http.StatusCreated, string(id))
}

func (d *dialect) updateAggregate(w http.ResponseWriter, r *http.Request) error {
	old, err := intake.Aggregate(d.Zone.View(), chi.URLParam(r, "id"))
	if err != nil {
		return err
	}
	c, err := readAggregate(r)
	if err != nil {
		return err
	}
	if err := intake.ChangeAggregate(r.Context(), d.Zone, old, c); err != nil {
		return err
	}
	return d.answerAggregate(w, http.StatusOK, string(old.ID))
}

func (d *dialect) deleteAggregate(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, intake.DeleteAggregate(r.Context(), d.Zone, chi.URLParam(r, "id")))
}
