package check

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"berth/cluster-test/check/promise"
)

// HistoryOptions configure the check of a history.
type HistoryOptions struct {
	// Limit is how long all searches together may take; 0 means HistoryLimit.
	Limit time.Duration
	// Dir is an existing folder for a drawing of each partition that is not linearizable;
	// "" for none.
	Dir string
	// Quiet is set if only the clients of this history changed its hosts: no boots, no
	// agents that come and go. Then generations may not jump.
	Quiet bool
}

// HistoryLimit is the default of HistoryOptions.Limit.
const HistoryLimit = 2 * time.Minute

// HistorySummary counts what History has checked.
type HistorySummary struct {
	Ops, OK, Refused, Unknown int
	Local                     int            // reads of a node's own view
	Models                    map[string]int // operations by model
	Partitions, Undecided     int
}

// History searches for a linear order of the operations that explains the answers to all
// clients, one host, provider, request, reservation and lease at a time, and checks that local reads are
// possible. An operation of unknown outcome may have happened
// at any time after its call, or never. A search that does not end within the
// limit is a violation.
func History(ops []Op, o HistoryOptions) (HistorySummary, []Violation) {
	if o.Limit == 0 {
		o.Limit = HistoryLimit
	}
	deadline := time.Now().Add(o.Limit)
	l := &list{}
	sum := HistorySummary{Models: map[string]int{}}
	for _, op := range ops {
		sum.countOp(l, op)
	}
	for _, m := range []linear{hostModel(o.Quiet), providerModel(), repeatModel(), sagaModel(), leaseModel()} {
		for _, p := range m.partition(ops) {
			sum.Models[m.name] += len(p.ops)
			sum.Partitions++
			sum.searchPartition(l, m, p, deadline, o.Dir)
		}
	}
	localReads(l, ops)
	return sum, l.all
}

// countOp counts one operation and refuses an impossible one.
func (s *HistorySummary) countOp(l *list, op Op) {
	s.Ops++
	switch op.Outcome {
	case OK:
		s.OK++
	case Refused:
		s.Refused++
	case Unknown:
		s.Unknown++
	default:
		l.addViolation(promise.Input, 0, "an operation has the outcome %q", op.Outcome)
	}
	if op.Local {
		s.Local++
	}
	if op.Outcome != Unknown && op.Return < op.Call {
		l.addViolation(promise.Input, 0, "client %d: %s returned %d ns before it was called", op.Client, op.Kind, op.Call-op.Return)
	}
}

// linear is a model and the operations that belong to it.
type linear struct {
	name  string
	key   func(Op) (string, bool) // the partition of an operation, and if it has one
	model porcupine.Model
	// pins, if there is one, finds a point for each operation, so that only the order of
	// those remains to be checked.
	pins func([]porcupine.Operation) ([]porcupine.Operation, bool)
}

// isPinned reports whether there is an order without any search.
func (m *linear) isPinned(ops []porcupine.Operation) bool {
	if m.pins == nil {
		return false
	}
	points, ok := m.pins(ops)
	return ok && porcupine.CheckOperations(m.model, points)
}

// portion is the operations on one thing.
type portion struct {
	key  string
	zone string
	ops  []porcupine.Operation
}

// partition returns the operations with information, by partition, in order of key. Backups and restores of a zone
// are in each partition of it.
func (m *linear) partition(ops []Op) []portion {
	byKey := map[string]*portion{}
	var keys []string
	open := map[attempt]int{}
	for _, op := range ops {
		key, mine := m.key(op)
		if op.Outcome == Unknown && (op.Kind == LeaseUpdate || op.Kind == LeaseDelete) {
			of := attempt{op.Zone, op.Kind, op.In}
			open[of]++
			mine = mine && open[of] <= attemptsMax
		}
		if !mine || op.Local || op.Outcome == Unknown && op.Kind.isRead() || op.isUndone() {
			continue
		}
		key = op.Zone + " " + key
		if byKey[key] == nil {
			byKey[key] = &portion{key: key, zone: op.Zone}
			keys = append(keys, key)
		}
		byKey[key].add(op)
	}
	for _, p := range byKey {
		p.addRestores(ops)
	}
	slices.Sort(keys)
	out := make([]portion, len(keys))
	for i, k := range keys {
		out[i] = *byKey[k]
	}
	return out
}

// attemptsMax is how many attempts of unknown outcome at the same thing are looked at, the first ones: whenever a later one may have
// its effect, these may. A search takes longer with each.
const attemptsMax = 3

// attempt is what attempts have in common that may each have the same effect.
type attempt struct {
	zone string
	kind Kind
	in   Input
}

func (p *portion) add(op Op) {
	end := op.Return
	if op.Outcome == Unknown {
		end = math.MaxInt64
	}
	p.ops = append(p.ops, porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: end})
}

// addRestores adds the backups and the restores of the zone of p. What was under way in a backup goes on after a
// restore of it, so that it may have its effect a second time.
func (p *portion) addRestores(ops []Op) {
	mine := p.ops
	backups := map[string]Op{}
	for _, op := range ops {
		switch {
		case op.Zone != p.zone:
		case op.Kind == ZoneBackup && op.Outcome == OK:
			backups[op.In.Key] = op
			p.add(op)
		case op.Kind == ZoneRestore && op.Outcome != Refused:
			p.add(op)
			for _, o := range mine {
				if again := o.Input.(Op); again.goesOnFrom(backups[op.In.Key]) {
					again.Call, again.Outcome = op.Call, Unknown
					p.add(again)
				}
			}
		}
	}
}

// goesOnFrom reports whether a backup may have an operation half done. Only the room of a lease takes more than one
// entry of the log.
func (op *Op) goesOnFrom(backup Op) bool {
	slow := op.Kind == LeaseCreate || op.Kind == LeaseUpdate
	return slow && op.Outcome != Refused && op.Call <= backup.Return && (op.Outcome == Unknown || op.Return >= backup.Call)
}

// searchPartition decides one partition.
func (s *HistorySummary) searchPartition(l *list, m linear, p portion, deadline time.Time, dir string) {
	left := time.Until(deadline)
	if left <= 0 || l.isFull() {
		s.Undecided++
		l.putViolation(Violation{Rule: promise.Undecided, Zone: p.zone, Text: "no time was left for " + m.name + " of " + p.key})
		return
	}
	if m.isPinned(p.ops) {
		return
	}
	switch porcupine.CheckOperationsTimeout(m.model, p.ops, left) {
	case porcupine.Ok:
	case porcupine.Unknown:
		s.Undecided++
		l.putViolation(Violation{Rule: promise.Undecided, Zone: p.zone, Text: fmt.Sprintf("%s of %s: %d operations were not decided in time", m.name, p.key, len(p.ops))})
	case porcupine.Illegal:
		text := fmt.Sprintf("%s of %s: no order explains its %d operations", m.name, p.key, len(p.ops))
		rule := promise.Read
		if m.name == repeats {
			rule = promise.Repeat
		}
		if dir != "" {
			text += drawPartition(m, p, filepath.Join(dir, fmt.Sprintf("history-%03d.html", len(l.all))))
		}
		l.putViolation(Violation{Rule: rule, Zone: p.zone, At: time.Duration(p.ops[0].Call), Text: text})
	}
}

// drawPartition writes a drawing of a partition and returns its path, or the reason for
// having none.
func drawPartition(m linear, p portion, path string) string {
	_, info := porcupine.CheckOperationsVerbose(m.model, p.ops, HistoryLimit)
	if err := porcupine.VisualizePath(m.model, info, path); err != nil {
		return "; it could not be drawn: " + err.Error()
	}
	return "; see " + path
}
