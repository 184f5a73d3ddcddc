// Package api is the vocabulary of Berth: the nouns, units, limits, error codes
// and routes that every other package speaks.
//
// It imports the standard library only and has no behaviour beyond validation
// and arithmetic on its own types. A name enters it only when two packages need
// it. The struct tags are for one encoding: CBOR with integer keys, for log
// entries, sealed plans and bodies between zones. A tag log is the name that
// `berth operator log` shows for a field, where its own would not do. The JSON of
// the public API is declared in api/rest; only a refusal is both.
package api
