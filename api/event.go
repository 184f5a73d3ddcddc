package api

import (
	"cmp"
	"strconv"
	"strings"
)

// EventID names an event of a zone, or a position between events: after the event that it
// names. Its text is the same on every node: INDEX-NUMBER, and -HISTORY behind it once the
// zone has been restored from a backup.
type EventID struct {
	Index   uint64 `cbor:"1,keyasint"`           // of the log entry
	Number  int    `cbor:"2,keyasint"`           // within the entry, from 1; 0 is before its first event
	History string `cbor:"3,keyasint,omitempty"` // "" until a backup has replaced the state
}

// EventIDMaxBytes bounds the text of an EventID.
const EventIDMaxBytes = 64

// String returns the text of the id.
func (e EventID) String() string {
	s := strconv.FormatUint(e.Index, 10) + "-" + strconv.Itoa(e.Number)
	if e.History != "" {
		s += "-" + e.History
	}
	return s
}

// After reports whether e comes after o in one history.
func (e EventID) After(o EventID) bool {
	return cmp.Or(cmp.Compare(e.Index, o.Index), cmp.Compare(e.Number, o.Number)) > 0
}

// ParseEventID reads the text of an id.
func ParseEventID(s string) (EventID, error) {
	bad := Errorf(CodeInvalid, "%.*q is not the id of an event, such as 4711-2", EventIDMaxBytes, s)
	if len(s) > EventIDMaxBytes {
		return EventID{}, bad
	}
	index, rest, _ := strings.Cut(s, "-")
	number, history, named := strings.Cut(rest, "-")
	var e EventID
	var err error
	if e.Index, err = strconv.ParseUint(index, 10, 64); err != nil {
		return EventID{}, bad
	}
	if e.Number, err = strconv.Atoi(number); err != nil || e.Number < 0 {
		return EventID{}, bad
	}
	if e.History = history; named && !ValidName(history) || e.String() != s {
		return EventID{}, bad
	}
	return e, nil
}
