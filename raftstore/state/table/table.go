// Package table has the tables of a zone's state: ordered trees that are copied on write,
// and logs. A copy costs next to nothing and is an immutable view. The package knows nothing
// of the contents of a table.
//
// The tree behind a table is in no field that a reader of the type can see. The Go compiler compiles
// all methods of a generic type again in each package that imports a type which has it in a
// field, for each type argument; the trees have some 70 methods and the state some 50 tables. An
// interface has no bodies to compile: only the package that makes a table compiles its tree.
package table

import "github.com/tidwall/btree"

// degree sets the size of a tree's nodes, at most 2*degree-1 items. The first change after a
// copy of the tree copies each node on its way down, and a smaller degree makes trees deeper.
const degree = 16

// Map is a table of values by key, in the order of the keys. One goroutine may change it; its
// views may be read by any number.
type Map[V any] interface {
	// Get returns the value of a key.
	Get(k string) (V, bool)
	// Set sets the value of a key, and returns the value that it had.
	Set(k string, v V) (V, bool)
	// Delete removes a key, and returns the value that it had.
	Delete(k string) (V, bool)
	// Len returns the number of keys.
	Len() int
	// Min returns the first key and its value.
	Min() (string, V, bool)
	// PopMin removes the first key, and returns it and its value.
	PopMin() (string, V, bool)
	// Keys returns the keys in order.
	Keys() []string
	// Values returns the values in the order of their keys.
	Values() []V
	// Scan visits the keys in order until visit returns false.
	Scan(visit func(k string, v V) bool)
	// Ascend visits the keys from a first one on in order until visit returns false.
	Ascend(first string, visit func(k string, v V) bool)

	view() Map[V]
	copyView() Map[V]
}

// NewMap returns an empty table.
func NewMap[V any]() Map[V] { return &mapTree[V]{tree: *btree.NewMap[string, V](degree)} }

type mapTree[V any] struct {
	tree btree.Map[string, V]
	guard[*mapTree[V]]
}

func (t *mapTree[V]) Get(k string) (V, bool) { return t.tree.Get(k) }

func (t *mapTree[V]) Set(k string, v V) (V, bool) {
	t.change()
	return t.tree.Set(k, v)
}

func (t *mapTree[V]) Delete(k string) (V, bool) {
	t.change()
	return t.tree.Delete(k)
}

func (t *mapTree[V]) PopMin() (string, V, bool) {
	t.change()
	return t.tree.PopMin()
}

func (t *mapTree[V]) Len() int { return t.tree.Len() }

func (t *mapTree[V]) Min() (string, V, bool) { return t.tree.Min() }

func (t *mapTree[V]) Keys() []string { return t.tree.Keys() }

func (t *mapTree[V]) Values() []V { return t.tree.Values() }

func (t *mapTree[V]) Scan(visit func(k string, v V) bool) { t.tree.Scan(visit) }

func (t *mapTree[V]) Ascend(first string, visit func(k string, v V) bool) {
	t.tree.Ascend(first, visit)
}

func (t *mapTree[V]) view() Map[V] {
	if t.shown == nil {
		t.shown = &mapTree[V]{tree: *t.tree.Copy()}
		t.shown.keep(t.shown)
	}
	return t.shown
}

func (t *mapTree[V]) copyView() Map[V] {
	of := t.tree // Copy marks what it copies
	return &mapTree[V]{tree: *of.Copy()}
}

// guard keeps the view of a tree of type T until the tree is changed.
type guard[T any] struct {
	shown  T // view of the tree as it is, zero since it was changed; the view of a view is itself
	isView bool
}

// keep makes the tree of g, which is own, a view.
func (g *guard[T]) keep(own T) { g.shown, g.isView = own, true }

// change is called before each change of the tree.
func (g *guard[T]) change() {
	if g.isView {
		panic("table: a view is changed")
	}
	var none T
	g.shown = none
}

// Table is any of the tables of this package.
type Table interface {
	// Init makes the table an empty one.
	Init()
	// SetView makes the table a view of another of its own type, which goes on apart from it:
	// a view must not be changed. Views of a table that has not changed are one, and cost
	// nothing. It panics over another type.
	SetView(of Table)
	// SetCopy makes the table a copy of a view. The copy may be changed. It may be called
	// concurrently for one view. It panics over another type.
	SetCopy(view Table)
}

// Of returns the Map that is or will be at m as a Table.
func Of[V any](m *Map[V]) Table { return place[V]{m} }

type place[V any] struct{ m *Map[V] }

// Init implements Table.
func (p place[V]) Init() { *p.m = NewMap[V]() }

// SetView implements Table.
func (p place[V]) SetView(of Table) { *p.m = (*of.(place[V]).m).view() } //nolint:forcetypeassert // as it says

// SetCopy implements Table.
func (p place[V]) SetCopy(view Table) { *p.m = (*view.(place[V]).m).copyView() } //nolint:forcetypeassert // as it says
