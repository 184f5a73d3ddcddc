package estimate

import (
	"context"
	"slices"
	"strings"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/filters"
	"berth/internal/requestid"
	"berth/raftstore/state"
	"berth/zone"
)

// Limits of searches for room over time, on one node.
const (
	roomPlansMax    = 400 // starts for which own hosts are planned for one question
	roomSearchesMax = 8   // questions at once
)

// Room answers a parent's question for room over time: what this zone and all zones below it
// have. It changes nothing, and any node can answer it.
func (e *Estimator) Room(ctx context.Context, peer api.ZoneID, q *api.RoomQuestion) (*api.RoomAnswer, error) {
	if err := e.CheckForeign(&q.Request); err != nil {
		return nil, err
	}
	if err := q.Validate(e.zone.Instant()); err != nil {
		return nil, err
	}
	v := e.zone.View()
	l, ok := v.LinkByZone(peer)
	if !ok {
		return nil, api.Errorf(api.CodeForbidden, "the zones are not linked")
	}
	if call := requestid.Of(ctx); call != "" {
		k := "room\x00" + string(q.Request.Project) + "\x00" + string(call)
		if !e.asking.beginRequest(k, zone.Depth(ctx)) {
			return nil, api.Errorf(api.CodeConflict, "this zone is working on that request already: it has come back on another way")
		}
		defer e.asking.endRequest(k)
	}
	its := *q
	its.Request.Origin = l.ID
	s, err := e.searchRoom(ctx, v, &its)
	if err != nil {
		return nil, err
	}
	s.askNever(ctx)
	return s.sumRoom(), nil
}

// roomSearch is one question for room over time: the answers of this zone's own hosts and
// of its children.
type roomSearch struct {
	e        *Estimator
	v        *state.State
	q        *api.RoomQuestion
	binder   *binder // nil if nothing of it is bound
	bounds   bounds
	own      api.RoomAnswer
	children []childRoom
}

// childRoom is the part of one child in a search for room.
type childRoom struct {
	childAnswer
	room *api.RoomAnswer // nil if it has not answered
}

// searchRoom asks the children that the request allows and that their digests do not rule out for
// ever, and meanwhile looks at its own hosts. Too many searches at once are refused with CodeOverloaded.
func (e *Estimator) searchRoom(ctx context.Context, v *state.State, q *api.RoomQuestion) (*roomSearch, error) {
	select {
	case e.searches <- struct{}{}:
		defer func() { <-e.searches }()
	default:
		return nil, api.Errorf(api.CodeOverloaded, "the zone is looking for room for %d others; try again", roomSearchesMax)
	}
	s := &roomSearch{e: e, v: v, q: q, binder: e.newBinder(v, &Want{Request: &q.Request})}
	if s.binder != nil {
		s.bounds = s.binder.boundsOfAll()
	}
	pinned := s.bounds.narrow(pinsOf(v, &q.Request))
	for _, l := range v.Children() {
		s.children = append(s.children, childRoom{childAnswer: e.prepareQuestion(l, &q.Request, pinned, false)})
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		s.askChildren(ctx, func(c *childRoom) bool { return c.outcome == "" || c.doubted && !c.never })
	}()
	s.own = e.ownRoom(ctx, v, q, &s.bounds)
	<-asked
	return s, nil
}

// askNever asks the children below which no host of the kind was there when they sent their
// digests, and reports whether there were any.
func (s *roomSearch) askNever(ctx context.Context) bool {
	return s.askChildren(ctx, func(c *childRoom) bool { return c.room == nil && c.doubted && c.never })
}

// askChildren concurrently asks the children that which picks, and reports whether it picks any. A
// late or failing child costs only its own slots.
func (s *roomSearch) askChildren(ctx context.Context, which func(*childRoom) bool) bool {
	e := s.e
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = e.zone.Now().Add(api.SelectTimeout)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(-api.HopReserve))
	defer cancel()
	done, some := make(chan struct{}, len(s.children)), 0
	for i := range s.children {
		if c := &s.children[i]; which(c) {
			some++
			go func() {
				c.askRoom(ctx, e, s.q)
				done <- struct{}{}
			}()
		}
	}
	for range some {
		<-done
	}
	return some > 0
}

