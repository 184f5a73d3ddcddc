// Package tricircle is the dialect of OpenStack Tricircle's admin API at a zone's public API:
// pods, which project is bound to which pod, and affinity tags of pods, mounted under Mount. A
// handler reads its request, calls one use case, and writes the result. docs/tricircle.md is the
// contract, and names the conversation that tests each call.
//
// It must never choose a pod, and it keeps nothing of its own: a pod is a child zone with an
// availability zone, and everything that it shows is a view of the replicated state.
package tricircle
