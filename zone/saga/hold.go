package saga

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/api"
	"berth/buildplan"
	"berth/internal/backoff"
	"berth/internal/codec"
	"berth/internal/crash"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/estimate"
)

// Budgets of the hold protocol.
const (
	holdTimeout   = 10 * time.Second       // for all children of one hold to answer
	holdAskAfter  = 15 * time.Second       // after which an undecided hold asks upward
	peerTimeout   = 5 * time.Second        // one call to another zone
	retryPause    = 200 * time.Millisecond // between tries of one call
	retryPauseMax = 5 * time.Second
)

// Hold takes slots that this zone offered to a parent: its own in one log entry, and
// its children's by forwarding their parts of the plan. A repeat gets the same answer,
// and continues where the first call was interrupted. A refusal is final for the
// parent, so it is confirmed.
func (s *Saga) Hold(ctx context.Context, parent *api.Link, r *api.HoldRequest) (*api.HoldAnswer, error) {
	if err := s.checkHold(r); err != nil {
		return nil, err
	}
	var a *api.HoldAnswer
	err := s.zone.Confirmed(ctx, func(ctx context.Context) (err error) {
		a, err = s.holdForParent(ctx, parent, r)
		return err
	})
	return a, err
}

func (s *Saga) holdForParent(ctx context.Context, parent *api.Link, r *api.HoldRequest) (out *api.HoldAnswer, err error) {
	ctx, end := s.zone.BeginSpan(ctx, "saga hold")
	defer func() { end(err) }()
	v := s.zone.View()
	if _, known := v.Hold(parent.ID, r.ID); known { // its current state decides
		var err error
		if v, err = s.zone.Latest(ctx); err != nil {
			return nil, err
		}
	}
	layer, err := s.estimator.Open(v, parent.Zone, &r.Request, r.Blob)
	if err != nil {
		return nil, err
	}
	h, known := v.Hold(parent.ID, r.ID)
	if !known {
		if h, err = s.takeHold(ctx, v, parent, r, layer); err != nil {
			return nil, err
		}
	} else if h.Plan != layer.Plan && h.Plan != "" {
		return nil, estimate.RefusePlan(&r.Request, errors.New("the hold took another plan before"))
	}
	h, err = s.askParts(ctx, h, layer, nil, nil)
	if err != nil {
		return nil, err
	}
	s.zone.Reach(crash.HoldAnswering)
	a := h.Answer()
	return &a, nil
}

// HoldAll takes slots for several holds of a parent in one log entry, as Hold does for one. It answers those
// that this zone can answer alone. Each of the others takes a call of its own: it is refused, or was made
// before, or is asked of zones below.
func (s *Saga) HoldAll(ctx context.Context, parent *api.Link, rs []api.HoldRequest) (*api.HoldsAnswer, error) {
	out := &api.HoldsAnswer{Items: make([]api.HoldReply, len(rs))}
	v := s.zone.View()
	var cmds []command.Command
	var of []int // which hold each command is for
	for i := range rs {
		if c, ok := s.newHold(v, parent, &rs[i]); ok {
			cmds, of = append(cmds, c), append(of, i)
		}
	}
	if len(cmds) == 0 {
		return out, nil
	}
	results, err := s.zone.ProposeAll(ctx, cmds...)
	if err != nil {
		return nil, err
	}
	for n, r := range results {
		if r.Err == nil && r.Hold.State != api.HoldAsking {
			s.zone.Reach(crash.HoldAnswering)
			a := r.Hold.Answer()
			out.Items[of[n]].Answer = &a
		}
	}
	return out, nil
}

