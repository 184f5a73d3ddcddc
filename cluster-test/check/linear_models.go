package check

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"berth/api"
)

// Names of the models.
const (
	hosts   = "hosts"
	repeats = "repeats"
	sagas   = "sagas"

	providers = "providers"
	leases    = "leases"
)

// steps makes a porcupine model of a step on states of one comparable type.
func steps[S comparable](step func(S, Op) (bool, S)) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return kept[S]{} },
		Step: func(s, in, _ any) (bool, any) {
			ok, next := s.(kept[S]).stepTo(in.(Op), step)
			return ok, next
		},
		DescribeOperation: func(in, _ any) string {
			op := in.(Op)
			return fmt.Sprintf("%s %+v: %s %+v", op.Kind, op.In, op.Outcome, op.Out)
		},
		DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}

// kept is what is known of something, and what the newest backup has of it.
type kept[S comparable] struct {
	now, then S
	backup    string // the name of the backup, "" for none
}

// stepTo saves or restores a state, or lets step take it on.
func (s kept[S]) stepTo(op Op, step func(S, Op) (bool, S)) (bool, kept[S]) {
	switch {
	case op.Kind == ZoneBackup:
		return true, kept[S]{s.now, s.now, op.In.Key}
	case op.Kind == ZoneRestore && s.backup == op.In.Key:
		return true, kept[S]{s.then, s.then, s.backup}
	case op.Kind == ZoneRestore:
		return op.Outcome == Unknown, s
	}
	ok, next := step(s.now, op)
	s.now = next
	return ok, s
}

// hostState is the knowledge of a host. Unless quiet, boots and agents increase the
// generation unseen, so generation is a lower bound.
type hostState struct {
	generation uint64
	known      bool // the generation is; always so after a read
	enabled    bool
	told       bool // enabled is known
	used       string
	counted    bool // used is known, at this generation
}

func hostModel(quiet bool) linear {
	return linear{
		name: hosts,
		key:  func(op Op) (string, bool) { return string(op.In.Host), op.Kind == HostSet || op.Kind == HostRead },
		model: steps(func(s hostState, op Op) (bool, hostState) {
			if op.Kind == HostRead {
				return s.readAt(op, quiet)
			}
			return s.setAt(op, quiet)
		}),
	}
}

// reachGeneration moves s to a generation, if that is possible. Earlier generations cannot
// be seen any more.
func (s hostState) reachGeneration(generation uint64, quiet bool) (bool, hostState) {
	if s.known && (generation < s.generation || quiet && generation != s.generation) {
		return false, s
	}
	if generation != s.generation {
		s.used, s.counted = "", false
	}
	s.generation, s.known = generation, true
	return true, s
}

func (s hostState) readAt(op Op, quiet bool) (bool, hostState) {
	if op.Outcome == Refused {
		return op.Out.Code != api.CodeNotFound, s // a host of a history is never deleted
	}
	ok, next := s.reachGeneration(op.Out.Generation, quiet)
	used := op.Out.Used.String()
	switch {
	case !ok, s.told && s.enabled != op.Out.Enabled, next.counted && next.used != used:
		return false, s
	}
	next.enabled, next.told, next.used, next.counted = op.Out.Enabled, true, used, true
	return true, next
}

func (s hostState) setAt(op Op, quiet bool) (bool, hostState) {
	want := op.In.Generation
	if op.Outcome == Refused {
		return s.refuseStale(op, quiet)
	}
	next := s
	if want != 0 {
		var ok bool
		if ok, next = s.reachGeneration(want, quiet); !ok {
			return op.Outcome == Unknown, s // it was refused, if it arrived at all
		}
	}
	changed := !s.told || s.enabled != op.In.Enabled
	if changed {
		next.used, next.counted = "", false
	}
	switch {
	case changed && s.told && next.known:
		next.generation++
	case changed: // it may have been so before
		next.known = next.known && !quiet
	}
	next.enabled, next.told = op.In.Enabled, true
	// The answer to an update was read after it, and may be later.
	if told := op.Out.Generation; op.Outcome == OK && told != 0 && next.known && (told < next.generation || quiet && told != next.generation) {
		return false, s
	}
	return true, next
}

