package saga

import (
	"context"
	"slices"
	"time"

	"berth/api"
	"berth/buildplan"
	"berth/internal/backoff"
	"berth/internal/turns"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/estimate"
)

// Limits of one leader's attempts for one owner.
const (
	replanPause    = 300 * time.Millisecond
	replanPauseMax = time.Second
	// selectRetries is how often a select that found too little is repeated because of a zone that
	// does not answer and of which nothing is known.
	selectRetries = 2
	// silencePatience is for how long it is repeated if such a zone was heard lately. A zone that stops is
	// known to be down after zone.LinkFresh, and is not waited for any longer then.
	silencePatience = 10 * time.Second
)

// run is one leader's work on one owner.
type run struct {
	s       *Saga
	owner   owner
	turn    *turns.Turn // in which it works; nil if it does not rest
	want    *want
	first   *estimate.Plan       // the plan it came with
	attempt int                  // attempts so far
	from    int                  // the first attempt that counts: holds of earlier ones are released
	vain    int                  // attempts with refused slots although nobody was in the way
	waits   int                  // waits for others in a row
	unsure  bool                 // a child that was asked for a part holds nothing of it that is known: it may hold it all the same
	last    map[api.LinkID]bool  // children that held nothing of their offer: asked last
	silent  bool                 // one of them did not answer: asked only for slots that the owner needs
	retries int                  // selects repeated in a row because a zone was silent
	lacking api.Instant          // when the first of these selects found too little
	missing [][]api.InstanceSpec // per group: not held yet
	held    []map[api.LinkID]int // per group: held, by child or "" for this zone
	decided bool                 // the hold's own entry has decided
	left    int                  // children of the last hold that were late, and whose part can be had elsewhere
}

func newRun(s *Saga, o owner, w *want) *run {
	r := &run{s: s, owner: o, vain: w.vain, last: map[api.LinkID]bool{}}
	r.beginWith(w)
	return r
}

// beginWith starts over: everything is missing and nothing is held.
func (r *run) beginWith(w *want) {
	r.want = w
	r.attempt = max(r.attempt, w.tried)
	r.from, r.missing, r.held = r.attempt+1, nil, nil
	ids := w.instances
	for i := range w.request.Groups {
		n := w.request.Groups[i].Count
		r.missing = append(r.missing, ids[:n])
		r.held = append(r.held, map[api.LinkID]int{})
		ids = ids[n:]
	}
}

// heldOf returns how many instances of one group are held.
func (r *run) heldOf(group int) int {
	n := 0
	for _, k := range r.held[group] {
		n += k
	}
	return n
}

// remainingRequest returns the owner's request with each group reduced to the missing
// instances, and with the time that ranks it among contenders.
func (r *run) remainingRequest() api.Request {
	req := r.want.request
	req.Since, req.Attempt = r.want.created, min(r.from, api.HoldsPerBootMax)
	req.Groups = slices.Clone(req.Groups)
	for g := range req.Groups {
		req.Groups[g].Count = len(r.missing[g])
	}
	return req
}

// makeAttempts selects and holds until everything wanted is held, no zone offers more,
// or the attempts are used up. It returns why instances are missing.
func (r *run) makeAttempts(ctx context.Context) (cause, error) {
	for r.vain < api.AttemptsMax && r.attempt < api.HoldsPerBootMax {
		if again, why, err := r.tryOnce(ctx); !again {
			return why, err
		}
	}
	if r.vain < api.AttemptsMax {
		return waitedInVain, ctx.Err()
	}
	return cause{text: "no attempt was left"}, ctx.Err()
}

// dropLiftedRules has the next attempt ask for nothing that a server group wanted which was deleted since the last one. An attempt with the
// plan that came with the call goes on as it is: the zones that offered it open it for what they were asked alone.
func (r *run) dropLiftedRules() {
	if now, ok := r.owner.find(r.s.zone.View()); ok && r.first == nil {
		r.want.request.Rules = now.request.Rules
	}
}

// tryOnce selects and holds once, and reports whether to continue. If not, it returns
// why no more is held.
func (r *run) tryOnce(ctx context.Context) (again bool, why cause, err error) {
	r.dropLiftedRules()
	req, plan := r.remainingRequest(), r.first
	if plan == nil {
		plan = r.planRemaining(ctx, &req)
	}
	switch short := r.describeShortfall(plan.Room()); {
	case short == "" && plan.Offered() == 0:
		return false, cause{}, nil // the holds are enough, and there is no more
	case short == "":
		r.retries = 0
		return r.tryHold(ctx, &req, plan)
	default:
		if pause, ok := r.mayRetry(plan); ok {
			return r.awaitSilent(ctx, pause)
		}
		again, err := r.contendForRoom(ctx, &req, plan)
		if !again && err == nil && plan.Bound() && r.holdsAny() && r.first == nil { // all of it may fit into another child
			r.vain++
			again, err = true, r.yieldHolds(ctx)
		}
		if again || err != nil || r.decided {
			return again && err == nil && !r.decided, cause{}, err
		}
		return false, cause{api.CodeNoCapacity, short}, r.failShort(ctx, &req, plan, unreachedCause(short+plan.DescribePromised(&req)+r.adviseToPreempt(&req, plan), plan))
	}
}

