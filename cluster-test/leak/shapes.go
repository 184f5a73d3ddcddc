package leak

import (
	"fmt"
	"slices"
	"sync"

	"berth/api"
	"berth/internal/codec"
)

// Shapes checks that the lengths and weights of select answers reveal little: every plan
// has one of a few sizes, and every weight is a multiple of a quantum. Its methods may be
// called concurrently.
type Shapes struct {
	sizes   []int
	quantum int64

	mu      sync.Mutex // guards the fields below
	answers int
	faults  []string
}

// FaultsMax is the number of faults that Shapes keeps.
const FaultsMax = 100

// NewShapes returns a check of plans of some sizes, in bytes, and weights in
// steps of quantum, at least 1.
func NewShapes(sizes []int, quantum int64) *Shapes { return &Shapes{sizes: sizes, quantum: quantum} }

// Faults returns the first FaultsMax faults.
func (c *Shapes) Faults() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.faults)
}

// checkSizes checks one answer from the stream with a name.
func (c *Shapes) checkSizes(stream string, a *api.SelectAnswer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers++
	if !slices.Contains(c.sizes, len(a.Blob)) {
		c.faultLocked("%s: a plan has %d bytes, which is none of the sizes", stream, len(a.Blob))
	}
	for _, ws := range a.Weights {
		if i := slices.IndexFunc(ws, func(w int64) bool { return w%c.quantum != 0 }); i >= 0 {
			c.faultLocked("%s: weight %d is no multiple of %d", stream, ws[i], c.quantum)
		}
	}
}

func (c *Shapes) faultLocked(format string, args ...any) {
	if len(c.faults) < FaultsMax {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

// answersIn takes the bodies of a stream and checks those that are select answers.
type answersIn struct {
	c      *Shapes
	stream string
	cbor   bool
	body   []byte
}

// begin implements sink.
func (b *answersIn) begin(m message) { b.cbor, b.body = m.cbor, b.body[:0] }

// write implements sink.
func (b *answersIn) write(p []byte) {
	if b.cbor && len(b.body)+len(p) <= api.ZoneBodyMaxBytes {
		b.body = append(b.body, p...)
	}
}

// end implements sink. No other body between zones decodes into an answer with a plan.
func (b *answersIn) end() {
	var a api.SelectAnswer
	if b.cbor && codec.Unmarshal(b.body, &a) == nil && len(a.Blob) > 0 {
		b.c.checkSizes(b.stream, &a)
	}
}
