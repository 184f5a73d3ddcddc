package api

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Instant is a moment in milliseconds since 1970-01-01T00:00:00Z. Log entries, claims and
// sealed plans use it: it is totally ordered, exact and the same on every machine. In JSON
// it is RFC 3339 in UTC, and Forever is null.
type Instant int64

// Forever is the end of a window without an end. It is later than any other instant.
const Forever Instant = math.MaxInt64

// InstantOf converts a wall-clock time, rounding down to a millisecond.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time converts back to a wall-clock time in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// Add returns the instant d later, or Forever when i is Forever or the sum
// would pass it.
func (i Instant) Add(d time.Duration) Instant {
	ms := Instant(d.Milliseconds())
	if i == Forever || ms > 0 && i > Forever-ms {
		return Forever
	}
	return i + ms
}

// String returns RFC 3339 with milliseconds, or "forever".
func (i Instant) String() string {
	if i == Forever {
		return "forever"
	}
	return i.Time().Format("2006-01-02T15:04:05.000Z")
}

// MarshalJSON writes RFC 3339, or null for Forever.
func (i Instant) MarshalJSON() ([]byte, error) {
	if i == Forever {
		return []byte("null"), nil
	}
	return json.Marshal(i.String())
}

// UnmarshalJSON reads RFC 3339 with any offset, or null for Forever.
func (i *Instant) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*i = Forever
		return nil
	}
	var t time.Time
	if err := json.Unmarshal(b, &t); err != nil {
		return fmt.Errorf("reading an instant: %w", err)
	}
	*i = InstantOf(t)
	return nil
}

// Window is a half-open span of time, [Start, End). Invariant: Start < End.
type Window struct {
	Start Instant `cbor:"1,keyasint"`
	End   Instant `cbor:"2,keyasint"`
}

// Valid reports whether Start < End.
func (w Window) Valid() bool { return w.Start < w.End }

// Contains reports whether Start <= t < End.
func (w Window) Contains(t Instant) bool { return w.Start <= t && t < w.End }
