// Package raftstore keeps the state of a zone on several nodes: it is the only
// door to Raft and to the files under it.
//
// A Store takes commands on the leader, writes them to a log that a majority of the nodes
// keeps on disk, applies them to raftstore/state in the same order everywhere, and publishes
// each result as an immutable view. It knows nothing of the meaning of a command and never
// proposes one by itself.
//
// DESIGN.md in this folder explains the design and lists what is not promised.
package raftstore
