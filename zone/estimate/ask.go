package estimate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"berth/api"
	"berth/buildplan"
	"berth/raftstore/state"
	"berth/zone"
)

// childAnswer is the answer of one child, or the reason that it has none.
type childAnswer struct {
	link    *api.Link
	ask     buildplan.Ask
	outcome string // "" until it is asked
	reason  string
	doubted bool // skipped only because of its digest, which may be old, or of its failures: asked before a request is left short
	never   bool // doubted, because no host of the kind was there
	barred  bool // excluded by the request's zone rule: named in advice if it has room
	answer  *api.SelectAnswer
	until   api.Instant // when its offer expires, by this zone's time

	narrowed bool // to be asked again for the missing slots

	guess *guess // what a lean fan-out expects of it; nil if that is not known, and it is asked
	spare bool   // left out by a lean fan-out: asked before a request is left short
}

// askChildren concurrently asks the children that which picks, within the budget of ctx
// less this hop's reserve, and fills in their answers. A late or failing child costs
// only its own slots. It returns when every call has ended, at the latest when ctx
// ends.
func (e *Estimator) askChildren(ctx context.Context, answers []childAnswer, req *api.Request, which func(*childAnswer) bool) {
	var some []int
	for i := range answers {
		if which(&answers[i]) {
			some = append(some, i)
		}
	}
	ctx, cancel := e.withinHop(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for _, i := range some {
		a := &answers[i]
		wg.Go(func() { *a = e.askChild(ctx, a.link, a.ask, req) })
	}
	wg.Wait()
}

// withinHop limits ctx to its budget less this hop's reserve.
func (e *Estimator) withinHop(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = e.zone.Now().Add(api.SelectTimeout)
	}
	return context.WithDeadline(ctx, deadline.Add(-api.HopReserve))
}

func (e *Estimator) askChild(ctx context.Context, l *api.Link, ask buildplan.Ask, req *api.Request) childAnswer {
	a := childAnswer{link: l, ask: ask, outcome: api.OutcomeAnswered}
	its := ask.Request(req)
	began, asked := e.zone.Instant(), e.zone.Now() // the child counts from its answer, which is later
	slow := time.AfterFunc(e.usual.slowAfter(l.ID), func() { e.NoteSlow(l.ID) })
	ans, err := e.peers.Select(ctx, l, its)
	slow.Stop()
	switch {
	case err != nil && context.Cause(ctx) == errTooSlow: //nolint:errorlint // it is that very value
		e.NoteSlow(l.ID)
		a.outcome, a.reason = api.OutcomeLate, "no answer in time"
	case err != nil && errors.Is(ctx.Err(), context.Canceled): // the caller is gone, which says nothing about the child
		a.outcome, a.reason = api.OutcomeLate, "no answer in time"
		return a
	case err != nil && (errors.Is(err, context.DeadlineExceeded) || api.CodeOf(err) == api.CodeTimeout):
		a.outcome, a.reason = api.OutcomeLate, "no answer in time"
	case api.CodeOf(err) == api.CodePaused: // it has answered
		a.outcome, a.reason = api.OutcomePaused, pausedBelow
		return a
	case err != nil:
		e.zone.Log().WarnContext(ctx, "child failed to select", "link", l.Name, "error", err)
		a.outcome, a.reason = api.OutcomeFailed, string(api.CodeOf(err))
	case !isSound(ans, its, api.DepthMax-zone.Depth(ctx)):
		e.zone.Log().WarnContext(ctx, "child gave an unusable answer", "link", l.Name)
		a.outcome, a.reason = api.OutcomeFailed, "unusable answer"
	case ans.Expires < api.PlanTTLLeast:
		e.zone.Log().WarnContext(ctx, "what a child offers expires too soon", "link", l.Name)
		a.outcome, a.reason = api.OutcomeFailed, "what it offers expires too soon"
	default:
		limitWeights(ans.Weights)
		a.answer, a.until = ans, began.Add(min(ans.Expires, api.PlanTTLMax))
	}
	if a.answer != nil {
		e.health.noteAnswer(l.ID)
		e.usual.note(l.ID, e.zone.Now().Sub(asked))
		return a
	}
	unmet := a.outcome == api.OutcomeLate || api.CodeOf(err) == api.CodeUnavailable || api.CodeOf(err) == api.CodeOverloaded
	e.health.noteSelect(l.ID, unmet && e.isHeard(l), e.zone.Now())
	return a
}

