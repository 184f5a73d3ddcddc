package check

import "berth/api"

// providerState is what is known of a provider with one resource class that nobody
// but the clients of the history changes. A claim or a release is of one consumer
// that no other operation names.
type providerState struct {
	generation uint64
	total      int64
	used       int64
}

func providerModel() linear {
	return linear{
		name: providers,
		key: func(op Op) (string, bool) {
			mine := op.Kind == ProviderSet || op.Kind == ProviderRead || op.Kind == ProviderClaim || op.Kind == ProviderFree
			return string(op.In.Provider), mine
		},
		model: steps(providerState.step),
	}
}

func (s providerState) step(op Op) (bool, providerState) {
	switch op.Kind {
	case ProviderSet:
		return s.set(op)
	case ProviderClaim:
		return s.claim(op)
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
	return true, s // it was refused, if it came at all
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
