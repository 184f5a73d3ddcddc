package codec

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type record struct {
	A int               `cbor:"1,keyasint"`
	B string            `cbor:"2,keyasint,omitempty"`
	M map[string]string `cbor:"3,keyasint,omitempty"`
}

func TestRoundTrip(t *testing.T) {
	want := record{A: -7, B: "é", M: map[string]string{"x": "y", "": ""}}
	b, err := Marshal(want)
	require.NoError(t, err)
	var got record
	require.NoError(t, Unmarshal(b, &got))
	assert.Equal(t, want, got)
}

func TestRefused(t *testing.T) {
	cases := []struct {
		name, in string
		more     bool
	}{
		{"nothing", "", false},
		{"cut short", "\xa1\x01", false},
		{"two items", "\xa1\x01\x05\xa1\x01\x05", true},
		{"a byte left over", "\xa1\x01\x05\x00", true},
		{"repeated key", "\xa2\x01\x05\x01\x06", false},
		{"repeated key inside", "\xa1\x03\xa2\x61x\x61y\x61x\x61z", false},
		{"unknown field", "\xa2\x01\x05\x09\x06", false},
		{"unknown field with a name", "\xa1\x61A\x05", false},
		{"indefinite map", "\xbf\x01\x05\xff", false},
		{"indefinite text", "\xa1\x02\x7f\x61x\xff", false},
		{"tag", "\xa1\x01\xc1\x05", false},
		{"tag around it all", "\xc1\xa1\x01\x05", false},
		{"text that is no UTF-8", "\xa1\x02\x61\xff", false},
		{"another type", "\xa1\x01\x61x", false},
		{"a number too large", "\xa1\x01\x1b\xff\xff\xff\xff\xff\xff\xff\xff", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var v record
			require.Error(t, Unmarshal([]byte(c.in), &v))
			if c.more {
				return // a stream goes on
			}
			assert.Error(t, NewDecoder(strings.NewReader(c.in)).Decode(&v), "in a stream too")
		})
	}
}

func TestNestingLimit(t *testing.T) {
	nested := func(levels int) []byte { return append(bytes.Repeat([]byte{0x81}, levels), 0x05) }
	var v any
	require.NoError(t, Unmarshal(nested(NestedMax), &v))
	err := Unmarshal(nested(NestedMax+1), &v)
	var limit *cbor.MaxNestedLevelError
	assert.ErrorAs(t, err, &limit)
}

func TestItemsLimit(t *testing.T) {
	array := func(n uint32) []byte {
		head := []byte{0x9a, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
		return append(head, make([]byte, n)...)
	}
	var v []int8
	require.NoError(t, Unmarshal(array(itemsMax), &v))
	assert.Len(t, v, itemsMax)
	var elements *cbor.MaxArrayElementsError
	require.ErrorAs(t, Unmarshal(array(itemsMax+1), &v), &elements)

	pairs := func(n uint32) []byte { // the head alone: pairs are counted before they are read
		return []byte{0xba, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	}
	var m map[int]int
	var limit *cbor.MaxMapPairsError
	require.ErrorIs(t, Unmarshal(pairs(itemsMax), &m), io.ErrUnexpectedEOF)
	assert.ErrorAs(t, Unmarshal(pairs(itemsMax+1), &m), &limit)
}

func TestEqualMapsGiveEqualBytes(t *testing.T) {
	words := strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu")
	var first []byte
	for range 50 {
		m := map[string]string{}
		for _, w := range words {
			m[w] = w
		}
		slices.Reverse(words)
		b, err := Marshal(record{A: 1, M: m})
		require.NoError(t, err)
		if first == nil {
			first = b
		}
		require.Equal(t, first, b)
	}
}

func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[any]string{
		uint64(23): "\x17", uint64(24): "\x18\x18", int64(-1): "\x20", 1.5: "\xf9\x3e\x00", "": "\x60",
	} {
		b, err := Marshal(v)
		require.NoError(t, err)
		assert.Equal(t, want, string(b), "%v", v)
	}
}

func TestMarshalRefusesWhatHasNoForm(t *testing.T) {
	_, err := Marshal(make(chan int))
	require.ErrorContains(t, err, "encoding chan int")
	assert.ErrorContains(t, NewEncoder(io.Discard).Encode(func() {}), "encoding func()")
}

func TestStream(t *testing.T) {
	var buf bytes.Buffer
	e := NewEncoder(&buf)
	for i := range 3 {
		require.NoError(t, e.Encode(record{A: i}))
	}
	d := NewDecoder(bytes.NewReader(buf.Bytes()))
	for i := range 3 {
		var r record
		require.NoError(t, d.Decode(&r))
		assert.Equal(t, i, r.A)
	}
	var r record
	assert.Equal(t, io.EOF, d.Decode(&r), "bare at the end of an item")

	d = NewDecoder(bytes.NewReader(buf.Bytes()[:buf.Len()-1]))
	require.NoError(t, d.Decode(&r))
	require.NoError(t, d.Decode(&r))
	err := d.Decode(&r)
	require.Error(t, err)
	assert.NotEqual(t, io.EOF, err, "an item that is cut short is not the end")
}

// TestNothingIsWrittenThatCannotBeRead holds that Marshal refuses what Unmarshal would.
func TestNothingIsWrittenThatCannotBeRead(t *testing.T) {
	type named struct {
		Name string            `cbor:"1,keyasint"`
		Data []byte            `cbor:"2,keyasint"`
		Tags map[string]string `cbor:"3,keyasint"`
		More []any             `cbor:"4,keyasint"`
	}
	long := strings.Repeat("é", 70_000)
	good := named{Name: "zoë", Data: []byte{0xff, 0xfe}, Tags: map[string]string{"k": long}, More: []any{1.5, -7, nil, true, uint64(1) << 40, "x"}}
	b, err := Marshal(good)
	require.NoError(t, err)
	var back named
	require.NoError(t, Unmarshal(b, &back))

	deep := any("x")
	for range NestedMax + 1 {
		deep = []any{deep}
	}
	for what, bad := range map[string]any{
		"a text":           named{Name: "a\xff"},
		"the key of a map": named{Tags: map[string]string{"\xff": ""}},
		"a value":          named{Tags: map[string]string{"k": long + "\xc3"}},
		"a late text":      named{Data: []byte("ok"), More: []any{1.5, "\x80"}},
		"too deep":         named{More: []any{deep}},
	} {
		_, err := Marshal(bad)
		require.Error(t, err, what)
	}
}
