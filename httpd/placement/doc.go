// Package placement is the dialect of OpenStack Placement at a zone's public API:
// its HTTP API at every microversion from 1.0 to 1.39, mounted under Mount. A
// handler reads its request, calls one use case, and writes what came of it.
// docs/placement.md is its contract, and names the conversation that holds each
// call.
//
// It must never decide anything about capacity, and it keeps nothing of its own:
// providers, allocations and the rest are views of the replicated state. The word
// of agents and the allocations of instances are shown here, and changed by others.
package placement