// newHold returns the command of a hold that a parent has not asked for before; false if it is none, or if
// this view refuses it.
func (s *Saga) newHold(v *state.State, parent *api.Link, r *api.HoldRequest) (command.Hold, bool) {
	if _, known := v.Hold(parent.ID, r.ID); known || parent.State == api.LinkPaused || s.checkHold(r) != nil || s.zone.CheckSize() != nil {
		return command.Hold{}, false
	}
	layer, err := s.estimator.Open(v, parent.Zone, &r.Request, r.Blob)
	if err != nil {
		return command.Hold{}, false
	}
	c, err := s.checkedCommand(v, parent, r, layer)
	return c, err == nil
}

// takeHold logs a new hold. The log decides on its plan.
func (s *Saga) takeHold(ctx context.Context, v *state.State, parent *api.Link, r *api.HoldRequest, l *buildplan.Layer) (*state.Hold, error) {
	c, err := s.checkedCommand(v, parent, r, l)
	if err != nil {
		return nil, estimate.RefusePlan(&r.Request, err)
	}
	if err = s.zone.CheckSize(); err != nil {
		return nil, err
	}
	res, err := s.zone.Propose(ctx, c)
	return res.Hold, err
}

// checkedCommand returns the command that logs a new hold. Refusals that a view can already make are made
// here, so that no parent can make the log grow with one plan.
func (s *Saga) checkedCommand(v *state.State, parent *api.Link, r *api.HoldRequest, l *buildplan.Layer) (command.Hold, error) {
	c, err := holdCommand(s.zone.Stamp(), l, r)
	switch {
	case err != nil:
	case v.PlanUsed(l.Plan):
		err = errors.New("the plan was taken up before")
	case l.Expires <= c.At:
		err = fmt.Errorf("expired at %v", l.Expires)
	}
	c.Origin = parent.ID
	return c, err
}

// checkHold refuses a malformed hold before its plan is opened.
func (s *Saga) checkHold(r *api.HoldRequest) error {
	if err := s.estimator.CheckForeign(&r.Request); err != nil {
		return err
	}
	if err := api.CheckPairs("metadata", r.Metadata, api.MetadataMax); err != nil {
		return err
	}
	if !api.ValidName(string(r.ID)) || r.Attempt < 1 || r.Attempt > api.HoldsPerBootMax {
		return api.Errorf(api.CodeInvalid, "a hold needs an id and an attempt from 1 to %d", api.HoldsPerBootMax)
	}
	if len(r.Instances) != len(r.Request.Groups) {
		return api.Errorf(api.CodeInvalid, "a hold needs the instances of each of its %d groups", len(r.Request.Groups))
	}
	seen := map[api.InstanceID]bool{}
	for _, g := range r.Instances {
		for _, i := range g {
			if !api.ValidName(string(i.ID)) || seen[i.ID] {
				return api.Errorf(api.CodeInvalid, "instance ids must be distinct and 1 to %d characters", api.NameMaxBytes)
			}
			if !api.ValidInstanceName(i.Name) {
				return api.Errorf(api.CodeInvalid, "an instance's name must be 1 to %d characters of A-Z a-z 0-9 . _ -", api.InstanceNameMax)
			}
			seen[i.ID] = true
		}
	}
	return nil
}

// holdID names an attempt in this zone and in all zones below. It is the same on every
// leader, and reveals nothing.
func holdID(zone api.ZoneID, r *api.Request, refill, attempt int) api.HoldID {
	text := fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d", zone, r.Project, r.Reservation, attempt)
	if refill > 0 {
		text = fmt.Appendf(text, "\x00%d", refill)
	}
	sum := sha256.Sum256(text)
	return api.HoldID(hex.EncodeToString(sum[:16]))
}

