package state

import (
	"reflect"
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
	for v.Kind() == reflect.Struct && !v.FieldByName("isoid").IsValid() {
		if v.NumField() == 0 {
			return reflect.Value{}
		}
		next := v.Field(0)
		if name := v.Type().Field(0).Name; name != "Map" && name != "keys" && name != "tree" {
			return reflect.Value{}
		}
		v = next
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
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
