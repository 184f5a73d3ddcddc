package api

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
)

// A type per kind of identifier, so that the compiler refuses a mix-up. All are
// opaque, case-sensitive and compare as byte strings.
type (
	// ZoneID names a zone for ever; a random UUID made by `berth init`.
	ZoneID string
	// NodeID names one control-plane process of a zone.
	NodeID string
	// AgentID names one agent process; an agent serves one or many hosts.
	AgentID string
	// HostID names a host (a resource provider); a random UUID.
	HostID string
	// LinkID names the enrolment of a parent or child zone; a random UUID that
	// both ends of the link share.
	LinkID string
	// InstanceID names an instance; a UUID, allotted before scheduling. See NewInstanceIDs.
	InstanceID string
	// ReservationID names the result of one request: "r-" and 12 characters, or a text of
	// the caller's choice.
	ReservationID string
	// HoldID names one attempt to hold slots; see HoldIDOf.
	HoldID string
	// PlanID names one sealed plan; a random UUID, consumed by one hold.
	PlanID string
	// FlavorID names a flavor; by default it is also the flavor's name.
	FlavorID string
	// ProjectID names a project of one zone; see Tenant.
	ProjectID string
	// UserID names a caller.
	UserID string
	// TokenID is the public half of a bearer or join token.
	TokenID string
	// ServerGroupID names a server group; a random UUID.
	ServerGroupID string
	// AggregateID names an aggregate; a random UUID.
	AggregateID string
	// BindingID names a binding; a random UUID.
	BindingID string
	// RequestID names one call, for logs and error replies.
	RequestID string
)

// NewUUID returns a random (version 4) UUID in its canonical text form.
// Pure packages must not call it; they get identifiers as arguments.
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// InstanceIDsMax is the largest number of ids that follow each other.
const InstanceIDsMax = 1 << 16

// NewInstanceIDs returns n ids, at most InstanceIDsMax, that follow each other: UUIDs of version 8
// whose last two bytes count up from 0, and whose other 106 bits are random.
func NewInstanceIDs(n int) []InstanceID {
	if n > InstanceIDsMax {
		panic(fmt.Sprintf("api.NewInstanceIDs: %d ids, and at most %d follow each other", n, InstanceIDsMax))
	}
	var b [16]byte
	_, _ = rand.Read(b[:14]) // never fails: crypto/rand ends the process instead
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	first := fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
	text := []byte(strings.Repeat(first, n)) // one piece of memory
	for i := range n {
		binary.BigEndian.PutUint16(b[14:], uint16(i)) //nolint:gosec // below InstanceIDsMax
		hex.Encode(text[(i+1)*len(first)-4:], b[14:])
	}
	all := string(text)
	out := make([]InstanceID, n)
	for i := range out {
		out[i] = InstanceID(all[i*len(first) : (i+1)*len(first)])
	}
	return out
}

// NewReservationID returns "r-" and 12 random characters of 0-9 and a-f.
func NewReservationID() ReservationID {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return ReservationID("r-" + hex.EncodeToString(b[:]))
}

// ValidName reports whether s may name a zone, host, flavor, project or user,
// or be a caller's reservation id or idempotency key: 1 to NameMaxBytes
// characters of A-Z a-z 0-9 . _ - that start with a letter or a digit.
func ValidName(s string) bool { return plain(s, NameMaxBytes) }

// InstanceNameMax bounds the name of an instance: the names of its boot and its group and
// a number, separated by dashes.
const InstanceNameMax = 2*NameMaxBytes + 8

// ValidInstanceName reports whether s may name an instance: 1 to InstanceNameMax
// characters that are valid in names.
func ValidInstanceName(s string) bool { return plain(s, InstanceNameMax) }

func plain(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		c := s[i]
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// IsHidden reports whether a character of a text could control a terminal, break a line, change the order in which others are
// shown, or not be seen.
func IsHidden(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// CheckName returns an invalid-input error naming field unless ValidName(s).
func CheckName(field, s string) error {
	if ValidName(s) {
		return nil
	}
	return Errorf(CodeInvalid, "%s must be 1 to %d characters of A-Z a-z 0-9 . _ - and start with a letter or digit",
		field, NameMaxBytes)
}
