package zone

import (
	"context"
	"sync"
	"time"

	"berth/api"
	"berth/internal/backoff"
	"berth/internal/crash"
	"berth/internal/mutant"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Limits of the leader's loops.
const (
	bootsAtOnce = 64              // boots that one leader works on
	tellsAtOnce = 32              // calls to other zones with decisions
	movesAtOnce = 1               // each move is planned on what the one before has left
	endsAtOnce  = 32              // instances whose lifetime is over
	sweepEvery  = 2 * time.Second // for work that no change of state announces
	followWait  = 3 * time.Second // long poll of a child's changes: a gateway that died meanwhile is noticed after it
	failureKept = time.Minute     // how long a failed job is remembered that is not due any more
	pruneEvery  = time.Minute
	pruneAfter  = 24 * time.Hour     // how long what has ended is remembered, idempotency keys among it
	pruneAbroad = 7 * 24 * time.Hour // and what was made for a parent, which may be cut off for days
	pruneLimit  = 10_000

	// pruneDead is how long the abort of a hold that never came is remembered. The hold may
	// still come, and a committing one would start instances; its plan was sealed before
	// the abort, so from api.PlanTTLMax after the abort on it is refused as expired.
	pruneDead   = api.PlanTTLMax + clockMargin
	clockMargin = 10 * time.Minute // by which the clocks of a zone's leaders may differ
)

// Lead runs the loops that only a leader may run: boots, decisions, deletions,
// changes of children, silent hosts and children, pruning. It returns when ctx ends
// and every loop has stopped; the caller starts it again on the next election. A loop
// keeps no memory: it reads what is due, so a step that failed is found again.
func (z *Zone) Lead(ctx context.Context) {
	z.beats.reset(z.now())
	var wg sync.WaitGroup
	wg.Go(func() { z.each(ctx, bootsAtOnce, z.dueBoots) })
	wg.Go(func() { z.each(ctx, tellsAtOnce, z.dueTells) })
	wg.Go(func() { z.each(ctx, tellsAtOnce, z.dueEnds) })
	wg.Go(func() { z.each(ctx, tellsAtOnce, z.dueQuestions) })
	wg.Go(func() { z.each(ctx, api.LinksMax, z.dueFollows) })
	wg.Go(func() { z.each(ctx, movesAtOnce, z.nowAndThen(z.dueDrains)) })
	wg.Go(func() { z.each(ctx, endsAtOnce, z.nowAndThen(z.dueExpiries)) })
	wg.Go(func() { z.watchHosts(ctx) })
	wg.Go(func() { z.watchChildren(ctx) })
	wg.Go(func() { z.every(ctx, pruneEvery, z.prune) })
	wg.Wait()
}

// job is one piece of due work. Jobs with one key never run at the same time.
type job struct {
	key string
	run func(ctx context.Context) error
}

// each runs what is due whenever the state changes, and now and then without a
// change. A job that failed is left alone for a while that doubles.
func (z *Zone) each(ctx context.Context, atOnce int, due func(*state.State) []job) {
	r := &runner{z: z, room: make(chan struct{}, atOnce), busy: map[string]bool{}, failed: map[string]failure{}}
	defer r.wg.Wait()
	v := z.store.View()
	for ctx.Err() == nil {
		for _, j := range due(v) {
			r.start(ctx, j)
		}
		wait, cancel := context.WithTimeout(ctx, r.nextTry())
		if next, err := z.store.Wait(wait, v.Index()); err == nil {
			v = next
		} else {
			v = z.store.View()
		}
		cancel()
	}
}

// runner keeps jobs apart and bounds how many run.
type runner struct {
	z    *Zone
	room chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex // guards busy and failed
	busy   map[string]bool
	failed map[string]failure
}

type failure struct {
	tries int
	until time.Time
}

// nextTry returns how long until a failed job may run again, at most sweepEvery.
func (r *runner) nextTry() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, wait := r.z.now(), sweepEvery
	for key, f := range r.failed {
		switch d := f.until.Sub(now); {
		case d > 0:
			wait = min(wait, d)
		case d < -failureKept && !r.busy[key]: // it is not due any more
			delete(r.failed, key)
		}
	}
	return wait + time.Millisecond
}

func (r *runner) start(ctx context.Context, j job) {
	r.mu.Lock()
	skip := r.busy[j.key] || r.z.now().Before(r.failed[j.key].until)
	if !skip {
		r.busy[j.key] = true
	}
	r.mu.Unlock()
	if skip {
		return
	}
	select {
	case r.room <- struct{}{}:
	case <-ctx.Done():
		return
	}
	r.wg.Go(func() {
		defer func() { <-r.room }()
		err := j.run(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.busy, j.key)
		if err == nil {
			delete(r.failed, j.key)
			return
		}
		tries := r.failed[j.key].tries
		wait := backoff.Double(retryPause, retryPauseMax, tries)
		r.failed[j.key] = failure{tries + 1, r.z.now().Add(wait)}
		if ctx.Err() == nil {
			r.z.log.Info("job failed and will be tried again", "error", err, "wait", wait)
		}
	})
}

