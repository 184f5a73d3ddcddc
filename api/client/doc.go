// Package client calls a zone from Go.
//
// A Client speaks the public API of docs/http.md to any node of a zone. Its
// methods return *api.Error with the code and the sentence that the zone gave;
// RequestIDOf tells the id under which the zone logged the call. Each method says
// whether it may be repeated: those that may are repeated by the Client itself, a
// bounded number of times and with growing pauses, when the zone is unavailable,
// overloaded or late, or cannot be reached.
//
// Calls of the placement API go to /placement at PlacementVersion. Its errors come
// out as *api.Error too: stale_generation where somebody else was quicker, and
// no_capacity where there is no room. Claim is the recipe for taking room.
//
// A call waits for as long as its context lets it. An error whose cause is the
// end of that context has code timeout, and errors.Is finds context.Canceled or
// context.DeadlineExceeded in it.
package client
