package state

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestACloneSharesNoTable: a table that tables does not list would be changed under the
// readers of a clone.
func TestACloneSharesNoTable(t *testing.T) {
	s := New()
	for s.events.Len() == cap(s.events.Values()) { // it has room to append
		s.events.Append(&Event{})
	}
	count := shared(t, reflect.ValueOf(s).Elem(), reflect.ValueOf(s.Clone()).Elem())
	require.Len(t, s.tables(nil), count, "each table is listed once")
}

// shared fails for each table that two states share, and counts tables.
func shared(t *testing.T, was, is reflect.Value) (count int) {
	t.Helper()
	for i := range was.NumField() {
		if was.Type().Field(i).Anonymous { // the book below
			count += shared(t, was.Field(i), is.Field(i))
			continue
		}
		if strings.HasPrefix(was.Field(i).Type().Name(), "Log[") {
			count++
			log := is.Field(i).FieldByName("values")
			assert.Equal(t, log.Len(), log.Cap(), "tables does not list %s", was.Type().Field(i).Name)
			continue
		}
		mine, theirs := treeOf(was.Field(i)), treeOf(is.Field(i))
		if !mine.IsValid() {
			continue
		}
		count++
		assert.NotEqual(t, mine.FieldByName("isoid").Uint(), theirs.FieldByName("isoid").Uint(),
			"tables does not list %s", was.Type().Field(i).Name)
	}
	return count
}

// treeOf returns the tree in a table, the zero Value if v is none.
func treeOf(v reflect.Value) reflect.Value {
	for v.Kind() != reflect.Struct || !v.FieldByName("isoid").IsValid() {
		switch {
		case v.Kind() == reflect.Interface && !v.IsNil(): // a Map, or the tree in a Set
			v = v.Elem().Elem()
		case v.Kind() == reflect.Struct && v.NumField() > 0 && slices.Contains([]string{"BTreeG", "keys", "tree"}, v.Type().Field(0).Name):
			v = reflect.Indirect(v.Field(0))
		default:
			return reflect.Value{}
		}
	}
	return v
}

// TestSectionsComeInOneOrder: a section refers to those before it alone, and each has a
// name of its own.
func TestSectionsComeInOneOrder(t *testing.T) {
	var names []string
	for _, one := range New().sections() {
		assert.NotContains(t, names, one.name)
		names = append(names, one.name)
	}
	assert.Equal(t, []string{
		"nodes", "tokens", "joins", "agents", "roles", "flavors", "links", "aggregates", "classes", "traits", "hosts", "providers",
		"consumers", "properties", "quotas", "bindings", "instances", "groups", "unended", "holds", "plans", "boots", "requeued", "leases", "series of leases", "ends of leases", "events", "event history", "webhooks", "audit chain", "audit", "upload",
	}, names, "a new section comes behind those that it refers to; none is renamed")
}
