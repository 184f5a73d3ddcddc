// Package sim runs whole federations in virtual time: real Raft, real gossip, real
// TLS and real HTTP over a network in memory, with disks in memory and simulated
// hosts, in a bubble of testing/synctest. A seed draws what clients do and what
// goes wrong. Its one job is to find a schedule under which a promise of
// docs/guarantees.md is broken. It must never wait for the real clock, open a
// socket, or change a process behind the back of its own interfaces.
//
// A seed gives the same schedule again, but not the same order of goroutines.
package sim
