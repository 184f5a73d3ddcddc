package api

import "time"

// Limits of the external service that checks leases.
const (
	LeaseCheckTimeoutMin      = time.Second
	LeaseCheckTimeoutDefault  = 5 * time.Second
	LeaseCheckTimeoutMax      = 30 * time.Second
	LeaseCheckTokenMaxBytes   = 1_024
	LeaseCheckMessageMaxBytes = 512    // of the sentence with which it refuses; the rest is cut off
	LeaseEndsMax              = 10_000 // ends of leases that it was not told yet; the oldest go first
	LeaseEndsToldMax          = 100    // ends of leases in one command
)

// LeaseCheck is an external service that is asked before a lease is made or changed at a
// zone, and is told when one ends. The zero LeaseCheck is none.
type LeaseCheck struct {
	URL     string        `cbor:"1,keyasint"`           // the calls are named below it; at most WebhookURLMaxBytes
	Token   []byte        `cbor:"2,keyasint,omitempty"` // that the zone shows it, wrapped by the key-encryption key; nil for none
	Timeout time.Duration `cbor:"3,keyasint,omitempty"` // of one call; 0 for LeaseCheckTimeoutDefault
	Open    bool          `cbor:"4,keyasint,omitempty"` // what it does not answer is allowed; else refused
}

// WaitMax returns how long one call of the service may take.
func (c *LeaseCheck) WaitMax() time.Duration {
	if c.Timeout == 0 {
		return LeaseCheckTimeoutDefault
	}
	return c.Timeout
}

// LeaseOutcome is what has become of a lease that has ended.
type LeaseOutcome string

// The outcomes of leases.
const (
	LeaseOutcomeEnded   LeaseOutcome = "ended"   // its window has passed
	LeaseOutcomeDeleted LeaseOutcome = "deleted" // by its owner, before its window had passed
	LeaseOutcomeFailed  LeaseOutcome = "failed"  // its room could not be had: it was never there
)

// LeaseEnd is the end of a lease that the external service was not told yet.
type LeaseEnd struct {
	Terms   LeaseTerms   `cbor:"1,keyasint"` // the last ones
	Outcome LeaseOutcome `cbor:"2,keyasint"`
	At      Instant      `cbor:"3,keyasint"`
}

// LeaseEndName names the end of a lease.
type LeaseEndName struct {
	Lease LeaseID `cbor:"1,keyasint"`
	At    Instant `cbor:"2,keyasint"`
}

// Name returns the name of the end.
func (e *LeaseEnd) Name() LeaseEndName { return LeaseEndName{e.Terms.ID, e.At} }
