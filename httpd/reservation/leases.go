package reservation

import (
	"net/http"
	"slices"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/openstack"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// leaseOf returns the lease that the path of a call names, if its caller may see it: an
// admin sees all, others those of their project and those that are shared with it. Nobody
// learns whether another one exists.
func (d *dialect) leaseOf(v *state.State, r *http.Request) (*Lease, error) {
	id := api.LeaseID(r.PathValue("id"))
	who := door.Caller(r)
	l, ok := d.book.Lease(v, id)
	if !ok || l.Terms.Project != who.Project && !who.Allows(api.RoleAdmin) && !slices.Contains(l.Terms.Shared, who.Project) {
		return nil, notFound("Object not found: there is no lease %s", openstack.Show(string(id)))
	}
	return l, nil
}

// ownLeaseOf is leaseOf for a call that changes the lease. Those with whom it is shared may
// only use it.
func (d *dialect) ownLeaseOf(v *state.State, r *http.Request) (*Lease, error) {
	l, err := d.leaseOf(v, r)
	if who := door.Caller(r); err == nil && l.Terms.Project != who.Project && !who.Allows(api.RoleAdmin) {
		return nil, api.Errorf(api.CodeForbidden, "The lease is shared with this project, which may use it; only its own project changes it")
	}
	return l, err
}

// sendLease answers with a lease.
func sendLease(w http.ResponseWriter, status int, l *Lease) error {
	return openstack.Answer(w, status, map[string]rest.Lease{"lease": showLease(l)})
}

// listLeases is GET /leases. There are no pages: the stock client needs the whole list.
func (d *dialect) listLeases(w http.ResponseWriter, r *http.Request) error {
	v, who := d.View(w), door.Caller(r)
	project := who.Project
	if who.Allows(api.RoleAdmin) {
		project = ""
	}
	out := []rest.Lease{}
	for _, l := range d.book.List(v, project) {
		out = append(out, showLease(l))
	}
	return openstack.Answer(w, http.StatusOK, map[string][]rest.Lease{"leases": out})
}

// showLease is GET /leases/{id}.
func (d *dialect) showLease(w http.ResponseWriter, r *http.Request) error {
	l, err := d.leaseOf(d.View(w), r)
	if err != nil {
		return err
	}
	return sendLease(w, http.StatusOK, l)
}

// listLeaseHosts is GET /leases/{id}/hosts: where the lease has its room, and only for admins
// on which hosts of this zone.
func (d *dialect) listLeaseHosts(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	l, err := d.leaseOf(v, r)
	if err != nil {
		return err
	}
	out := []rest.LeaseSlot{}
	for _, s := range d.book.Room(v, l.Terms.ID) {
		one := rest.LeaseSlot{
			Reservation: s.Reservation, Zone: s.Zone, Status: s.Status, Changed: s.Changed, Reach: !s.Unreachable,
			Start: rest.LeaseTime(s.Window.Start), End: rest.LeaseTime(s.Window.End),
		}
		if h, ok := v.Host(s.Host); ok && door.Caller(r).Allows(api.RoleAdmin) {
			number := numberOf(h.ID)
			one.Resource, one.Host = &number, &h.Name
		}
		out = append(out, one)
	}
	return openstack.Answer(w, http.StatusOK, map[string][]rest.LeaseSlot{"hosts": out})
}

// newTerms returns a reader of bodies, which looks names up in a view.
func (d *dialect) newTerms(v *state.State) *terms {
	return &terms{
		now: d.Zone.Instant(), beforeEnd: v.Config.Leases.BeforeEndDistance(), flavor: v.Flavor,
		unknownZone: func(names []string) string { return intake.UnknownZone(v, names...) },
	}
}

// createLease is POST /leases.
func (d *dialect) createLease(w http.ResponseWriter, r *http.Request) error {
	body, err := openstack.ReadFields(r)
	if err != nil {
		return err
	}
	who := door.Caller(r)
	t, err := d.newTerms(d.Zone.View()).readLease(body)
	if err != nil {
		return err
	}
	t.Project, t.User = who.Project, who.User
	key := r.Header.Get(api.HeaderIdempotencyKey)
	if key != "" && !api.ValidName(key) {
		return api.CheckName(api.HeaderIdempotencyKey, key)
	}
	id, err := d.leases.Create(r.Context(), who, t, key)
	if err != nil {
		return err
	}
	l, ok := d.book.Lease(d.View(w), id)
	if !ok { // it was deleted meanwhile
		return notFound("Object not found: there is no lease %s any more", openstack.Show(string(id)))
	}
	d.Locate(w, r, root+"/leases/"+string(id))
	return sendLease(w, http.StatusCreated, l)
}

// updateLease is PUT /leases/{id}. A body without fields changes nothing.
func (d *dialect) updateLease(w http.ResponseWriter, r *http.Request) error {
	body, err := openstack.ReadFields(r)
	if err != nil {
		return err
	}
	v := d.Zone.View()
	l, err := d.ownLeaseOf(v, r)
	if err != nil {
		return err
	}
	change, err := d.newTerms(v).readChange(body, &l.Terms)
	if err != nil {
		return err
	}
	if len(body) > 0 {
		if err = d.leases.Update(r.Context(), door.Caller(r), l.Terms.ID, *change); err != nil {
			return err
		}
	}
	if l, err = d.leaseOf(d.View(w), r); err != nil {
		return err
	}
	return sendLease(w, http.StatusOK, l)
}

// deleteLease is DELETE /leases/{id}.
func (d *dialect) deleteLease(w http.ResponseWriter, r *http.Request) error {
	l, err := d.ownLeaseOf(d.Zone.View(), r)
	if err != nil {
		return err
	}
	if err = d.leases.Delete(r.Context(), door.Caller(r), l.Terms.ID); err != nil {
		return err
	}
	return answerEmpty(w)
}