// tryHold is tryOnce with a plan that would be enough.
func (r *run) tryHold(ctx context.Context, req *api.Request, plan *estimate.Plan) (again bool, why cause, err error) {
	r.attempt++
	h, err := r.takeHold(ctx, req, plan, true)
	if api.CodeOf(err) == api.CodeContended && r.first == nil {
		return r.awaitChoice(ctx, req, plan)
	}
	if err != nil || r.decided {
		return false, cause{}, err
	}
	if len(h.Refused) == 0 || r.first != nil {
		return false, refusedPlan(r.describeShortfall(estimate.Room{}), h.Why), nil
	}
	if r.left > 0 { // what they were asked for is elsewhere
		return ctx.Err() == nil, cause{}, ctx.Err()
	}
	if h.Why != api.CodeContended {
		r.vain++
	}
	r.rest(ctx, replanPause)
	return true, cause{}, nil
}

// rest waits, and lets others be worked on meanwhile.
func (r *run) rest(ctx context.Context, d time.Duration) {
	r.turn.Leave()
	if backoff.Sleep(ctx, d) {
		r.turn.Again(ctx) // without one, ctx has ended
	}
}

// planRemaining plans the missing instances, without the children that are asked last
// if the others are enough.
func (r *run) planRemaining(ctx context.Context, req *api.Request) *estimate.Plan {
	ctx, cancel := context.WithTimeout(ctx, api.SelectTimeout)
	defer cancel()
	v := r.s.zone.View()
	p := r.s.estimator.PlanFor(ctx, v, &estimate.Want{Request: req, Held: r.held, Beside: r.want.beside, Avoid: r.last, Vain: r.vain})
	if len(r.last) > 0 && (r.describeShortfall(p.Room()) != "" || p.Offered() < req.Count() && !r.silent) {
		p = r.s.estimator.PlanFor(ctx, v, &estimate.Want{Request: req, Held: r.held, Beside: r.want.beside, Vain: r.vain})
	}
	r.s.estimator.KeepExplanation(v, r.want.call, req, p)
	return p
}

// describeShortfall describes what would be missing from the minimum if all slots of a
// room were held in addition; "" for nothing. The state machine decides.
func (r *run) describeShortfall(room estimate.Room) string {
	return estimate.DescribeShortfall(&r.want.request, r.want.least, r.held, room.Beside(r.want.beside))
}

// mayRetry reports whether to repeat a select that found too little because a zone did not answer, and
// after which pause: as long as such a zone may answer soon, at the most for silencePatience; a few times
// if nothing is known of it; and not if it is down.
func (r *run) mayRetry(p *estimate.Plan) (time.Duration, bool) {
	if len(p.Silent()) == 0 || r.first != nil {
		return 0, false
	}
	now := r.s.zone.Instant()
	if r.retries == 0 {
		r.lacking = now
	}
	pause := r.spread(backoff.Double(replanPause, replanPauseMax, r.retries), r.retries)
	switch r.s.estimator.OutlookOf(p) {
	case estimate.Soon:
		left := time.Duration(r.lacking.Add(silencePatience)-now) * time.Millisecond
		if left <= 0 {
			return 0, false
		}
		pause = min(pause, left)
	case estimate.Unknown:
		if r.retries >= selectRetries {
			return 0, false
		}
		pause = replanPause
	case estimate.Away:
		return 0, false
	}
	return pause, now.Add(pause) < r.waitDeadline()
}

// awaitSilent waits before a select is repeated. An owner that waits for longer than a moment holds nothing
// meanwhile, so that nobody waits for the silent zone because of it.
func (r *run) awaitSilent(ctx context.Context, pause time.Duration) (again bool, why cause, err error) {
	if r.retries++; r.retries > selectRetries {
		if err := r.yieldHolds(ctx); err != nil {
			return false, cause{}, err
		}
	}
	r.rest(ctx, pause)
	if _, ok := r.owner.find(r.s.zone.View()); !ok {
		r.decided = true // its caller was faster
	}
	return ctx.Err() == nil && !r.decided, cause{}, ctx.Err()
}

// takeHold logs an attempt with all participants, claims own slots in the same entry,
// and asks the children. An attempt that is enough for the owner may be decided in that
// entry.
func (r *run) takeHold(ctx context.Context, req *api.Request, p *estimate.Plan, enough bool) (*state.Hold, error) {
	ids := r.nextInstances(&p.Layer)
	c, err := r.holdCommand(req, p, ids, enough)
	if err != nil {
		return nil, err
	}
	res, err := r.s.zone.Propose(ctx, c)
	if err != nil {
		return nil, err
	}
	if !asksFor(res.Hold, slices.Concat(ids...)) {
		return nil, api.Errorf(api.CodeUnavailable, "attempt %d was logged by an earlier try after all", r.attempt)
	}
	var commit func() command.Command
	if enough {
		commit = func() command.Command {
			return r.owner.decision(r.s.zone.Stamp(), api.DecisionCommit, cause{}, nil)
		}
	}
	leave := r.leaving()
	h, err := r.s.askParts(ctx, res.Hold, &p.Layer, commit, leave)
	if err != nil {
		return nil, err
	}
	if r.left = 0; leave != nil {
		r.left = len(leave.left)
	}
	r.decided = h.Decision != api.DecisionPending
	r.noteHold(ids, h)
	r.unsure = r.unsure || slices.ContainsFunc(h.Parts, func(p state.Part) bool { return p.Answered && len(p.Instances) == 0 })
	return h, nil
}

