package saga

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/buildplan"
	"berth/internal/turns"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/estimate"
)

// Boot records a boot and returns at once; it may be decided already, otherwise the leader's
// loop does the rest. A repeat returns the first record. blob is the plan of a boot whose
// plan is fixed.
func (s *Saga) Boot(ctx context.Context, c command.BootCreate, blob []byte) (*state.Boot, error) {
	asked := c.BootTerms
	for tries := 1; ; tries++ {
		c.BootTerms = s.zone.View().CutToQuota(asked)
		b, err := s.bootWithin(ctx, c, blob)
		if api.CodeOf(err) != api.CodeOverQuota || tries == cutTries || asked.Min == asked.Request.Count() {
			return b, err
		}
		// Another boot of the project was faster, or this node is behind: what is left now may still do.
		if _, late := s.zone.Latest(ctx); late != nil {
			return nil, err
		}
		c.Stamp = s.zone.Stamp()
	}
}

// cutTries bounds how often a boot is cut to what its project's quotas leave that other boots have been faster with.
const cutTries = 4

// bootWithin records a boot that its project's quotas should allow.
func (s *Saga) bootWithin(ctx context.Context, c command.BootCreate, blob []byte) (*state.Boot, error) {
	if err := s.checkQuota(ctx, &c.BootTerms); err != nil {
		return nil, err
	}
	if c.Fixed {
		return s.bootFixed(ctx, c, blob)
	}
	return s.bootPlanned(ctx, c)
}

// checkQuota refuses a boot that is over a quota of its project before it costs a log entry, and any
// if the state is too large. The quota is checked again in the entry.
func (s *Saga) checkQuota(ctx context.Context, t *command.BootTerms) error {
	return s.zone.Check(ctx, func(v *state.State) error {
		if _, repeat := v.BootFor(t.Request.Project, t.Request.Reservation, t.Key); repeat {
			return nil
		}
		return cmp.Or(v.CheckBootQuota(t), s.zone.CheckSize())
	})
}

// bootPlanned records a boot together with the slots that it gets. It may return a record
// that is not decided yet.
func (s *Saga) bootPlanned(ctx context.Context, c command.BootCreate) (*state.Boot, error) {
	if !s.mayPlanFirst(&c) {
		return s.recordBoot(ctx, c)
	}
	t := &ticket{
		want: wantOf(&c.BootTerms), key: c.Key, record: c, turn: make(chan turn, 1),
	}
	if !s.admission.enter(t) {
		return s.recordBoot(ctx, c)
	}
	got, ok := s.admission.await(ctx, t)
	if !ok {
		return s.recordBoot(ctx, c)
	}
	if got.batch != nil {
		got.answer = s.admitBatch(ctx, got.batch)
	}
	switch rs, err := got.answer.Results, got.answer.Err; {
	case err != nil:
		return nil, err
	case rs == nil:
		return s.recordBoot(ctx, c) // it is planned beside what the others of the batch have
	default:
		s.zone.NoteLogged(ctx)
		if rs[0].Err != nil {
			return nil, rs[0].Err
		}
		b := rs[0].Boot
		if now, found := s.zone.View().Boot(c.Request.Project, b.Request.Reservation); found { // with its hold
			b = now
		}
		return b, nil
	}
}

// recordBoot records a boot alone.
func (s *Saga) recordBoot(ctx context.Context, c command.BootCreate) (*state.Boot, error) {
	res, err := s.zone.Propose(ctx, c)
	return res.Boot, err
}

// mayPlanFirst reports whether a boot can be planned before it is recorded: this zone asks
// no other, nobody has to leave for it, and it is not a repeat.
func (s *Saga) mayPlanFirst(c *command.BootCreate) bool {
	v, r := s.zone.View(), &c.Request
	if len(v.Children()) > 0 || r.Class != api.Firm || r.Preempt || r.Reserves || r.Within != "" || r.Replaces != "" {
		return false
	}
	_, repeat := v.BootFor(r.Project, r.Reservation, c.Key)
	return !repeat
}

// bootFixed uses a plan that its caller selected before. It opens the plan before it
// records anything, so that a bad plan changes nothing.
func (s *Saga) bootFixed(ctx context.Context, c command.BootCreate, blob []byte) (*state.Boot, error) {
	v := s.zone.View()
	if b, ok := v.Boot(c.Request.Project, c.Request.Reservation); ok {
		if c.Key != "" && b.Key == c.Key && string(b.Digest) == string(c.Digest) {
			return b, nil // a repeat of the call; otherwise a plan is used only once
		}
		return nil, estimate.RefusePlan(&c.Request, fmt.Errorf("the plan's reservation %s exists", c.Request.Reservation))
	}
	layer, err := s.estimator.Open(v, "", &c.Request, blob)
	if err != nil {
		return nil, err
	}
	if layer.Expires <= s.zone.Instant() {
		return nil, estimate.RefusePlan(&c.Request, fmt.Errorf("expired at %v", layer.Expires))
	}
	call := planKey(&c.Request, c.Instances)
	s.plans.putPlan(call, &estimate.Plan{Layer: *layer, Zones: zonesTaken(v, layer, c.Request.Count())})
	res, err := s.zone.Propose(ctx, c)
	if err != nil || planKey(&res.Boot.Request, res.Boot.Instances) != call { // another call was recorded, with its own plan
		s.plans.takePlan(call)
	}
	return res.Boot, err
}

