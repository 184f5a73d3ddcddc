package api

import (
	"crypto/sha256"
	"encoding/binary"
)

// AuditActor is who made a change.
type AuditActor struct {
	Kind    ActorKind `cbor:"1,keyasint"`
	ID      string    `cbor:"2,keyasint,omitempty"` // of the token, node, agent or linked zone; "" for the zone itself
	User    UserID    `cbor:"3,keyasint,omitempty"` // of a token
	Project ProjectID `cbor:"4,keyasint,omitempty"` // of a token
}

// ActorKind is the kind of an actor.
type ActorKind string

// The kinds of actors.
const (
	ActorToken ActorKind = "token" // a caller of the public API
	ActorJoin  ActorKind = "join"  // a newcomer, by a join token
	ActorNode  ActorKind = "node"  // a node of the zone, about itself or on its own initiative
	ActorAgent ActorKind = "agent" // an agent of the zone
	ActorLink  ActorKind = "link"  // the zone at the other end of a link
	ActorZone  ActorKind = "zone"  // the zone by itself, such as a daily rotation
)

// AuditRecord is one change of the zone, or an attempt, and its outcome.
type AuditRecord struct {
	Number  uint64     `cbor:"1,keyasint"` // from 1, without gaps
	Index   uint64     `cbor:"2,keyasint"` // of the log entry
	At      Instant    `cbor:"3,keyasint"` // the zone's time
	Actor   AuditActor `cbor:"4,keyasint"`
	Request RequestID  `cbor:"5,keyasint,omitempty"`
	Call    string     `cbor:"6,keyasint,omitempty"` // method and path; at most AuditCallMaxBytes
	Change  string     `cbor:"7,keyasint,omitempty"` // kind of the command; "" for a change outside of the log
	Target  string     `cbor:"8,keyasint,omitempty"` // what it concerns, where Call does not say it
	Outcome Code       `cbor:"9,keyasint,omitempty"` // of a refusal; "" if it was done
	Sum     []byte     `cbor:"10,keyasint"`          // SumAfter of the record before it
}

// AuditPartyMax is how many of the records that are kept may be of one agent or of one linked zone.
// Its changes beyond are made and not recorded, until older records are dropped.
const AuditPartyMax = 500

// AuditCallMaxBytes bounds the call of a record of the audit log.
const AuditCallMaxBytes = 256

// SumAfter returns the SHA-256 of everything in r but its sum, and of the sum of the record
// before it: who knows one sum notices any change of the records up to it.
func (r *AuditRecord) SumAfter(before []byte) []byte {
	h := sha256.New()
	put := func(b []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		h.Write(size[:]) // a hash never fails
		h.Write(b)
	}
	put(before)
	var numbers [24]byte
	binary.BigEndian.PutUint64(numbers[:], r.Number)
	binary.BigEndian.PutUint64(numbers[8:], r.Index)
	binary.BigEndian.PutUint64(numbers[16:], uint64(r.At))
	put(numbers[:])
	for _, s := range []string{
		string(r.Actor.Kind), r.Actor.ID, string(r.Actor.User), string(r.Actor.Project),
		string(r.Request), r.Call, r.Change, r.Target, string(r.Outcome),
	} {
		put([]byte(s))
	}
	return h.Sum(nil)
}
