package native

import (
	"maps"
	"net/http"
	"slices"

	"berth/api"
	"berth/api/rest"
	"berth/binding"
	"berth/raftstore/state"
	"berth/zone"
)

// listAZs lists the availability zones that boots may ask for: those of this zone's own
// hosts, those that the zones below report by gossip, and those that operators of this zone say of children.
func (d *dialect) listAZs(w http.ResponseWriter, r *http.Request) error {
	page, next, err := pageOf(r, d.zonesWithHosts(d.View(w)), func(a *rest.AvailabilityZone) string { return a.Name })
	if err != nil {
		return err
	}
	return answerList(w, "availability_zones", page, next)
}

func (d *dialect) zonesWithHosts(v *state.State) []*rest.AvailabilityZone {
	all := map[string]*rest.AvailabilityZone{}
	add := func(name, zone string, available bool) {
		a := all[name]
		if a == nil {
			a = &rest.AvailabilityZone{Name: name}
			all[name] = a
		}
		a.Available = a.Available || available
		if !slices.Contains(a.Zones, zone) {
			a.Zones = append(a.Zones, zone)
		}
	}
	for _, name := range v.AZs() {
		add(name, v.Name, true)
	}
	for _, a := range v.Aggregates() {
		if name := a.Metadata[api.MetaAZ]; name != "" {
			add(name, v.Name, false)
		}
	}
	for _, l := range v.Children() {
		dg, age, ok := d.Digests.Digest(l.Zone)
		if !ok {
			age = zone.LinkFresh + 1
		}
		for _, name := range binding.AZsOf(&v.Config.Bindings, l, &dg) {
			add(name, l.Name, age <= zone.LinkFresh && l.State == api.LinkActive && !dg.Paused)
		}
	}
	out := []*rest.AvailabilityZone{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name])
	}
	return out
}
