package api

import "time"

// Limits of questions for room over time.
const (
	RoomUnit     = time.Minute // starts are multiples of it
	RoomStepsMax = 400         // steps of one answer
)

// NextStart returns the first start that is not before an instant.
func NextStart(at Instant) Instant {
	unit := Instant(RoomUnit.Milliseconds())
	return (at + unit - 1) / unit * unit
}

// RoomQuestion asks a child zone how many slots of a request that reserves would fit, by when
// they start. Nothing is held.
type RoomQuestion struct {
	Request Request `cbor:"1,keyasint"` // its window is that of the first start; its counts are what is needed
	Until   Instant `cbor:"2,keyasint"` // starts before it, with windows of the same length
}

// Starts returns the window of starts that are asked for.
func (q *RoomQuestion) Starts() Window { return Window{q.Request.Window.Start, q.Until} }

// Length returns how long the windows are.
func (q *RoomQuestion) Length() time.Duration {
	w := q.Request.Window
	return time.Duration(w.End-w.Start) * time.Millisecond
}

// Validate returns an invalid-input error for what is wrong with q beside its request.
func (q *RoomQuestion) Validate(now Instant) error {
	switch w := q.Request.Window; {
	case !q.Request.Reserves:
		return Errorf(CodeInvalid, "only a request that reserves can be asked for over time")
	case w.Start%Instant(RoomUnit.Milliseconds()) != 0 || w.End%Instant(RoomUnit.Milliseconds()) != 0:
		return Errorf(CodeInvalid, "a window that is asked for over time begins and ends with a minute")
	case q.Until <= w.Start:
		return Errorf(CodeInvalid, "the last start must be after the first")
	case q.Until > now.Add(LeaseLeadMax):
		return Errorf(CodeInvalid, "a lease must start within %d days", LeaseLeadMax/(24*time.Hour))
	}
	return nil
}

// RoomStep is how many slots of each group would fit by starting at an instant, or at any
// later one before the next step. Counts go up to what is needed.
type RoomStep struct {
	At       Instant `cbor:"1,keyasint"`
	Together []int   `cbor:"2,keyasint"`           // all of them beside each other
	Alone    []int   `cbor:"3,keyasint,omitempty"` // each group without the others; nil if that is no more
}

// Bound returns the counts that are not exceeded in any way.
func (s *RoomStep) Bound() []int {
	if s.Alone == nil {
		return s.Together
	}
	return s.Alone
}

// RoomAnswer is the answer to a RoomQuestion. It has counts by time alone, nothing of hosts.
type RoomAnswer struct {
	Steps  []RoomStep `cbor:"1,keyasint,omitempty"` // in order, at most RoomStepsMax; before the first there is nothing
	Until  Instant    `cbor:"2,keyasint"`           // all starts before it were looked at in every zone; later steps may be too low
	Silent bool       `cbor:"3,keyasint,omitempty"` // a zone below did not answer
}

// IsSound reports whether a can be the answer to q.
func (a *RoomAnswer) IsSound(q *RoomQuestion) bool {
	if len(a.Steps) > RoomStepsMax || a.Until < q.Request.Window.Start || a.Until > q.Until {
		return false
	}
	last := q.Request.Window.Start - 1
	for i := range a.Steps {
		s := &a.Steps[i]
		if s.At <= last || s.At >= q.Until || !soundCounts(s.Together, q) || s.Alone != nil && !soundCounts(s.Alone, q) {
			return false
		}
		last = s.At
	}
	return true
}

func soundCounts(counts []int, q *RoomQuestion) bool {
	if len(counts) != len(q.Request.Groups) {
		return false
	}
	for g, n := range counts {
		if n < 0 || n > q.Request.Groups[g].Count {
			return false
		}
	}
	return true
}
