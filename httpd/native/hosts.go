package native

import (
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/raftstore/state"
	"berth/zone/fleet"
	"berth/zone/intake"
)

func hostView(v *state.State, h *state.Host) rest.Host {
	out := rest.HostOf(&h.Host)
	slots := v.SlotsOn(h.ID)
	out.Slots, out.MissingTraits = len(slots), traitDemands(v.MissingTraits(h.ID))
	if h.Drain == "" {
		return out
	}
	out.Leaving = &rest.Leaving{}
	if h.Drain == api.DrainMove {
		out.Leaving.Traits = traitDemands(v.TraitsNowhereElse(h.ID))
	}
	for _, i := range v.OnHost(h.ID) {
		if !i.Live() {
			continue
		}
		out.Leaving.Left++
		switch {
		case i.Status == api.StatusDeleting:
			out.Leaving.Ending++
		case i.Target != "":
			out.Leaving.Moving++
		}
	}
	for _, i := range slots {
		if !fleet.Maintains(v, i) {
			out.Leaving.Slots++
		}
	}
	return out
}

// traitDemands returns demands for traits as answers have them.
func traitDemands(all []state.TraitDemand) []rest.TraitDemand {
	var out []rest.TraitDemand
	for _, d := range all {
		one := rest.TraitDemand{Traits: d.Traits, Count: len(d.Of)}
		for _, i := range d.Of {
			r := api.ReservationID(i.Group)
			switch {
			case !i.Reserved && len(one.Servers) < rest.DemandersMax:
				one.Servers = append(one.Servers, i.ID)
			case i.Reserved && !slices.Contains(one.Reservations, r) && len(one.Reservations) < rest.DemandersMax:
				one.Reservations = append(one.Reservations, r)
			}
		}
		out = append(out, one)
	}
	return out
}

func (d *dialect) listHosts(w http.ResponseWriter, r *http.Request) error {
	limit, marker, err := wire.Page(r)
	if err != nil {
		return err
	}
	v := d.View(w)
	match, err := hostMatch(v, r)
	if err != nil {
		return err
	}
	az, first := r.URL.Query().Get("availability_zone"), marker == ""
	known := az == "" || !first
	out, next := []*state.Host{}, ""
	for more := true; more && next == ""; {
		page := v.HostsPage(state.Page{Marker: marker, Limit: api.PageMax})
		more = len(page) == api.PageMax
		for _, h := range page {
			marker = h.Name
			known = known || h.AZ == az
			if !match(h) {
				continue
			}
			if len(out) == limit {
				next = out[limit-1].Name
				break
			}
			out = append(out, h)
		}
	}
	if !known {
		return api.Errorf(api.CodeInvalid, "availability_zone: no host of this zone is in %q", az)
	}
	wire.List[*state.Host, rest.Host]{
		Key: "hosts", Items: out, Next: next,
		ID:   func(h *state.Host) string { return h.Name },
		View: func(h *state.Host) rest.Host { return hostView(v, h) },
	}.Write(w)
	return nil
}

// hostMatch returns the filter of a list of hosts.
func hostMatch(v *state.State, r *http.Request) (func(*state.Host) bool, error) {
	q := r.URL.Query()
	st, pool, az := api.HostState(q.Get("state")), api.Pool(q.Get("pool")), q.Get("availability_zone")
	if st != "" && st != api.HostUp && st != api.HostDown {
		return nil, api.Errorf(api.CodeInvalid, "state must be %s or %s, got %q", api.HostUp, api.HostDown, string(st))
	}
	if pool != "" {
		if err := intake.CheckPool(pool); err != nil {
			return nil, err
		}
	}
	var within []api.HostID
	ref := q.Get("aggregate")
	if ref != "" {
		a, err := intake.Aggregate(v, ref)
		if err != nil {
			return nil, api.Errorf(api.CodeInvalid, "aggregate: there is no aggregate %q in this zone", ref)
		}
		within = a.Hosts
	}
	return func(h *state.Host) bool {
		_, in := slices.BinarySearch(within, h.ID)
		return matchesWanted(st, h.State) && matchesWanted(pool, h.Pool) && matchesWanted(az, h.AZ) && (ref == "" || in)
	}, nil
}

