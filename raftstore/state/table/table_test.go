package table

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// kind is one of the tables, and what a test knows of its contents.
type kind[T Table, M any] struct {
	empty  func() T
	change func(t *rapid.T, table T, want M) M // makes one random change of a table and of what is wanted
	same   func(M) M                           // a copy of what is wanted
	check  func(t *rapid.T, table T, want M)
}

// play makes random changes of tables, takes views of them, and copies of these views: each goes on
// apart from the others, and a view stays as it is.
func (k kind[T, M]) play(t *testing.T) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		var none M
		first := k.empty()
		first.Init()
		tables, want := []T{first}, []M{k.same(none)}
		var views []T
		var seen []M
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, len(tables)-1).Draw(t, "which")
			switch v := k.empty(); rapid.IntRange(0, 12).Draw(t, "what") {
			case 0:
				v.SetView(tables[i])
				views, seen = append(views, v), append(seen, k.same(want[i]))
			case 1:
				v.SetView(tables[i])
				again := k.empty()
				again.SetView(v)
				views, seen = append(views, again), append(seen, k.same(want[i]))
			case 2:
				if len(views) > 0 {
					of := rapid.IntRange(0, len(views)-1).Draw(t, "view")
					v.SetCopy(views[of])
					tables, want = append(tables, v), append(want, k.same(seen[of]))
				}
			default:
				want[i] = k.change(t, tables[i], want[i])
			}
		}
		for i := range tables {
			k.check(t, tables[i], want[i])
		}
		for i := range views {
			k.check(t, views[i], seen[i])
		}
	})
}

var key = rapid.StringMatching("[a-c]{0,3}")

// mapAt is a Map as a Table.
type mapAt struct {
	Table
	m *Map[int]
}

func (m mapAt) SetView(of Table) { m.Table.SetView(of.(mapAt).Table) } //nolint:forcetypeassert // a test
func (m mapAt) SetCopy(of Table) { m.Table.SetCopy(of.(mapAt).Table) } //nolint:forcetypeassert // a test

func TestMap(t *testing.T) {
	kind[mapAt, map[string]int]{
		empty: func() mapAt {
			m := new(Map[int])
			return mapAt{Of(m), m}
		},
		same: cloneOf[int],
		change: func(t *rapid.T, table mapAt, want map[string]int) map[string]int {
			k, m := key.Draw(t, "key"), *table.m
			was, there := want[k]
			switch rapid.IntRange(0, 4).Draw(t, "change") {
			case 0:
				old, ok := m.Delete(k)
				require.Equal(t, [2]any{was, there}, [2]any{old, ok})
				delete(want, k)
			case 1:
				least, v, ok := m.PopMin()
				require.Equal(t, len(want) > 0, ok)
				if ok {
					require.Equal(t, slices.Min(slices.Collect(maps.Keys(want))), least)
					require.Equal(t, want[least], v)
				}
				delete(want, least)
			default:
				n := rapid.Int().Draw(t, "value")
				old, ok := m.Set(k, n)
				require.Equal(t, [2]any{was, there}, [2]any{old, ok})
				want[k] = n
			}
			return want
		},
		check: func(t *rapid.T, table mapAt, want map[string]int) { checkMap(t, *table.m, want) },
	}.play(t)
}

func cloneOf[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return maps.Clone(m)
}

func checkMap(t *rapid.T, m Map[int], want map[string]int) {
	keys := slices.Sorted(maps.Keys(want))
	require.Equal(t, len(keys), m.Len())
	require.Equal(t, append([]string{}, keys...), append([]string{}, m.Keys()...))
	var scanned, from []string
	m.Scan(func(k string, v int) bool {
		scanned = append(scanned, k)
		require.Equal(t, want[k], v)
		return len(scanned) < 2
	})
	require.Equal(t, append([]string{}, keys[:min(2, len(keys))]...), append([]string{}, scanned...))
	least, v, ok := m.Min()
	require.Equal(t, len(keys) > 0, ok)
	for i, k := range keys {
		got, ok := m.Get(k)
		require.True(t, ok)
		require.Equal(t, want[k], got)
		require.Equal(t, want[k], m.Values()[i])
		if i == 0 {
			require.Equal(t, k, least)
			require.Equal(t, want[k], v)
		}
	}
	m.Ascend("b", func(k string, _ int) bool {
		from = append(from, k)
		return true
	})
	at, _ := slices.BinarySearch(keys, "b")
	require.Equal(t, append([]string{}, keys[at:]...), append([]string{}, from...))
	_, ok = m.Get("d")
	require.False(t, ok)
}

func TestSet(t *testing.T) {
	kind[*Set, map[string]bool]{
		empty: func() *Set { return &Set{} },
		same:  cloneOf[bool],
		change: func(t *rapid.T, s *Set, want map[string]bool) map[string]bool {
			k := key.Draw(t, "key")
			if rapid.IntRange(0, 3).Draw(t, "change") == 0 {
				s.Delete(k)
				delete(want, k)
			} else {
				s.Insert(k)
				want[k] = true
			}
			return want
		},
		check: func(t *rapid.T, s *Set, want map[string]bool) {
			keys := slices.Sorted(maps.Keys(want))
			require.Equal(t, len(keys), s.Len())
			var scanned, from []string
			s.Scan(func(k string) bool {
				scanned = append(scanned, k)
				return true
			})
			s.Ascend("b", func(k string) bool {
				from = append(from, k)
				return false
			})
			require.Equal(t, keys, scanned)
			least, ok := s.Min()
			require.Equal(t, len(keys) > 0, ok)
			if ok {
				require.Equal(t, keys[0], least)
			}
			require.Equal(t, append([]string{}, keys...), append([]string{}, s.Keys()...))
			at, _ := slices.BinarySearch(keys, "b")
			require.Equal(t, append([]string{}, keys[at:min(at+1, len(keys))]...), append([]string{}, from...))
			for _, k := range []string{"", "a", "b", "ccc", "d"} {
				require.Equal(t, want[k], s.Contains(k))
			}
		},
	}.play(t)
}

// TestAViewIsNotChanged: readers have no lock, so that a change of what they read is a fault.
func TestAViewIsNotChanged(t *testing.T) {
	m := NewMap[int]()
	m.Set("a", 1)
	var s, sv Set
	s.Init()
	sv.SetView(&s)
	var p, pv Pairs
	p.Init()
	pv.SetView(&p)
	var n, nv Tallies
	n.Init()
	nv.SetView(&n)
	for i, change := range []func(){
		func() { m.view().Set("a", 2) },
		func() { m.view().Delete("a") },
		func() { m.view().PopMin() },
		func() { sv.Insert("a") },
		func() { sv.Delete("a") },
		func() { pv.Insert("a", "b") },
		func() { pv.Delete("a", "b") },
		func() { nv.Add("a", "b", 1) },
	} {
		assert.PanicsWithValue(t, "table: a view is changed", change, strconv.Itoa(i))
	}
	assert.Same(t, m.view(), m.view(), "a view is made once for each change")
	before := m.view()
	m.Set("a", 3)
	assert.NotSame(t, before, m.view())
}
