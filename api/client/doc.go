// Package client calls a zone from Go.
//
// A Client uses the public API of docs/http.md at any node of a zone. Its methods return
// *api.Error with the code and the sentence of the zone; RequestIDOf returns the id under
// which the zone logged the call. The comment of each method states whether it may be
// repeated: if so, the Client itself repeats it, a bounded number of times and with
// growing pauses, while the zone is unavailable, overloaded, late or unreachable.
//
// Calls of the placement API go to /placement at PlacementVersion. Its errors are
// returned as *api.Error too: stale_generation after another change, and no_capacity if
// there is no room. Claim is the recipe for allocating.
//
// A call waits for as long as its context allows. An error caused by the end of that
// context has code timeout, and errors.Is finds context.Canceled or
// context.DeadlineExceeded in it.
package client
