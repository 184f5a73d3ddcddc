package state

import (
	"reflect"
	"slices"

	"berth/api"
)

// sharedMax is how many maps or lists of a kind are remembered for others that are equal.
const sharedMax = 1024

// alike remembers maps and lists of records, so that those of later ones that are equal are in
// memory once: hosts of one model, boots of one flavor. Nothing else depends on what it remembers.
// Clones have none: only whoever applies commands may use it.
type alike struct {
	inventories sharedMaps[api.ResourceClass, api.Inventory]
	resources   sharedMaps[api.ResourceClass, int64]
	texts       sharedMaps[string, string]
	lists       map[string][]string    // by their first item
	groups      map[uint64][]api.Group // by a hash
}

// sharedMaps are maps by a hash.
type sharedMaps[K ~string, V comparable] map[uint64]map[K]V

// shareAlike replaces *m by an equal map that is remembered, or remembers it. hash is that of a
// value.
func shareAlike[M ~map[K]V, K ~string, V comparable](t *sharedMaps[K, V], m *M, hash func(V) uint64) {
	if len(*m) == 0 {
		return
	}
	sum := hashMap(*m, hash)
	if known, ok := (*t)[sum]; ok {
		shareMap(m, M(known))
		return
	}
	if *t == nil || len(*t) >= sharedMax {
		*t = sharedMaps[K, V]{}
	}
	(*t)[sum] = *m
}

// hashMap returns a hash of a map.
func hashMap[M ~map[K]V, K ~string, V comparable](m M, hash func(V) uint64) uint64 {
	sum := uint64(len(m))
	for k, v := range m { // in any order: a sum
		sum += hashText(string(k))*31 ^ hash(v)
	}
	return sum
}

// hashText returns the FNV-1a hash of a text.
func hashText(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

func hashAmount(n int64) uint64 { return uint64(n) * 0x9e3779b97f4a7c15 } //nolint:gosec // of any sign

func hashInventory(v api.Inventory) uint64 { return hashAmount(v.Total)*31 ^ hashAmount(v.Reserved) }

// shareList replaces *list by an equal list that is remembered, or remembers it.
func (a *alike) shareList(list *[]string) {
	if len(*list) == 0 {
		return
	}
	known, ok := a.lists[(*list)[0]]
	if ok && slices.Equal(known, *list) {
		*list = known
		return
	}
	if a.lists == nil || len(a.lists) >= sharedMax {
		a.lists = map[string][]string{}
	}
	a.lists[(*list)[0]] = *list
}

// shareHost gives a host the maps and lists of hosts that are alike.
func (s *stockBook) shareHost(h *Host) {
	a := s.remembered()
	shareAlike(&a.inventories, &h.Inventory, hashInventory)
	shareAlike(&a.texts, &h.Attributes, hashText)
	a.shareList(&h.Traits)
}

// sharedGroups returns groups of a request that are equal to those given and share with others that
// are alike: the list as a whole, or else its maps.
func (s *stockBook) sharedGroups(groups []api.Group) []api.Group {
	a := s.remembered()
	sum := uint64(len(groups))
	for n := range groups {
		sum = sum*31 + hashText(string(groups[n].Flavor)) ^ hashAmount(int64(groups[n].Count)) ^ hashMap(groups[n].Resources, hashAmount)
	}
	if known, ok := a.groups[sum]; ok && reflect.DeepEqual(known, groups) {
		return known
	}
	own := slices.Clone(groups) // whoever has the others may read them meanwhile
	for n := range own {
		shareAlike(&a.resources, &own[n].Resources, hashAmount)
		shareAlike(&a.texts, &own[n].ExtraSpecs, hashText)
	}
	if a.groups == nil || len(a.groups) >= sharedMax {
		a.groups = map[uint64][]api.Group{}
	}
	a.groups[sum] = own
	return own
}

// shareMetadata gives metadata the texts of others that are alike.
func (s *stockBook) shareMetadata(m *map[string]string) {
	shareAlike(&s.remembered().texts, m, hashText)
}

// shareTerms gives the loaded terms of instances the maps of others that are alike.
func (s *stockBook) shareTerms(t *api.InstanceTerms) {
	s.shareMetadata(&t.Metadata)
	shareAlike(&s.remembered().resources, &t.Resources, hashAmount)
}

func (s *stockBook) remembered() *alike {
	if s.alike == nil {
		s.alike = &alike{}
	}
	return s.alike
}