// holdCommand assigns the instances of a hold to the first slots of the plan: the i-th
// instance of a group goes to the i-th slot of the merged order.
func holdCommand(at command.Stamp, l *buildplan.Layer, r *api.HoldRequest) (command.Hold, error) {
	c := command.Hold{
		Stamp: at, ID: r.ID, Attempt: r.Attempt, Request: r.Request, Plan: l.Plan, Expires: l.Expires,
		Metadata: r.Metadata, Commit: r.Commit, Choices: l.Choices,
	}
	if len(l.Groups) != len(r.Instances) {
		return c, errors.New("the plan has other groups than the hold")
	}
	parts := make([]command.Part, len(l.Children))
	used := make([]bool, len(l.Children))
	for i := range parts {
		parts[i] = command.Part{Link: l.Children[i].Link, Instances: make([][]api.InstanceSpec, len(l.Groups))}
	}
	for g, specs := range r.Instances {
		lg := &l.Groups[g]
		if len(specs) > len(lg.Order) {
			return c, errors.New("more instances than the plan has slots")
		}
		own := 0
		for i, sp := range specs {
			src := int(lg.Order[i])
			if src == 0 {
				c.Slots = append(c.Slots, command.Slot{Instance: sp, Group: g, Host: lg.Slots[own].Host, Keeps: lg.Slots[own].Keeps})
				own++
				continue
			}
			parts[src-1].Instances[g] = append(parts[src-1].Instances[g], sp)
			used[src-1] = true
		}
		c.Spares = append(c.Spares, sparesOf(lg))
	}
	for i := range parts {
		if used[i] {
			c.Parts = append(c.Parts, parts[i])
		}
	}
	return c, nil
}

func sparesOf(g *buildplan.LayerGroup) []api.HostID {
	out := make([]api.HostID, len(g.Alternates))
	for i := range g.Alternates {
		out[i] = g.Alternates[i].Host
	}
	return out
}

// askParts asks the children of a hold that have not answered yet, all at once, and
// records their answers in one entry. A child that does not answer within holdTimeout, or is left before, is
// recorded as holding nothing, and later told to release. If the caller gives up
// first, missing answers stay open for its next try. commit, if not nil, returns the command
// that commits the owner of the hold: it shares the entry of the answers if all is held. leave, if not nil, says
// when children that are late are left.
func (s *Saga) askParts(ctx context.Context, h *state.Hold, l *buildplan.Layer, commit func() command.Command, leave *leaving) (*state.Hold, error) {
	if h.State != api.HoldAsking {
		return h, nil
	}
	budget, cancel := context.WithTimeout(ctx, holdTimeout)
	defer cancel()
	q := &partsQuestion{s: s, hold: h, layer: l, leave: leave, late: map[api.LinkID]bool{}}
	c := command.HoldParts{ID: h.ID, Origin: h.Origin}
	all, asked := q.ask(budget)
	for _, a := range all {
		if a.known || ctx.Err() == nil {
			c.Answers = append(c.Answers, a.PartAnswer)
		}
	}
	c.Stamp = s.zone.Stamp()
	cmds := []command.Command{c}
	if commit != nil && !h.Commit && holdsAll(h, c.Answers) {
		cmds = append(cmds, commit())
	}
	// Answers must be recorded even if the caller is gone, so its deadline does not
	// apply.
	rec, stop := context.WithTimeout(context.WithoutCancel(ctx), peerTimeout)
	defer stop()
	rs, err := s.zone.ProposeAll(rec, cmds...)
	if err == nil {
		err = rs[0].Err
	}
	if err == nil && len(c.Answers) < asked { // ctx has ended
		err = api.Wrap(api.CodeTimeout, "saga.Hold", "not every zone below has answered yet; ask again", ctx.Err())
	}
	if err != nil {
		return nil, err
	}
	if now, ok := s.zone.View().Hold(h.Origin, h.ID); ok { // with the decision
		return now, nil
	}
	return rs[0].Hold, nil
}

// holdsAll reports whether children hold all that a hold wants of them, by their answers, and
// nothing was refused here.
func holdsAll(h *state.Hold, answers []command.PartAnswer) bool {
	held := map[api.LinkID]int{}
	for _, a := range answers {
		held[a.Link] = len(a.Held)
	}
	return len(h.Refused) == 0 && !slices.ContainsFunc(h.Parts, func(p state.Part) bool {
		return !p.Answered && held[p.Link] < len(p.Instances)
	})
}

