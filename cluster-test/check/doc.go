// Package check says whether a zone kept its promises, from what a run leaves
// behind: logs, client histories, agents' journals and final states.
//
// The checkers are slow and obvious, and share no code with what they judge:
// only words (api), the spelling of entries (raftstore/command), and the real
// state (raftstore/state) for comparison. They take data and return violations;
// they never start, stop or ask anything, and never end a test. A checker that
// could not decide says so as a violation.
//
// All functions may be called from several goroutines, each with its own data.
package check

import (
	"fmt"
	"time"
)

// Rule names the promise that a violation breaks.
type Rule string

// The rules.
const (
	RuleCapacity   Rule = "I1 capacity"     // use above capacity at some instant of a window
	RuleShrink     Rule = "I1b shrink"      // a claim on a host that is over-full
	RuleGeneration Rule = "I2 generation"   // a generation did not rise by one, or a stale writer had its way
	RuleDurable    Rule = "I3 durability"   // something acknowledged is missing
	RuleAgree      Rule = "I4 agreement"    // nodes of one zone differ, or a restored state does
	RuleGhost      Rule = "I5 no ghost"     // something refused is there
	RuleOnce       Rule = "I6 at most once" // an instance id was claimed or ran twice
	RuleExactly    Rule = "I7 exactly once" // what should run does not, or the reverse
	RuleSaga       Rule = "I8 saga"         // a boot is neither whole nor gone
	RuleRepeat     Rule = "I9 idempotency"  // a repeat got another answer
	RulePlan       Rule = "I12 plan once"   // a plan was taken up twice
	RulePlanAge    Rule = "I13 plan age"    // a plan was taken up after its expiry
	RuleRead       Rule = "I18 reads"       // a read shows what cannot have been
	RuleFence      Rule = "I19 fencing"     // an agent's term went down
	RuleTime       Rule = "I21 time"        // a zone's time fell
	RuleProgress   Rule = "I23 progress"    // something does not end
	RuleBound      Rule = "I24 rules"       // members of a rule are where it does not let them be
	RuleMove       Rule = "I25 moves"       // an instance moves that must not, or is started before it has stopped
	RuleWindow     Rule = "I26 window"      // room was taken for a parent at another time than now, or of another class than firm
	RuleModel      Rule = "model"           // the state differs from the model in a way that no other rule names
	RuleInput      Rule = "input"           // the evidence has a gap or cannot be read
	RuleUndecided  Rule = "undecided"       // a checker ran out of time
	RuleTraffic    Rule = "too little"      // the run proves too little
)

// Violation is one broken promise.
type Violation struct {
	Rule  Rule
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

// ViolationsMax bounds what one checker lists; the first ones tell most.
const ViolationsMax = 50

// list collects violations of one zone, up to ViolationsMax.
type list struct {
	zone string
	all  []Violation
}

func (l *list) add(rule Rule, index uint64, format string, args ...any) {
	l.put(Violation{Rule: rule, Zone: l.zone, Index: index, Text: fmt.Sprintf(format, args...)})
}

func (l *list) put(v Violation) {
	if !l.full() {
		l.all = append(l.all, v)
	}
}

func (l *list) full() bool { return len(l.all) >= ViolationsMax }
