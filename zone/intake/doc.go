// Package intake turns what callers want into what a zone does: it looks up the names
// that they use, checks bounds, and proposes the command. Every dialect of the public API
// goes through it, so that what may be asked for is decided in one place. It knows no
// HTTP, no bodies of a dialect and no status.
//
// Functions that look something up take a view, and fail with CodeNotFound. Functions
// that change something take the zone; they may be called twice (see zone.Confirmed), and
// change nothing when they refuse.
package intake
