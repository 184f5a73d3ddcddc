package native

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/wire"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// aggregateBody is the JSON of an aggregate that is made or changed.
type aggregateBody struct {
	Aggregate api.AggregateSpec `json:"aggregate"`
}

// readAggregate reads the body of an aggregate that is made or changed.
func readAggregate(r *http.Request) (api.AggregateSpec, error) {
	var b aggregateBody
	err := wire.ReadJSON(r, api.BodyMaxBytes, &b)
	return b.Aggregate, err
}

// aggregate is the JSON of one aggregate: hosts by their names.
type aggregate struct {
	ID       api.AggregateID   `json:"id"`
	Name     string            `json:"name"`
	Metadata map[string]string `json:"metadata"`
	Hosts    []string          `json:"hosts"`
	Created  api.Instant       `json:"created"`
	Updated  api.Instant       `json:"updated"`
}

func aggregateView(v *state.State, a *api.Aggregate) aggregate {
	out := aggregate{a.ID, a.Name, a.Metadata, []string{}, a.Created, a.Updated}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	for _, id := range a.Hosts {
		if h, ok := v.Host(id); ok {
			out.Hosts = append(out.Hosts, h.Name)
		}
	}
	return out
}

func (d *dialect) listAggregates(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	page, next, err := pageOf(r, v.Aggregates(), func(a *api.Aggregate) string { return string(a.ID) })
	if err != nil {
		return err
	}
	out := []aggregate{}
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
	wire.JSON(w, status, map[string]any{"aggregate": aggregateView(v, a)})
	return nil
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
