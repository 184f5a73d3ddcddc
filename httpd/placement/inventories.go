package placement

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"berth/api"
	"berth/httpd/openstack"
	"berth/raftstore/state"
	"berth/zone/resources"
)

// reservable is the first microversion in which an inventory may be reserved
// completely.
const reservable version = 26

// inventory is one inventory in answers.
type inventory struct {
	Total      int64   `json:"total"`
	Reserved   int64   `json:"reserved"`
	MinUnit    int64   `json:"min_unit"`
	MaxUnit    int64   `json:"max_unit"`
	StepSize   int64   `json:"step_size"`
	Ratio      ratio   `json:"allocation_ratio"`
	Generation *uint64 `json:"resource_provider_generation,omitempty"`
}

// ratio is an allocation ratio in answers: a number with a decimal point.
type ratio api.Ratio

// MarshalJSON implements json.Marshaler.
func (r ratio) MarshalJSON() ([]byte, error) {
	b, err := api.Ratio(r).MarshalJSON()
	if err == nil && api.Ratio(r)%api.RatioOne == 0 {
		b = append(b, ".0"...)
	}
	return b, err
}

func showInventory(v api.Inventory, generation *uint64) inventory {
	v = v.Normal()
	return inventory{
		Total: v.Total, Reserved: v.Reserved, MinUnit: v.MinUnit, MaxUnit: max(v.MaxUnit, 1), StepSize: v.StepSize,
		Ratio: ratio(v.AllocationRatio), Generation: generation,
	}
}

// Schemas of inventories.
var (
	amountSchema     = &openstack.Schema{Kind: openstack.Integer, Least: 1, Most: api.UnitMax}
	generationSchema = &openstack.Schema{Kind: openstack.Integer}

	recordSchema       = newRecord("total")
	inventorySchema    = newRecord("total", "resource_provider_generation")
	newInventorySchema = func() *openstack.Schema {
		s := newRecord("total", "resource_class")
		s.Fields["resource_class"] = &openstack.Schema{Kind: openstack.String, Pattern: nameClass}
		return s
	}()
	inventoriesSchema = &openstack.Schema{
		Kind: openstack.Object, Required: []string{"resource_provider_generation", "inventories"},
		Fields: map[string]*openstack.Schema{
			"resource_provider_generation": generationSchema,
			"inventories":                  byClassSchema,
		},
	}
	// byClassSchema accepts other names, because they are unknown classes.
	byClassSchema = &openstack.Schema{Kind: openstack.Object, Names: anyName, Each: recordSchema}
)

func newRecord(required ...string) *openstack.Schema {
	return &openstack.Schema{Kind: openstack.Object, Required: required, Fields: map[string]*openstack.Schema{
		"resource_provider_generation": generationSchema,
		"total":                        amountSchema,
		"reserved":                     {Kind: openstack.Integer, Least: 0, Most: api.UnitMax},
		"min_unit":                     amountSchema,
		"max_unit":                     amountSchema,
		"step_size":                    amountSchema,
		"allocation_ratio":             {Kind: openstack.Number, Parse: ratioOf},
	}}
}

// inventoryOf reads one inventory of a provider that matches its schema. at is the
// microversion of the call. Of a class that the agent of a host reports, what the body does not have
// is as reported, and follows the reports.
func inventoryOf(p *api.Provider, class string, body map[string]any, at version) (api.Inventory, error) {
	of := func(name string, absent int64) int64 {
		if n, ok := body[name].(int64); ok {
			return n
		}
		return absent
	}
	v := api.Inventory{
		Total: of("total", 0), Reserved: of("reserved", 0), MaxUnit: of("max_unit", api.UnitMax),
		StepSize: of("step_size", 1), AllocationRatio: api.RatioOne,
	}
	v.MinUnit = of("min_unit", v.StepSize)
	if reported, follows := p.Reported[api.ResourceClass(class)]; follows {
		reported = reported.Normal()
		v.Reserved, v.AllocationRatio = of("reserved", min(reported.Reserved, v.Total)), reported.AllocationRatio
		v.MaxUnit, v.StepSize = of("max_unit", 0), of("step_size", reported.StepSize)
		v.MinUnit = of("min_unit", reported.MinUnit)
		if _, named := body["min_unit"]; !named && v.StepSize != reported.StepSize {
			v.MinUnit = v.StepSize
		}
	}
	if r, given := body["allocation_ratio"].(readRatio); given {
		v.AllocationRatio = r.Ratio
	}
	const refused = "Invalid inventory for '%s' on resource provider '%s': "
	switch {
	case v.Reserved > v.Total:
		return v, invalidError(refused+"more is reserved than there is", openstack.Cut(class), p.ID)
	case at < reservable && v.Capacity() < 1:
		return v, invalidError(refused+"nothing is left of it, and all of it may be reserved from microversion %s on", openstack.Cut(class), p.ID, reservable)
	}
	return v, nil
}

