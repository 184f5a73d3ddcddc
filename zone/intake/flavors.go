package intake

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// flavorOf returns the flavor that s asks for.
func flavorOf(s rest.FlavorSpec) (api.Flavor, error) {
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
	if v, ok := f.ExtraSpecs[api.SpecPreemptible]; ok && !isText(v, "true") && !isText(v, "false") {
		return f, api.Errorf(api.CodeInvalid, "extra_specs: %s must be true or false, got %q", api.SpecPreemptible, v)
	}
	return f, checkTraitSpecs(f.ExtraSpecs)
}

// checkTraitSpecs refuses extra specs that name a trait and do not say clearly
// what is wanted of it, because hosts would be offered that must not be.
func checkTraitSpecs(specs map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(specs)) {
		name, is := strings.CutPrefix(key, traitSpec)
		if !is {
			continue
		}
		if !api.ValidTrait(name) {
			return api.Errorf(api.CodeInvalid, "extra_specs: %q must name a trait of A-Z 0-9 _", key)
		}
		if v := specs[key]; v != traitRequired && v != traitForbidden {
			return api.Errorf(api.CodeInvalid, "extra_specs: %s must be %s or %s, got %q", key, traitRequired, traitForbidden, v)
		}
	}
	return nil
}

// CreateFlavor makes a flavor and returns its id.
func CreateFlavor(ctx context.Context, z *zone.Zone, s rest.FlavorSpec) (api.FlavorID, error) {
	f, err := flavorOf(s)
	if err != nil {
		return "", err
	}
	_, err = z.Propose(ctx, command.FlavorPut{Stamp: z.Stamp(), Flavor: f})
	return f.ID, err
}

// ReplaceFlavor replaces a flavor by another one with its id.
func ReplaceFlavor(ctx context.Context, z *zone.Zone, id api.FlavorID, s rest.FlavorSpec) error {
	s.Name, s.ID = cmp.Or(s.Name, string(id)), cmp.Or(s.ID, string(id))
	f, err := flavorOf(s)
	if err != nil {
		return err
	}
	if f.ID != id {
		return api.Errorf(api.CodeInvalid, "the id of a flavor cannot be changed; make a new one")
	}
	return changeFlavor(ctx, z, id, command.FlavorPut{Stamp: z.Stamp(), Flavor: f, Replace: true})
}

// DeleteFlavor deletes a flavor.
func DeleteFlavor(ctx context.Context, z *zone.Zone, id api.FlavorID) error {
	return changeFlavor(ctx, z, id, command.FlavorDelete{Stamp: z.Stamp(), ID: id})
}

// changeFlavor proposes a change of a flavor that is there.
func changeFlavor(ctx context.Context, z *zone.Zone, id api.FlavorID, c command.Command) error {
	_, err := z.Change(ctx, c, func(v *state.State) error { _, err := Flavor(v, id); return err })
	return err
}
