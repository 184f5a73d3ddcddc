// Package resources has the writes of the resource model: providers and what they have,
// traits, resource classes, and what consumers take. It knows no HTTP and no dialect;
// what a refusal says in the words of one is for that dialect to add.
//
// Every function may be called twice (see zone.Confirmed), and changes nothing when it
// refuses.
package resources

import (
	"context"
	"maps"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// repeatMax is how often a change for no generation is tried when another writer gets
// there first.
const repeatMax = 10

// Inventories are what a provider has, by class.
type Inventories map[api.ResourceClass]api.Inventory

// CreateProvider makes a provider, below parent unless that is "".
func CreateProvider(ctx context.Context, z *zone.Zone, id api.ProviderID, name string, parent api.ProviderID) error {
	_, err := z.Propose(ctx, command.ProviderCreate{Stamp: z.Stamp(), ID: id, Name: name, Parent: parent})
	return err
}

// RenameProvider gives a provider a name, and a parent unless that is nil; "" makes it a
// root.
func RenameProvider(ctx context.Context, z *zone.Zone, id api.ProviderID, name string, parent *api.ProviderID) error {
	return setProvider(ctx, z, command.ProviderSet{ID: id, Name: &name, Parent: parent})
}

// DeleteProvider deletes a provider.
func DeleteProvider(ctx context.Context, z *zone.Zone, id api.ProviderID) error {
	_, err := z.Propose(ctx, command.ProviderDelete{Stamp: z.Stamp(), ID: id})
	return err
}

// SetInventories replaces all inventories of a provider that is at a generation.
func SetInventories(ctx context.Context, z *zone.Zone, id api.ProviderID, generation uint64, all Inventories) error {
	set := map[api.ResourceClass]api.Inventory(all)
	return setProvider(ctx, z, command.ProviderSet{ID: id, Generation: &generation, Inventory: &set})
}

// EditInventories replaces the inventories of a provider by what edit makes of them, at
// the generation at which edit saw them, and again when another writer was first. It
// fails with CodeStale after repeatMax times.
func EditInventories(ctx context.Context, z *zone.Zone, id api.ProviderID, edit func(*state.State, *api.Provider, Inventories) error) error {
	for n := 1; ; n++ {
		v := z.View()
		p, ok := v.Provider(id)
		if !ok {
			return api.Errorf(api.CodeNotFound, "No resource provider with uuid %s found", id)
		}
		all := Inventories{}
		maps.Copy(all, p.Inventory)
		if err := edit(v, p, all); err != nil {
			return err
		}
		if err := SetInventories(ctx, z, id, p.Generation, all); api.CodeOf(err) != api.CodeStale || n == repeatMax {
			return err
		}
	}
}

// SetTraits replaces all traits of a provider, at a generation unless that is nil.
func SetTraits(ctx context.Context, z *zone.Zone, id api.ProviderID, generation *uint64, traits []string) error {
	return setProvider(ctx, z, command.ProviderSet{ID: id, Generation: generation, Traits: &traits})
}

// SetProviderAggregates replaces the aggregates that a provider is in. With a generation,
// the provider must be at it and goes one on.
func SetProviderAggregates(ctx context.Context, z *zone.Zone, id api.ProviderID, generation *uint64, ids []string) error {
	return setProvider(ctx, z, command.ProviderSet{ID: id, Generation: generation, Aggregates: &ids, Bump: generation != nil})
}

func setProvider(ctx context.Context, z *zone.Zone, c command.ProviderSet) error {
	c.Stamp = z.Stamp()
	_, err := z.Propose(ctx, c)
	return err
}

// PutTrait makes a custom trait, and reports whether it was not there.
func PutTrait(ctx context.Context, z *zone.Zone, name string) (made bool, err error) {
	there, err := isConfirmed(ctx, z, func(v *state.State) bool { _, ok := v.Trait(name); return ok })
	if there || err != nil {
		return false, err
	}
	_, err = z.Propose(ctx, command.TraitPut{Stamp: z.Stamp(), Name: name})
	return err == nil, err
}

// DeleteTrait deletes a custom trait.
func DeleteTrait(ctx context.Context, z *zone.Zone, name string) error {
	_, err := z.Propose(ctx, command.TraitDelete{Stamp: z.Stamp(), Name: name})
	return err
}

// CreateClass makes a custom resource class; it fails with CodeExists if it is there.
func CreateClass(ctx context.Context, z *zone.Zone, name api.ResourceClass) error {
	_, err := z.Propose(ctx, command.ClassPut{Stamp: z.Stamp(), Name: name})
	return err
}

// PutClass makes a custom resource class, and reports whether it was not there.
func PutClass(ctx context.Context, z *zone.Zone, name api.ResourceClass) (made bool, err error) {
	there, err := isConfirmed(ctx, z, func(v *state.State) bool { _, ok := v.ResourceClass(name); return ok })
	if there || err != nil {
		return false, err
	}
	err = CreateClass(ctx, z, name)
	if api.CodeOf(err) == api.CodeExists { // somebody was faster
		return false, nil
	}
	return err == nil, err
}

// RenameClass gives a custom resource class another name.
func RenameClass(ctx context.Context, z *zone.Zone, was, name api.ResourceClass) error {
	_, err := z.Propose(ctx, command.ClassPut{Stamp: z.Stamp(), Name: name, Was: was})
	return err
}

// DeleteClass deletes a custom resource class.
func DeleteClass(ctx context.Context, z *zone.Zone, name api.ResourceClass) error {
	_, err := z.Propose(ctx, command.ClassDelete{Stamp: z.Stamp(), Name: name})
	return err
}

// isConfirmed reports whether something is there, for a write that has nothing to do
// then: so what is there in the view of this node alone does not count.
func isConfirmed(ctx context.Context, z *zone.Zone, there func(*state.State) bool) (bool, error) {
	if !there(z.View()) {
		return false, nil // the log has the last word
	}
	v, err := z.Latest(ctx)
	if err != nil {
		return false, err
	}
	return there(v), nil
}
