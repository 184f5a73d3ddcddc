package saga

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/internal/crash"
	"berth/internal/turns"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// owner is the object that slots are held for; a boot is the first kind. The saga knows
// owners only by this interface.
type owner interface {
	// find returns the owner's want in a state; false if the owner is gone or decided.
	find(v *state.State) (*want, bool)
	// shortfall describes what keeps the owner, in a state, from being committed with
	// its holds; "" for nothing.
	shortfall(v *state.State) string
	// decision returns the command that decides the owner. last is an attempt to record
	// with it, or nil.
	decision(at command.Stamp, d api.Decision, why cause, last *api.BootAttempt) command.Command
}

// want is what an owner wants, and the attempts so far.
type want struct {
	request   api.Request
	instances []api.InstanceSpec // allotted, group after group
	metadata  map[string]string  // of each instance
	least     int                // instances of all groups together
	fixed     bool               // it came with a plan and accepts no other
	call      api.RequestID      // that asked for it
	created   api.Instant
	timeout   time.Duration        // after created; 0 for none of its own
	holds     []api.HoldID         // of its attempts
	tried     int                  // the number of its last attempt
	vain      int                  // attempts with refused slots although nobody was in the way
	refill    int                  // see command.BootTerms
	beside    []map[api.LinkID]int // instances that it has already, by group and place: its rule for zones is about all

	// decidesHere keeps a child that takes all of it from deciding: should its answer be lost, an
	// abort would come after it had ended the slots that these replace, or started what runs once.
	decidesHere bool
}

// settleOwner takes an undecided owner to its decision: attempts of select and hold,
// then commit if enough is held, else abort. What an earlier leader left
// undecided is aborted first.
func (s *Saga) settleOwner(ctx context.Context, o owner, turn *turns.Turn) (err error) {
	ctx, end := s.zone.BeginSpan(ctx, "saga settle")
	defer func() { end(err) }()
	// The view in which it was due may be older than the end of an earlier run.
	w, ok := o.find(s.zone.View())
	if !ok {
		return nil
	}
	limit := BootTimeout
	if w.timeout > 0 {
		limit = min(limit, time.Duration(w.created.Add(w.timeout)-s.zone.Instant())*time.Millisecond)
	}
	if limit <= 0 {
		return s.logDecision(ctx, o, api.DecisionAbort, cause{api.CodeTimeout, fmt.Sprintf("it was not decided within %s", w.timeout)}, nil)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := s.abandonAttempts(ctx, w); err != nil {
		return err
	}
	r := newRun(s, o, w)
	r.turn = turn
	if w.fixed {
		first, ok := s.plans.takePlan(planKey(&w.request, w.instances))
		if !ok {
			return s.logDecision(ctx, o, api.DecisionAbort, cause{text: "its plan was lost when the leader changed; select again"}, nil)
		}
		r.first = first
	}
	why, err := r.makeAttempts(ctx)
	if err != nil || r.decided {
		return err
	}
	v := s.zone.View()
	if _, ok := o.find(v); !ok { // its caller was faster
		return nil
	}
	if short := o.shortfall(v); short != "" {
		return s.logDecision(ctx, o, api.DecisionAbort, cmp.Or(why, cause{api.CodeNoCapacity, short}), nil)
	}
	return s.logDecision(ctx, o, api.DecisionCommit, cause{}, nil)
}

// logDecision logs the decision of an owner, together with its last attempt, unless that is
// nil.
func (s *Saga) logDecision(ctx context.Context, o owner, d api.Decision, why cause, last *api.BootAttempt) error {
	_, err := s.zone.Propose(ctx, o.decision(s.zone.Stamp(), d, s.spell(why), last))
	if api.CodeOf(err) == api.CodeConflict { // its caller was faster
		return nil
	}
	if b, is := o.(bootOwner); is && err == nil && d == api.DecisionAbort && b.refill == 0 {
		s.noteGivenUp(ctx, b, why)
	}
	return err
}

// spell returns the cause of a decision as an entry has it: before api.FormSecond the
// code stands in the sentence.
func (s *Saga) spell(why cause) cause {
	if why.code == "" || s.zone.Store().Form() >= api.FormSecond {
		return why
	}
	return cause{text: string(why.code) + ": " + why.text}
}

// abandonAttempts aborts the holds of an owner's attempts that are not decided.
func (s *Saga) abandonAttempts(ctx context.Context, w *want) error {
	v := s.zone.View()
	for _, id := range w.holds {
		h, ok := v.Hold("", id)
		if !ok || h.Decision != api.DecisionPending {
			continue
		}
		s.zone.Reach(crash.AttemptAborting)
		if _, err := s.zone.Propose(ctx, command.HoldDecide{Stamp: s.zone.Stamp(), ID: id, Decision: api.DecisionAbort}); err != nil {
			return err
		}
		s.zone.Reach(crash.AttemptAborted)
	}
	return nil
}
