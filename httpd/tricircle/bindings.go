package tricircle

import (
	"cmp"
	"net/http"
	"slices"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/openstack"
	"berth/httpd/wire"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// podBinding is the body of a binding.
type podBinding struct {
	ID      api.BindingID `json:"id"`
	Tenant  api.ProjectID `json:"tenant_id"`
	Pod     api.LinkID    `json:"pod_id"`
	Active  bool          `json:"is_binding"`
	Created api.Instant   `json:"created_at"`
	Updated *api.Instant  `json:"updated_at"` // when it ended; null while it is active
}

func podBindingOf(b *api.Binding) podBinding {
	out := podBinding{ID: b.ID, Tenant: b.Project, Pod: b.Link, Active: b.Active(), Created: b.Start}
	if !b.Active() {
		out.Updated = &b.End
	}
	return out
}

// listBindings answers the bindings of this zone's own projects, active and past, by id.
func (d *dialect) listBindings(w http.ResponseWriter, r *http.Request) error {
	if _, err := openstack.Params(r, func(name string) bool { return name == "limit" || name == "marker" }); err != nil {
		return err
	}
	limit, marker, err := wire.Page(r)
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(slices.Clone(d.View(w).Bindings()), func(b *api.Binding) bool { return b.Origin != "" || marker != "" && string(b.ID) <= marker })
	slices.SortFunc(all, func(a, b *api.Binding) int { return cmp.Compare(a.ID, b.ID) })
	out := make([]podBinding, 0, min(limit, len(all)))
	for _, b := range all[:min(limit, len(all))] {
		out = append(out, podBindingOf(b))
	}
	body := map[string]any{"pod_bindings": out}
	if len(all) > limit {
		body["next_marker"] = out[limit-1].ID
	}
	return openstack.Answer(w, http.StatusOK, body)
}

// bindingNamed returns the binding that the path of a call names.
func bindingNamed(v *state.State, r *http.Request) (*api.Binding, error) {
	id := r.PathValue("id")
	b, ok := v.Binding(api.BindingID(id))
	if !ok || b.Origin != "" {
		return nil, api.Errorf(api.CodeNotFound, "Tenant pod binding %s not found", openstack.Show(id))
	}
	return b, nil
}

func (d *dialect) showBinding(w http.ResponseWriter, r *http.Request) error {
	b, err := bindingNamed(d.View(w), r)
	if err != nil {
		return err
	}
	return answer(w, "pod_binding", podBindingOf(b))
}

// createBinding binds the general work of a project to a pod.
func (d *dialect) createBinding(w http.ResponseWriter, r *http.Request) error {
	f, err := readFields(r, "pod_binding", []string{"tenant_id", "pod_id"}, []string{"is_binding"})
	if err != nil {
		return err
	}
	v, tenant, id := d.View(w), f.text("tenant_id"), f.text("pod_id")
	l, known := findPod(v, id)
	switch {
	case tenant == "" || id == "":
		return unprocessable("Tenant_id and pod_id can not be empty")
	case id == string(v.Zone):
		return unprocessable("Top region can not be bound to")
	case !known:
		return unprocessable("pod_id: there is no pod %s", openstack.Show(id))
	}
	if b, bound := v.ActiveBinding(api.Tenant{Project: api.ProjectID(tenant)}, api.BindingKey{}); bound && b.Link == l.ID {
		return api.Errorf(api.CodeConflict, "Resource already exists: project %s is bound to the pod", openstack.Show(tenant))
	}
	b, err := intake.SetBinding(r.Context(), d.Zone, door.Caller(r).User, &rest.BindingSpec{Project: api.ProjectID(tenant), Zone: string(l.ID)})
	if err != nil {
		return as422(err)
	}
	return answer(w, "pod_binding", podBindingOf(b))
}

// deleteBinding ends a binding. It stays in the history.
func (d *dialect) deleteBinding(w http.ResponseWriter, r *http.Request) error {
	b, err := bindingNamed(d.View(w), r)
	if err != nil {
		return err
	}
	if err = intake.EndBinding(r.Context(), d.Zone, b.ID); err != nil {
		return err
	}
	return answerEmpty(w)
}
