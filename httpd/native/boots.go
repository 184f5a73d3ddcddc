package native

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/internal/requestid"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// selectAnswer is the JSON of an estimate.
type selectAnswer struct {
	api.SelectAnswer
	ExpiresInMS int64 `json:"expires_in_ms"`
}

// bootBodyMax bounds a body that may carry a sealed plan, in base64.
const bootBodyMax = api.BodyMaxBytes + 2*api.BlobMaxBytes

// readOrder reads and checks a body that asks for instances.
func (d *dialect) readOrder(r *http.Request, limit int64) (*intake.BootOrder, *api.ServerCreate, error) {
	var body api.BootBody
	if err := wire.ReadJSON(r, limit, &body); err != nil {
		return nil, nil, err
	}
	from := intake.Source{Caller: door.Caller(r), Key: r.Header.Get(api.HeaderIdempotencyKey), Call: requestid.Of(r.Context())}
	o, err := intake.Order(d.Zone, from, &body)
	return o, &body.Server, err
}

func (d *dialect) selectPlan(w http.ResponseWriter, r *http.Request) error {
	o, s, err := d.readOrder(r, api.BodyMaxBytes)
	if err != nil {
		return err
	}
	if s.Blob != nil || s.ReturnRes {
		return api.Errorf(api.CodeInvalid, "a select takes no blob and no return_reservation_id")
	}
	req := o.Request()
	if req.Reservation == "" {
		req.Reservation = api.NewReservationID()
	}
	ctx, cancel := context.WithTimeout(r.Context(), api.SelectTimeout)
	defer cancel()
	a, err := d.Estimator.Select(ctx, "", &req)
	if err != nil {
		return err
	}
	a.Request = o.Call
	wire.JSON(w, http.StatusOK, selectAnswer{*a, a.Expires.Milliseconds()})
	return nil
}

func (d *dialect) boot(w http.ResponseWriter, r *http.Request) error {
	o, s, err := d.readOrder(r, api.BodyMaxBytes)
	if err != nil {
		return err
	}
	if s.Blob != nil || s.ReturnRes {
		return api.Errorf(api.CodeInvalid, "a plan is taken up by POST /servers, not by POST /zones/boot")
	}
	wait, err := wire.Wait(r)
	if err != nil {
		return err
	}
	b, err := d.bootOrder(r, o)
	if err != nil {
		return err
	}
	if wait == 0 {
		wire.JSON(w, http.StatusAccepted, api.BootAccept{Reservation: b.Request.Reservation})
		return nil
	}
	b, v, err := d.waitBoot(w, r, b.Request.Project, b.Request.Reservation, wait)
	if err != nil {
		return err
	}
	wire.JSON(w, http.StatusAccepted, bootWaited{b.Request.Reservation, bootBody{bootView(v, b)}})
	return nil
}

// bootOrder records the boot that a call asks for.
func (d *dialect) bootOrder(r *http.Request, o *intake.BootOrder) (*state.Boot, error) {
	c, err := o.Command(d.Zone.Stamp())
	if err != nil {
		return nil, err
	}
	return d.Saga.Boot(r.Context(), c, o.Blob)
}

// bootWaited is the JSON of a boot that was waited for.
type bootWaited struct {
	Reservation api.ReservationID `json:"reservation_id"`
	bootBody
}

// waitBoot returns a boot when it has come to an outcome or wait has passed, and
// the view it was read from, which is that of the answer.
func (d *dialect) waitBoot(
	w http.ResponseWriter, r *http.Request, p api.ProjectID, id api.ReservationID, wait time.Duration,
) (*state.Boot, *state.State, error) {
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	b, v, err := d.Saga.WaitBoot(ctx, p, id)
	door.AnswerAt(w, v)
	return b, v, err
}

// bootBody is the JSON of one boot.
type bootBody struct {
	Boot api.Boot `json:"boot"`
}

func (d *dialect) showBoot(w http.ResponseWriter, r *http.Request) error {
	wait, err := wire.Wait(r)
	if err != nil {
		return err
	}
	id := api.ReservationID(chi.URLParam(r, "id"))
	project, err := projectOf(r)
	if err != nil {
		return err
	}
	b, v, err := d.waitBoot(w, r, project, id, wait)
	if err != nil {
		return err
	}
	wire.JSON(w, http.StatusOK, bootBody{bootView(v, b)})
	return nil
}

// projectOf returns whose reservations a call is about: the caller's, or for an
// admin those of ?project_id=.
func projectOf(r *http.Request) (api.ProjectID, error) {
	c, other := door.Caller(r), r.URL.Query().Get("project_id")
	switch {
	case other == "" || api.ProjectID(other) == c.Project:
		return c.Project, nil
	case !c.Allows(api.RoleAdmin):
		return "", api.Errorf(api.CodeForbidden, "project_id of another project needs the role admin")
	}
	if err := api.CheckName("project_id", other); err != nil {
		return "", err
	}
	return api.ProjectID(other), nil
}

