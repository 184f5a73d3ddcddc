package zone

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"berth/api"
	"berth/buildplan"
	"berth/internal/crash"
	"berth/internal/mutant"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Budgets of a boot.
const (
	BootTimeout = 60 * time.Second // for all attempts of one boot, on one leader
	replanPause = 300 * time.Millisecond

	selectRetries = 2 // of one boot on one leader
)

// Repeats reports whether a boot was asked for before under its reservation id or
// key. Then the state machine has the answer, whatever has become of what it named.
func (z *Zone) Repeats(o *BootOrder) bool {
	d, err := o.digest()
	b, ok := z.store.View().BootFor(o.Caller.Project, o.Wanted, o.Key)
	return err == nil && ok && string(b.Digest) == string(d)
}

// Boot records a boot, allots its instance ids and returns at once; the leader's
// loop does the rest. A repeat returns the first record.
func (z *Zone) Boot(ctx context.Context, o *BootOrder) (*state.Boot, error) {
	digest, err := o.digest()
	if err != nil {
		return nil, err
	}
	c := command.BootCreate{
		Stamp: z.stamp(), Key: o.Key, Digest: digest, Name: o.Name, Request: o.Request(), Min: o.least(),
		Instances: o.specs(), Metadata: o.Metadata, Fixed: o.Blob != nil, Call: o.Call, Timeout: o.Timeout,
	}
	if c.Fixed {
		return z.bootFixed(ctx, o, c)
	}
	if c.Request.Reservation == "" {
		c.Request.Reservation = api.NewReservationID()
	}
	res, err := z.Propose(ctx, c)
	return res.Boot, err
}

// bootFixed takes up a plan that its caller selected before. The plan is opened
// before anything is recorded, so that a bad one changes nothing.
func (z *Zone) bootFixed(ctx context.Context, o *BootOrder, c command.BootCreate) (*state.Boot, error) {
	v := z.store.View()
	if b, ok := v.Boot(o.Caller.Project, o.Wanted); ok {
		if o.Key != "" && b.Key == o.Key && string(b.Digest) == string(c.Digest) {
			return b, nil // a repeat of the call; a plan by itself is taken up once
		}
		return nil, z.refusePlan(&c.Request, fmt.Errorf("the plan's reservation %s exists", o.Wanted))
	}
	layer, err := z.open(v, "", &c.Request, o.Blob)
	if err != nil {
		return nil, err
	}
	if layer.Expires <= z.instant() && !mutant.On(mutant.BlobExpiryUnchecked) {
		return nil, z.refusePlan(&c.Request, fmt.Errorf("expired at %v", layer.Expires))
	}
	k := bootKey(c.Request.Project, c.Request.Reservation)
	z.plans.put(k, &planned{layer: *layer, zones: taken(v, layer, c.Request.Count())})
	res, err := z.Propose(ctx, c)
	if err != nil {
		z.plans.take(k)
	}
	return res.Boot, err
}

// taken tells which zones a plan has slots of.
func taken(v *state.State, l *buildplan.Layer, wanted int) []api.ZoneOutcome {
	names := []string{v.Name}
	for _, c := range l.Children {
		name := string(c.Link)
		if link, ok := v.Link(c.Link); ok {
			name = link.Name
		}
		names = append(names, name)
	}
	offered := make([]int, len(names))
	for g := range l.Groups {
		for _, src := range l.Groups[g].Order {
			offered[src]++
		}
	}
	out := make([]api.ZoneOutcome, len(names))
	for i, n := range offered {
		out[i] = api.ZoneOutcome{Zone: names[i], Outcome: api.OutcomeAnswered, Wanted: wanted, Offered: n, Short: wanted - n}
	}
	return out
}

func bootKey(p api.ProjectID, r api.ReservationID) string { return string(p) + "\x00" + string(r) }

// holdID names an attempt, for this zone and for all below. It is the same on
// every leader, and tells nothing.
func holdID(zone api.ZoneID, r *api.Request, attempt int) api.HoldID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d", zone, r.Project, r.Reservation, attempt))
	return api.HoldID(hex.EncodeToString(sum[:16]))
}

