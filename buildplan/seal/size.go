package seal

import (
	"berth/api"
)

// Sizes of blobs in bytes. A blob has the smallest size that holds it. The sizes grow by a
// quarter of the last power of two: 1 KiB, 1.25 KiB, ..., 2 KiB, 2.5 KiB, ...,
// api.BlobMaxBytes. So padding costs at most a quarter, each layer of a nested plan adds one
// step, and a length reveals little.
const (
	sizeMinBytes = 1 << 10 // the smallest blob
	sizeSteps    = 4       // sizes for each doubling
)

// overhead is the number of bytes that a blob has beyond its plaintext and
// padding, and PlaintextMaxBytes the longest plaintext that can be sealed.
const (
	overhead          = headerBytes + tagBytes + lengthBytes
	PlaintextMaxBytes = api.BlobMaxBytes - overhead
)

// Sizes returns every length that a blob can have, in bytes, ascending.
func Sizes() []int {
	var out []int
	for base := sizeMinBytes; base < api.BlobMaxBytes; base *= 2 {
		for i := range sizeSteps {
			out = append(out, base+i*base/sizeSteps)
		}
	}
	return append(out, api.BlobMaxBytes)
}

// sizeFor returns the smallest size that is at least n, which must not exceed
// api.BlobMaxBytes.
func sizeFor(n int) int {
	base := sizeMinBytes
	if n <= base {
		return base
	}
	for base*2 < n {
		base *= 2
	}
	step := base / sizeSteps
	return (n + step - 1) / step * step
}

// isSize reports whether n is one of Sizes.
func isSize(n int) bool {
	return n >= sizeMinBytes && n <= api.BlobMaxBytes && sizeFor(n) == n
}
