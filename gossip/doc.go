// Package gossip spreads digests and membership between the control-plane nodes
// of one zone, and between the nodes of a parent zone and one of its children.
// It is the only door to hashicorp/memberlist.
//
// A Pool is one membership list. It never opens a socket: connections to peers come
// from the Dialer that it is given and from Accept, and both hand over streams that are
// already mutually authenticated and encrypted. So memberlist runs without a gossip
// key: TLS below it authenticates peers, and a peer outside the pool never delivers a
// byte to it.
//
// memberlist sees, and therefore spreads, only synthetic names and addresses. The
// transport keeps the map from a name to the endpoint that answered under it, and that
// map never leaves the process.
//
// Gossip is a hint. A digest may prune and order a fan-out; it decides nothing. The
// package's DESIGN.md gives the reasons for this design.
package gossip
