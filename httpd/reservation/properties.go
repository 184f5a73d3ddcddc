package reservation

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"berth/api"
	"berth/api/rest"
	"berth/filters/query"
	"berth/httpd/openstack"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// checkUnused refuses to change a capability that a standing reservation on the host has in
// its conditions.
func (d *dialect) checkUnused(v *state.State, h *state.Host, capabilities map[string]string) error {
	for _, s := range d.book.Slots(v, h.ID) {
		l, ok := d.book.Lease(v, s.Lease)
		if !ok {
			continue // it is a lease of a zone above, which sees no capabilities
		}
		for i := range l.Terms.Reservations {
			r := &l.Terms.Reservations[i]
			if r.ID != s.Reservation {
				continue
			}
			if name := namedIn(r.Query, capabilities); name != "" {
				return conflictError("The capability %s is in use by the reservation %s on the host %s", openstack.Show(name), r.ID, h.Name)
			}
		}
	}
	return nil
}

// namedIn returns the first of some capabilities that a query names, "" for none.
func namedIn(text string, capabilities map[string]string) string {
	q, err := query.Compile(text)
	if err != nil {
		return "" // no reservation has such a query
	}
	for _, name := range slices.Sorted(maps.Keys(capabilities)) {
		if slices.Contains(q.Variables(), "attributes."+name) {
			return name
		}
	}
	return ""
}

// property is an extra capability that some host has.
type property struct {
	Name    string   `json:"property"`
	Private *bool    `json:"private,omitempty"`
	Values  []string `json:"values,omitempty"`
}

// valuesOfProperties returns the distinct values of every extra capability of managed hosts.
func valuesOfProperties(v *state.State) map[string][]string {
	seen := map[string]map[string]bool{}
	for _, h := range managedHosts(v) {
		for name, value := range capabilitiesOf(h) {
			if seen[name] == nil {
				seen[name] = map[string]bool{}
			}
			seen[name][value] = true
		}
	}
	out := map[string][]string{}
	for name, values := range seen {
		out[name] = slices.Sorted(maps.Keys(values))
	}
	return out
}

// listProperties is GET /os-hosts/properties.
func (d *dialect) listProperties(w http.ResponseWriter, r *http.Request) error {
	q, err := openstack.Params(r, func(name string) bool { return name == "detail" || name == "all" })
	if err != nil {
		return err
	}
	detail, err := readFlag(q, "detail")
	if err != nil {
		return err
	}
	all, err := readFlag(q, "all")
	if err != nil {
		return err
	}
	v := d.View(w)
	values := valuesOfProperties(v)
	out := []property{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		record, _ := v.HostProperty(name)
		if record.Private && !all {
			continue
		}
		p := property{Name: name}
		if detail {
			p.Private, p.Values = &record.Private, values[name]
		}
		out = append(out, p)
	}
	return openstack.Answer(w, http.StatusOK, map[string][]property{"resource_properties": out})
}

// readFlag reads a parameter that is true or false; without it, false.
func readFlag(q url.Values, name string) (bool, error) {
	switch strings.ToLower(q.Get(name)) {
	case "true", "1":
		return true, nil
	case "", "false", "0":
		return false, nil
	}
	return false, openstack.BadQuery("%s must be True or False, got %s", name, openstack.Show(q.Get(name)))
}

// updateProperty is PATCH /os-hosts/properties/{name}.
func (d *dialect) updateProperty(w http.ResponseWriter, r *http.Request) error {
	body, err := openstack.ReadFields(r)
	if err != nil {
		return err
	}
	f := newFields("", body)
	f.require("private")
	v, _ := f.take("private")
	private, ok := v.(bool)
	if !ok {
		f.malformed("private", v, "true or false")
	}
	if err = f.done(); err != nil {
		return err
	}
	name := r.PathValue("name")
	_, known := d.Zone.View().HostProperty(name)
	if _, has := valuesOfProperties(d.Zone.View())[name]; !has && !known {
		return notFound("Object not found: no host has the property %s", openstack.Show(name))
	}
	if err = intake.SetProperty(r.Context(), d.Zone, name, private); err != nil {
		return err
	}
	p, _ := d.View(w).HostProperty(name)
	return openstack.Answer(w, http.StatusOK, map[string]any{"resource_property": struct {
		ID      string              `json:"id"`
		Type    api.ReservationType `json:"resource_type"`
		Name    string              `json:"property_name"`
		Private bool                `json:"private"`
		Created rest.LeaseTime      `json:"created_at"`
		Updated *rest.LeaseTime     `json:"updated_at"`
	}{p.ID, api.ReserveHosts, p.Name, p.Private, rest.LeaseTime(p.Created), showChange(p.Updated)}})
}

// showChange returns when a property was changed; nil for never.
func showChange(i api.Instant) *rest.LeaseTime {
	if i == 0 {
		return nil
	}
	t := rest.LeaseTime(i)
	return &t
}
