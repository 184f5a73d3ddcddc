// Package placement is the dialect of OpenStack Placement at a zone's public API: its
// HTTP API at every microversion from 1.0 to 1.39, mounted under Mount. A handler reads
// its request, calls one use case, and writes the result. docs/placement.md is the
// contract, and names the conversation that tests each call.
//
// It must never decide anything about capacity, and it keeps nothing of its own:
// providers, allocations and the rest are views of the replicated state. Inventories of
// agents and allocations of instances are shown here, but changed elsewhere.
package placement