// zonesTaken returns the zones in which a plan has slots.
func zonesTaken(v *state.State, l *buildplan.Layer, wanted int) []api.ZoneOutcome {
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

// planKey names the plan of one call: every call allots its own ids, and the record of
// a boot has those of the call that made it.
func planKey(r *api.Request, ids []api.InstanceSpec) string {
	return string(r.Project) + "\x00" + string(ids[0].ID)
}

// bootOwner is a boot as an owner of holds, or a refill of it: see command.BootTerms.
type bootOwner struct {
	project     api.ProjectID
	reservation api.ReservationID
	refill      int
}

func (o bootOwner) read(v *state.State) (*state.Boot, bool) {
	if o.refill > 0 {
		return v.Refill(o.project, o.reservation, o.refill)
	}
	return v.Boot(o.project, o.reservation)
}

func (o bootOwner) find(v *state.State) (*want, bool) {
	b, ok := o.read(v)
	if !ok || b.Decision != api.DecisionPending {
		return nil, false
	}
	w := wantBeside(v, &b.BootTerms)
	w.request = b.RequestNow()
	w.created, w.holds, w.tried = b.Created, b.Holds, b.Tried()
	for _, a := range b.Attempts {
		if !a.Contended {
			w.vain++
		}
	}
	return w, true
}

// wantOf returns what a boot wants that has no attempts.
func wantOf(t *command.BootTerms) *want {
	return &want{
		request: t.Request, instances: t.Instances, metadata: t.Metadata, least: t.Min, fixed: t.Fixed, call: t.Call, timeout: t.Timeout,
		decidesHere: t.Request.Reserves || t.Refill > 0, refill: t.Refill,
	}
}

// wantBeside is wantOf for a refill too, which is made beside what its boot has.
func wantBeside(v *state.State, t *command.BootTerms) *want {
	w := wantOf(t)
	if first, ok := v.Boot(t.Request.Project, t.Request.Reservation); ok && t.Refill > 0 {
		w.beside = v.Survivors(first)
	}
	return w
}

func (o bootOwner) shortfall(v *state.State) string {
	b, ok := o.read(v)
	if !ok {
		return ""
	}
	if shortfall := v.DescribeShortfall(b); shortfall != "" {
		return "the boot " + shortfall
	}
	return ""
}

func (o bootOwner) decision(at command.Stamp, d api.Decision, why cause, last *api.BootAttempt) command.Command {
	return command.BootDecide{
		Stamp: at, Project: o.project, Reservation: o.reservation, Refill: o.refill, Decision: d, Outcome: last, Code: why.code, Reason: why.text,
	}
}

// bootsLoop returns the loop that takes undecided boots to their decision.
func (s *Saga) bootsLoop() zone.Loop {
	return zone.LoopOf(bootsWaiting, state.DueBoots, (*state.State).UndecidedBoots, (*state.State).UndecidedBoot, func(b *state.Boot) []zone.Job {
		o := bootOwner{b.Request.Project, b.Request.Reservation, b.Refill}
		return []zone.Job{{Key: b.ID(), Call: b.Call, Run: func(ctx context.Context) error {
			turn, ok := s.working.Take(ctx, turns.Queue{Party: string(o.project)})
			if !ok {
				return ctx.Err()
			}
			defer turn.Leave()
			return s.settleOwner(ctx, o, turn)
		}}}
	})
}

// callOf returns the id of the call that a hold was taken for; "" for one of a parent, which is not
// recorded.
func callOf(v *state.State, h *state.Hold) api.RequestID {
	if h.Origin != "" {
		return ""
	}
	b, ok := v.Boot(h.Request.Project, h.Request.Reservation)
	if !ok {
		return ""
	}
	return b.Call
}

// WaitBoot returns the boot once it has an outcome, or its current state when ctx ends,
// together with the state it was read from.
func (s *Saga) WaitBoot(ctx context.Context, p api.ProjectID, r api.ReservationID) (*state.Boot, *state.State, error) {
	return s.waitBoot(ctx, p, r, func(b *state.Boot) bool { return b.State().Outcome() })
}

func (s *Saga) waitBoot(ctx context.Context, p api.ProjectID, r api.ReservationID, done func(*state.Boot) bool) (*state.Boot, *state.State, error) {
	v, _ := s.zone.Store().WaitFor(ctx, state.BootTopic(p, r), func(v *state.State) bool { // without an outcome, the answer is the boot as it is
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
func (s *Saga) WaitDecision(ctx context.Context, b *state.Boot, wait time.Duration) (*state.Boot, *state.State, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return s.waitBoot(ctx, b.Request.Project, b.Request.Reservation, func(b *state.Boot) bool {
		return b.Decision != api.DecisionPending
	})
}

// newsTopic returns what is touched when an instance changes, of a boot here or of a parent.
func newsTopic(i *api.Instance) state.Topic {
	if i.Origin != "" {
		return state.ChangesTopic(i.Origin)
	}
	return state.BootTopic(i.Project, i.Reservation)
}
