// Package api is the vocabulary of Berth: the nouns, units, limits, error codes
// and routes that every other package speaks.
//
// It imports the standard library only and has no behaviour beyond validation
// and arithmetic on its own types. A name enters it only when two packages need
// it. The struct tags are for one encoding: CBOR with integer keys, for log
// entries, sealed plans and bodies between zones. The tag log is the name that
// `berth operator log` shows for a field, if it differs from the Go name. The JSON of
// the public API is declared in api/rest; only a refusal has both encodings here.
package api