// askRoom asks one child.
func (c *childRoom) askRoom(ctx context.Context, e *Estimator, q *api.RoomQuestion) {
	if !e.health.mayAsk(c.link.ID, e.zone.Now()) {
		c.outcome, c.reason = api.OutcomePaused, failing
		return
	}
	its := api.RoomQuestion{Request: *c.ask.Request(&q.Request), Until: q.Until}
	a, err := e.peers.Room(ctx, c.link, &its)
	c.outcome, c.reason = api.OutcomeAnswered, ""
	switch code := api.CodeOf(err); {
	case code == api.CodeTimeout || err != nil && ctx.Err() != nil:
		c.outcome, c.reason = api.OutcomeLate, "no answer in time"
	case code == api.CodePaused:
		c.outcome, c.reason = api.OutcomePaused, pausedBelow
	case err != nil:
		e.zone.Log().WarnContext(ctx, "child failed to look for room", "link", c.link.Name, "error", err)
		c.outcome, c.reason = api.OutcomeFailed, string(code)
	case !a.IsSound(&its):
		e.zone.Log().WarnContext(ctx, "child gave an unusable answer about its room", "link", c.link.Name)
		c.outcome, c.reason = api.OutcomeFailed, "unusable answer"
	default:
		c.room = a
	}
}

// isSilent reports whether a child that could have room did not answer, or one below it.
func (c *childRoom) isSilent() bool {
	switch {
	case c.room != nil:
		return c.room.Silent
	case c.outcome == api.OutcomePaused:
		return !strings.HasPrefix(c.reason, pausedBy)
	}
	return c.outcome == api.OutcomeLate || c.outcome == api.OutcomeFailed
}

// ownRoom returns what own hosts have over time, as far as the budget of ctx and roomPlansMax
// allow. Groups that are bound elsewhere have nothing there.
func (e *Estimator) ownRoom(ctx context.Context, v *state.State, q *api.RoomQuestion, b *bounds) api.RoomAnswer {
	a := api.RoomAnswer{Until: q.Until}
	for i, at := range e.startsOf(v, q) {
		if i == roomPlansMax || e.isLate(ctx) {
			a.Until = at
			a.Steps = addStep(a.Steps, api.RoomStep{At: at, Together: make([]int, len(q.Request.Groups))})
			break
		}
		a.Steps = addStep(a.Steps, e.roomAt(v, &q.Request, at, b))
	}
	return a
}

// isLate reports whether the time that ctx leaves for looking is over: the rest is for the
// answer.
func (e *Estimator) isLate(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !e.zone.Now().Before(deadline.Add(-api.HopReserve))
}

// startsOf returns the starts at which what own hosts have may change, in order.
func (e *Estimator) startsOf(v *state.State, q *api.RoomQuestion) []api.Instant {
	starts := []api.Instant{q.Request.Window.Start}
	if !allowsOwnHosts(v, &q.Request.Zones) {
		return starts
	}
	in := e.Inputs(v, &q.Request)
	hosts := capacity.NewSet(in.View.Rows())
	for g := range q.Request.Groups {
		if q.Request.Groups[g].Count > 0 {
			pass, _ := filters.Run(filters.OfAnyTime(in.Filters, &q.Request.Groups[g]), filters.NewLook(in.View, in.World, &q.Request, g))
			hosts.Or(pass)
		}
	}
	for _, at := range in.View.Turns(hosts, q.Starts(), q.Length()) {
		at = api.NextStart(at)
		if at > starts[len(starts)-1] && at < q.Until {
			starts = append(starts, at)
		}
	}
	return starts
}

// requestAt returns a request with its window moved to a start.
func requestAt(req *api.Request, at api.Instant) *api.Request {
	its := *req
	its.Window = api.Window{Start: at, End: at + req.Window.End - req.Window.Start}
	return &its
}

