// Package table has the tables of a zone's state: ordered trees that are copied on write,
// and logs. A copy costs next to nothing and is an immutable view. The package knows nothing
// of the contents of a table.
package table

import "github.com/tidwall/btree"

// degree sets the size of a tree's nodes, at most 2*degree-1 items. The first change after a
// copy of the tree copies each node on its way down, and a smaller degree makes trees deeper.
const degree = 16

// Map is a table of values by key. One goroutine may change it; its copies may be read by
// any number.
type Map[V any] struct{ btree.Map[string, V] }

// Set is a table of keys. One goroutine may change it; its copies may be read by any
// number.
type Set struct{ keys btree.Map[string, struct{}] }

// Table is any of the tables of this package.
type Table interface {
	// Init makes the table an empty one.
	Init()
	// CopyFrom makes the table a copy of another of its own type, which goes on apart
	// from it. It panics over another type.
	CopyFrom(of Table)
	// CopyFinal is CopyFrom of a table that is not changed any more. It may be called
	// concurrently for one table.
	CopyFinal(of Table)
}

// Init implements Table.
func (m *Map[V]) Init() { m.Map = *btree.NewMap[string, V](degree) }

// CopyFrom implements Table.
func (m *Map[V]) CopyFrom(of Table) { m.Map = *of.(*Map[V]).Copy() } //nolint:forcetypeassert // as it says

// CopyFinal implements Table.
func (m *Map[V]) CopyFinal(of Table) {
	c := Map[V]{of.(*Map[V]).Map} //nolint:forcetypeassert // as it says
	m.CopyFrom(&c)                // this marks what is copied: not of
}

// Init implements Table.
func (s *Set) Init() { s.keys = *btree.NewMap[string, struct{}](degree) }

// CopyFrom implements Table.
func (s *Set) CopyFrom(of Table) { s.keys = *of.(*Set).keys.Copy() } //nolint:forcetypeassert // as it says

// CopyFinal implements Table.
func (s *Set) CopyFinal(of Table) {
	c := Set{of.(*Set).keys} //nolint:forcetypeassert // as it says
	s.CopyFrom(&c)
}

// Insert adds a key.
func (s *Set) Insert(k string) { s.keys.Set(k, struct{}{}) }

// Delete removes a key.
func (s *Set) Delete(k string) { s.keys.Delete(k) }

// Contains reports whether a key is in the set.
func (s *Set) Contains(k string) bool {
	_, ok := s.keys.Get(k)
	return ok
}

// Len returns the number of keys.
func (s *Set) Len() int { return s.keys.Len() }

// Keys returns the keys in order.
func (s *Set) Keys() []string { return s.keys.Keys() }

// Scan visits the keys in order until visit returns false.
func (s *Set) Scan(visit func(k string) bool) {
	s.keys.Scan(func(k string, _ struct{}) bool { return visit(k) })
}

// Ascend visits the keys from a first one on in order until visit returns false.
func (s *Set) Ascend(first string, visit func(k string) bool) {
	s.keys.Ascend(first, func(k string, _ struct{}) bool { return visit(k) })
}
