// Package foreign replays on Berth what went wrong in other systems: schedulers, quota systems, reservation systems and
// stores that agree. Each test is one public report, told in our words; README.md lists them with what Berth does. The
// worlds are those of zone/zonetest, in virtual time. The package has tests and nothing else.
//
//	go test ./cluster-test/foreign
package foreign
