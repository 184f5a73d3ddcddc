package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// countWriter counts what is written.
type countWriter int64

func (c *countWriter) Write(b []byte) (int, error) {
	*c += countWriter(len(b))
	return len(b), nil
}

// TestTheSizeOfTheStateIsKnown: without a look at the records it is known within a factor of two,
// whatever most of the records are.
func TestTheSizeOfTheStateIsKnown(t *testing.T) {
	for name, fill := range map[string]func(f *filler){
		"hosts":     func(f *filler) { f.addHosts(2_000) },
		"instances": func(f *filler) { f.addHosts(100); f.boot(5_000) },
		"boots": func(f *filler) {
			f.addHosts(100)
			for range 1_000 {
				f.boot(1)
			}
		},
		"small boots": func(f *filler) {
			f.addHosts(100)
			for range 100 {
				f.boot(10)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFiller(t)
			fill(f)
			var n countWriter
			require.NoError(t, f.s.Save(&n))
			t.Logf("%d bytes, estimated as %d", n, f.s.SizeBytes())
			require.Less(t, int64(n), 2*f.s.SizeBytes())
			require.Less(t, f.s.SizeBytes(), 2*int64(n))
		})
	}
}
