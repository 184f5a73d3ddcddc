package api

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Limits of certificate authorities.
const (
	AuthoritiesMax    = 2       // of one zone that are trusted at the same time
	AuthorityMaxBytes = 8 << 10 // of the certificate of one, in DER
	VouchMaxBytes     = 128     // of the signature of one for the next

	// PinPause is the least time between two changes of the authorities that one linked zone reports,
	// so that no zone makes the log of another grow.
	PinPause = 10 * time.Second
)

// Fingerprint is the SHA-256 of an authority's certificate in DER, in lower-case hex; "" for none.
type Fingerprint string

// FingerprintOf returns the fingerprint of a certificate in DER, "" for none.
func FingerprintOf(der []byte) Fingerprint {
	if len(der) == 0 {
		return ""
	}
	sum := sha256.Sum256(der)
	return Fingerprint(hex.EncodeToString(sum[:]))
}

// Authority is the certificate of a zone's authority as other zones and agents are told of it.
type Authority struct {
	Cert  []byte `cbor:"1,keyasint"`           // DER
	Vouch []byte `cbor:"2,keyasint,omitempty"` // signature of the authority before it, see identity.CA.Vouch; none of a zone's first
}

// CAPhase is how far the change of a zone's authority is.
type CAPhase string

// The phases, in order. After the last one the zone is stable again.
const (
	CAStable  CAPhase = "stable"  // the zone has one authority
	CATrusted CAPhase = "trusted" // the next one is to be trusted everywhere; the old one issues
	CAUsed    CAPhase = "used"    // the next one issues; the old one is still trusted
)

// CAWaitKind is the kind of party that the change of an authority waits for.
type CAWaitKind string

// The kinds.
const (
	CAWaitNode  CAWaitKind = "node"
	CAWaitAgent CAWaitKind = "agent"
	CAWaitLink  CAWaitKind = "link"
	CAWaitToken CAWaitKind = "join-token"
)

// CAWait is a party that would be refused if the change of an authority went on now.
type CAWait struct {
	Kind CAWaitKind
	Name string // of the node, agent, link or newcomer
}
