package candidates

import (
	"berth/api"
	"berth/capacity"
)

// Filter describes providers. An empty field admits all.
type Filter struct {
	IDs         []api.ProviderID // one of these; nil for any
	Name        *string          // exactly
	MemberOf    [][]string       // in at least one aggregate of each list
	NotMemberOf []string         // in none of these aggregates
	Resources   api.Resources    // has room for all of it from now on, as one claim
	InTree      api.ProviderID   // in the tree that this one is in; "" for any
	Traits      api.Traits
}

// Providers returns the rows of the providers that match f. A name in f that the view does
// not know matches nothing.
func Providers(v capacity.View, f *Filter) capacity.Set {
	out := v.Providers()
	if f.IDs != nil {
		named := capacity.NewSet(v.Rows())
		for _, id := range f.IDs {
			if row, known := v.Row(id); known {
				named.Add(row)
			}
		}
		out.And(named)
	}
	if f.Name != nil {
		named := capacity.NewSet(v.Rows())
		if row, known := v.Named(*f.Name); known {
			named.Add(row)
		}
		out.And(named)
	}
	if f.InTree != "" {
		tree, _ := treeOf(v, f.InTree)
		out.And(tree)
	}
	keepTraits(v, &out, f.Traits)
	keepMembers(v, &out, f.MemberOf)
	out.AndNot(v.AnyAggregate(f.NotMemberOf))
	keepRoom(v, &out, f.Resources)
	return out
}

// keepRoom removes from s the providers that cannot by themselves give r from now on for
// ever, as an allocation needs it. Nothing can be had of all, also of those that are reserved as a whole.
func keepRoom(v capacity.View, s *capacity.Set, r api.Resources) {
	if len(r) == 0 {
		return
	}
	v.KeepFittingAlone(s, r, api.Window{Start: v.Now(), End: api.Forever}, api.Firm)
}

// keepTraits removes from s the providers without the traits.
func keepTraits(v capacity.View, s *capacity.Set, t api.Traits) {
	for _, demand := range demandsOf(t) {
		s.And(anyTrait(v, demand))
	}
	s.AndNot(anyTrait(v, t.Forbidden))
}

// demandsOf returns the requirements of t as lists; a provider needs one trait of each.
func demandsOf(t api.Traits) [][]string {
	out := make([][]string, 0, len(t.Required)+len(t.AnyOf))
	for i := range t.Required {
		out = append(out, t.Required[i:i+1])
	}
	return append(out, t.AnyOf...)
}

// anyTrait returns the providers with at least one of some traits.
func anyTrait(v capacity.View, names []string) capacity.Set {
	out := capacity.NewSet(v.Rows())
	for _, name := range names {
		out.Or(v.Trait(name))
	}
	return out
}

// keepMembers removes from s the providers that are not in an aggregate of each list.
func keepMembers(v capacity.View, s *capacity.Set, lists [][]string) {
	for _, list := range lists {
		s.And(v.AnyAggregate(list))
	}
}

// treeOf returns the tree that a provider is in, and its root; the empty set if
// there is no such provider.
func treeOf(v capacity.View, id api.ProviderID) (tree capacity.Set, root int) {
	tree = capacity.NewSet(v.Rows())
	row, known := v.Row(id)
	if !known {
		return tree, -1
	}
	root = v.Root(row)
	for _, row := range v.Tree(root) {
		tree.Add(int(row))
	}
	return tree, root
}