// prepareQuestion returns the question for a child, or the reason to skip it at first:
// the request excludes it, it is paused, it keeps failing, or its fresh digest shows
// that no slot of the request fits below it. A digest is never final: a child skipped
// because of it is asked before the request is left short. pinned is where each group
// may lie; with avoid it is not to be asked.
func (e *Estimator) prepareQuestion(l *api.Link, req *api.Request, pinned []pin, avoid bool) childAnswer {
	a := childAnswer{link: l}
	d, age, heard := e.digests.Digest(l.Zone)
	if !heard || age > digestAgeMax {
		d = api.Digest{Partial: true} // rules nothing out
	}
	var no string
	if a.ask, no = askOf(l, req, pinned); no != "" {
		a.outcome, a.reason = api.OutcomeSkipped, no
	}
	fits, never := hasRoom(&d, a.ask.Request(req))
	if req.Within != "" || req.Replaces != "" { // the slots are not free room, which is all that a digest counts
		fits, never = true, false
	}
	switch {
	case a.outcome != "":
	case l.State == api.LinkPaused:
		a.outcome, a.reason = api.OutcomePaused, "paused by an operator of this zone"
	case l.Terms.Maintenance && req.NeedsRoom() && req.Replaces == "":
		a.outcome, a.reason = api.OutcomePaused, pausedBy+"its maintenance"
	case d.Paused:
		a.outcome, a.reason = api.OutcomePaused, pausedBelow
	case !hasTags(&d, req.Zones.AllowedTags):
		a.outcome, a.reason, a.doubted = api.OutcomeSkipped, "its digest has none of the tags that the request asks for", true
	case never:
		a.never = true
		a.outcome, a.reason, a.doubted = api.OutcomeSkipped, "its digest says that nothing of this kind ever fits", true
	case !fits:
		a.outcome, a.reason, a.doubted = api.OutcomeSkipped, "its digest says that it is full", true
	case avoid:
		a.outcome, a.reason = api.OutcomeSkipped, "it did not hold what it had offered, so it is asked last"
	default:
		switch e.health.turnOf(l.ID, e.zone.Now()) {
		case turnNow:
			a.guess = guessOf(&d, a.ask.Request(req), l)
		case turnTry:
		case turnLast:
			a.outcome, a.reason, a.doubted = api.OutcomeSkipped, slowLately, true
		case turnNever:
			a.outcome, a.reason = api.OutcomePaused, failing
		}
	}
	a.barred = l.State != api.LinkPaused && !allowsChild(&req.Zones, l.Name)
	return a
}

// failing is the reason to skip a child that does not answer.
const failing = "it has failed or was late several times; it will be tried again"

// slowLately is the reason not to ask a child that is asked last.
const slowLately = "it was slow, or did not hold what it had offered, so it is asked last"

// askDoubted asks the children that were skipped only because of their digests, or because they
// are asked last, and reports whether there were any.
func (e *Estimator) askDoubted(ctx context.Context, answers []childAnswer, req *api.Request) bool {
	some := false
	e.askChildren(ctx, answers, req, func(a *childAnswer) bool {
		switch {
		case !a.doubted:
			return false
		case !e.health.mayAsk(a.link.ID, e.zone.Now()):
			a.outcome, a.reason = api.OutcomePaused, failing
			return false
		}
		some = true
		return true
	})
	return some
}

// hasTags reports whether a digest has one of the tags, or there are no tags.
func hasTags(d *api.Digest, tags []string) bool {
	return len(tags) == 0 || d.Partial || slices.ContainsFunc(tags, func(t string) bool { return slices.Contains(d.Tags, t) })
}

// pausedBelow is the outcome of a child that takes no new work over the link.
const pausedBelow = pausedBy + "its own operator"

// pausedBy begins the outcome of a child behind a link that an operator has paused.
const pausedBy = "paused by "

// excluded is the reason not to ask a child in which the request may not lie.
const excluded = "the request excludes it"

// allowsChild reports whether a rule lets slots lie in or below a child. Names are seen from
// this zone, so a child that the rule leaves out is not asked: one below it may have the name
// of an allowed zone.
func allowsChild(r *api.ZoneRule, name string) bool {
	return !slices.Contains(r.Excluded, name) && (len(r.Allowed) == 0 || slices.Contains(r.Allowed, name))
}

