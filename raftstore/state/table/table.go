// Package table is what the tables of a zone's state are made of: ordered trees that are
// copied on write, so that a copy costs next to nothing and is an immutable view. It
// knows nothing of what a table holds.
package table

import "github.com/tidwall/btree"

// Map is a table of values by key. The zero value is empty. One goroutine may change it;
// its copies may be read by any number.
type Map[V any] struct{ btree.Map[string, V] }

// Set is a table of keys. The zero value is empty. One goroutine may change it; its
// copies may be read by any number.
type Set struct{ btree.Set[string] }

// Table is a Map or a Set.
type Table interface {
	// CopyFrom makes the table a copy of another of its own type, which goes on apart
	// from it. It panics over another type.
	CopyFrom(of Table)
}

// CopyFrom implements Table.
func (m *Map[V]) CopyFrom(of Table) { m.Map = *of.(*Map[V]).Copy() } //nolint:forcetypeassert // as it says

// CopyFrom implements Table.
func (s *Set) CopyFrom(of Table) { s.Set = *of.(*Set).Copy() } //nolint:forcetypeassert // as it says