// runBoot takes an undecided boot to its decision: attempts of select and hold,
// then commit if min_count is held, else abort. What an earlier leader left
// undecided is aborted first.
func (z *Zone) runBoot(ctx context.Context, b *state.Boot) error {
	ctx, cancel := context.WithTimeout(ctx, BootTimeout)
	defer cancel()
	if mutant.On(mutant.SagaNotResumed) && len(b.Holds) > 0 {
		return nil
	}
	if err := z.abandon(ctx, b); err != nil {
		return err
	}
	run := &bootRun{z: z, boot: b, attempt: len(b.Attempts), missing: b.Instances}
	if b.Fixed {
		first, ok := z.plans.take(b.ID())
		if !ok {
			return z.decide(ctx, b, api.DecisionAbort, "its plan was lost when the leader changed; select again")
		}
		run.first = first
	}
	reason, err := run.attempts(ctx)
	if err != nil || run.decided {
		return err
	}
	d := api.DecisionAbort
	if run.held >= b.Min {
		d, reason = api.DecisionCommit, ""
	}
	return z.decide(ctx, b, d, reason)
}

func (z *Zone) decide(ctx context.Context, b *state.Boot, d api.Decision, reason string) error {
	if mutant.On(mutant.DecisionUnlogged) {
		z.tellEarly(ctx, b, d)
	}
	_, err := z.Propose(ctx, command.BootDecide{
		Stamp: z.stamp(), Project: b.Request.Project, Reservation: b.Request.Reservation, Decision: d, Reason: reason,
	})
	if api.CodeOf(err) == api.CodeConflict { // its owner was faster
		return nil
	}
	return err
}

// abandon aborts the holds of attempts that another leader began.
func (z *Zone) abandon(ctx context.Context, b *state.Boot) error {
	v := z.store.View()
	for _, id := range b.Holds {
		h, ok := v.Hold("", id)
		if !ok || h.Decision != api.DecisionPending {
			continue
		}
		z.crash.At(crash.AttemptAborting)
		if _, err := z.Propose(ctx, command.HoldDecide{Stamp: z.stamp(), ID: id, Decision: api.DecisionAbort}); err != nil {
			return err
		}
		z.crash.At(crash.AttemptAborted)
	}
	return nil
}

// bootRun is one leader's work on one boot.
type bootRun struct {
	z       *Zone
	boot    *state.Boot
	first   *planned // the plan it came with
	attempt int      // attempts so far
	retries int      // selects that were repeated because a zone was silent
	held    int
	missing []api.InstanceSpec // not held yet
	decided bool               // the hold's own entry has decided
}

// attempts selects and holds until max_count is held, nobody offers more, or
// the attempts are used up. It returns why there are not more.
func (r *bootRun) attempts(ctx context.Context) (string, error) {
	reason := "no attempt was left"
	for r.attempt < api.AttemptsMax {
		want := r.boot.Request.Count() - r.held
		req := r.boot.Request
		req.Groups = append([]api.Group(nil), req.Groups...)
		req.Groups[0].Count, req.Groups[0].Min = want, max(0, req.Groups[0].Min-r.held)
		plan := r.first
		if plan == nil {
			sel, cancel := context.WithTimeout(ctx, api.SelectTimeout)
			plan = r.z.plan(sel, r.z.store.View(), &req)
			cancel()
		}
		offered := min(plan.offered(), want)
		enough := r.held+offered >= r.boot.Min && offered > 0
		if !enough && r.hopes(plan) {
			pause(ctx, replanPause)
			continue
		}
		r.attempt++
		if !enough {
			reason = fmt.Sprintf("no_capacity: %d of %d could be had, %d are needed", r.held+offered, r.boot.Request.Count(), r.boot.Min)
			return reason, r.short(ctx, plan, want, offered)
		}
		h, err := r.hold(ctx, &req, plan, offered)
		if err != nil || r.decided {
			return "", err
		}
		r.held += len(h.Held())
		if len(h.Refused) == 0 || r.first != nil {
			return fmt.Sprintf("no_capacity: %d of %d were held, %d are needed", r.held, r.boot.Request.Count(), r.boot.Min), nil
		}
		pause(ctx, replanPause)
	}
	return reason, ctx.Err()
}

// hopes reports whether a select that found too little is worth another try: a
// zone did not answer, and this has not been tried too often.
func (r *bootRun) hopes(p *planned) bool {
	silent := slices.ContainsFunc(p.zones, func(z api.ZoneOutcome) bool {
		return z.Outcome == api.OutcomeLate || z.Outcome == api.OutcomeFailed
	})
	if !silent || r.first != nil || r.retries >= selectRetries {
		return false
	}
	r.retries++
	return true
}

