// Package lab runs zones of real processes on machines of their own, and breaks those
// machines: it kills and pauses processes, cuts wires, and hangs, fills, damages and
// powers off disks. It must never decide whether a result is right: that is for the
// tests, with the help of Audit.
//
// A World owns everything that one test starts, and removes it with the test. The kind of
// its machines is a Kind: network namespaces with a disk each if the test has the rights,
// otherwise loopback addresses with a proxy.
//
// A method that can fail and returns no error fails the test instead, and must be called
// on the test's own goroutine. Every other method is safe for concurrent use, except those
// that make zones, nodes and agents.
//
// A machine is reached at one address. A node in a network namespace listens at its ordinary ports,
// all of them at that address: 7600 for the API, 7601 for the gateway, 7602 for
// nodes, 7603 for agents, 7604 for health and metrics. Elsewhere it takes ports that
// are free, and keeps them. An agent listens nowhere.
package lab
