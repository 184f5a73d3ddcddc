package check

import (
	"fmt"
	"maps"
	"slices"

	"berth/cluster-test/check/promise"
)

// Summary counts the checks of a whole run.
type Summary struct {
	Logs     []LogSummary // one for each zone
	History  HistorySummary
	Journals JournalSummary
	Acks     AckSummary
	Requeues RequeueSummary
	Faults   map[string]int // injected, by kind
}

// Floor is the minimum that a run must have checked to prove anything. A field of 0
// requires nothing. Kinds are faults that must each have been injected.
type Floor struct {
	Ops, OK          int      // of the history
	Local            int      // reads of nodes' own views
	Partitions       int      // searched for a linear order
	Provided         int      // operations on providers, of the history
	Leased           int      // operations on leases, of the history
	Commands, Claims int      // of all logs
	Drawn, Allocated int      // of all logs: parts of slots on others than hosts, and consumers with allocations
	States           int      // of nodes, compared with the replay
	Started          int      // starts in journals
	Boots            int      // with an outcome
	Faults           int      // injected in all
	Kinds            []string // of fault

	Acked     map[AckKind]int // calls that were acknowledged, by kind
	Outcomes  Outcomes        // of all logs: what has happened, such as "lease started" or "InstancePower ok"
	Values    int             // that acknowledged calls have set, and that were looked for
	Into      int             // instances that run in slots of leases
	Wanted    int             // instances that should run at the end
	Preempted int             // instances that were preempted and are booted again or wait for it
}

// Gate returns a violation for each count that is below its floor, and for
// searches that were not decided.
func Gate(s Summary, f Floor) []Violation {
	var commands, claims, drawn, allocated, states, faults int
	for _, l := range s.Logs {
		commands, claims, states = commands+l.Commands, claims+l.Claims, states+l.States
		drawn, allocated = drawn+l.Drawn, allocated+l.Allocated
	}
	for _, n := range s.Faults {
		faults += n
	}
	l := &list{}
	for _, c := range []struct {
		what       string
		got, least int
	}{
		{"operations", s.History.Ops, f.Ops},
		{"operations with an ok", s.History.OK, f.OK},
		{"reads of nodes' own views", s.History.Local, f.Local},
		{"partitions of the history", s.History.Partitions, f.Partitions},
		{"operations on providers", s.History.Models[providers], f.Provided},
		{"operations on leases", s.History.Models[leases], f.Leased},
		{"commands in logs", commands, f.Commands},
		{"claims in logs", claims, f.Claims},
		{"parts of slots on others than hosts", drawn, f.Drawn},
		{"consumers with allocations", allocated, f.Allocated},
		{"compared states", states, f.States},
		{"starts in journals", s.Journals.Started, f.Started},
		{"boots", s.Acks.Boots, f.Boots},
		{"faults", faults, f.Faults},
		{"values that calls have set", s.Acks.Values, f.Values},
		{"instances in slots of leases", s.Acks.Into, f.Into},
		{"instances that should run at the end", s.Journals.Wanted, f.Wanted},
		{"instances that were preempted and want to run again", s.Requeues.Preempted, f.Preempted},
	} {
		l.need(c.what, c.got, c.least)
	}
	for _, k := range slices.Sorted(maps.Keys(f.Acked)) {
		l.need("acknowledged calls of kind "+string(k), s.Acks.Kinds[k], f.Acked[k])
	}
	for _, what := range slices.Sorted(maps.Keys(f.Outcomes)) {
		got := 0
		for _, log := range s.Logs {
			got += log.Outcomes[what]
		}
		l.need("times "+what, got, f.Outcomes[what])
	}
	for _, k := range f.Kinds {
		if s.Faults[k] == 0 {
			l.putViolation(Violation{Rule: promise.Traffic, Text: "the fault " + k + " was never injected"})
		}
	}
	if n := s.History.Undecided; n > 0 {
		l.putViolation(Violation{Rule: promise.Undecided, Text: fmt.Sprintf("%d searches of the history were not decided", n)})
	}
	return l.all
}

// need adds a violation if there is less of something than is needed.
func (l *list) need(what string, got, least int) {
	if got < least {
		l.putViolation(Violation{Rule: promise.Traffic, Text: fmt.Sprintf("%d %s; at least %d are needed", got, what, least)})
	}
}
