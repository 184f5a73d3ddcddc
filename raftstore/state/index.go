package state

import (
	"strings"

	"berth/api"
	"berth/raftstore/state/table"
)

// Page bounds a listing: at most Limit items after the key Marker.
type Page struct {
	Marker string
	Limit  int
}

// joinKey joins the parts of a composite key so that prefixes sort together. The parts
// contain no NUL: names are validated before they are proposed.
func joinKey[A, B ~string](a A, b B) string { return string(a) + "\x00" + string(b) }

// addTally adds n to a count. A count of 0 is not kept.
func addTally(t table.Map[int], k string, n int) {
	old, _ := t.Get(k)
	if old+n == 0 {
		t.Delete(k)
		return
	}
	t.Set(k, old+n)
}

func eachOn(index *table.Set, id api.HostID, visit func(api.InstanceID)) {
	eachUnder(index, string(id)+"\x00", func(rest string) { visit(api.InstanceID(rest)) })
}

// eachUnder visits the rest of each key of an index that begins with a prefix, in order.
func eachUnder(index *table.Set, prefix string, visit func(rest string)) {
	index.Ascend(prefix, func(k string) bool {
		under := strings.HasPrefix(k, prefix)
		if under {
			visit(k[len(prefix):])
		}
		return under
	})
}

// eachRecordUnder visits each record of a table whose key begins with a prefix, in order.
func eachRecordUnder[V any](t table.Map[V], prefix string, visit func(k string, v V)) {
	t.Ascend(prefix, func(k string, v V) bool {
		under := strings.HasPrefix(k, prefix)
		if under {
			visit(k, v)
		}
		return under
	})
}

func pickRecords[V any](index *table.Set, from table.Map[V]) []V {
	out := make([]V, 0, index.Len())
	index.Scan(func(k string) bool {
		if v, ok := from.Get(k); ok {
			out = append(out, v)
		}
		return true
	})
	return out
}

func pickRecord[V any](index *table.Set, from table.Map[V], k string) (v V, ok bool) {
	if index.Contains(k) {
		v, ok = from.Get(k)
	}
	return v, ok
}

func firstKeys[V any](t table.Map[V], limit int, ok func(V) bool) []string {
	var out []string
	t.Scan(func(k string, v V) bool {
		if ok(v) && len(out) < limit {
			out = append(out, k)
		}
		return len(out) < limit
	})
	return out
}
