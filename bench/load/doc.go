// Package load puts load on a zone and measures what callers get. It is the load generator
// of berth bench and of the reports in bench.
//
// Load comes in one of two ways. In a closed loop each of some callers starts its next
// operation when the one before has ended, which measures how much a zone can do. In an open
// loop operations are due at a fixed rate, whatever the zone does, and a latency counts from
// the time at which the operation was due: one that had to wait for a caller is slow, not
// left out, so there is no coordinated omission.
//
// Measure runs any Operation; NewZone has those of a zone.
package load