// readRatio is an allocation ratio from a body.
type readRatio struct {
	api.Ratio
	rounded bool // it had more than four decimal places
}

// ratioOf reads an allocation ratio and rounds it to four decimal places, the precision
// of ratios.
func ratioOf(place string, n json.Number) (any, error) {
	f, err := n.Float64()
	r := math.Round(f * float64(api.RatioOne))
	switch {
	case err == nil && r < 1:
		return nil, openstack.Broken(place, "minimum", "%s is less than the minimum of 0.0001", openstack.Cut(string(n)))
	case err != nil || r > float64(api.RatioMax):
		return nil, openstack.Broken(place, "maximum", "%s is greater than the maximum of %d", openstack.Cut(string(n)), api.RatioMax/api.RatioOne)
	}
	return readRatio{api.Ratio(r), r/float64(api.RatioOne) != f}, nil
}

// isRounded reports whether the ratio of an inventory in a body was rounded.
func isRounded(body any) bool {
	one, _ := body.(map[string]any)
	r, _ := one["allocation_ratio"].(readRatio)
	return r.rounded
}

// hasInventories reports whether a provider already has these inventories at a
// generation, in a state with everything acknowledged before. It is used when a ratio
// was rounded: a client that compares the stored ratio with its own writes the same
// again and again, and such a write must change nothing and use no generation.
func (d *dialect) hasInventories(ctx context.Context, id api.ProviderID, generation uint64, set map[api.ResourceClass]api.Inventory) (bool, error) {
	v, err := d.Zone.Latest(ctx)
	if err != nil {
		return false, err
	}
	p, ok := v.Provider(id)
	return ok && p.Generation == generation && maps.EqualFunc(p.Inventory, v.InventoryAfter(id, set), func(a, b api.Inventory) bool { return a.Normal() == b.Normal() }), nil
}

// replaceInventories sets all inventories of a provider at a generation. rounded is
// true if one of their ratios was rounded.
func (d *dialect) replaceInventories(ctx context.Context, id api.ProviderID, generation uint64, set map[api.ResourceClass]api.Inventory, rounded bool) error {
	if rounded {
		if same, err := d.hasInventories(ctx, id, generation, set); same || err != nil {
			return err
		}
	}
	return resources.SetInventories(ctx, d.Zone, id, generation, set)
}

// checkGeneration refuses a write for another generation than the current one.
func checkGeneration(p *api.Provider, v any) (uint64, error) {
	n, possible := readGeneration(v)
	if !possible || n != p.Generation {
		return n, conflictError("resource provider generation conflict: its generation already changed, for provider %s has another (actual: %d, given: %v). Please update the generation and try again.", p.ID, p.Generation, v)
	}
	return n, nil
}

// sendInventories answers with all inventories of a provider.
func (d *dialect) sendInventories(w http.ResponseWriter, r *http.Request, p *api.Provider) error {
	out := struct {
		Generation  uint64                          `json:"resource_provider_generation"`
		Inventories map[api.ResourceClass]inventory `json:"inventories"`
	}{p.Generation, map[api.ResourceClass]inventory{}}
	for class, v := range p.Inventory {
		out.Inventories[class] = showInventory(v, nil)
	}
	setModified(w, r, p.Updated.Time())
	if len(out.Inventories) == 0 {
		w.Header().Del("Last-Modified") // there is nothing to have been modified
	}
	return openstack.Answer(w, http.StatusOK, out)
}