func (d *dialect) listBoots(w http.ResponseWriter, r *http.Request) error {
	limit, marker, err := wire.Page(r)
	if err != nil {
		return err
	}
	v := d.View(w)
	out := struct {
		Boots []api.Boot `json:"boots"`
		Next  string     `json:"next_marker,omitempty"`
	}{Boots: []api.Boot{}}
	project, err := projectOf(r)
	if err != nil {
		return err
	}
	for _, b := range v.BootsPage(project, state.Page{Marker: marker, Limit: limit + 1}) {
		if len(out.Boots) == limit {
			out.Next = string(out.Boots[limit-1].Reservation)
			break
		}
		out.Boots = append(out.Boots, bootView(v, b))
	}
	wire.JSON(w, http.StatusOK, out)
	return nil
}

func (d *dialect) releaseBoot(w http.ResponseWriter, r *http.Request) error {
	wait, err := wire.Wait(r)
	if err != nil {
		return err
	}
	project, err := projectOf(r)
	if err != nil {
		return err
	}
	id := api.ReservationID(chi.URLParam(r, "id"))
	if err = intake.ReleaseBoot(r.Context(), d.Zone, project, id); err != nil {
		return err
	}
	b, v, err := d.waitBoot(w, r, project, id, wait)
	if err != nil {
		return err
	}
	wire.JSON(w, http.StatusAccepted, bootBody{bootView(v, b)})
	return nil
}

// bootView tells the saga of a boot as its owner may see it.
func bootView(v *state.State, b *state.Boot) api.Boot {
	out := api.Boot{
		Reservation: b.Request.Reservation, Name: b.Name, Project: b.Request.Project, User: b.Request.User,
		Flavor: b.Request.Groups[0].Flavor, MinCount: b.Min, MaxCount: b.Request.Count(), State: b.State(),
		Attempts: slices.Clone(b.Attempts), Instances: api.BootCounts{}, Zones: []api.ZoneCounts{},
		Created: b.Created, Updated: b.Updated, Index: v.Index(), Request: b.Call,
	}
	out.Code, out.Reason = b.Cause()
	if out.Attempts == nil {
		out.Attempts = []api.BootAttempt{}
	}
	for i := range out.Attempts {
		if a := &out.Attempts[i]; a.Refusals == nil { // a plan that was taken up looked at hosts when it was selected
			a.Refusals = []api.Refusals{}
		}
	}
	for _, c := range []struct {
		st api.Status
		n  int
	}{
		{api.StatusBuild, b.Counts.Build},
		{api.StatusActive, b.Counts.Active},
		{api.StatusShutoff, b.Counts.Shutoff},
		{api.StatusError, b.Counts.Error},
		{api.StatusDeleting, b.Counts.Deleting},
		{api.StatusDeleted, b.Counts.Deleted},
	} {
		if c.n > 0 {
			out.Instances[c.st] = c.n
		}
	}
	if out.Groups = bootGroups(b); len(out.Groups) > 0 {
		out.Flavor = ""
	}
	addInstances(v, b, &out)
	return out
}

// addInstances tells where the instances of a boot are, by zone and by group, and
// when the last of them ends.
func addInstances(v *state.State, b *state.Boot, out *api.Boot) {
	zones := map[string]api.BootCounts{}
	for _, i := range v.OfReservation(b.Request.Project, b.Request.Reservation) {
		if i.Origin != "" {
			continue
		}
		if end := i.Window.End; end != api.Forever && end > out.Ends {
			out.Ends = end
		}
		if g := slices.IndexFunc(out.Groups, func(g api.BootGroup) bool { return g.Name == i.Group }); g >= 0 {
			out.Groups[g].Counts[i.Status]++
		}
		name := zoneName(v, i)
		if zones[name] == nil {
			zones[name] = api.BootCounts{}
			out.Zones = append(out.Zones, api.ZoneCounts{Zone: name, Counts: zones[name]})
		}
		zones[name][i.Status]++
	}
	slices.SortFunc(out.Zones, func(a, b api.ZoneCounts) int { return cmp.Compare(a.Zone, b.Zone) })
}

// bootGroups returns the groups of a boot that has several, without their counts.
func bootGroups(b *state.Boot) []api.BootGroup {
	if len(b.Request.Groups) == 1 {
		return nil
	}
	var out []api.BootGroup
	for _, g := range b.Request.Groups {
		out = append(out, api.BootGroup{Name: g.Name, Flavor: g.Flavor, MinCount: g.Min, MaxCount: g.Count, Counts: api.BootCounts{}})
	}
	return out
}

// zoneName returns the direct child that leads to an instance, or this zone.
func zoneName(v *state.State, i *api.Instance) string {
	if i.Link == "" {
		return v.Name
	}
	if l, ok := v.Link(i.Link); ok {
		return l.Name
	}
	return ""
}
