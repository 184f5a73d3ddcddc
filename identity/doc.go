// Package identity authenticates peers and callers: certificates of a zone's nodes,
// gateways and agents, the TLS configurations that admit them, bearer tokens of users
// and join tokens of newcomers.
//
// Every zone has its own certificate authority. A peer is a leaf certificate with one
// name, the URI berth://<zone id>/<role>/<id>, and the authority that signed it; it
// contains no hosts, addresses or organisations. Both are sent in every handshake, the
// authority's certificate last, and are checked in this order:
//
//  1. the protocol (ALPN) is one that the listener speaks;
//  2. the chain is exactly a leaf and a self-signed authority of the leaf's own
//     zone, both valid now and of ECDSA P-256, the leaf for this side's use;
//  3. the listener's Policy admits that subject, protocol and authority.
//
// There is no pool of trusted roots: a policy knows the one authority, byte for byte,
// that may speak for a zone. All checks happen inside the handshake, so a refused peer
// never gets a byte through to the protocol. TLS is 1.3 only and sessions are not
// resumed, so that every connection is checked afresh.
//
// Everything here is safe for concurrent use unless it says otherwise.
package identity
