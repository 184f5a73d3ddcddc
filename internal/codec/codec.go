// Package codec is the only encoding of values into bytes for machines: CBOR (RFC 8949) in
// its core deterministic mode. Equal values give equal bytes, so that digests and golden
// files are stable. It is the only user of the CBOR library and knows nothing of the
// values.
package codec

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// Limits of Unmarshal.
const (
	NestedMax = 16        // levels of arrays and maps
	itemsMax  = 1_000_000 // elements of one array, pairs of one map
)

var (
	enc = must(cbor.CoreDetEncOptions().EncMode())
	dec = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxNestedLevels:   NestedMax,
		MaxArrayElements:  itemsMax,
		MaxMapPairs:       itemsMax,
		UTF8:              cbor.UTF8RejectInvalid,
	}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic("codec: options: " + err.Error()) // constant options; a bug
	}
	return v
}

// Marshal returns the deterministic encoding of v. It fails for types that CBOR
// cannot express, such as channels, and for values that Unmarshal would refuse: texts that
// are not UTF-8, and anything beyond the limits. So the log never gets an entry that no
// node could read.
func Marshal(v any) ([]byte, error) {
	b, err := enc.Marshal(v)
	if err == nil {
		err = dec.Wellformed(b)
	}
	if err == nil && !areTexts(b) {
		err = errText
	}
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, err)
	}
	return b, nil
}

var errText = errors.New("a text is not UTF-8")

// areTexts reports whether every text of well-formed items of definite length is UTF-8.
// The elements of an array or a map follow its head, so all items are visited in
// sequence, independent of nesting (RFC 8949, section 3).
func areTexts(b []byte) bool {
	for len(b) > 0 {
		major, n, head := b[0]>>5, uint64(b[0]&31), 1
		if n >= 24 { // the head has 1, 2, 4 or 8 more bytes
			head += 1 << (n - 24)
			n = 0
			for _, x := range b[1:head] {
				n = n<<8 | uint64(x)
			}
		}
		b = b[head:]
		if major != majorBytes && major != majorText {
			continue
		}
		if major == majorText && !utf8.Valid(b[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

// The major types whose head has the number of bytes that follow.
const (
	majorBytes = 2
	majorText  = 3
)

// Unmarshal decodes exactly one item into v. Unknown fields, repeated keys, tags,
// indefinite lengths, trailing bytes and anything beyond the limits are errors.
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