// askOf returns how to ask a child, or why the request excludes it.
func askOf(l *api.Link, req *api.Request, pinned []pin) (buildplan.Ask, string) {
	ask := buildplan.Ask{Inside: slices.Contains(req.Zones.Allowed, l.Name)}
	if !allowsChild(&req.Zones, l.Name) {
		return ask, excluded
	}
	counts, left, named := make([]int, len(req.Groups)), 0, false
	for g := range req.Groups {
		if h := &req.Groups[g].Hints; len(h.ForceHosts) > 0 || h.Near != "" {
			named = true
			continue
		}
		if !pinned[g].allowsLink(l.ID) {
			continue
		}
		counts[g] = req.Groups[g].Count
		left += counts[g]
	}
	switch {
	case left == 0 && named:
		return ask, "the request names hosts, or addresses, of this zone"
	case left == 0:
		return ask, "the request is bound to other zones, or must lie beside what is elsewhere"
	case left < req.Count():
		ask.Counts = counts
	}
	ask.MeetTags(req, l.Terms.Tags)
	ask.MeetAZ(req, l.Terms.AZ)
	return ask, ""
}

// hasRoom reports whether a digest shows room for one slot of a request, and if not,
// whether such a slot could never fit there.
func hasRoom(d *api.Digest, req *api.Request) (fits, never bool) {
	never = true
	for i := range req.Groups {
		if req.Groups[i].Count == 0 {
			continue
		}
		ok, no := mayFit(d, &req.Groups[i], req.Class)
		if ok {
			return true, false
		}
		never = never && no
	}
	return false, never
}

// mayFit reports whether a digest shows room for one slot of a group, and if not,
// whether no host there could ever take one. Totals rule out slots that no host can
// take, a sketch of the same shape rules out slots that do not fit because of
// fragmentation, and missing traits and availability zones rule out the rest. Room
// never rules out a preemptible slot, because a digest describes firm room.
func mayFit(d *api.Digest, g *api.Group, class api.Class) (fits, never bool) {
	if d.Partial {
		return true, false
	}
	bare := len(d.Classes) == 0 // a zone without hosts may get some at any moment
	for _, t := range g.Traits.Required {
		if !slices.Contains(d.Traits, t) {
			return false, !bare
		}
	}
	if g.AZ != "" && !slices.Contains(d.AZs, g.AZ) {
		return false, !bare
	}
	if class == api.Preemptible {
		return true, false
	}
	full := false
	for c, n := range g.Resources {
		t, ok := d.Classes[c]
		if !ok || n > t.SlotMax {
			return false, !bare
		}
		full = full || n > t.Free
	}
	for i := range d.Sketches {
		if sk := &d.Sketches[i]; sk.StartIn == 0 && sk.Resources.Equal(g.Resources) {
			full = full || sk.Fits == 0
		}
	}
	return !full, false
}

// pin is where the slots of a group may lie because of existing instances: nil for
// anywhere, else a set of children and, as "", this zone.
type pin []api.LinkID

// allowsLink reports whether slots may lie at a child, or with "" here.
func (p pin) allowsLink(l api.LinkID) bool { return p == nil || slices.Contains(p, l) }

// intersect returns what both pins allow.
func (p pin) intersect(o pin) pin {
	switch {
	case p == nil:
		return o
	case o == nil:
		return p
	}
	return slices.DeleteFunc(slices.Clone(p), func(l api.LinkID) bool { return !slices.Contains(o, l) })
}

// pinsOf returns where each group may lie: where the members of its affinity rules are,
// and where one of the instances is that it must be beside. An instance unknown to this
// zone is not in a zone below it either.
func pinsOf(v *state.State, req *api.Request) []pin {
	out := make([]pin, len(req.Groups))
	for n := range req.Rules {
		if req.Rules[n].Policy != api.Affinity {
			continue
		}
		here, elsewhere := v.Members(req.Tenant(), req.RuleKey(n))
		at := slices.Sorted(maps.Keys(elsewhere))
		if len(here) > 0 {
			at = append(at, "")
		}
		for _, g := range req.Rules[n].Groups {
			if len(at) > 0 {
				out[g] = out[g].intersect(at)
			}
		}
	}
	for g := range req.Groups {
		beside := req.Groups[g].Hints.SameHost
		if len(beside) == 0 {
			continue
		}
		at := pin{}
		for _, id := range beside {
			switch link, here, known := v.PlaceOf(req.Tenant(), id); {
			case known && here:
				at = append(at, "")
			case known:
				at = append(at, link)
			}
		}
		out[g] = out[g].intersect(at)
	}
	return out
}
