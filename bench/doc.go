// Package bench measures whole zones: real Raft files in a temporary directory,
// real listeners on loopback, and simulated hosts. Benchmarks of single packages are in
// those packages: plans in buildplan, sealing in buildplan/seal, the state machine in
// raftstore/state, the log in raftstore.
//
// It contains only benchmarks, which `make bench` runs with all others. Their figures
// depend on the disk: a decision is reported only once it is on a majority of disks.
package bench
