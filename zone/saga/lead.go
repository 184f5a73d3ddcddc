package saga

import (
	"context"
	"strconv"
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
	bootsAtOnce     = 64                     // boots that one leader works on
	bootsMost       = 128                    // the same while they are quick: they share calls and entries
	bootQuick       = 600 * time.Millisecond // work on one that is quick
	bootsLeast      = 8                      // of them, however short processors are
	bootLasts       = 100 * time.Millisecond // after which a boot waits for others, unless processors are short: it takes no room from then on
	bootsWaiting    = 1024                   // boots that one leader works on, with those that wait for others or for a zone
	tellsAtOnce     = 32                     // calls to other zones, about one object each
	decisionsAtOnce = 1024                   // decisions on their way to children; those for one child share calls
	followWait      = 3 * time.Second        // long poll of a child's changes; a dead gateway is noticed after it
	sweepEvery      = time.Second            // between two looks at what only time makes due
	pruneEvery      = time.Minute
	pruneAfter      = 24 * time.Hour     // how long ended objects are kept, including idempotency keys
	pruneAbroad     = 7 * 24 * time.Hour // the same for objects made for a parent, which may be cut off for days
	pruneLimit      = 10_000

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
		zone.LoopOf(decisionsAtOnce, state.DueTells, (*state.State).UntoldHolds, (*state.State).UntoldHold, s.tellsOf),
		zone.LoopOf(tellsAtOnce, state.DueEnds, (*state.State).UnendedInstances, (*state.State).UnendedInstance, s.endOf),
		zone.LoopOf(api.LinksMax, state.DueFollows, (*state.State).Children, (*state.State).Child, s.followOf),
		{AtOnce: tellsAtOnce, All: s.dueQuestions, Every: sweepEvery},
		{AtOnce: requeueAtOnce, All: s.dueRequeued, Every: sweepEvery},
		{AtOnce: api.LinksMax, All: s.dueReconciles, Every: sweepEvery},
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
	call := callOf(s.zone.View(), h)
	for _, p := range h.Parts {
		if !p.Acked {
			out = append(out, zone.Job{Key: h.Key() + "\x00" + string(p.Link) + string(h.Decision) + strconv.Itoa(len(h.Lifted)), Call: call, Run: func(ctx context.Context) error { return s.tellDecision(ctx, h, p) }})
		}
	}
	return out
}

// tell is a decision that one child has not acknowledged.
type tell struct {
	hold *state.Hold
	part state.Part
}

// tellDecision sends a decision to a child, together with others that are due for it.
func (s *Saga) tellDecision(ctx context.Context, h *state.Hold, p state.Part) error {
	return s.tells.sendItem(ctx, p.Link, &tell{h, p}, 0, jointMax{items: api.DecisionsMax}, func(ctx context.Context, ts []*tell) ([]error, error) {
		return s.tellDecisions(ctx, p.Link, ts)
	})
}

// tellDecisions sends decisions to one child in one call, and logs in one entry which of
// them it has carried out. It returns an error for each that is still due.
func (s *Saga) tellDecisions(ctx context.Context, to api.LinkID, ts []*tell) ([]error, error) {
	out, v := make([]error, len(ts)), s.zone.View()
	link, ok := v.Link(to)
	if !ok {
		return nil, api.Errorf(api.CodeInternal, "link %s of a hold is gone", string(to))
	}
	var due []int // of ts
	var ds []api.HoldDecision
	for i, t := range ts {
		if now, ok := v.Hold(t.hold.Origin, t.hold.ID); ok && now.Decision == t.hold.Decision && !now.PartAcked(to) {
			t.hold = now // with all that was lifted since
			due, ds = append(due, i), append(ds, now.DecisionAt(t.part))
		}
	}
	if len(due) == 0 {
		return out, nil
	}
	refusals, err := s.sendDecisions(ctx, link, ds)
	if err != nil {
		return nil, err
	}
	var acks []command.Command
	var acked []int // of ts
	for n, i := range due {
		lost, again := s.isLost(ctx, link, ds[n], refusals[n])
		if again {
			out[i] = refusals[n]
			continue
		}
		h := ts[i].hold
		acks = append(acks, command.PartAck{Stamp: s.zone.Stamp(), ID: h.ID, Origin: h.Origin, Link: to, Decision: h.Decision, Lost: lost, Lifted: len(h.Lifted)})
		acked = append(acked, i)
	}
	if len(acks) == 0 {
		return out, nil
	}
	results, err := s.zone.ProposeAll(ctx, acks...)
	for n, i := range acked {
		if err != nil {
			out[i] = err
			continue
		}
		out[i] = results[n].Err
	}
	return out, nil
}

// sendDecisions makes the call. It returns for each decision why the child refused it, or
// an error if it is not known what became of them. One decision alone takes a call that
// every release knows.
func (s *Saga) sendDecisions(ctx context.Context, link *api.Link, ds []api.HoldDecision) (refusals []error, err error) {
	call, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	for range ds {
		s.zone.Reach(crash.DecisionTelling)
	}
	if len(ds) == 1 && len(ds[0].Lifted) == 0 {
		_, err = s.peers.Decide(call, link, ds[0].ID, ds[0].Decision)
		if refusals = []error{err}; err != nil && mayRepeat(err) {
			return nil, err
		}
	} else if refusals, err = s.peers.DecideAll(call, link, ds); err != nil {
		return nil, err
	}
	for range ds {
		s.zone.Reach(crash.DecisionTold)
	}
	return refusals, nil
}

// isLost reports whether a child gave a hold up before it was told to commit, and if not,
// whether its refusal leaves the decision due.
func (s *Saga) isLost(ctx context.Context, link *api.Link, d api.HoldDecision, refusal error) (lost, again bool) {
	switch code := api.CodeOf(refusal); {
	case refusal == nil:
		return false, false
	case d.Decision == api.DecisionCommit && (code == api.CodeNotFound || code == api.CodeConflict):
		s.zone.Log().WarnContext(ctx, "child gave a hold up before it was told to commit", "link", link.Name, "hold", d.ID)
		return true, false
	}
	return false, true
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