// listInventories is GET /resource_providers/{uuid}/inventories.
func (d *dialect) listInventories(w http.ResponseWriter, r *http.Request) error {
	p, err := providerOf(d.View(w), r)
	if err != nil {
		return err
	}
	return d.sendInventories(w, r, p)
}

// showInventory is GET /resource_providers/{uuid}/inventories/{resource_class}.
func (d *dialect) showInventory(w http.ResponseWriter, r *http.Request) error {
	p, err := providerOf(d.View(w), r)
	if err != nil {
		return err
	}
	return d.sendInventory(w, r, p, r.PathValue("resource_class"), http.StatusOK)
}

// sendInventory answers with one inventory of a provider.
func (d *dialect) sendInventory(w http.ResponseWriter, r *http.Request, p *api.Provider, class string, status int) error {
	v, ok := p.Inventory[api.ResourceClass(class)]
	if !ok {
		return notFound("No inventory of class %s for %s", openstack.Cut(class), p.ID)
	}
	setModified(w, r, p.Updated.Time())
	return openstack.Answer(w, status, showInventory(v, &p.Generation))
}

// createInventory is POST /resource_providers/{uuid}/inventories.
func (d *dialect) createInventory(w http.ResponseWriter, r *http.Request) error {
	p, err := providerOf(d.Zone.View(), r)
	if err != nil {
		return err
	}
	body, err := openstack.ReadObject(r, newInventorySchema)
	if err != nil {
		return err
	}
	class, _ := body["resource_class"].(string)
	inv, err := inventoryOf(p, class, body, versionOf(r))
	if err != nil {
		return err
	}
	err = resources.EditInventories(r.Context(), d.Zone, p.ID, func(v *state.State, p *api.Provider, set resources.Inventories) error {
		if unknown := knownClass(v, class); unknown != nil {
			return unknown
		}
		if _, there := set[api.ResourceClass(class)]; there {
			return openstack.WithCode(codeConcurrent, api.Errorf(api.CodeExists, "Update conflict: provider %s has an inventory of %s already", p.ID, class))
		}
		set[api.ResourceClass(class)] = inv
		return nil
	})
	if err != nil {
		return err
	}
	return d.writeInventory(w, r, p.ID, class, http.StatusCreated)
}

// writeInventory answers with an inventory that was written.
func (d *dialect) writeInventory(w http.ResponseWriter, r *http.Request, id api.ProviderID, class string, status int) error {
	p, ok := d.View(w).Provider(id)
	if !ok {
		return notFound("No resource provider with uuid %s found", id)
	}
	if status == http.StatusCreated {
		d.Locate(w, r, providerPath(id)+"/inventories/"+class)
	}
	return d.sendInventory(w, r, p, class, status)
}

// knownClass refuses an unknown class.
func knownClass(v *state.State, name string) error {
	if _, ok := v.ResourceClass(api.ResourceClass(name)); !ok {
		return invalidError("Unknown resource class in inventory: No such resource class %s", openstack.Cut(name))
	}
	return nil
}

// setInventories is PUT /resource_providers/{uuid}/inventories.
func (d *dialect) setInventories(w http.ResponseWriter, r *http.Request) error {
	view := d.Zone.View()
	p, err := providerOf(view, r)
	if err != nil {
		return err
	}
	body, err := openstack.ReadObject(r, inventoriesSchema)
	if err != nil {
		return err
	}
	want, err := checkGeneration(p, body["resource_provider_generation"])
	if err != nil {
		return err
	}
	all, _ := body["inventories"].(map[string]any)
	set, err := inventoriesOf(view, p, all, versionOf(r))
	if err != nil {
		return err
	}
	rounded := slices.ContainsFunc(slices.Collect(maps.Values(all)), isRounded)
	if err = d.replaceInventories(r.Context(), p.ID, want, set, rounded); err != nil {
		return d.inUse("update conflict: ", p.ID, set, err)
	}
	if p, err = providerOf(d.View(w), r); err != nil {
		return err
	}
	return d.sendInventories(w, r, p)
}