// every runs f at intervals until ctx ends.
func (z *Zone) every(ctx context.Context, d time.Duration, f func(context.Context) error) {
	for {
		backoff.Sleep(ctx, d)
		if ctx.Err() != nil {
			return
		}
		if err := f(ctx); err != nil && ctx.Err() == nil {
			z.log.Info("periodic work failed and will be tried again", "error", err)
		}
	}
}

func (z *Zone) dueBoots(v *state.State) []job {
	var out []job
	for _, b := range v.UndecidedBoots() {
		out = append(out, job{b.ID(), func(ctx context.Context) error {
			// The view may be older than the end of an earlier run of this job.
			now, ok := z.store.View().Boot(b.Request.Project, b.Request.Reservation)
			if !ok || now.Decision != api.DecisionPending {
				return nil
			}
			return z.runBoot(ctx, now)
		}})
	}
	return out
}

// dueTells tells children what was decided of holds, until they have answered.
func (z *Zone) dueTells(v *state.State) []job {
	var out []job
	for _, h := range v.UntoldHolds() {
		for _, p := range h.Parts {
			if !p.Acked {
				out = append(out, job{h.Key() + "\x00" + string(p.Link) + string(h.Decision), func(ctx context.Context) error { return z.tell(ctx, h, p) }})
			}
		}
	}
	return out
}

func (z *Zone) tell(ctx context.Context, h *state.Hold, p state.Part) error {
	v := z.store.View()
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
	z.crash.At(crash.DecisionTelling)
	_, err := z.peers.Decide(call, link, h.ID, d)
	z.crash.At(crash.DecisionTold)
	lost := false
	switch code := api.CodeOf(err); {
	case err == nil:
	case d == api.DecisionCommit && (code == api.CodeNotFound || code == api.CodeConflict):
		z.log.Warn("child gave a hold up before it was told to commit", "link", link.Name, "hold", h.ID)
		lost = true
	default:
		return err
	}
	_, err = z.Propose(ctx, command.PartAck{
		Stamp: z.stamp(), ID: h.ID, Origin: h.Origin, Link: p.Link, Decision: h.Decision, Lost: lost,
	})
	return err
}

// dueEnds tells children that single instances must end.
func (z *Zone) dueEnds(v *state.State) []job {
	var out []job
	for _, i := range v.UnendedInstances() {
		out = append(out, job{string(i.ID), func(ctx context.Context) error { return z.end(ctx, i) }})
	}
	return out
}

func (z *Zone) end(ctx context.Context, i *api.Instance) error {
	link, ok := z.store.View().Link(i.Link)
	if !ok {
		return api.Errorf(api.CodeInternal, "link %s of an instance is gone", string(i.Link))
	}
	call, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	z.crash.At(crash.EndTelling)
	err := z.peers.EndInstance(call, link, i.ID)
	z.crash.At(crash.EndTold)
	c := command.InstanceTold{Stamp: z.stamp()}
	switch {
	case err == nil:
		c.IDs = []api.InstanceID{i.ID}
	case api.CodeOf(err) == api.CodeNotFound:
		c.Gone = []api.InstanceID{i.ID}
	default:
		return err
	}
	_, err = z.Propose(ctx, c)
	return err
}

// dueQuestions asks the parent what became of holds that it left undecided.
func (z *Zone) dueQuestions(v *state.State) []job {
	var out []job
	for _, h := range v.PreparedHolds() {
		if h.Created.Add(HoldAskAfter) > z.instant() {
			continue
		}
		out = append(out, job{h.Key(), func(ctx context.Context) error { return z.question(ctx, h) }})
	}
	return out
}

func (z *Zone) question(ctx context.Context, h *state.Hold) error {
	link, ok := z.store.View().Link(h.Origin)
	if !ok {
		return api.Errorf(api.CodeInternal, "link %s of a hold is gone", string(h.Origin))
	}
	call, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	z.crash.At(crash.QuestionAsking)
	d, err := z.peers.Decision(call, link, h.ID)
	if err != nil {
		return err
	}
	if mutant.On(mutant.HoldExpires) {
		d = api.DecisionAbort
	}
	if d == api.DecisionPending {
		return api.Errorf(api.CodeUnavailable, "the parent has not decided hold %s yet", string(h.ID))
	}
	z.crash.At(crash.QuestionLogging)
	_, err = z.Propose(ctx, command.HoldDecide{Stamp: z.stamp(), ID: h.ID, Origin: h.Origin, Decision: d})
	return err
}

// dueFollows follows what children say of the instances in them.
func (z *Zone) dueFollows(v *state.State) []job {
	var out []job
	for _, l := range v.Children() {
		out = append(out, job{string(l.ID), func(ctx context.Context) error { return z.follow(ctx, l.ID) }})
	}
	return out
}

func (z *Zone) prune(ctx context.Context) error {
	_, err := z.Propose(ctx, command.Prune{
		Stamp: z.stamp(), Before: z.instant().Add(-pruneAfter),
		BeforeAbroad: z.instant().Add(-pruneAbroad), BeforeDead: z.instant().Add(-pruneDead), Limit: pruneLimit,
	})
	return err
}
