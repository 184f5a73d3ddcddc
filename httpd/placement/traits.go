package placement

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/httpd/openstack"
	"berth/raftstore/state"
	"berth/zone/resources"
)

// traitsQueryMax bounds the names in one list of traits in a query.
const traitsQueryMax = 1_000

// Schemas of traits.
var (
	traitSchema  = &openstack.Schema{Kind: openstack.String, Shortest: 1, Longest: api.CustomMaxBytes}
	traitsSchema = &openstack.Schema{
		Kind: openstack.Object, Required: []string{"traits", "resource_provider_generation"},
		Fields: map[string]*openstack.Schema{
			"traits":                       {Kind: openstack.Array, Each: traitSchema},
			"resource_provider_generation": generationSchema,
		},
	}
)

// latestOf returns the creation time of the newest of some names, or now if there are
// none.
func latestOf(names []state.Named, now time.Time) time.Time {
	var at api.Instant
	for _, n := range names {
		at = max(at, n.Created)
	}
	if at == 0 {
		return now
	}
	return at.Time()
}

// namesOf returns only the names.
func namesOf(list []state.Named) []string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = n.Name
	}
	return out
}

// listTraits is GET /traits.
func (d *dialect) listTraits(w http.ResponseWriter, r *http.Request) error {
	q, err := openstack.Params(r, func(name string) bool { return name == "name" || name == "associated" })
	if err != nil {
		return err
	}
	v := d.View(w)
	list := v.Traits()
	if text, given := lastValue(q, "name"); given {
		if list, err = namedSo(list, text); err != nil {
			return err
		}
	}
	if text, given := lastValue(q, "associated"); given {
		want := strings.ToLower(text)
		if want != "true" && want != "false" {
			return openstack.BadQuery("associated must be true or false, got %q", openstack.Cut(text))
		}
		used := map[string]bool{}
		for row := range v.Hosts().Providers().All() {
			for _, name := range v.Hosts().Spec(row).Traits {
				used[name] = true
			}
		}
		list = slices.DeleteFunc(list, func(n state.Named) bool { return used[n.Name] != (want == "true") })
	}
	setModified(w, r, latestOf(list, d.Now()))
	return openstack.Answer(w, http.StatusOK, map[string][]string{"traits": namesOf(list)})
}

// namedSo filters a list by name: "in:" and names, or "startswith:" and a prefix. Any
// other word before the colon keeps all.
func namedSo(list []state.Named, filter string) ([]state.Named, error) {
	how, text, ok := strings.Cut(filter, ":")
	if !ok {
		return nil, invalidError("Badly formatted name parameter: it must be in:NAME,NAME or startswith:PREFIX, got %q", openstack.Cut(filter))
	}
	switch how {
	case "in":
		names := strings.Split(text, ",")
		if len(names) > traitsQueryMax {
			return nil, invalidError("name=in: takes at most %d names, got %d", traitsQueryMax, len(names))
		}
		slices.Sort(names)
		return slices.DeleteFunc(list, func(n state.Named) bool {
			_, found := slices.BinarySearch(names, n.Name)
			return !found
		}), nil
	case "startswith":
		return slices.DeleteFunc(list, func(n state.Named) bool { return !strings.HasPrefix(n.Name, text) }), nil
	}
	return list, nil
}

// showTrait is GET /traits/{name}.
func (d *dialect) showTrait(w http.ResponseWriter, r *http.Request) error {
	t, ok := d.View(w).Trait(r.PathValue("name"))
	if !ok {
		return noTrait(r)
	}
	setModified(w, r, latestOf([]state.Named{t}, d.Now()))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func noTrait(r *http.Request) error {
	return notFound("No such trait(s): %s.", openstack.Cut(r.PathValue("name")))
}

// putTrait is PUT /traits/{name}.
func (d *dialect) putTrait(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if !api.ValidCustom(name) {
		return invalidError("The trait is invalid: its name must be %s and upper case letters, digits and _, at most %d characters in all", api.CustomPrefix, api.CustomMaxBytes)
	}
	status := http.StatusNoContent
	made, err := resources.PutTrait(r.Context(), d.Zone, name)
	if err != nil {
		return err
	}
	if made {
		status = http.StatusCreated
	}
	t, _ := d.View(w).Trait(name)
	d.Locate(w, r, "/traits/"+name)
	setModified(w, r, latestOf([]state.Named{t}, d.Now()))
	w.WriteHeader(status)
	return nil
}

// deleteTrait is DELETE /traits/{name}.
func (d *dialect) deleteTrait(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if _, there := d.Zone.View().Trait(name); !there {
		return noTrait(r)
	}
	if !strings.HasPrefix(name, api.CustomPrefix) {
		return invalidError("Cannot delete standard trait %s.", name)
	}
	if err := resources.DeleteTrait(r.Context(), d.Zone, name); err != nil {
		return replaceError(err, map[api.Code]error{
			api.CodeNotFound: noTrait(r),
			api.CodeInUse:    openstack.WithCode(codeUndefined, api.Errorf(api.CodeInUse, "The trait %s is in use by a resource provider.", name)),
		})
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// sendTraits answers with the traits of a provider.
func (d *dialect) sendTraits(w http.ResponseWriter, r *http.Request, v *state.State, p *api.Provider) error {
	list := make([]state.Named, 0, len(p.Traits))
	for _, name := range p.Traits {
		if t, ok := v.Trait(name); ok {
			list = append(list, t)
		}
	}
	setModified(w, r, latestOf(list, d.Now()))
	return openstack.Answer(w, http.StatusOK, struct {
		Traits     []string `json:"traits"`
		Generation uint64   `json:"resource_provider_generation"`
	}{namesOf(list), p.Generation})
}

// listProviderTraits is GET /resource_providers/{uuid}/traits.
func (d *dialect) listProviderTraits(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	p, err := providerOf(v, r)
	if err != nil {
		return err
	}
	return d.sendTraits(w, r, v, p)
}

// setProviderTraits is PUT /resource_providers/{uuid}/traits.
func (d *dialect) setProviderTraits(w http.ResponseWriter, r *http.Request) error {
	body, err := openstack.ReadObject(r, traitsSchema)
	if err != nil {
		return err
	}
	v := d.Zone.View()
	p, err := providerOf(v, r)
	if err != nil {
		return err
	}
	want, err := checkGeneration(p, body["resource_provider_generation"])
	if err != nil {
		return err
	}
	list := setOf(readTexts(body["traits"]))
	var strange []string
	for _, name := range list {
		if _, known := v.Trait(name); !known {
			strange = append(strange, name)
		}
	}
	if len(strange) > 0 {
		return invalidError("No such trait %s", openstack.Cut(strings.Join(strange, ", ")))
	}
	if err = resources.SetTraits(r.Context(), d.Zone, p.ID, &want, list); err != nil {
		return err
	}
	v = d.View(w)
	if p, err = providerOf(v, r); err != nil {
		return err
	}
	return d.sendTraits(w, r, v, p)
}

// deleteProviderTraits is DELETE /resource_providers/{uuid}/traits.
func (d *dialect) deleteProviderTraits(w http.ResponseWriter, r *http.Request) error {
	p, err := providerOf(d.Zone.View(), r)
	if err != nil {
		return err
	}
	if err := resources.SetTraits(r.Context(), d.Zone, p.ID, nil, []string{}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
