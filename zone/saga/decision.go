package saga

import (
	"context"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// EndInstance ends an instance that was made for a parent. Not found means that it
// has ended for good: the parent forgets it.
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

// Decision answers a child that asks what became of a hold it was asked for. A
// hold that nobody here remembers was aborted, so a majority confirms the state
// that it is looked up in.
func (s *Saga) Decision(ctx context.Context, child *api.Link, id api.HoldID) (api.Decision, error) {
	v, err := s.zone.Latest(ctx)
	if err != nil {
		return "", err
	}
	return decisionIn(v, child, id), nil
}

// decisionIn returns what became, in a state, of a hold that a child was asked for.
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
