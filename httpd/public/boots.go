package public

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/wire"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// bootBodyMax bounds a body that may carry a sealed plan, in base64.
const bootBodyMax = api.BodyMaxBytes + 2*api.BlobMaxBytes

// readOrder reads and checks a body that asks for instances.
func (d *door) readOrder(r *http.Request, limit int64) (*zone.BootOrder, *api.ServerCreate, error) {
	var body api.BootBody
	if err := wire.ReadJSON(r, limit, &body); err != nil {
		return nil, nil, err
	}
	s := &body.Server
	o := &zone.BootOrder{
		Caller: caller(r), Key: r.Header.Get(api.HeaderIdempotencyKey), Name: s.Name,
		Wanted: api.ReservationID(s.Reservation), Metadata: s.Metadata, Blob: s.Blob, Groups: []zone.OrderGroup{{Image: api.Image{Ref: s.ImageRef}}},
	}
	g := &o.Groups[0]
	for _, f := range []struct{ name, v string }{{"reservation_id", s.Reservation}, {api.HeaderIdempotencyKey, o.Key}} {
		if f.v != "" && !api.ValidName(f.v) {
			return nil, nil, api.CheckName(f.name, f.v)
		}
	}
	if err := api.CheckName("name", s.Name); err != nil {
		return nil, nil, err
	}
	if err := api.CheckPairs("metadata", s.Metadata, api.MetadataMax); err != nil {
		return nil, nil, err
	}
	if err := counts(s, g); err != nil {
		return nil, nil, err
	}
	if len(s.ImageRef) > api.ExtraSpecMaxBytes {
		return nil, nil, api.Errorf(api.CodeInvalid, "imageRef may have at most %d bytes", api.ExtraSpecMaxBytes)
	}
	f, ok := d.Zone.View().Flavor(api.FlavorID(s.FlavorRef))
	if g.Flavor = f; !ok { // the first answer needs no flavor
		g.Flavor = &api.Flavor{ID: api.FlavorID(s.FlavorRef)}
	}
	if !ok && !d.Zone.Repeats(o) {
		return nil, nil, api.Errorf(api.CodeInvalid, "flavorRef: there is no flavor %q in this zone; see GET /flavors", s.FlavorRef)
	}
	return o, s, nil
}

// counts reads how many instances are wanted and how many are needed.
func counts(s *api.ServerCreate, o *zone.OrderGroup) error {
	if s.MaxCount != nil && s.NumInstances != nil && *s.MaxCount != *s.NumInstances {
		return api.Errorf(api.CodeInvalid, "max_count and num_instances are two names of one number; give one of them")
	}
	most := cmp.Or(s.MaxCount, s.NumInstances)
	o.Max = 1
	switch {
	case most != nil:
		o.Max = *most
	case s.MinCount != nil:
		o.Max = *s.MinCount
	}
	o.Min = o.Max
	if s.MinCount != nil {
		o.Min = *s.MinCount
	}
	mostName := "max_count"
	if s.NumInstances != nil {
		mostName = "num_instances"
	}
	if s.MinCount != nil && (o.Min < 1 || o.Min > api.CountMax) {
		return api.Errorf(api.CodeInvalid, "min_count must be 1 to %d, got %d", api.CountMax, o.Min)
	}
	if o.Max < 1 || o.Max > api.CountMax {
		return api.Errorf(api.CodeInvalid, "%s must be 1 to %d, got %d", mostName, api.CountMax, o.Max)
	}
	if o.Min > o.Max {
		return api.Errorf(api.CodeInvalid, "min_count %d must not exceed max_count %d", o.Min, o.Max)
	}
	return nil
}

// selectAnswer is the JSON of an estimate.
type selectAnswer struct {
	api.SelectAnswer
	ExpiresInMS int64 `json:"expires_in_ms"`
}

func (d *door) selectPlan(w http.ResponseWriter, r *http.Request) error {
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
	a, err := d.Zone.Select(ctx, "", &req)
	if err != nil {
		return err
	}
	wire.JSON(w, http.StatusOK, selectAnswer{*a, a.Expires.Milliseconds()})
	return nil
}

func (d *door) boot(w http.ResponseWriter, r *http.Request) error {
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
	b, err := d.Zone.Boot(r.Context(), o)
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

// bootWaited is the JSON of a boot that was waited for.
type bootWaited struct {
	Reservation api.ReservationID `json:"reservation_id"`
	bootBody
}

// waitBoot returns a boot when it has come to an outcome or wait has passed, and
// the view it was read from, which is that of the answer.
func (d *door) waitBoot(
	w http.ResponseWriter, r *http.Request, p api.ProjectID, id api.ReservationID, wait time.Duration,
) (*state.Boot, *state.State, error) {
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	b, v, err := d.Zone.WaitBoot(ctx, p, id)
	answerAt(w, v)
	return b, v, err
}

// bootBody is the JSON of one boot.
type bootBody struct {
	Boot api.Boot `json:"boot"`
}

func (d *door) showBoot(w http.ResponseWriter, r *http.Request) error {
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
	c, other := caller(r), r.URL.Query().Get("project_id")
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

func (d *door) listBoots(w http.ResponseWriter, r *http.Request) error {
	limit, marker, err := wire.Page(r)
	if err != nil {
		return err
	}
	v := d.view(w)
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

func (d *door) releaseBoot(w http.ResponseWriter, r *http.Request) error {
	wait, err := wire.Wait(r)
	if err != nil {
		return err
	}
	project, err := projectOf(r)
	if err != nil {
		return err
	}
	id := api.ReservationID(chi.URLParam(r, "id"))
	if _, err = d.Zone.Propose(r.Context(), command.BootRelease{Stamp: d.Zone.Stamp(), Project: project, Reservation: id}); err != nil {
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
		Reason: b.Reason, Attempts: slices.Clone(b.Attempts), Instances: api.BootCounts{}, Zones: []api.ZoneCounts{},
		Created: b.Created, Updated: b.Updated, Index: v.Index(),
	}
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
	zones := map[string]api.BootCounts{}
	for _, i := range v.OfReservation(b.Request.Project, b.Request.Reservation) {
		if i.Origin != "" {
			continue
		}
		name := zoneName(v, i)
		if zones[name] == nil {
			zones[name] = api.BootCounts{}
			out.Zones = append(out.Zones, api.ZoneCounts{Zone: name, Counts: zones[name]})
		}
		zones[name][i.Status]++
	}
	slices.SortFunc(out.Zones, func(a, b api.ZoneCounts) int { return cmp.Compare(a.Zone, b.Zone) })
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