// holdCommand returns the command that logs an attempt for some instances, by group.
func (r *run) holdCommand(req *api.Request, p *estimate.Plan, ids [][]api.InstanceSpec, enough bool) (command.Hold, error) {
	c, err := holdCommand(r.s.zone.Stamp(), &p.Layer, &api.HoldRequest{
		ID: holdID(r.s.zone.View().Zone, req, r.want.refill, r.attempt), Attempt: r.attempt, Request: *req,
		Instances: ids, Metadata: r.want.metadata,
	})
	if err != nil {
		return c, api.Wrap(api.CodeInternal, "saga.hold", "", err)
	}
	c.Refill = r.want.refill
	parties := len(c.Parts)
	if len(c.Slots) > 0 {
		parties++
	}
	c.Commit = parties == 1 && enough && !r.holdsAny() && (len(c.Parts) == 0 || !r.want.decidesHere)
	c.Outcome = r.recordAttempt(req, p)
	c.Outcome.Contended = !enough
	if c.Plan == "" {
		c.Expires = api.Forever
	}
	return c, nil
}

func (r *run) holdsAny() bool {
	for g := range r.held {
		if r.heldOf(g) > 0 {
			return true
		}
	}
	return false
}

// asksFor reports whether h is for exactly these instances. It is for others if an
// earlier try with unknown outcome has reached the log first.
func asksFor(h *state.Hold, ids []api.InstanceSpec) bool {
	asked := slices.Clone(h.Refused)
	for _, sl := range h.Slots {
		asked = append(asked, sl.Instance.ID)
	}
	for _, p := range h.Parts {
		for _, i := range p.Instances {
			asked = append(asked, i.Spec.ID)
		}
	}
	want := make([]api.InstanceID, len(ids))
	for i := range ids {
		want[i] = ids[i].ID
	}
	slices.Sort(asked)
	slices.Sort(want)
	return slices.Equal(asked, want)
}

// nextInstances returns, per group, as many of the missing instances as a plan has
// slots. An id of an earlier attempt may exist somewhere, so it is never used again.
func (r *run) nextInstances(l *buildplan.Layer) [][]api.InstanceSpec {
	out := make([][]api.InstanceSpec, len(r.missing))
	for g := range out {
		out[g] = slices.Clone(r.missing[g][:min(len(l.Groups[g].Order), len(r.missing[g]))])
		if r.attempt > 1 {
			for i, id := range api.NewInstanceIDs(len(out[g])) {
				out[g][i].ID = id
			}
		}
	}
	return out
}

// noteHold keeps refused and unrequested instances as missing, and records where the
// others are held.
func (r *run) noteHold(asked [][]api.InstanceSpec, h *state.Hold) {
	refused := make(map[api.InstanceID]bool, len(h.Refused))
	for _, id := range h.Refused {
		refused[id] = true
	}
	for g := range asked {
		var missing []api.InstanceSpec
		for _, i := range asked[g] {
			if refused[i.ID] {
				missing = append(missing, i)
			}
		}
		r.missing[g] = append(missing, r.missing[g][len(asked[g]):]...)
	}
	for _, sl := range h.Slots {
		r.held[sl.Group][""]++
	}
	for _, p := range h.Parts {
		if len(p.Instances) == 0 {
			r.last[p.Link], r.silent = true, r.silent || h.Why == api.CodeTimeout
		}
		for _, i := range p.Instances {
			r.held[i.Group][p.Link]++
		}
	}
}

// recordAttempt returns the record of an attempt.
func (r *run) recordAttempt(req *api.Request, p *estimate.Plan) *api.BootAttempt {
	want := req.Count()
	t := &api.BootAttempt{
		Attempt: r.attempt, Wanted: want, Short: want - p.Offered(), Zones: p.Zones, Refusals: p.Refusals,
	}
	for g := range req.Groups {
		t.Offered = append(t.Offered, api.Offer{Wanted: req.Groups[g].Count, Offered: len(p.Layer.Groups[g].Order)})
	}
	return t
}

// failShort decides an owner that cannot get everything, and records why. Its holds may
// be enough without the rest.
func (r *run) failShort(ctx context.Context, req *api.Request, p *estimate.Plan, why cause) error {
	if r.describeShortfall(estimate.Room{}) == "" {
		return nil
	}
	return r.failOwner(ctx, req, p, why)
}
