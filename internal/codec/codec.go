// Package codec is the one way in which Berth turns values into bytes that
// machines read: CBOR (RFC 8949) in its core deterministic mode. Equal values
// give equal bytes, so digests and golden files hold. It is the only door to the
// CBOR library and knows nothing of what it encodes.
package codec

import (
	"fmt"
	"io"

	"github.com/fxamacker/cbor/v2"
)

// Limits of what Unmarshal accepts.
const (
	NestedMax = 16        // levels of arrays and maps
	ItemsMax  = 1_000_000 // elements of one array, pairs of one map
)

var (
	enc = must(cbor.CoreDetEncOptions().EncMode())
	dec = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxNestedLevels:   NestedMax,
		MaxArrayElements:  ItemsMax,
		MaxMapPairs:       ItemsMax,
		UTF8:              cbor.UTF8RejectInvalid,
	}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic("codec: options: " + err.Error()) // constant options; a bug
	}
	return v
}

// Marshal returns the deterministic encoding of v. It fails only for types that
// CBOR cannot express, such as channels.
func Marshal(v any) ([]byte, error) {
	b, err := enc.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, err)
	}
	return b, nil
}

// Unmarshal decodes exactly one item into v. Unknown fields, repeated keys, tags,
// indefinite lengths, bytes that are left over and anything beyond the limits
// are errors.
func Unmarshal(b []byte, v any) error {
	if err := dec.Unmarshal(b, v); err != nil {
		return fmt.Errorf("decoding %T: %w", v, err)
	}
	return nil
}

// Encoder writes a sequence of items.
type Encoder struct{ e *cbor.Encoder }

// NewEncoder returns an Encoder that writes to w.
func NewEncoder(w io.Writer) Encoder { return Encoder{enc.NewEncoder(w)} }

// Encode writes one item.
func (e Encoder) Encode(v any) error {
	if err := e.e.Encode(v); err != nil {
		return fmt.Errorf("encoding %T: %w", v, err)
	}
	return nil
}

// Decoder reads a sequence of items.
type Decoder struct{ d *cbor.Decoder }

// NewDecoder returns a Decoder that reads from r. It may read beyond the last
// item that it returns.
func NewDecoder(r io.Reader) Decoder { return Decoder{dec.NewDecoder(r)} }

// Decode reads one item into v, under Unmarshal's rules; io.EOF at the end.
func (d Decoder) Decode(v any) error {
	if err := d.d.Decode(v); err != nil {
		if err == io.EOF { //nolint:errorlint // the decoder returns io.EOF bare, and callers compare it
			return io.EOF
		}
		return fmt.Errorf("decoding %T: %w", v, err)
	}
	return nil
}
