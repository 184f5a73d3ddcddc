package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/cluster-test/check/promise"
)

// localReads checks reads of nodes' own views, which may be old but not wrong: on
// one node the index never goes back from one call to a later one, a reservation
// goes forward in order of the index, and reads of a host at one generation agree. A restore takes reservations and
// generations back at an index that no client knows: of a zone that has one, only the first holds.
func localReads(l *list, ops []Op) {
	restored := map[string]bool{}
	for _, op := range ops {
		if op.Kind == ZoneRestore && op.Outcome != Refused {
			restored[op.Zone] = true
		}
	}
	var reads, facts []Op
	for _, op := range ops {
		if op.Local && op.Outcome == OK {
			reads = append(reads, op)
			if !restored[op.Zone] {
				facts = append(facts, op)
			}
		}
	}
	nodeOrder(l, reads)
	sagaOrder(l, facts)
	hostFacts(l, facts)
}

func addWrong(l *list, op Op, format string, args ...any) {
	l.putViolation(Violation{Rule: promise.Read, Zone: op.Zone, Index: op.Index, At: time.Duration(op.Call), Text: fmt.Sprintf(format, args...)})
}

// nodeOrder compares each read with those of the same node that had returned
// before it was called.
func nodeOrder(l *list, reads []Op) {
	type node struct{ zone, name string }
	byNode := map[node][]Op{}
	for _, op := range reads {
		if op.Index != 0 {
			n := node{op.Zone, op.Node}
			byNode[n] = append(byNode[n], op)
		}
	}
	for n, calls := range byNode {
		returns := slices.Clone(calls)
		slices.SortFunc(calls, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
		slices.SortFunc(returns, func(a, b Op) int { return cmp.Compare(a.Return, b.Return) })
		seen, i := uint64(0), 0
		for _, op := range calls {
			for ; i < len(returns) && returns[i].Return < op.Call; i++ {
				seen = max(seen, returns[i].Index)
			}
			if op.Index < seen {
				addWrong(l, op, "node %s had shown index %d before", n.name, seen)
			}
		}
	}
}

// sagaOrder checks that a reservation goes forward along the log, over all nodes.
func sagaOrder(l *list, reads []Op) {
	byBoot := map[string][]Op{}
	for _, op := range reads {
		if op.Kind == BootRead && op.Index != 0 {
			k := op.Zone + " " + string(op.In.Project) + " " + string(op.In.Reservation)
			byBoot[k] = append(byBoot[k], op)
		}
	}
	for k, of := range byBoot {
		slices.SortFunc(of, func(a, b Op) int { return cmp.Compare(a.Index, b.Index) })
		s := sagaState{there: true}
		for i, op := range of {
			if op.Out.State == "RELEASED" { // whether its deletion was requested is unknown here
				s.ended = true
			}
			ok, next := s.seeState(op.Out.State)
			if same := i > 0 && of[i-1].Index == op.Index && of[i-1].Out.State != op.Out.State; !ok || same {
				addWrong(l, op, "reservation %s is %s, after %s", k, op.Out.State, s.stage)
				break
			}
			s = next
		}
	}
}

// hostFacts checks that all reads of a host at one generation agree.
func hostFacts(l *list, reads []Op) {
	type at struct {
		zone, host string
		generation uint64
	}
	facts := map[at]string{}
	for _, op := range reads {
		if op.Kind != HostRead {
			continue
		}
		k := at{op.Zone, string(op.In.Host), op.Out.Generation}
		fact := fmt.Sprintf("enabled %v, used %v", op.Out.Enabled, op.Out.Used)
		if before, known := facts[k]; known && before != fact {
			addWrong(l, op, "host %s at generation %d: %s, and elsewhere %s", k.host, k.generation, fact, before)
		}
		facts[k] = fact
	}
}