// roomAt returns what own hosts have for a request that starts at an instant.
func (e *Estimator) roomAt(v *state.State, req *api.Request, at api.Instant, b *bounds) api.RoomStep {
	its := requestAt(req, at)
	need := countsOf(its)
	s := api.RoomStep{At: at, Together: slotsOf(e.planOwn(v, its, need, b))}
	if len(need) == 1 || slices.Equal(s.Together, need) {
		return s
	}
	s.Alone = slices.Clone(s.Together)
	for g := range need {
		if s.Together[g] == need[g] {
			continue
		}
		alone := *its
		alone.Groups = slices.Clone(its.Groups)
		for o := range alone.Groups {
			if o != g {
				alone.Groups[o].Count, alone.Groups[o].Min = 0, 0
			}
		}
		s.Alone[g] = slotsOf(e.planOwn(v, &alone, nil, b))[g]
	}
	if slices.Equal(s.Alone, s.Together) {
		s.Alone = nil
	}
	return s
}

// countsOf returns how many slots each group of a request asks for.
func countsOf(req *api.Request) []int {
	out := make([]int, len(req.Groups))
	for g := range out {
		out[g] = req.Groups[g].Count
	}
	return out
}

// slotsOf returns how many slots each group has in a plan.
func slotsOf(p buildplan.Plan) []int {
	out := make([]int, len(p.Groups))
	for g := range out {
		out[g] = len(p.Groups[g].Slots)
	}
	return out
}

// addStep adds s at the end of steps unless nothing changes by it. Between what there is together
// and alone there may be other ways to share the room, which may change with every step.
func addStep(steps []api.RoomStep, s api.RoomStep) []api.RoomStep {
	if n := len(steps); n > 0 && s.Alone == nil && steps[n-1].Alone == nil && slices.Equal(steps[n-1].Together, s.Together) {
		return steps
	}
	return append(steps, s)
}

// answers returns the answers of this zone and of the children that gave one.
func (s *roomSearch) answers() []*api.RoomAnswer {
	out := []*api.RoomAnswer{&s.own}
	for i := range s.children {
		if room := s.children[i].room; room != nil {
			out = append(out, room)
		}
	}
	return out
}

// turnsOf returns the instants at which some answers change, in order.
func turnsOf(answers []*api.RoomAnswer) []api.Instant {
	var out []api.Instant
	for _, a := range answers {
		for i := range a.Steps {
			out = append(out, a.Steps[i].At)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sumRoom returns what this zone and its children have together.
func (s *roomSearch) sumRoom() *api.RoomAnswer {
	answers := s.answers()
	out := &api.RoomAnswer{Until: s.own.Until}
	for i := range s.children {
		c := &s.children[i]
		out.Silent = out.Silent || c.isSilent()
		if c.room != nil {
			out.Until = min(out.Until, c.room.Until)
		}
	}
	next := make([]int, len(answers))
	for _, at := range turnsOf(answers) {
		var now []*api.RoomStep
		for n, a := range answers {
			for next[n] < len(a.Steps) && a.Steps[next[n]].At <= at {
				next[n]++
			}
			if next[n] > 0 {
				now = append(now, &a.Steps[next[n]-1])
			}
		}
		if step := s.sumSteps(at, now); len(out.Steps) < api.RoomStepsMax {
			out.Steps = addStep(out.Steps, step)
		} else {
			out.Until = min(out.Until, at)
			break
		}
	}
	return out
}

// sumSteps adds up what several zones have at an instant. Of slots that must lie in one zone it
// takes the zone that has most.
func (s *roomSearch) sumSteps(at api.Instant, zones []*api.RoomStep) api.RoomStep {
	req := &s.q.Request
	sum := func(of func(*api.RoomStep) []int) []int {
		out := make([]int, len(req.Groups))
		for _, z := range zones {
			for g, n := range of(z) {
				if req.Together(g) || req.Zones.Pack || s.binder.isStrict(g) {
					out[g] = max(out[g], n)
				} else {
					out[g] = min(out[g]+n, req.Groups[g].Count)
				}
			}
		}
		return out
	}
	step := api.RoomStep{At: at, Together: sum(func(z *api.RoomStep) []int { return z.Together }), Alone: sum((*api.RoomStep).Bound)}
	s.binder.joinGroups(step.Together, zones)
	if slices.Equal(step.Alone, step.Together) {
		step.Alone = nil
	}
	return step
}
