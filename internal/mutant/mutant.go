// Package mutant names deliberate faults, so that a test can show that the suite
// finds each of them. A fault stands in the code as
//
//	if mutant.On(mutant.GenerationUnchecked) { ... }
//
// and is not in the binary unless it is built with the tag "mutants": On is then a
// constant. With the tag, the environment variable BERTH_MUTANT names the one
// fault that is on.
package mutant

// Name names one fault.
type Name string

// The faults.
const (
	FsyncOff            Name = "fsync-off"             // the log is not made durable before it is acknowledged
	ChecksumSkipped     Name = "checksum-skipped"      // damaged entries of the log are taken for good
	AckBeforeApply      Name = "ack-before-apply"      // a proposal is answered before it is committed
	GenerationUnchecked Name = "generation-unchecked"  // a stale writer of a host is not refused
	GenerationKept      Name = "generation-kept"       // a host's generation does not rise when room is given back
	CapacityUnchecked   Name = "capacity-unchecked"    // a hold is not checked again when it is made
	HoldExpires         Name = "hold-expires"          // a child gives up by itself what it holds for its parent
	DecisionUnlogged    Name = "decision-unlogged"     // children are told before the decision is logged
	PlansForgotten      Name = "plans-forgotten"       // a snapshot does not hold which plans were used
	MapOrder            Name = "map-order"             // applying an entry follows the order of a map
	ClockInApply        Name = "clock-in-apply"        // applying an entry reads the clock
	BlobExpiryUnchecked Name = "blob-expiry-unchecked" // a blob is good for ever
	BlobUnbound         Name = "blob-unbound"          // a blob is good for any project
	HostInError         Name = "host-in-error"         // a refusal names a host to a parent
	HostInDigest        Name = "host-in-digest"        // a digest names a host
	SagaNotResumed      Name = "saga-not-resumed"      // a new leader leaves boots of the old one alone
	FreedEarly          Name = "freed-early"           // room is given back before the instance is gone
	TermIgnored         Name = "term-ignored"          // an agent obeys a leader of the past
	WatchdogOff         Name = "watchdog-off"          // a hung disk does not end the process
)

// Names returns all faults.
func Names() []Name {
	return []Name{
		FsyncOff, ChecksumSkipped, AckBeforeApply, GenerationUnchecked, GenerationKept, CapacityUnchecked, HoldExpires,
		DecisionUnlogged, PlansForgotten, MapOrder, ClockInApply, BlobExpiryUnchecked, BlobUnbound, HostInError, HostInDigest,
		SagaNotResumed, FreedEarly, TermIgnored, WatchdogOff,
	}
}
