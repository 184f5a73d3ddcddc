package native

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/internal/requestid"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// readOrder reads and checks the body of a request for instances.
func (d *dialect) readOrder(r *http.Request) (*intake.BootOrder, *rest.ServerCreate, error) {
	var body rest.BootBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &body); err != nil {
		return nil, nil, err
	}
	o, err := intake.Order(d.Zone, d.Digests, d.sourceOf(r), &body)
	return o, &body.Server, err
}

// sourceOf returns who calls for instances or volumes.
func (d *dialect) sourceOf(r *http.Request) intake.Source {
	ask := func(req *api.Request) bool {
		ctx, cancel := context.WithTimeout(r.Context(), api.SelectTimeout)
		defer cancel()
		return d.Estimator.HasPlace(ctx, req)
	}
	return intake.Source{Caller: door.Caller(r), Key: r.Header.Get(api.HeaderIdempotencyKey), Call: requestid.Of(r.Context()), Ask: ask}
}

func (d *dialect) selectPlan(w http.ResponseWriter, r *http.Request) error {
	o, s, err := d.readOrder(r)
	if err != nil {
		return err
	}
	if s.Blob != nil || s.ReturnRes {
		return api.Errorf(api.CodeInvalid, "a select takes no blob and no return_reservation_id")
	}
	req := o.Request
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
	wire.JSON(w, http.StatusOK, rest.SelectAnswerOf(a))
	return nil
}

func (d *dialect) postBoot(w http.ResponseWriter, r *http.Request) error {
	o, s, err := d.readOrder(r)
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
		wire.JSON(w, http.StatusAccepted, rest.BootAnswer{Reservation: b.Request.Reservation})
		return nil
	}
	b, v, err := d.waitBoot(w, r, b.Request.Project, b.Request.Reservation, wait)
	if err != nil {
		return err
	}
	seen := bootView(v, b)
	wire.JSON(w, http.StatusAccepted, rest.BootAnswer{Reservation: b.Request.Reservation, Boot: &seen})
	return nil
}

// bootOrder records a new boot.
func (d *dialect) bootOrder(r *http.Request, o *intake.BootOrder) (*state.Boot, error) {
	return d.Saga.Boot(r.Context(), o.Command(d.Zone.Stamp()), o.Blob)
}

// waitBoot returns a boot once it has an outcome or wait has passed, and the view it
// was read from, which is the view of the answer.
func (d *dialect) waitBoot(
	w http.ResponseWriter, r *http.Request, p api.ProjectID, id api.ReservationID, wait time.Duration,
) (*state.Boot, *state.State, error) {
	ctx, lost, stop := d.WhileAdmitted(r)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	b, v, err := d.Saga.WaitBoot(ctx, p, id)
	door.AnswerAt(w, v)
	return b, v, cmp.Or(lost(), err)
}

// waitDecision returns a boot once it is decided or createWait has passed, and the view it was
// read from, which is the view of the answer.
func (d *dialect) waitDecision(w http.ResponseWriter, r *http.Request, b *state.Boot) (*state.Boot, *state.State, error) {
	ctx, lost, stop := d.WhileAdmitted(r)
	defer stop()
	b, v, err := d.Saga.WaitDecision(ctx, b, createWait)
	door.AnswerAt(w, v)
	return b, v, cmp.Or(lost(), err)
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
	return answerOne(w, http.StatusOK, "boot", bootView(v, b))
}

// projectOf returns the project whose reservations a call addresses: the caller's, or
// for an admin that of ?project_id=.
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

// everyProject reports whether an admin asks for a list of all projects.
func everyProject(r *http.Request) (bool, error) {
	all, err := boolParameter(r, "all_projects")
	if err == nil && all && !door.Caller(r).Allows(api.RoleAdmin) {
		return false, api.Errorf(api.CodeForbidden, "all_projects needs the role admin")
	}
	return all, err
}

func (d *dialect) listBoots(w http.ResponseWriter, r *http.Request) error {
	limit, marker, err := wire.Page(r)
	if err != nil {
		return err
	}
	v := d.View(w)
	project, err := projectOf(r)
	if err != nil {
		return err
	}
	all, err := everyProject(r)
	if err != nil {
		return err
	}
	in := api.BootState(r.URL.Query().Get("state"))
	if in != "" && !slices.Contains(bootStates, in) {
		return api.Errorf(api.CodeInvalid, "state must be one of %s, got %q", wordsOf(bootStates), string(in))
	}
	id := func(b *state.Boot) string { return string(b.Request.Reservation) }
	read := func(p state.Page) []*state.Boot { return v.BootsPage(project, p) }
	if all {
		id = func(b *state.Boot) string { return string(b.Request.Project) + "/" + string(b.Request.Reservation) }
		read = v.AllBootsPage
	}
	shown := func(b *state.Boot) bool { return !b.Request.Reserves && (in == "" || b.State() == in) } // an order of a lease is shown as a lease
	page, next := bootsPage(read, id, shown, state.Page{Marker: marker, Limit: limit + 1}), ""
	if len(page) > limit {
		page, next = page[:limit], id(page[limit-1])
	}
	wire.List[*state.Boot, rest.Boot]{
		Key: "boots", Items: page, Next: next, ID: id, View: func(b *state.Boot) rest.Boot { return bootView(v, b) },
	}.Write(w)
	return nil
}

