//go:build !race

package clustertest

// raceFlags build the binary as the test itself is built.
var raceFlags []string