// partAnswer is the answer of a child, or that it is unknown.
type partAnswer struct {
	command.PartAnswer
	known bool
}

// askPart asks one child, and repeats the call while the child cannot be reached.
func (s *Saga) askPart(ctx context.Context, h *state.Hold, p state.Part, l *buildplan.Layer) partAnswer {
	out := partAnswer{PartAnswer: command.PartAnswer{Link: p.Link}}
	r := &api.HoldRequest{
		ID: h.ID, Attempt: h.Attempt, Request: h.Request, Metadata: h.Metadata,
		Instances: make([][]api.InstanceSpec, len(h.Request.Groups)),
		Commit:    h.Commit && (len(h.Slots) == 0) && len(h.Parts) == 1 && len(h.Refused) == 0,
	}
	for _, i := range p.Instances {
		r.Instances[i.Group] = append(r.Instances[i.Group], i.Spec)
	}
	for _, c := range l.Children {
		if c.Link == p.Link {
			r.Request, r.Blob = *c.Ask.Request(&h.Request), c.Blob
		}
	}
	for tries := 0; ; tries++ {
		link, ok := s.zone.View().Link(p.Link)
		if !ok {
			out.known = true
			return out
		}
		s.zone.Reach(crash.HoldAsking)
		call, cancel := context.WithTimeout(ctx, peerTimeout)
		a, err := s.askHold(call, link, r, tries == 0)
		cancel()
		s.zone.Reach(crash.HoldAsked)
		if err != nil && ctx.Err() != nil {
			err = api.Wrap(api.CodeTimeout, "saga.askPart", "nobody waits for it any longer", err)
		} else if err != nil && mayRepeat(err) {
			backoff.Sleep(ctx, backoff.Double(retryPause, retryPauseMax, tries))
			continue
		}
		if err != nil {
			s.zone.Log().WarnContext(ctx, "child holds nothing", "link", link.Name, "hold", h.ID, "error", err)
		}
		out.noteAnswer(p, a, err)
		return out
	}
}

// ask is a hold that is asked of a child together with others, and its answer.
type ask struct {
	hold   *api.HoldRequest
	answer *api.HoldAnswer // nil if it takes a call of its own
}

// holdsInCall bounds a call with several holds; the rest of its body is spare.
var holdsInCall = jointMax{items: api.HoldsMax, size: api.HoldsBytesMax - 1<<10}

// askHold asks a child for a hold: with others that are asked of it at the same time if shared is set, and
// in a call of its own where that is no answer.
func (s *Saga) askHold(ctx context.Context, l *api.Link, r *api.HoldRequest, shared bool) (*api.HoldAnswer, error) {
	if !shared || !s.peers.SharesHolds(l) {
		return s.peers.Hold(ctx, l, r)
	}
	body, err := codec.Marshal(r)
	if err != nil || len(body) > holdsInCall.size {
		return s.peers.Hold(ctx, l, r)
	}
	a := &ask{hold: r}
	err = s.asks.sendItem(ctx, l.ID, a, len(body), holdsInCall, func(ctx context.Context, as []*ask) ([]error, error) {
		return s.askHolds(ctx, l, as)
	})
	if err != nil { // it may be under way, so that a is not to be read
		return nil, err
	}
	if a.answer != nil {
		return a.answer, nil
	}
	return s.peers.Hold(ctx, l, r)
}

