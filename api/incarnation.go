package api

import (
	"strconv"
	"time"
)

// Incarnation tells the lives of a zone apart: a zone that was brought back from a backup is the same zone and has forgotten
// what others have agreed with it since. It is the second of Unix time when it was brought back, 0 for a zone that never was,
// and only ever grows.
type Incarnation uint64

// String returns the number in the format of HeaderIncarnation.
func (n Incarnation) String() string { return strconv.FormatUint(uint64(n), 10) }

// ParseIncarnation reads HeaderIncarnation or HeaderMeant. An absent or malformed one is 0.
func ParseIncarnation(s string) Incarnation {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return Incarnation(n)
}

// Where the log of an incarnation begins. Nobody has heard of later terms or entries from an earlier one, as long as that has had
// fewer than 2^20 elections and 2^28 entries in each second.
const (
	incarnationTerms   = 1 << 20
	incarnationEntries = 1 << 28
)

// Begin returns the index and the term behind which the log of an incarnation goes on.
func (n Incarnation) Begin() (index, term uint64) {
	return uint64(n) * incarnationEntries, uint64(n) * incarnationTerms
}

// IncarnationMax is the largest one: from year 2500 on there are no more log indices.
const IncarnationMax Incarnation = 1 << 34

// IncarnationAheadMax is by how much the clock of a zone may have been ahead when it was brought back.
const IncarnationAheadMax = 24 * time.Hour

// IsToCome reports whether no zone can have been brought back as n by now. Who accepted such a one could accept no true one
// until then.
func (n Incarnation) IsToCome(now Instant) bool {
	return n > IncarnationMax || Instant(n)*1000 > now.Add(IncarnationAheadMax) //nolint:gosec // at most IncarnationMax
}
