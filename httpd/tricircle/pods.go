package tricircle

import (
	"net/http"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/openstack"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// pod is the body of a pod: a child zone with an availability zone, or as the top region the zone
// itself.
type pod struct {
	ID          string       `json:"pod_id"`
	Name        string       `json:"pod_name"`
	InnerAZ     string       `json:"pod_az_name"` // the same as az_name: no zone renames availability zones
	DC          string       `json:"dc_name"`     // always blank
	AZ          string       `json:"az_name"`     // blank for the top region
	Maintenance bool         `json:"is_under_maintenance"`
	Created     *api.Instant `json:"create_time"` // null for the top region
}

func podOf(l *api.Link) pod {
	return pod{ID: string(l.ID), Name: l.Name, InnerAZ: l.Terms.AZ, AZ: l.Terms.AZ, Maintenance: l.Terms.Maintenance, Created: &l.Created}
}

// topOf returns the top region.
func topOf(v *state.State) pod { return pod{ID: string(v.Zone), Name: v.Name} }

// podsOf returns the children that are pods, by the order of the zone's links.
func podsOf(v *state.State) []*api.Link {
	var out []*api.Link
	for _, l := range v.Children() {
		if l.Terms.AZ != "" {
			out = append(out, l)
		}
	}
	return out
}

// findPod returns the child that is the pod with an id.
func findPod(v *state.State, id string) (*api.Link, bool) {
	l, ok := v.Link(api.LinkID(id))
	return l, ok && l.Role == api.LinkChild && l.Terms.AZ != ""
}

func (d *dialect) listPods(w http.ResponseWriter, _ *http.Request) error {
	v := d.View(w)
	out := []pod{topOf(v)}
	for _, l := range podsOf(v) {
		out = append(out, podOf(l))
	}
	return answer(w, "pods", out)
}

// podNamed returns the pod that the path of a call names.
func podNamed(v *state.State, r *http.Request) (*api.Link, error) {
	id := r.PathValue("id")
	l, ok := findPod(v, id)
	if !ok {
		return nil, api.Errorf(api.CodeNotFound, "Pod %s not found", openstack.Show(id))
	}
	return l, nil
}

func (d *dialect) showPod(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	if r.PathValue("id") == string(v.Zone) {
		return answer(w, "pod", topOf(v))
	}
	l, err := podNamed(v, r)
	if err != nil {
		return err
	}
	return answer(w, "pod", podOf(l))
}

// createPod makes a pod of a child that is linked: it says which availability zone the child offers.
func (d *dialect) createPod(w http.ResponseWriter, r *http.Request) error {
	f, err := readFields(r, "pod", []string{"pod_name", "az_name", "pod_az_name", "dc_name"}, []string{"is_under_maintenance"})
	if err != nil {
		return err
	}
	v, name, az := d.View(w), f.text("pod_name"), f.text("az_name")
	l, linked := v.LinkByName(name)
	switch {
	case name == "":
		return unprocessable("Pod name is empty: pod.pod_name is needed")
	case az == "":
		return api.Errorf(api.CodeConflict, "Top region already exists: it is %s, and every other pod needs pod.az_name", v.Name)
	case name == v.Name:
		return api.Errorf(api.CodeConflict, "%s is the name of the top region", name)
	case linked && l.Role == api.LinkChild && l.Terms.AZ != "":
		return api.Errorf(api.CodeConflict, "Pod %s already exists", name)
	case !linked || l.Role != api.LinkChild:
		return unprocessable("no child zone %s is linked to this one, and this call cannot enrol one: make a link token with berth zone link-token, or POST /zones", openstack.Show(name))
	case f.text("pod_az_name") != "" && f.text("pod_az_name") != az:
		return unprocessable("pod.pod_az_name must be blank or the same as pod.az_name: availability zones are not renamed on the way to a pod")
	case f.text("dc_name") != "":
		return unprocessable("pod.dc_name must be blank: it is not kept")
	}
	s := rest.ZoneSpec{AZ: &az}
	if _, given := f.of["is_under_maintenance"]; given {
		s.Maintenance = new(f.isTrue("is_under_maintenance"))
	}
	l, err = intake.ChangeLink(r.Context(), d.Zone, string(l.ID), s)
	if err != nil {
		return as422(err)
	}
	return answer(w, "pod", podOf(l))
}

// deletePod makes a child no pod any more. It stays linked.
func (d *dialect) deletePod(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	if r.PathValue("id") == string(v.Zone) {
		return api.Errorf(api.CodeConflict, "the top region is the zone itself")
	}
	l, err := podNamed(v, r)
	if err != nil {
		return err
	}
	if n := len(v.BindingsTo(l.ID)); n > 0 {
		return api.Errorf(api.CodeConflict, "Pod %s is in use: %d active bindings refer to it", l.Name, n)
	}
	_, err = intake.ChangeLink(r.Context(), d.Zone, string(l.ID), rest.ZoneSpec{
		AZ: new(""), Tags: &[]string{}, Maintenance: new(false), Headroom: map[api.ResourceClass]int64{},
	})
	if err != nil {
		return err
	}
	return answerEmpty(w)
}
