package check

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// auditor follows the audit log by the commands and their outcomes alone.
type auditor struct {
	known  bool // whether number and sum are those of the log so far
	number uint64
	sum    []byte

	by    command.Audit // who proposed the next left commands of the entry at index
	index uint64
	left  int
}

// noteAudit learns where the audit log begins, once.
func (r *replay) noteAudit() {
	if r.auditor.known {
		return
	}
	r.auditor.known = true
	if all, before := r.s.Audit(); len(all) > 0 {
		r.auditor.number, r.auditor.sum = all[len(all)-1].Number, all[len(all)-1].Sum
	} else {
		r.auditor.sum = before
	}
}

// compareAudit compares the newest record of the audit log with what c and its outcome
// must have left there, and its sum with one that is computed here.
func (r *replay) compareAudit(index uint64, c command.Command, failed error) {
	a := &r.auditor
	note, begins := c.(command.Audit)
	own := begins && note.Count == 0
	switch {
	case begins:
		a.by, a.index, a.left = note, index, note.Count
	case a.index != index:
		a.left = 0
	}
	recorded := own || !begins && a.left > 0
	if recorded && !own {
		a.left--
	}
	if recorded = recorded && c.Form() >= api.FormFifth; recorded {
		a.number++
	}
	all, _ := r.s.Audit()
	if recorded && a.mayBeLeftOut(c, failed) && (len(all) == 0 || all[len(all)-1].Number == a.number-1) {
		a.number--
		recorded = false
	}
	if _, whole := c.(command.Restore); whole || len(all) == 0 {
		if whole { // a backup may have a longer one
			a.left, a.known = 0, false
			r.noteAudit()
		}
		if recorded && !whole {
			r.addViolation(promise.Model, index, "%T is not in the audit log", c)
		}
		return
	}
	got := all[len(all)-1]
	if got.Number != a.number {
		r.addViolation(promise.Model, index, "the audit log ends with record %d after %T, and not with %d", got.Number, c, a.number)
		return
	}
	if !recorded {
		return
	}
	change := reflect.TypeOf(c).Name()
	if own {
		change = ""
	}
	code := api.Code("")
	if failed != nil {
		code = api.CodeOf(failed)
	}
	if got.Index != index || got.At != r.s.Now() || got.Actor != a.by.Actor || got.Request != a.by.Request ||
		got.Call != a.by.Call || got.Change != change || got.Outcome != code {
		r.addViolation(promise.Model, index, "record %d of the audit log does not tell of %T by %v with outcome %q", got.Number, c, a.by.Actor, code)
	}
	if want := chainSum(got, a.sum); !bytes.Equal(want, got.Sum) {
		r.addViolation(promise.Model, index, "record %d of the audit log has sum %x, and not %x", got.Number, got.Sum, want)
	}
	a.sum = got.Sum
}

// mayBeLeftOut reports whether a command may have left no record: what a node or an agent says of itself again
// changes nothing, and an agent or a linked zone may have had its share of the records. The tests of raftstore/state
// say when.
func (a *auditor) mayBeLeftOut(c command.Command, failed error) bool {
	switch c.(type) { //nolint:gochecksumtype // no other command is left out
	case command.NodePut, command.HostsPut:
		if failed == nil {
			return true
		}
	}
	return a.by.Actor.Kind == api.ActorAgent || a.by.Actor.Kind == api.ActorLink
}

// chainSum computes the sum of a record after one with the sum before, as docs/operate.md has it.
func chainSum(r *api.AuditRecord, before []byte) []byte {
	var b []byte
	add := func(part []byte) { b = append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...) }
	add(before)
	numbers := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.Number), r.Index)
	add(binary.BigEndian.AppendUint64(numbers, uint64(r.At)))
	for _, part := range []any{
		r.Actor.Kind, r.Actor.ID, r.Actor.User, r.Actor.Project, r.Request, r.Call, r.Change, r.Target, r.Outcome,
	} {
		add(fmt.Append(nil, part))
	}
	sum := sha256.Sum256(b)
	return sum[:]
}
