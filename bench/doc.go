// Package bench measures whole zones: real Raft files in a temporary directory,
// real listeners on loopback, and simulated hosts. What one package can measure
// alone is measured there: plans in buildplan, sealing in buildplan/seal, the
// state machine in raftstore/state, the log in raftstore.
//
// It holds benchmarks only, which `make bench` runs with all others. Their
// figures depend on the disk: a decision is not told before it is on a majority
// of disks.
package bench