// hostOf finds the host that a call names, by its name or id.
func hostOf(v *state.State, r *http.Request) (*state.Host, error) {
	return intake.Host(v, chi.URLParam(r, "id"))
}

func (d *dialect) showHost(w http.ResponseWriter, r *http.Request) error {
	return d.answerHost(w, r, http.StatusOK)
}

func (d *dialect) answerHost(w http.ResponseWriter, r *http.Request, status int) error {
	v := d.View(w)
	h, err := hostOf(v, r)
	if err != nil {
		return err
	}
	return answerOne(w, status, "host", hostView(v, h))
}

func (d *dialect) updateHost(w http.ResponseWriter, r *http.Request) error {
	var b rest.HostBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	if err := intake.ChangeHost(r.Context(), d.Zone, chi.URLParam(r, "id"), b.Host); err != nil {
		return err
	}
	return d.answerHost(w, r, http.StatusOK)
}

// drainHost takes a host out of service and sets what happens to its instances.
func (d *dialect) drainHost(w http.ResponseWriter, r *http.Request) error {
	var b rest.DrainBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	if err := intake.DrainHost(r.Context(), d.Zone, chi.URLParam(r, "id"), b.Policy, b.Reason); err != nil {
		return err
	}
	return d.answerHost(w, r, http.StatusAccepted)
}

// undrainHost puts a host back into service.
func (d *dialect) undrainHost(w http.ResponseWriter, r *http.Request) error {
	if err := intake.UndrainHost(r.Context(), d.Zone, chi.URLParam(r, "id")); err != nil {
		return err
	}
	return d.answerHost(w, r, http.StatusOK)
}

// showEvacuation reports the progress of the evacuation of a lost host.
func (d *dialect) showEvacuation(w http.ResponseWriter, r *http.Request) error {
	v, err := d.Zone.Latest(r.Context())
	if err != nil {
		return err
	}
	door.AnswerAt(w, v)
	h, err := hostOf(v, r)
	if err != nil {
		return err
	}
	e, err := d.Fleet.ReportEvacuation(h.ID)
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "evacuation", rest.Evacuation{Movable: e.Movable, Staying: e.Staying, WaitMS: e.Wait.Milliseconds()})
}

func (d *dialect) deleteHost(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, intake.DeleteHost(r.Context(), d.Zone, chi.URLParam(r, "id")))
}

// writeOffHost forgets a lost host with all that is on it.
func (d *dialect) writeOffHost(w http.ResponseWriter, r *http.Request) error {
	h, err := hostOf(d.Zone.View(), r)
	if err != nil {
		return err
	}
	return d.answerLost(w, r, h.ID, "")
}

// answerLost writes off one instance of a host, or with "" the whole host, and answers what that gives up.
func (d *dialect) answerLost(w http.ResponseWriter, r *http.Request, h api.HostID, i api.InstanceID) error {
	var b rest.LoseBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	lost, err := d.Fleet.WriteOff(r.Context(), h, i, b.DryRun)
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "lost", lostView(&lost, door.Caller(r), i == "", b.DryRun))
}

// lostView returns what is given up: the counts of all of it, and the names of what the caller may see.
func lostView(l *state.Lost, c api.Caller, whole, dryRun bool) rest.LostHost {
	out := rest.LostHost{
		Host: l.Host.Name, DownSince: l.Host.DownSince, Allocations: len(l.Consumers), List: []rest.LostServer{}, Forgotten: whole, DryRun: dryRun,
	}
	for _, i := range l.Instances {
		kind := "server"
		switch {
		case i.Reserved:
			kind = "slot"
			out.Slots++
		case i.Volume != "":
			kind = "volume"
			out.Volumes++
		default:
			out.Servers++
		}
		if len(out.List) < rest.LostServersMax && isVisible(i, c) {
			out.List = append(out.List, rest.LostServer{ID: i.ID, Name: i.Name, Kind: kind, Project: i.Project, Status: i.Status, Reservation: i.Reservation})
		}
	}
	return out
}
