package native

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/wire"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// flavorBody is the JSON of a flavor that is made or replaced.
type flavorBody struct {
	Flavor flavorSpec `json:"flavor"`
}

// flavorSpec allows short names for the standard classes.
type flavorSpec struct {
	ID         string            `json:"id"` // default: the name
	Name       string            `json:"name"`
	VCPUs      *int64            `json:"vcpus"`
	RAM        *int64            `json:"ram"`  // MiB
	Disk       *int64            `json:"disk"` // GiB
	Resources  api.Resources     `json:"resources"`
	ExtraSpecs map[string]string `json:"extra_specs"`
	Command    []string          `json:"command"`
}

func (s flavorSpec) flavor() (api.Flavor, error) {
	f := api.Flavor{
		ID: api.FlavorID(cmp.Or(s.ID, s.Name)), Name: s.Name, Resources: maps.Clone(s.Resources),
		ExtraSpecs: s.ExtraSpecs, Command: s.Command,
	}
	if err := checkFree("flavor", s.Name, "detail"); err != nil {
		return f, err
	}
	if err := checkFree("flavor", string(f.ID), "detail"); err != nil {
		return f, api.Errorf(api.CodeInvalid, "flavor id: %s", api.MessageOf(err))
	}
	if f.Resources == nil {
		f.Resources = api.Resources{}
	}
	for _, short := range []struct {
		name  string
		class api.ResourceClass
		n     *int64
	}{{"vcpus", api.VCPU, s.VCPUs}, {"ram", api.MemoryMB, s.RAM}, {"disk", api.DiskGB, s.Disk}} {
		if short.n == nil {
			continue
		}
		if _, twice := f.Resources[short.class]; twice {
			return f, api.Errorf(api.CodeInvalid, "give %s or resources.%s, not both", short.name, short.class)
		}
		f.Resources[short.class] = *short.n
	}
	if err := f.Validate(); err != nil {
		return f, err
	}
	return f, checkTraitSpecs(f.ExtraSpecs)
}

// checkTraitSpecs refuses extra specs that name a trait and do not say clearly
// what is wanted of it, because hosts would be offered that must not be.
func checkTraitSpecs(specs map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(specs)) {
		name, is := strings.CutPrefix(key, zone.TraitSpec)
		if !is {
			continue
		}
		if !api.ValidTrait(name) {
			return api.Errorf(api.CodeInvalid, "extra_specs: %q must name a trait of A-Z 0-9 _", key)
		}
		if v := specs[key]; v != zone.TraitRequired && v != zone.TraitForbidden {
			return api.Errorf(api.CodeInvalid, "extra_specs: %s must be %s or %s, got %q", key, zone.TraitRequired, zone.TraitForbidden, v)
		}
	}
	return nil
}

func (d *dialect) listFlavors(w http.ResponseWriter, r *http.Request) error {
	page, next, err := pageOf(r, d.View(w).Flavors(), func(f *api.Flavor) string { return string(f.ID) })
	if err != nil {
		return err
	}
	return answerList(w, "flavors", page, next)
}

func (d *dialect) showFlavor(w http.ResponseWriter, r *http.Request) error {
	return d.answerFlavor(w, http.StatusOK, api.FlavorID(chi.URLParam(r, "id")))
}

func (d *dialect) answerFlavor(w http.ResponseWriter, status int, id api.FlavorID) error {
	f, ok := d.View(w).Flavor(id)
	if !ok {
		return noFlavor(id)
	}
	wire.JSON(w, status, map[string]any{"flavor": f})
	return nil
}

func (d *dialect) createFlavor(w http.ResponseWriter, r *http.Request) error {
	return d.putFlavor(w, r, "")
}

func (d *dialect) updateFlavor(w http.ResponseWriter, r *http.Request) error {
	return d.putFlavor(w, r, api.FlavorID(chi.URLParam(r, "id")))
}

// putFlavor makes a flavor, or replaces the one named old.
func (d *dialect) putFlavor(w http.ResponseWriter, r *http.Request, old api.FlavorID) error {
	var b flavorBody
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	if old != "" {
		b.Flavor.Name = cmp.Or(b.Flavor.Name, string(old))
		b.Flavor.ID = cmp.Or(b.Flavor.ID, string(old))
	}
	f, err := b.Flavor.flavor()
	if err != nil {
		return err
	}
	if old != "" && f.ID != old {
		return api.Errorf(api.CodeInvalid, "the id of a flavor cannot be changed; make a new one")
	}
	there := func(v *state.State) bool { _, ok := v.Flavor(old); return ok || old == "" }
	c := command.FlavorPut{Stamp: d.Zone.Stamp(), Flavor: f, Replace: old != ""}
	if _, err := d.Zone.Change(r.Context(), c, there, noFlavor(old)); err != nil {
		return err
	}
	status := http.StatusCreated
	if old != "" {
		status = http.StatusOK
	}
	return d.answerFlavor(w, status, f.ID)
}

func (d *dialect) deleteFlavor(w http.ResponseWriter, r *http.Request) error {
	c := command.FlavorDelete{Stamp: d.Zone.Stamp(), ID: api.FlavorID(chi.URLParam(r, "id"))}
	there := func(v *state.State) bool { _, ok := v.Flavor(c.ID); return ok }
	_, err := d.Zone.Change(r.Context(), c, there, noFlavor(c.ID))
	return noContent(w, err)
}

func noFlavor(id api.FlavorID) error { return api.Errorf(api.CodeNotFound, "no flavor %q", string(id)) }
