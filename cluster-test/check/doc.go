// Package check checks whether a zone kept its promises, from the records of a run: logs,
// client histories, agents' journals and final states.
//
// The checkers are slow and obvious, and share no code with the code that they judge,
// except the vocabulary (api), the encoding of entries (raftstore/command), and the real
// state (raftstore/state) for comparison. They take data and return violations; they
// never start, stop or call anything, and never end a test. A checker that could not
// decide reports this as a violation.
//
// All functions may be called from several goroutines, each with its own data.
package check

import (
	"fmt"
	"time"

	"berth/cluster-test/check/promise"
)

// Violation is one broken promise.
type Violation struct {
	Rule  promise.Name
	Zone  string        // "" if it concerns no zone in particular
	Index uint64        // log index, 0 if there is none
	At    time.Duration // since the history began, 0 if there is none
	Text  string
}

// String returns one line for people.
func (v Violation) String() string {
	s := string(v.Rule)
	if v.Zone != "" {
		s += " in " + v.Zone
	}
	if v.Index != 0 {
		s += fmt.Sprintf(" at index %d", v.Index)
	}
	if v.At != 0 {
		s += fmt.Sprintf(" after %v", v.At)
	}
	return s + ": " + v.Text
}

// violationsMax bounds the list of one checker; the first violations are the most useful.
const violationsMax = 50

// list collects violations of one zone, up to violationsMax.
type list struct {
	zone string
	all  []Violation
}

func (l *list) addViolation(rule promise.Name, index uint64, format string, args ...any) {
	l.putViolation(Violation{Rule: rule, Zone: l.zone, Index: index, Text: fmt.Sprintf(format, args...)})
}

func (l *list) putViolation(v Violation) {
	if !l.isFull() {
		l.all = append(l.all, v)
	}
}

func (l *list) isFull() bool { return len(l.all) >= violationsMax }
