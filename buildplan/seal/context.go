package seal

import (
	"encoding/binary"

	"berth/api"
)

// Context is what a sealed plan is bound to. The sealer and the opener each build
// it from their own call, and it is never sent; a plan opens only in a context
// that is equal in every field.
type Context struct {
	Zone        api.ZoneID        // the zone that seals and opens
	Peer        string            // zone id from the certificate of the link's peer, "" for the zone's own callers
	Project     api.ProjectID     // the tenant, as authenticated or as the peer asserts
	Reservation api.ReservationID // the reservation that the request is for
	Digest      [32]byte          // SHA-256 of the canonical request
}

// associatedData returns the associated data of a blob: suite, epoch and the fields
// of c, each with its length before it. No two different inputs give one output.
func (c Context) associatedData(epoch [EpochBytes]byte) []byte {
	n := 1 + len(epoch) + len(c.Zone) + len(c.Peer) + len(c.Project) + len(c.Reservation) + len(c.Digest)
	out := make([]byte, 0, n+7*fieldPrefixBytes)
	out = appendField(out, []byte{suite1})
	out = appendField(out, epoch[:])
	out = appendField(out, c.Zone)
	out = appendField(out, c.Peer)
	out = appendField(out, c.Project)
	out = appendField(out, c.Reservation)
	return appendField(out, c.Digest[:])
}

const fieldPrefixBytes = 8

// appendField appends the length of field in 8 bytes, big endian, and field.
func appendField[T ~string | ~[]byte](out []byte, field T) []byte {
	out = binary.BigEndian.AppendUint64(out, uint64(len(field)))
	return append(out, field...)
}
