package api

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestInstanceTermsEqual gives one field after the other another value.
func TestInstanceTermsEqual(t *testing.T) {
	var a InstanceTerms
	assert.True(t, a.Equal(&InstanceTerms{}))
	for f, v := range reflect.ValueOf(&a).Elem().Fields() {
		b := reflect.New(v.Type()).Elem()
		switch v.Kind() {
		case reflect.String:
			b.SetString("x")
		case reflect.Bool:
			b.SetBool(true)
		case reflect.Int64:
			b.SetInt(int64(time.Second))
		case reflect.Map:
			b.Set(reflect.MakeMap(v.Type()))
			b.SetMapIndex(reflect.ValueOf("x").Convert(v.Type().Key()), reflect.New(v.Type().Elem()).Elem())
		case reflect.Slice:
			b.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.Struct: // the window
			b.Field(0).SetInt(1)
		default:
			t.Fatalf("no other value of a %s", v.Type())
		}
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		v.Set(b)
		assert.False(t, a.Equal(&InstanceTerms{}), f.Name)
		v.Set(was)
	}
}

func TestChangeTerms(t *testing.T) {
	shared := &InstanceTerms{Project: "p", Window: Window{Start: 1, End: 2}}
	a, b := Instance{InstanceTerms: shared}, Instance{InstanceTerms: shared}
	a.ChangeTerms(func(t *InstanceTerms) { t.Window.End = 9 })
	assert.Equal(t, Window{Start: 1, End: 9}, a.Window)
	assert.Equal(t, Window{Start: 1, End: 2}, b.Window, "others have what they had")
	assert.Equal(t, ProjectID("p"), a.Project)
}

func TestChangeExtras(t *testing.T) {
	a := NewInstance(&InstanceTerms{}, InstanceSpec{ID: "a"}, StatusBuild)
	b := NewInstance(&InstanceTerms{}, InstanceSpec{ID: "b"}, StatusBuild)
	a.ChangeExtras(func(x *InstanceExtras) { x.Target = "h" })
	assert.Equal(t, HostID("h"), a.Target)
	assert.True(t, a.HasExtras())
	c := *a
	c.ChangeExtras(func(x *InstanceExtras) { x.Target = "" })
	assert.Equal(t, HostID("h"), a.Target, "others have what they had")
	assert.False(t, c.HasExtras())
	assert.Empty(t, b.Target)
	assert.Zero(t, noExtras)
}

// TestNoExtrasIsWhereAllAreEmpty gives one field after the other a value.
func TestNoExtrasIsWhereAllAreEmpty(t *testing.T) {
	for f := range reflect.TypeFor[InstanceExtras]().Fields() {
		var x InstanceExtras
		assert.True(t, x.empty())
		v := reflect.ValueOf(&x).Elem().FieldByIndex(f.Index)
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int64:
			v.SetInt(1)
		case reflect.Uint64:
			v.SetUint(1)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		default:
			t.Fatalf("no other value of a %s", v.Type())
		}
		assert.False(t, x.empty(), f.Name)
	}
}

func TestNewInstanceIDs(t *testing.T) {
	assert.Empty(t, NewInstanceIDs(0))
	ids, others := NewInstanceIDs(InstanceIDsMax), NewInstanceIDs(2)
	assert.Len(t, ids, InstanceIDsMax)
	assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{8}0000$`, string(ids[0]))
	for i, id := range ids {
		assert.Equal(t, ids[0][:32]+InstanceID(fmt.Sprintf("%04x", i)), id)
	}
	assert.NotEqual(t, ids[0], others[0])
	assert.Panics(t, func() { NewInstanceIDs(InstanceIDsMax + 1) })
}
