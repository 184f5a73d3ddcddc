package state

import (
	"maps"

	"berth/api"
)

// What the records of one boot have in common is in memory once. Each record is decoded apart,
// from an entry or a snapshot, with texts and maps of its own; these functions give it those of
// records that are there already, where they are equal. Nothing else depends on it.

// findSpec returns the identity with an id from the place *next on, and moves that behind it; nil
// for none. Holds mostly have the instances of their boot in its order.
func findSpec(specs []api.InstanceSpec, next *int, id api.InstanceID) *api.InstanceSpec {
	for n := *next; n < len(specs); n++ {
		if specs[n].ID == id {
			*next = n + 1
			return &specs[n]
		}
		if n-*next == specsSearched {
			break
		}
	}
	return nil
}

// specsSearched is how many identities of a boot are passed over: those that a child has.
const specsSearched = 64

// shareMap replaces *m by of if they are equal.
func shareMap[M ~map[K]V, K, V comparable](m *M, of M) {
	if len(*m) > 0 && maps.Equal(*m, of) {
		*m = of
	}
}

// shareSpec replaces the texts of *s by those of of, which has the same id.
func shareSpec(s *api.InstanceSpec, of api.InstanceSpec) {
	s.ID = of.ID
	if s.Name == of.Name {
		s.Name = of.Name
	}
}

// sharedStatus returns a status with the text of the constant.
func sharedStatus(st api.Status) api.Status {
	for _, known := range [...]api.Status{
		api.StatusActive, api.StatusBuild, api.StatusShutoff, api.StatusError, api.StatusDeleting, api.StatusDeleted,
	} {
		if st == known {
			return known
		}
	}
	return st
}
