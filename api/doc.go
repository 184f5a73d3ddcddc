// Package api is the vocabulary of Berth: the nouns, units, limits, error codes
// and routes that every other package speaks.
//
// It imports the standard library only and has no behaviour beyond validation
// and arithmetic on its own types. A name enters it only when two packages need
// it. The struct tags carry two encodings: JSON for people and for the public
// API, and CBOR with integer keys for log entries, sealed plans and bodies
// between zones.
package api