// hold logs an attempt with everybody who takes part, claims own slots in the
// same entry, and asks the children.
func (r *bootRun) hold(ctx context.Context, req *api.Request, p *planned, n int) (*state.Hold, error) {
	ids := r.next(n)
	c, err := holdCommand(r.z.stamp(), &p.layer, &api.HoldRequest{
		ID: holdID(r.z.View().Zone, req, r.attempt), Attempt: r.attempt, Request: *req,
		Instances: [][]api.InstanceSpec{ids}, Metadata: r.boot.Metadata,
	})
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "zone.boot", "", err)
	}
	parties := len(c.Parts)
	if len(c.Slots) > 0 {
		parties++
	}
	c.Commit = parties == 1 && r.held == 0
	c.Tale = r.tale(p, req.Count(), n)
	if c.Plan == "" {
		c.Expires = api.Forever
	}
	res, err := r.z.Propose(ctx, c)
	if err != nil {
		return nil, err
	}
	if !asksFor(res.Hold, ids) {
		return nil, api.Errorf(api.CodeUnavailable, "attempt %d was logged by an earlier try after all", r.attempt)
	}
	h, err := r.z.askParts(ctx, res.Hold, &p.layer)
	if err != nil {
		return nil, err
	}
	r.decided = h.Decision != api.DecisionPending
	r.keep(ids, h)
	return h, nil
}

// asksFor reports whether h is for exactly these instances. It is for others when
// a try whose outcome nobody knew has reached the log before this one.
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

// next returns the first n instances that are still missing. An id that was
// asked for in an earlier attempt may live somewhere, so it is never used again.
func (r *bootRun) next(n int) []api.InstanceSpec {
	ids := slices.Clone(r.missing[:n])
	if r.attempt > 1 {
		for i := range ids {
			ids[i].ID = api.InstanceID(api.NewUUID())
		}
	}
	return ids
}

// keep leaves as missing what was refused, and what was not asked for.
func (r *bootRun) keep(asked []api.InstanceSpec, h *state.Hold) {
	var missing []api.InstanceSpec
	for _, i := range asked {
		if slices.Contains(h.Refused, i.ID) {
			missing = append(missing, i)
		}
	}
	r.missing = append(missing, r.missing[len(asked):]...)
}

func (r *bootRun) tale(p *planned, want, offered int) *api.BootAttempt {
	return &api.BootAttempt{
		Attempt: r.attempt, Wanted: want, Short: want - offered, Zones: p.zones, Refusals: p.refusals,
	}
}

// short decides a boot that cannot be had, and tells why.
func (r *bootRun) short(ctx context.Context, p *planned, want, offered int) error {
	if r.held >= r.boot.Min {
		return nil
	}
	r.decided = true
	t := r.tale(p, want, offered)
	t.Short = want
	c := command.BootDecide{
		Stamp: r.z.stamp(), Project: r.boot.Request.Project, Reservation: r.boot.Request.Reservation,
		Decision: api.DecisionAbort, Tale: t,
		Reason: fmt.Sprintf("no_capacity: %d of %d could be had, %d are needed", r.held+offered, r.boot.Request.Count(), r.boot.Min),
	}
	_, err := r.z.Propose(ctx, c)
	if api.CodeOf(err) == api.CodeConflict {
		return nil
	}
	return err
}

// WaitBoot returns the boot when it has come to an outcome, or as it is when ctx
// ends, together with the state it was read from.
func (z *Zone) WaitBoot(ctx context.Context, p api.ProjectID, r api.ReservationID) (*state.Boot, *state.State, error) {
	return z.waitBoot(ctx, p, r, func(b *state.Boot) bool { return b.State().Outcome() })
}

func (z *Zone) waitBoot(ctx context.Context, p api.ProjectID, r api.ReservationID, done func(*state.Boot) bool) (*state.Boot, *state.State, error) {
	v := z.store.View()
	for {
		b, ok := v.Boot(p, r)
		if !ok {
			return nil, v, api.Errorf(api.CodeNotFound, "no reservation %q", string(r))
		}
		if done(b) {
			return b, v, nil
		}
		next, err := z.store.Wait(ctx, v.Index())
		if err != nil {
			return b, v, nil //nolint:nilerr // the wait ended before the outcome; the boot as it is answers
		}
		v = next
	}
}

// WaitDecision returns the boot once it is decided, or as it is after wait,
// together with the state it was read from.
func (z *Zone) WaitDecision(ctx context.Context, b *state.Boot, wait time.Duration) (*state.Boot, *state.State, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return z.waitBoot(ctx, b.Request.Project, b.Request.Reservation, func(b *state.Boot) bool {
		return b.Decision != api.DecisionPending
	})
}
