package reservation

import (
	"net/http"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/openstack"
	"berth/lease/recur"
	"berth/raftstore/state"
)

// showSeries returns a series as answers have it.
func showSeries(v *state.State, s *state.Series) rest.Series {
	out := rest.Series{
		ID: s.ID, Name: s.Name, User: s.User, Project: s.Project, Rule: s.Repeat.Rule, TimeZone: s.Repeat.TimeZone, Status: s.Status,
		Leases: []rest.SeriesLease{}, Created: rest.RecordTime(s.Created),
	}
	loc, err := time.LoadLocation(s.Repeat.TimeZone)
	if err != nil { // the leases were made where it is known
		loc = time.UTC
	}
	for _, l := range v.SeriesLeases(s.ID) {
		out.Leases = append(out.Leases, rest.SeriesLease{
			ID: l.Terms.ID, Start: rest.LeaseTime(l.Terms.Window.Start), End: rest.LeaseTime(l.Terms.Window.End),
			Local: l.Terms.Window.Start.Time().In(loc).Format("2006-01-02T15:04:05-07:00"), Status: l.Status,
		})
	}
	return out
}

// seriesOf returns the series that the path of a call names, if its caller may see it.
func (d *dialect) seriesOf(v *state.State, r *http.Request) (*state.Series, error) {
	id := r.PathValue("id")
	who := door.Caller(r)
	s, ok := v.OneSeries(api.SeriesID(id))
	if !ok || s.Project != who.Project && !who.Allows(api.RoleAdmin) {
		return nil, notFound("Object not found: there is no series of leases %s", openstack.Show(id))
	}
	return s, nil
}

func sendSeries(w http.ResponseWriter, status int, v *state.State, s *state.Series) error {
	return openstack.Answer(w, status, map[string]rest.Series{"series": showSeries(v, s)})
}

// listSeries is GET /series.
func (d *dialect) listSeries(w http.ResponseWriter, r *http.Request) error {
	v, who := d.View(w), door.Caller(r)
	project := who.Project
	if who.Allows(api.RoleAdmin) {
		project = ""
	}
	out := []rest.Series{}
	for _, s := range v.AllSeries(project) {
		out = append(out, showSeries(v, s))
	}
	return openstack.Answer(w, http.StatusOK, map[string][]rest.Series{"series": out})
}

// showOneSeries is GET /series/{id}.
func (d *dialect) showOneSeries(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	s, err := d.seriesOf(v, r)
	if err != nil {
		return err
	}
	return sendSeries(w, http.StatusOK, v, s)
}

// createSeries is POST /series. Its body is that of POST /leases for the first lease, with
// the rule by which it repeats.
func (d *dialect) createSeries(w http.ResponseWriter, r *http.Request) error {
	body, err := openstack.ReadFields(r)
	if err != nil {
		return err
	}
	f := newFields("", body)
	f.require("name", "start_date", "end_date", "rule", "time_zone")
	var repeat api.Repeat
	repeat.Rule, _ = f.text("rule", recur.RuleMaxBytes)
	repeat.TimeZone, _ = f.text("time_zone", api.NameMaxBytes)
	if f.err != nil {
		return f.err
	}
	who := door.Caller(r)
	t, err := d.newTerms(d.Zone.View()).readLease(f.left)
	if err != nil {
		return err
	}
	id, err := d.leases.CreateSeries(r.Context(), who, t, repeat, r.Header.Get(api.HeaderIdempotencyKey))
	if err != nil {
		return err
	}
	v := d.View(w)
	s, ok := v.OneSeries(id)
	if !ok { // it was deleted meanwhile
		return notFound("Object not found: there is no series of leases %s any more", openstack.Show(string(id)))
	}
	d.Locate(w, r, root+"/series/"+string(id))
	return sendSeries(w, http.StatusCreated, v, s)
}

// deleteSeries is DELETE /series/{id}.
func (d *dialect) deleteSeries(w http.ResponseWriter, r *http.Request) error {
	s, err := d.seriesOf(d.Zone.View(), r)
	if err != nil {
		return err
	}
	if err = d.leases.DeleteSeries(r.Context(), door.Caller(r), s.ID); err != nil {
		return err
	}
	return answerEmpty(w)
}
