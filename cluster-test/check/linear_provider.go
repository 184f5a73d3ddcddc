package check

import (
	"slices"

	"github.com/anishathalye/porcupine"

	"berth/api"
)

// providerState is the knowledge of a provider with one resource class that only the
// clients of the history change. A claim or a release is for one consumer that no other
// operation names.
type providerState struct {
	generation uint64
	total      int64
	used       int64
}

func providerModel() linear {
	return linear{
		name: providers, pins: pinOps,
		key: func(op Op) (string, bool) {
			mine := slices.Contains([]Kind{ProviderSet, ProviderRead, ProviderClaim, ProviderSwap, ProviderFree}, op.Kind)
			return string(op.In.Provider), mine
		},
		model: steps(providerState.step),
	}
}

func (s providerState) step(op Op) (bool, providerState) {
	switch op.Kind { //nolint:exhaustive // the rest are of other models, and ProviderRead
	case ProviderSet:
		return s.set(op)
	case ProviderClaim:
		return s.claim(op)
	case ProviderSwap:
		return s.swap(op)
	case ProviderFree: // the generation stays
		next := s
		next.used -= op.In.Amount
		return op.Outcome != Refused && next.used >= 0, next
	default:
		return op.Outcome == OK && op.Out.Generation == s.generation && op.Out.Amount == s.used, s
	}
}

// set is a new total by a writer that saw a generation.
func (s providerState) set(op Op) (bool, providerState) {
	current := op.In.Generation == s.generation
	next := providerState{s.generation + 1, op.In.Amount, s.used}
	switch {
	case op.Outcome == OK:
		return current, next
	case op.Outcome == Refused:
		return !current && op.Out.Code == api.CodeStale, s
	case current:
		return true, next
	}
	return true, s // it was refused, if it arrived at all
}

// swap is a claim, or the end of one with an amount below 0, by a writer that saw a
// generation.
func (s providerState) swap(op Op) (bool, providerState) {
	current := op.In.Generation == s.generation
	room := op.In.Amount < 0 || s.used+op.In.Amount <= s.total
	next := providerState{s.generation + 1, s.total, s.used + op.In.Amount}
	switch {
	case op.Outcome == OK:
		return current && room && next.used >= 0, next
	case op.Outcome == Refused && op.Out.Code == api.CodeStale:
		return !current, s
	case op.Outcome == Refused:
		return current && !room && op.Out.Code == api.CodeNoCapacity, s
	case current && room:
		return true, next
	}
	return true, s
}

func (s providerState) claim(op Op) (bool, providerState) {
	room := s.used+op.In.Amount <= s.total
	next := providerState{s.generation + 1, s.total, s.used + op.In.Amount}
	switch {
	case op.Outcome == OK:
		return room, next
	case op.Outcome == Refused:
		return !room && op.Out.Code == api.CodeNoCapacity, s
	case room:
		return true, next
	}
	return true, s
}

// pinScale is how many parts pins divide a nanosecond into.
const pinScale = 1 << 20

// pinOps gives each operation on one provider a point between its call and its return.
// If all of them have a generation, there is one order of the generations, and the
// earliest point for everything in that order is found without a search: if the points
// have an order, the history has one. It returns false if an operation has no generation,
// or no point; that proves nothing.
func pinOps(ops []porcupine.Operation) ([]porcupine.Operation, bool) {
	at := map[uint64][]int{} // by generation: those that must see it
	moved := map[uint64]int{}
	var stale []int
	for i := range ops {
		op := ops[i].Input.(Op)
		told := op.Kind == ProviderRead || op.Kind == ProviderSet || op.Kind == ProviderSwap
		switch {
		case !told || op.Outcome == Unknown:
			return nil, false
		case op.Kind == ProviderRead:
			at[op.Out.Generation] = append(at[op.Out.Generation], i)
		case op.Outcome == OK:
			if _, twice := moved[op.In.Generation]; twice {
				return nil, false
			}
			moved[op.In.Generation] = i
		case op.Out.Code == api.CodeStale:
			stale = append(stale, i)
		default:
			at[op.In.Generation] = append(at[op.In.Generation], i)
		}
	}
	point, left := make([]int64, len(ops)), map[uint64]int64{} // left is when a generation ends
	var now int64
	for g := uint64(0); ; g++ {
		begin := now
		for _, i := range at[g] {
			point[i] = max(begin, ops[i].Call*pinScale) + 1
			now = max(now, point[i])
		}
		i, on := moved[g]
		if !on {
			break
		}
		point[i] = max(now, ops[i].Call*pinScale) + 1
		now, left[g] = point[i]+1, point[i]
	}
	for _, i := range stale {
		g := ops[i].Input.(Op).In.Generation
		point[i] = ops[i].Call*pinScale + 1
		if end, is := left[g]; (!is || point[i] <= end) && (g == 0 || point[i] > left[g-1]) {
			point[i] = end + 1
		}
	}
	return pinnedOps(ops, point)
}

// pinnedOps returns operations that take no time, unless one is not where it can be.
func pinnedOps(ops []porcupine.Operation, point []int64) ([]porcupine.Operation, bool) {
	out := slices.Clone(ops)
	for i := range out {
		if point[i] <= ops[i].Call*pinScale || point[i] > ops[i].Return*pinScale {
			return nil, false
		}
		out[i].ClientId, out[i].Call, out[i].Return = i, point[i], point[i]
	}
	return out, true
}
