package codec

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

type inner struct {
	A int `cbor:"1,keyasint"`
	B int `cbor:"2,keyasint,omitempty" form:"3"`
}

type outer struct {
	Self  *outer           `cbor:"6,keyasint,omitempty"`
	Old   string           `cbor:"1,keyasint"`
	New   *int             `cbor:"2,keyasint,omitempty" form:"2"`
	One   inner            `cbor:"3,keyasint"`
	Many  []*inner         `cbor:"4,keyasint,omitempty"`
	ByKey map[string]inner `cbor:"5,keyasint,omitempty"`
}

func TestNeededForm(t *testing.T) {
	zero := 0
	for name, c := range map[string]struct {
		v    any
		want uint8
	}{
		"nothing":            {nil, 1},
		"no tags":            {record{A: 1}, 1},
		"all zero":           {outer{}, 1},
		"old fields":         {outer{Old: "x", One: inner{A: 1}, Many: []*inner{{A: 1}, nil}}, 1},
		"a pointer to zero":  {outer{New: &zero}, 2},
		"a field of a field": {outer{One: inner{B: 1}}, 3},
		"in a list":          {&outer{New: &zero, Many: []*inner{nil, {B: 1}}}, 3},
		"in a map":           {outer{ByKey: map[string]inner{"x": {B: 1}}}, 3},
		"in itself":          {outer{Self: &outer{Self: &outer{New: &zero}}}, 2},
	} {
		assert.Equal(t, c.want, NeededForm(c.v), name)
	}
	assert.Panics(t, func() {
		NeededForm(struct {
			X int `form:"1"`
		}{X: 1})
	})
}