// refuseStale is an update that was refused.
func (s hostState) refuseStale(op Op, quiet bool) (bool, hostState) {
	switch {
	case op.Out.Code != api.CodeStale:
		return op.Out.Code != api.CodeNotFound, s
	case op.Out.Generation != 0 && op.Out.Generation == op.In.Generation:
		return false, s
	case op.Out.Generation != 0:
		return s.reachGeneration(op.Out.Generation, quiet)
	}
	return !quiet || !s.known || s.generation != op.In.Generation, s
}

// repeatState is the meaning of one idempotency key, or reservation id.
type repeatState struct {
	there  bool
	digest string
	answer api.ReservationID // "" until a client has it
}

func repeatModel() linear {
	return linear{
		name: repeats,
		key: func(op Op) (string, bool) {
			id := "key " + op.In.Key
			if op.In.Key == "" {
				id = "reservation " + string(op.In.Reservation)
			}
			named := op.In.Key != "" || op.In.Reservation != ""
			return string(op.In.Project) + " " + id, op.Kind == BootAsk && named
		},
		model: steps(repeatState.step),
	}
}

func (s repeatState) step(op Op) (bool, repeatState) {
	first := repeatState{there: true, digest: op.In.Digest, answer: op.Out.Reservation}
	switch {
	case op.Outcome == Refused && op.Out.Code == api.CodeConflict:
		return s.there && s.digest != op.In.Digest, s
	case op.Outcome == Refused:
		return true, s
	case !s.there:
		return true, first
	case op.Outcome == Unknown:
		return true, s // a repeat, or a conflict
	case s.digest != op.In.Digest || s.answer != "" && s.answer != op.Out.Reservation:
		return false, s
	}
	return true, first
}

// sagaState is the progress of a reservation.
type sagaState struct {
	there  bool
	stage  api.BootState // the last that was seen, or must have been
	built  bool          // it was decided commit
	ended  bool          // its owner requested its deletion
	failed bool          // it was decided abort, without a request to delete it
}

func sagaModel() linear {
	return linear{
		name: sagas,
		key: func(op Op) (string, bool) {
			r := op.In.Reservation
			if r == "" {
				r = op.Out.Reservation
			}
			mine := op.Kind == BootAsk || op.Kind == BootRead || op.Kind == BootRelease
			return string(op.In.Project) + " " + string(r), mine && r != ""
		},
		model: steps(sagaState.step),
	}
}

func (s sagaState) step(op Op) (bool, sagaState) {
	next := s
	switch {
	case op.Outcome == Refused && op.Kind == BootAsk: // see repeatState
		return true, s
	case op.Outcome == Refused:
		return op.Out.Code != api.CodeNotFound || !s.there, s
	case op.Kind == BootAsk && !s.there:
		return true, sagaState{there: true, stage: api.BootAccepted}
	case op.Kind == BootAsk:
		return true, s
	case !s.there:
		return op.Outcome == Unknown, s
	case op.Kind == BootRelease:
		next.ended = true
		return true, next
	}
	return s.seeState(op.Out.State)
}

// stages orders the states of a boot. Nothing goes back.
var stages = map[api.BootState]int{
	api.BootAccepted: 1, api.BootHolding: 2, api.BootBuilding: 3, api.BootActive: 4, api.BootDegraded: 4, api.BootError: 4,
	api.BootReleasing: 5, api.BootFailed: 6, api.BootReleased: 7,
}

// seeState moves s to a state that a reader has seen, if that is possible.
func (s sagaState) seeState(st api.BootState) (bool, sagaState) {
	next := s
	next.stage = st
	going := st == api.BootReleasing || st == api.BootReleased
	switch {
	case stages[st] == 0 || stages[st] < stages[s.stage]:
		return false, s
	case s.ended && !going:
		return false, s // its deletion was requested before
	case st == api.BootFailed:
		next.failed = true
		return !s.built, next
	case st == api.BootReleased && s.failed:
		return s.ended, next
	case st == api.BootReleased && !s.ended:
		return true, next // every instance was deleted by itself
	case st == api.BootBuilding || st == api.BootActive || st == api.BootDegraded || st == api.BootError:
		next.built = true
	}
	return true, next
}
