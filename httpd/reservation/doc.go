// Package reservation is the dialect of OpenStack Blazar at a zone's public API: its HTTP
// API v1, mounted under Mount. A handler reads its request, calls one use case, and
// writes the result. docs/reservation.md is the contract, and names the conversation that
// tests each call.
//
// It must never decide anything about capacity or the life of a lease, and it keeps
// nothing of its own: leases, hosts and allocations are views of the replicated state.
package reservation
