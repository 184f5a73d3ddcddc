package native

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/wire"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// aggregateBody is the JSON of an aggregate that is made or changed; what is
// absent is left as it is.
type aggregateBody struct {
	Aggregate struct {
		Name     *string           `json:"name"`
		Metadata map[string]string `json:"metadata"`
		Hosts    *[]string         `json:"hosts"` // names
	} `json:"aggregate"`
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

// aggregateOf finds the aggregate that a call names, by its name or id.
func aggregateOf(v *state.State, ref string) (*api.Aggregate, error) {
	if a, ok := v.AggregateByName(ref); ok {
		return a, nil
	}
	if a, ok := v.Aggregate(api.AggregateID(ref)); ok {
		return a, nil
	}
	return nil, api.Errorf(api.CodeNotFound, "no aggregate %q", ref)
}

func (d *dialect) showAggregate(w http.ResponseWriter, r *http.Request) error {
	return d.answerAggregate(w, http.StatusOK, chi.URLParam(r, "id"))
}

func (d *dialect) answerAggregate(w http.ResponseWriter, status int, ref string) error {
	v := d.View(w)
	a, err := aggregateOf(v, ref)
	if err != nil {
		return err
	}
	wire.JSON(w, status, map[string]any{"aggregate": aggregateView(v, a)})
	return nil
}

// readAggregate returns old, or a new aggregate, as the body of a call changes it.
func readAggregate(v *state.State, r *http.Request, a api.Aggregate) (api.Aggregate, error) {
	var b aggregateBody
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return a, err
	}
	if b.Aggregate.Name != nil {
		a.Name = *b.Aggregate.Name
	}
	if err := api.CheckName("aggregate name", a.Name); err != nil {
		return a, err
	}
	if b.Aggregate.Metadata != nil {
		a.Metadata = b.Aggregate.Metadata
	}
	if err := api.CheckPairs("metadata", a.Metadata, api.MetadataMax); err != nil {
		return a, err
	}
	if az, ok := a.Metadata[api.MetaAZ]; ok && !api.ValidName(az) {
		return a, api.CheckName("metadata."+api.MetaAZ, az)
	}
	if b.Aggregate.Hosts == nil {
		return a, nil
	}
	a.Hosts = nil
	for _, ref := range *b.Aggregate.Hosts {
		h, ok := findHost(v, ref)
		if !ok {
			return a, api.Errorf(api.CodeInvalid, "hosts: there is no host %q in this zone", ref)
		}
		a.Hosts = append(a.Hosts, h.ID)
	}
	return a, nil
}

func (d *dialect) createAggregate(w http.ResponseWriter, r *http.Request) error {
	a, err := readAggregate(d.Zone.View(), r, api.Aggregate{ID: api.AggregateID(api.NewUUID())})
	if err != nil {
		return err
	}
	if _, err := d.Zone.Propose(r.Context(), command.AggregatePut{Stamp: d.Zone.Stamp(), Aggregate: a}); err != nil {
		return err
	}
	return d.answerAggregate(w, http.StatusCreated, string(a.ID))
}

func (d *dialect) updateAggregate(w http.ResponseWriter, r *http.Request) error {
	v := d.Zone.View()
	old, err := aggregateOf(v, chi.URLParam(r, "id"))
	if err != nil {
		return err
	}
	a, err := readAggregate(v, r, *old)
	if err != nil {
		return err
	}
	if _, err := d.Zone.Propose(r.Context(), command.AggregatePut{Stamp: d.Zone.Stamp(), Aggregate: a, Replace: true}); err != nil {
		return err
	}
	return d.answerAggregate(w, http.StatusOK, string(a.ID))
}

func (d *dialect) deleteAggregate(w http.ResponseWriter, r *http.Request) error {
	a, err := aggregateOf(d.Zone.View(), chi.URLParam(r, "id"))
	if err != nil {
		return err
	}
	_, err = d.Zone.Propose(r.Context(), command.AggregateDelete{Stamp: d.Zone.Stamp(), ID: a.ID})
	return noContent(w, err)
}