// inventoriesOf reads inventories of a provider by class. Of several errors it returns
// that of the first class.
func inventoriesOf(v *state.State, p *api.Provider, all map[string]any, at version) (map[api.ResourceClass]api.Inventory, error) {
	out := make(map[api.ResourceClass]api.Inventory, len(all))
	for _, class := range slices.Sorted(maps.Keys(all)) {
		one, _ := all[class].(map[string]any)
		inv, err := inventoryOf(p, class, one, at)
		if err == nil {
			err = knownClass(v, class)
		}
		if err != nil {
			return nil, err
		}
		out[api.ResourceClass(class)] = inv
	}
	return out, nil
}

// inUse names the classes of a provider that cannot be removed because they are in use,
// if that is what err reports. stays are the classes that were to remain.
func (d *dialect) inUse(start string, id api.ProviderID, stays map[api.ResourceClass]api.Inventory, err error) error {
	p, ok := d.Zone.View().Provider(id)
	if api.CodeOf(err) != api.CodeInUse || !ok {
		return err
	}
	var used []string
	for _, class := range p.Used.Classes() {
		if _, left := stays[class]; !left {
			used = append(used, string(class))
		}
	}
	return api.Errorf(api.CodeInUse, "%sInventory for '%s' on resource provider '%s' in use.", start, strings.Join(used, ", "), id)
}

// updateInventory is PUT /resource_providers/{uuid}/inventories/{resource_class}.
func (d *dialect) updateInventory(w http.ResponseWriter, r *http.Request) error {
	p, err := providerOf(d.Zone.View(), r)
	if err != nil {
		return err
	}
	body, err := openstack.ReadObject(r, inventorySchema)
	if err != nil {
		return err
	}
	want, err := checkGeneration(p, body["resource_provider_generation"])
	if err != nil {
		return err
	}
	class := r.PathValue("resource_class")
	inv, err := inventoryOf(p, class, body, versionOf(r))
	if err != nil {
		return err
	}
	if _, known := d.Zone.View().ResourceClass(api.ResourceClass(class)); !known {
		return notFound("No such resource class %s", openstack.Cut(class))
	}
	if _, there := p.Inventory[api.ResourceClass(class)]; !there {
		return invalidError("No inventory of class %s found on resource provider %s", class, p.ID)
	}
	set := maps.Clone(p.Inventory)
	set[api.ResourceClass(class)] = inv
	if err = d.replaceInventories(r.Context(), p.ID, want, set, isRounded(body)); err != nil {
		return err
	}
	return d.writeInventory(w, r, p.ID, class, http.StatusOK)
}

// deleteInventory is DELETE /resource_providers/{uuid}/inventories/{resource_class}.
func (d *dialect) deleteInventory(w http.ResponseWriter, r *http.Request) error {
	p, err := providerOf(d.Zone.View(), r)
	if err != nil {
		return err
	}
	class := r.PathValue("resource_class")
	err = resources.EditInventories(r.Context(), d.Zone, p.ID, func(_ *state.State, _ *api.Provider, set resources.Inventories) error {
		if _, there := set[api.ResourceClass(class)]; !there {
			return notFound("No inventory of class %s found for delete", openstack.Cut(class))
		}
		delete(set, api.ResourceClass(class))
		return nil
	})
	if err != nil {
		stays := maps.Clone(p.Inventory)
		delete(stays, api.ResourceClass(class))
		return withCode(api.CodeInUse, codeConcurrent, d.inUse("Unable to delete inventory of class "+class+": ", p.ID, stays, err))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// deleteInventories is DELETE /resource_providers/{uuid}/inventories.
func (d *dialect) deleteInventories(w http.ResponseWriter, r *http.Request) error {
	p, err := providerOf(d.Zone.View(), r)
	if err != nil {
		return err
	}
	err = resources.EditInventories(r.Context(), d.Zone, p.ID, func(_ *state.State, _ *api.Provider, set resources.Inventories) error {
		clear(set)
		return nil
	})
	if err != nil {
		return d.inUse("", p.ID, nil, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
