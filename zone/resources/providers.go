// Package resources has the writes of the resource model: providers, inventories,
// traits, resource classes and allocations. It knows no HTTP and no dialect; a dialect
// adds its own words to refusals.
//
// Every function may be called twice (see zone.Confirmed) and changes nothing when it
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

// repeatMax bounds the attempts of a change without a generation when other writers
// interfere.
const repeatMax = 10

// Inventories are the inventories of a provider by class.
type Inventories map[api.ResourceClass]api.Inventory

// CreateProvider makes a provider, below parent unless that is "".
func CreateProvider(ctx context.Context, z *zone.Zone, id api.ProviderID, name string, parent api.ProviderID) error {
	_, err := z.Propose(ctx, command.ProviderCreate{Stamp: z.Stamp(), ID: id, Name: name, Parent: parent})
	return err
}

// RenameProvider sets the name of a provider, and its parent unless parent is nil; ""
// makes it a root.
func RenameProvider(ctx context.Context, z *zone.Zone, id api.ProviderID, name string, parent *api.ProviderID) error {
	c := command.ProviderSet{ID: id, Name: &name, Parent: parent}
	if parent == nil {
		return setProvider(ctx, z, c)
	}
	if err := z.Check(ctx, func(v *state.State) error {
		if p, ok := v.Provider(id); ok && p.Parent == *parent {
			return nil
		}
		return checkTraits(v, id, nil)
	}); err != nil {
		return err
	}
	return setProvider(ctx, z, c)
}

// DeleteProvider deletes a provider.
func DeleteProvider(ctx context.Context, z *zone.Zone, id api.ProviderID) error {
	c := command.ProviderDelete{Stamp: z.Stamp(), ID: id}
	_, err := z.Change(ctx, c, func(v *state.State) error { return checkTraits(v, id, nil) })
	return err
}

// SetInventories replaces all inventories of a provider at its current generation.
func SetInventories(ctx context.Context, z *zone.Zone, id api.ProviderID, generation uint64, all Inventories) error {
	set := map[api.ResourceClass]api.Inventory(all)
	return setProvider(ctx, z, command.ProviderSet{ID: id, Generation: &generation, Inventory: &set})
}

// EditInventories replaces the inventories of a provider by the result of edit, at the
// generation that edit saw, and retries when another writer was first. It fails with
// CodeStale after repeatMax attempts.
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

// SetTraits replaces all traits of a provider, at a generation unless that is nil. It fails with CodeInUse if what
// stands on the host was asked for with one that the host would have no more.
func SetTraits(ctx context.Context, z *zone.Zone, id api.ProviderID, generation *uint64, traits []string) error {
	if err := z.Check(ctx, func(v *state.State) error { return checkTraits(v, id, traits) }); err != nil {
		return err
	}
	return setProvider(ctx, z, command.ProviderSet{ID: id, Generation: generation, Traits: &traits})
}

// checkTraits refuses to leave a provider just some traits, nil to take it from its host, if what stands on the host
// was asked for with another one: no host would take that for it when it is moved, healed or updated.
func checkTraits(v *state.State, id api.ProviderID, traits []string) error {
	d, used := v.TraitInUse(id, traits)
	if !used {
		return nil
	}
	return api.Errorf(api.CodeInUse, "the host must keep the trait %s: %s was asked for with it; end or move that first", d.String(), state.DescribeStanding(d.Of[0]))
}

// SetProviderAggregates replaces the aggregates of a provider. A generation must be the
// current one, and rises by one.
func SetProviderAggregates(ctx context.Context, z *zone.Zone, id api.ProviderID, generation *uint64, ids []string) error {
	return setProvider(ctx, z, command.ProviderSet{ID: id, Generation: generation, Aggregates: &ids, Bump: generation != nil})
}

func setProvider(ctx context.Context, z *zone.Zone, c command.ProviderSet) error {
	c.Stamp = z.Stamp()
	_, err := z.Propose(ctx, c)
	return err
}

// PutTrait ensures that a custom trait exists, and reports whether it is new.
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

// CreateClass creates a custom resource class; it fails with CodeExists if there is
// one.
func CreateClass(ctx context.Context, z *zone.Zone, name api.ResourceClass) error {
	_, err := z.Propose(ctx, command.ClassPut{Stamp: z.Stamp(), Name: name})
	return err
}

// PutClass ensures that a custom resource class exists, and reports whether it is new.
func PutClass(ctx context.Context, z *zone.Zone, name api.ResourceClass) (made bool, err error) {
	there, err := isConfirmed(ctx, z, func(v *state.State) bool { _, ok := v.ResourceClass(name); return ok })
	if there || err != nil {
		return false, err
	}
	err = CreateClass(ctx, z, name)
	if api.CodeOf(err) == api.CodeExists { // another caller was faster
		return false, nil
	}
	return err == nil, err
}

// RenameClass renames a custom resource class.
func RenameClass(ctx context.Context, z *zone.Zone, was, name api.ResourceClass) error {
	_, err := z.Propose(ctx, command.ClassPut{Stamp: z.Stamp(), Name: name, Was: was})
	return err
}

// DeleteClass deletes a custom resource class.
func DeleteClass(ctx context.Context, z *zone.Zone, name api.ResourceClass) error {
	_, err := z.Propose(ctx, command.ClassDelete{Stamp: z.Stamp(), Name: name})
	return err
}

// isConfirmed reports whether something exists in a confirmed state. It is for writes
// that do nothing if it exists, so the view of this node alone does not count.
func isConfirmed(ctx context.Context, z *zone.Zone, there func(*state.State) bool) (bool, error) {
	if !there(z.View()) {
		return false, nil // the log decides
	}
	v, err := z.Latest(ctx)
	if err != nil {
		return false, err
	}
	return there(v), nil
}
