package saga

import (
	"context"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// EndInstance ends an instance that was made for a parent. "Not found" means that it
// has ended for good, and the parent deletes it.
func (s *Saga) EndInstance(ctx context.Context, parent *api.Link, id api.InstanceID) error {
	end := func(ctx context.Context) error {
		if i, ok := s.zone.View().Instance(id); !ok || i.Origin != parent.ID || !i.Live() {
			return api.Errorf(api.CodeNotFound, "no such server")
		}
		_, err := s.zone.Propose(ctx, command.InstanceDelete{Stamp: s.zone.Stamp(), ID: id})
		return err
	}
	return s.zone.Confirmed(ctx, end)
}

// Decision returns to a child the decision on a hold. An unknown hold counts as
// aborted, so a majority must confirm the state that it is looked up in.
func (s *Saga) Decision(ctx context.Context, child *api.Link, id api.HoldID) (api.Decision, error) {
	v, err := s.zone.Latest(ctx)
	if err != nil {
		return "", err
	}
	return decisionIn(v, child, id), nil
}

// decisionIn returns the decision, in one state, on a hold that a child has.
func decisionIn(v *state.State, child *api.Link, id api.HoldID) api.Decision {
	for _, h := range v.HoldsFor(id) {
		for _, p := range h.Parts {
			if p.Link == child.ID {
				if h.Decision == api.DecisionPending {
					return api.DecisionPending
				}
				return h.DecisionFor(p)
			}
		}
	}
	return api.DecisionAbort
}
