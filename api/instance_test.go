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
