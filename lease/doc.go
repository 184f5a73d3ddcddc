// Package lease holds the rules of a lease's life: its events and their order, the legal
// steps of its statuses, what terms are acceptable, what an update may change and what that
// takes, and how long leases may be. It must never know how room is found or held.
//
// Everything here is a function of its arguments: a rule that refuses has changed nothing,
// because it cannot. The package is pure: no clock, no randomness, no I/O.
package lease
