package saga

import (
	"context"
	"sync"
	"time"

	"berth/api"
	"berth/internal/crash"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// Limits of the leader's loops.
const (
	bootsAtOnce = 64              // boots that one leader works on
	tellsAtOnce = 32              // calls to other zones with decisions
	followWait  = 3 * time.Second // long poll of a child's changes; a dead gateway is noticed after it
	sweepEvery  = time.Second     // between two looks at what only time makes due
	pruneEvery  = time.Minute
	pruneAfter  = 24 * time.Hour     // how long ended objects are kept, including idempotency keys
	pruneAbroad = 7 * 24 * time.Hour // the same for objects made for a parent, which may be cut off for days
	pruneLimit  = 10_000

	// pruneDead is how long the abort of a hold that never arrived is kept. The hold
	// may still arrive, and a committing one would start instances; its plan was sealed
	// before the abort, so it is refused as expired from api.PlanTTLMax after the abort
	// on.
	pruneDead   = api.PlanTTLMax + clockMargin
	clockMargin = 10 * time.Minute // by which the clocks of a zone's leaders may differ
)

// Lead runs the loops that only a leader may run: boots, decisions, deletions, preempted
// instances, changes of children, silent children, pruning. It returns when ctx ends and every loop has
// stopped; the caller starts it again after the next election. Loops keep no memory:
// they read what is due, so they find a failed step again.
func (s *Saga) Lead(ctx context.Context) {
	var wg sync.WaitGroup
	for _, l := range []zone.Loop{
		s.bootsLoop(),
		zone.LoopOf(tellsAtOnce, state.DueTells, (*state.State).UntoldHolds, (*state.State).UntoldHold, s.tellsOf),
		zone.LoopOf(tellsAtOnce, state.DueEnds, (*state.State).UnendedInstances, (*state.State).UnendedInstance, s.endOf),
		zone.LoopOf(api.LinksMax, state.DueFollows, (*state.State).Children, (*state.State).Child, s.followOf),
		{AtOnce: tellsAtOnce, All: s.dueQuestions, Every: sweepEvery},
		{AtOnce: requeueAtOnce, All: s.dueRequeued, Every: sweepEvery},
	} {
		wg.Go(func() { s.zone.RunLoop(ctx, l) })
	}
	wg.Go(func() { s.watchChildren(ctx) })
	wg.Go(func() { s.zone.Every(ctx, pruneEvery, s.pruneRecords) })
	wg.Wait()
}

// tellsOf returns the jobs that send the decision on a hold to children, until they have
// answered.
func (s *Saga) tellsOf(h *state.Hold) []zone.Job {
	var out []zone.Job
	for _, p := range h.Parts {
		if !p.Acked {
			out = append(out, zone.Job{Key: h.Key() + "\x00" + string(p.Link) + string(h.Decision), Run: func(ctx context.Context) error { return s.tellDecision(ctx, h, p) }})
		}
	}
	return out
}

func (s *Saga) tellDecision(ctx context.Context, h *state.Hold, p state.Part) error {
	v := s.zone.View()
	if now, ok := v.Hold(h.Origin, h.ID); !ok || now.Decision != h.Decision || now.PartAcked(p.Link) {
		return nil
	}
	link, ok := v.Link(p.Link)
	if !ok {
		return api.Errorf(api.CodeInternal, "link %s of a hold is gone", string(p.Link))
	}
	call, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	d := h.DecisionFor(p)
	s.zone.Reach(crash.DecisionTelling)
	_, err := s.peers.Decide(call, link, h.ID, d)
	s.zone.Reach(crash.DecisionTold)
	lost := false
	switch code := api.CodeOf(err); {
	case err == nil:
	case d == api.DecisionCommit && (code == api.CodeNotFound || code == api.CodeConflict):
		s.zone.Log().Warn("child gave a hold up before it was told to commit", "link", link.Name, "hold", h.ID)
		lost = true
	default:
		return err
	}
	_, err = s.zone.Propose(ctx, command.PartAck{
		Stamp: s.zone.Stamp(), ID: h.ID, Origin: h.Origin, Link: p.Link, Decision: h.Decision, Lost: lost,
	})
	return err
}

// endOf returns the job that tells a child to end an instance.
func (s *Saga) endOf(i *api.Instance) []zone.Job {
	return []zone.Job{{Key: string(i.ID), Run: func(ctx context.Context) error { return s.endAtChild(ctx, i) }}}
}

func (s *Saga) endAtChild(ctx context.Context, i *api.Instance) error {
	link, ok := s.zone.View().Link(i.Link)
	if !ok {
		return api.Errorf(api.CodeInternal, "link %s of an instance is gone", string(i.Link))
	}
	call, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	s.zone.Reach(crash.EndTelling)
	err := s.peers.EndInstance(call, link, i.ID)
	s.zone.Reach(crash.EndTold)
	c := command.InstanceTold{Stamp: s.zone.Stamp()}
	switch {
	case err == nil:
		c.IDs = []api.InstanceID{i.ID}
	case api.CodeOf(err) == api.CodeNotFound:
		c.Gone = []api.InstanceID{i.ID}
	default:
		return err
	}
	_, err = s.zone.Propose(ctx, c)
	return err
}

// dueQuestions returns the jobs that ask the parent for its decision on undecided
// holds.
func (s *Saga) dueQuestions(v *state.State) []zone.Job {
	var out []zone.Job
	for _, h := range v.PreparedHolds() {
		if h.Created.Add(holdAskAfter) > s.zone.Instant() {
			continue
		}
		out = append(out, zone.Job{Key: h.Key(), Run: func(ctx context.Context) error { return s.askDecision(ctx, h) }})
	}
	return out
}

func (s *Saga) askDecision(ctx context.Context, h *state.Hold) error {
	link, ok := s.zone.View().Link(h.Origin)
	if !ok {
		return api.Errorf(api.CodeInternal, "link %s of a hold is gone", string(h.Origin))
	}
	call, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	s.zone.Reach(crash.QuestionAsking)
	d, err := s.peers.Decision(call, link, h.ID)
	if err != nil {
		return err
	}
	if d == api.DecisionPending {
		return api.Errorf(api.CodeUnavailable, "the parent has not decided hold %s yet", string(h.ID))
	}
	s.zone.Reach(crash.QuestionLogging)
	_, err = s.zone.Propose(ctx, command.HoldDecide{Stamp: s.zone.Stamp(), ID: h.ID, Origin: h.Origin, Decision: d})
	return err
}

// followOf returns the job that follows a child's reports on its instances.
func (s *Saga) followOf(l *api.Link) []zone.Job {
	return []zone.Job{{Key: string(l.ID), Run: func(ctx context.Context) error { return s.followLink(ctx, l.ID) }}}
}

func (s *Saga) pruneRecords(ctx context.Context) error {
	_, err := s.zone.Propose(ctx, command.Prune{
		Stamp: s.zone.Stamp(), Before: s.zone.Instant().Add(-pruneAfter),
		BeforeAbroad: s.zone.Instant().Add(-pruneAbroad), BeforeDead: s.zone.Instant().Add(-pruneDead), Limit: pruneLimit,
	})
	return err
}
