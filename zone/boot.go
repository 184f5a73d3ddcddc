package zone

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"berth/api"
	"berth/buildplan"
	"berth/internal/crash"
	"berth/internal/mutant"
	"berth/internal/requestid"
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
	call := planKey(&c.Request, c.Instances)
	z.plans.put(call, &planned{layer: *layer, zones: taken(v, layer, c.Request.Count())})
	res, err := z.Propose(ctx, c)
	if err != nil || planKey(&res.Boot.Request, res.Boot.Instances) != call { // another call was recorded, with a plan of its own
		z.plans.take(call)
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
		out[i] = api.ZoneOutcome{Zone: names[i], Outcome: api.OutcomeAnswered, Wanted: wanted, Offered: n, Short: wanted - n, Taken: n}
		if i > 0 {
			out[i].Link = l.Children[i-1].Link
		}
	}
	return out
}

// planKey names the plan of one call: every call allots ids of its own, and the
// record of a boot has those of the call that made it.
func planKey(r *api.Request, ids []api.InstanceSpec) string {
	if mutant.On(mutant.PlanLoserTakes) {
		return string(r.Project) + "\x00" + string(r.Reservation)
	}
	return string(r.Project) + "\x00" + string(ids[0].ID)
}

// holdID names an attempt, for this zone and for all below. It is the same on
// every leader, and tells nothing.
func holdID(zone api.ZoneID, r *api.Request, attempt int) api.HoldID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d", zone, r.Project, r.Reservation, attempt))
	return api.HoldID(hex.EncodeToString(sum[:16]))
}

// runBoot takes an undecided boot to its decision: attempts of select and hold,
// then commit if enough is held, else abort. What an earlier leader left
// undecided is aborted first.
func (z *Zone) runBoot(ctx context.Context, b *state.Boot) error {
	limit := BootTimeout
	if b.Timeout > 0 {
		limit = min(limit, time.Duration(b.Created.Add(b.Timeout)-z.instant())*time.Millisecond)
	}
	if limit <= 0 {
		return z.decide(ctx, b, api.DecisionAbort, cause{api.CodeTimeout, fmt.Sprintf("it was not decided within %s", b.Timeout)})
	}
	ctx = requestid.With(ctx, b.Call)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if mutant.On(mutant.SagaNotResumed) && len(b.Holds) > 0 {
		return nil
	}
	if err := z.abandon(ctx, b); err != nil {
		return err
	}
	run := newRun(z, b)
	if b.Fixed {
		first, ok := z.plans.take(planKey(&b.Request, b.Instances))
		if !ok {
			return z.decide(ctx, b, api.DecisionAbort, cause{text: "its plan was lost when the leader changed; select again"})
		}
		run.first = first
	}
	why, err := run.attempts(ctx)
	if err != nil || run.decided {
		return err
	}
	v := z.store.View()
	now, ok := v.Boot(b.Request.Project, b.Request.Reservation)
	if !ok || now.Decision != api.DecisionPending { // its owner was faster
		return nil
	}
	if lacks := v.Lacks(now); lacks != "" {
		return z.decide(ctx, b, api.DecisionAbort, cmp.Or(why, cause{api.CodeNoCapacity, "the boot " + lacks}))
	}
	return z.decide(ctx, b, api.DecisionCommit, cause{})
}

func (z *Zone) decide(ctx context.Context, b *state.Boot, d api.Decision, why cause) error {
	if mutant.On(mutant.DecisionUnlogged) {
		z.tellEarly(ctx, b, d)
	}
	_, err := z.Propose(ctx, command.BootDecide{
		Stamp: z.stamp(), Project: b.Request.Project, Reservation: b.Request.Reservation, Decision: d, Code: why.code, Reason: why.text,
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

// WaitBoot returns the boot when it has come to an outcome, or as it is when ctx
// ends, together with the state it was read from.
func (z *Zone) WaitBoot(ctx context.Context, p api.ProjectID, r api.ReservationID) (*state.Boot, *state.State, error) {
	return z.waitBoot(ctx, p, r, func(b *state.Boot) bool { return b.State().Outcome() })
}

func (z *Zone) waitBoot(ctx context.Context, p api.ProjectID, r api.ReservationID, done func(*state.Boot) bool) (*state.Boot, *state.State, error) {
	v, _ := z.store.WaitFor(ctx, state.BootTopic(p, r), func(v *state.State) bool { // before the outcome the boot as it is answers
		b, ok := v.Boot(p, r)
		return !ok || done(b)
	})
	b, ok := v.Boot(p, r)
	if !ok {
		return nil, v, api.Errorf(api.CodeNotFound, "no reservation %q", string(r))
	}
	return b, v, nil
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
