// Package gossip spreads digests and membership between the control-plane nodes
// of one zone, and between the nodes of a parent zone and one of its children.
// It is the only door to hashicorp/memberlist.
//
// A Pool is one membership list. It never opens a socket: connections to peers
// come from the Dialer that it is given and from Accept, and both hand over
// streams that are already mutually authenticated and encrypted. So memberlist
// runs without a gossip key: TLS under it says who may speak, and a peer that is
// not a member of the pool never gets as far as its first byte.
//
// What memberlist sees, and therefore what it tells others, are synthetic names
// and synthetic addresses. The transport keeps the map from a name to the
// endpoint that answered under it, and that map never leaves the process.
//
// Gossip is a hint. A digest may prune and order a fan-out; it decides nothing.
// The package's DESIGN.md tells why it is built so.
package gossip