// askHolds makes one call for holds. One alone takes a call that every release knows, and so does each
// if the call is refused as such, which says nothing about any of them.
func (s *Saga) askHolds(ctx context.Context, l *api.Link, as []*ask) (out []error, err error) {
	out = make([]error, len(as))
	if len(as) == 1 {
		as[0].answer, err = s.peers.Hold(ctx, l, as[0].hold)
		if err != nil && mayRepeat(err) {
			return nil, err
		}
		out[0] = err
		return out, nil
	}
	rs := make([]api.HoldRequest, len(as))
	for i := range as {
		rs[i] = *as[i].hold
	}
	answers, err := s.peers.HoldAll(ctx, l, rs)
	switch {
	case err != nil && mayRepeat(err):
		return nil, err
	case err != nil:
		s.zone.Log().WarnContext(ctx, "child refused holds that shared a call", "link", l.Name, "error", err)
		return out, nil
	}
	for i := range as {
		as[i].answer = answers[i]
	}
	return out, nil
}

// noteAnswer records a child's answer to its part, or why there is none. What it was not asked for it does not hold.
func (p *partAnswer) noteAnswer(part state.Part, a *api.HoldAnswer, err error) {
	switch {
	case err != nil && mayRepeat(err):
		p.Why = api.CodeTimeout
	case err != nil:
		p.known, p.Why = true, api.CodeOf(err)
	default:
		p.Committed, p.known, p.Why = a.State == api.HoldCommitted, true, a.Why
		if p.Committed || a.State == api.HoldHeld { // otherwise it has released what it had taken
			p.Held = askedOf(part, a.Held)
		}
	}
}

// askedOf returns those of some instances that a child was asked for, each once.
func askedOf(p state.Part, ids []api.InstanceID) []api.InstanceID {
	held := make(map[api.InstanceID]bool, len(ids))
	for _, id := range ids {
		held[id] = true
	}
	var out []api.InstanceID
	for _, i := range p.Instances {
		if held[i.Spec.ID] {
			out = append(out, i.Spec.ID)
		}
	}
	return out
}

// mayRepeat reports whether repeating a call to another zone may help.
func mayRepeat(err error) bool {
	code := api.CodeOf(err)
	return code == api.CodeUnavailable || code == api.CodeTimeout || code == api.CodeOverloaded ||
		errors.Is(err, context.DeadlineExceeded)
}

// DecideAll carries out a parent's decisions on holds, in one log entry, as Decide does
// with one. It returns for each why it is refused.
func (s *Saga) DecideAll(ctx context.Context, parent *api.Link, ds []api.HoldDecision) (*api.DecisionsAnswer, error) {
	v, at := s.zone.View(), s.zone.Stamp()
	out := &api.DecisionsAnswer{Codes: make([]api.Code, len(ds))}
	var cmds []command.Command
	var of []int // which decision each command is for
	for i, d := range ds {
		if h, ok := v.Hold(parent.ID, d.ID); ok && d.Decision == api.DecisionAbort && h.Decision == d.Decision {
			continue
		}
		cmds = append(cmds, command.HoldDecide{Stamp: at, ID: d.ID, Origin: parent.ID, Decision: d.Decision, Lifted: d.Lifted})
		of = append(of, i)
	}
	if len(cmds) == 0 {
		return out, nil
	}
	results, err := s.zone.ProposeAll(ctx, cmds...)
	if err != nil {
		return nil, err
	}
	for n, r := range results {
		if r.Err != nil {
			out.Codes[of[n]] = api.CodeOf(r.Err)
		}
	}
	return out, nil
}

// Decide carries out a parent's decision on its hold. It answers once the decision is
// in this zone's log; children are told afterwards. An abort is final, so a repeat is
// answered from any view that has it.
func (s *Saga) Decide(ctx context.Context, parent *api.Link, id api.HoldID, d api.Decision) (*api.HoldAnswer, error) {
	if h, ok := s.zone.View().Hold(parent.ID, id); ok && d == api.DecisionAbort && h.Decision == d {
		a := h.Answer()
		return &a, nil
	}
	res, err := s.zone.Propose(ctx, command.HoldDecide{Stamp: s.zone.Stamp(), ID: id, Origin: parent.ID, Decision: d})
	if err != nil {
		return nil, err
	}
	a := res.Hold.Answer()
	return &a, nil
}
