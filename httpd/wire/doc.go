// Package wire is what every HTTP door of a zone shares: reading bodies strictly
// and within limits, writing answers and refusals, request ids, and the few
// query parameters that mean the same everywhere. It knows no route.
package wire