// bootStates are the possible states of a boot, in the order of its life.
var bootStates = []api.BootState{
	api.BootAccepted, api.BootHolding, api.BootBuilding, api.BootActive, api.BootDegraded, api.BootError, api.BootReleasing, api.BootReleased, api.BootFailed,
}

// bootsPage returns the boots of one page that are shown. read returns the boots after a marker, and id the marker of one.
func bootsPage(read func(state.Page) []*state.Boot, id func(*state.Boot) string, shown func(*state.Boot) bool, page state.Page) []*state.Boot {
	var out []*state.Boot
	for {
		found := read(page)
		for _, b := range found {
			page.Marker = id(b)
			if !shown(b) {
				continue
			}
			if out = append(out, b); len(out) == page.Limit {
				return out
			}
		}
		if len(found) < page.Limit {
			return out
		}
	}
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
	b, v, err := d.waitBoot(w, r, project, id, wait) //nolint:contextcheck // the request carries it
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusAccepted, "boot", bootView(v, b))
}

// bootView returns the body of a boot with what its owner may see.
func bootView(v *state.State, b *state.Boot) rest.Boot {
	out := rest.Boot{
		Reservation: b.Request.Reservation, Name: b.Name, Project: b.Request.Project, User: b.Request.User,
		Flavor: b.Request.Groups[0].Flavor, MinCount: b.Min, MaxCount: b.Request.Count(), State: b.State(),
		Attempts: bootAttempts(b), Instances: rest.BootCounts{}, Zones: []rest.ZoneCounts{},
		Created: b.Created, Updated: b.Updated, Index: v.Index(), Request: b.Call,
	}
	out.Code, out.Reason = b.Cause()
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
	out.PreemptTerms = rest.PreemptTermsOf(b.Request.Class, b.Request.Way, b.Request.OnPreempt)
	if b.Cut != nil {
		out.Cut = &rest.QuotaCut{Asked: b.Cut.Asked, Item: b.Cut.Item}
	}
	if r, ok := v.Requeued(b.Request.Project, b.Request.Reservation); ok {
		out.Queued = &rest.BootQueued{Count: len(r.Instances), Since: r.Since, Tries: r.Tries}
		if r.Refill == 0 {
			out.Queued.Next = r.Next
		}
	}
	for _, id := range v.AwaitedBy(b) {
		if l, ok := v.Link(id); ok {
			out.Waits = append(out.Waits, l.Name)
		}
	}
	addInstances(v, b, &out)
	return out
}

// bootAttempts returns the attempts of a boot. An attempt that used a plan examined no
// hosts: that happened when the plan was selected.
func bootAttempts(b *state.Boot) []rest.BootAttempt {
	out := []rest.BootAttempt{}
	for _, a := range b.Attempts {
		attempt := rest.BootAttemptOf(a)
		if attempt.Refusals == nil {
			attempt.Refusals = []rest.Refusals{}
		}
		out = append(out, attempt)
	}
	return out
}

// addInstances adds the counts of a boot's instances by zone and by group, and the end
// of the last one.
func addInstances(v *state.State, b *state.Boot, out *rest.Boot) {
	zones := map[string]int{} // places in out.Zones
	for _, i := range v.OfReservation(b.Request.Project, b.Request.Reservation) {
		if i.Origin != "" {
			continue
		}
		if end := i.Window.End; end != api.Forever && end > out.Ends {
			out.Ends = end
		}
		if g := slices.IndexFunc(out.Groups, func(g rest.BootGroup) bool { return g.Name == i.Group }); g >= 0 {
			out.Groups[g].Counts[i.Status]++
		}
		name := zoneName(v, i)
		at, known := zones[name]
		if !known {
			at = len(out.Zones)
			zones[name] = at
			out.Zones = append(out.Zones, rest.ZoneCounts{Zone: name, Counts: rest.BootCounts{}})
		}
		out.Zones[at].Counts[i.Status]++
		if i.Live() && v.UnreachableSince(i) > 0 {
			out.Unreachable++
			out.Zones[at].Unreachable++
		}
	}
	slices.SortFunc(out.Zones, func(a, b rest.ZoneCounts) int { return cmp.Compare(a.Zone, b.Zone) })
}

// bootGroups returns the groups of a boot that has several, without their counts.
func bootGroups(b *state.Boot) []rest.BootGroup {
	if len(b.Request.Groups) == 1 {
		return nil
	}
	var out []rest.BootGroup
	for _, g := range b.Request.Groups {
		out = append(out, rest.BootGroup{Name: g.Name, Flavor: g.Flavor, MinCount: g.Min, MaxCount: g.Count, Counts: rest.BootCounts{}})
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
