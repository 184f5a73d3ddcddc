package estimate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"berth/api"
	"berth/buildplan"
	"berth/raftstore/state"
	"berth/zone"
)

// childAnswer is what one child said, or why it said nothing.
type childAnswer struct {
	link    *api.Link
	ask     buildplan.Ask
	outcome string // "" until it is asked
	reason  string
	doubted bool // skipped for what its digest says alone, which may be old: asked before a request is left short
	barred  bool // kept out by the request's zone rule: worth a word of advice if it has room
	answer  *api.SelectAnswer
	until   api.Instant // when what it offers expires, by this zone's time

	narrowed bool // to be asked again for what is missing
}

// askChildren asks the children that which picks, all at once, until the budget of ctx
// less this hop's reserve has passed, and fills in their answers. A child that
// is late or fails costs its own slots only. It returns when every call has ended, which
// a call does when ctx ends.
func (e *Estimator) askChildren(ctx context.Context, answers []childAnswer, req *api.Request, which func(*childAnswer) bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = e.zone.Now().Add(api.SelectTimeout)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(-api.HopReserve))
	defer cancel()
	var wg sync.WaitGroup
	for i := range answers {
		if a := &answers[i]; which(a) {
			wg.Go(func() { *a = e.askChild(ctx, a.link, a.ask, req) })
		}
	}
	wg.Wait()
}

func (e *Estimator) askChild(ctx context.Context, l *api.Link, ask buildplan.Ask, req *api.Request) childAnswer {
	a := childAnswer{link: l, ask: ask, outcome: api.OutcomeAnswered}
	its := ask.Request(req)
	began := e.zone.Instant() // it counts from when it answers, which is later
	ans, err := e.peers.Select(ctx, l, its)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled): // nobody waits any more: it says nothing of the child
		a.outcome, a.reason = api.OutcomeLate, "no answer in time"
		return a
	case err != nil && (errors.Is(err, context.DeadlineExceeded) || api.CodeOf(err) == api.CodeTimeout):
		a.outcome, a.reason = api.OutcomeLate, "no answer in time"
	case api.CodeOf(err) == api.CodePaused: // it has answered
		a.outcome, a.reason = api.OutcomePaused, pausedBelow
		return a
	case err != nil:
		e.zone.Log().Warn("child failed to select", "link", l.Name, "error", err)
		a.outcome, a.reason = api.OutcomeFailed, string(api.CodeOf(err))
	case !isSound(ans, its, api.DepthMax-zone.Depth(ctx)):
		e.zone.Log().Warn("child gave an unusable answer", "link", l.Name)
		a.outcome, a.reason = api.OutcomeFailed, "unusable answer"
	case ans.Expires < api.PlanTTLLeast:
		e.zone.Log().Warn("what a child offers expires too soon", "link", l.Name)
		a.outcome, a.reason = api.OutcomeFailed, "what it offers expires too soon"
	default:
		limitWeights(ans.Weights)
		a.answer, a.until = ans, began.Add(min(ans.Expires, api.PlanTTLMax))
	}
	e.health.noteSelect(l.ID, a.answer != nil, e.zone.Now())
	return a
}

// prepareQuestion says what a child is asked, or why it need not be at first: the request
// excludes it, it is paused, it has failed again and again, or its fresh digest says
// that not one slot of the request fits anywhere below. A digest is never the last
// word: who is skipped for its sake is asked all the same before the request is left
// short. pinned is where each group may lie.
func (e *Estimator) prepareQuestion(l *api.Link, req *api.Request, pinned []pin) childAnswer {
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
	switch {
	case a.outcome != "":
	case l.State == api.LinkPaused:
		a.outcome, a.reason = api.OutcomePaused, "paused by an operator of this zone"
	case d.Paused:
		a.outcome, a.reason = api.OutcomePaused, pausedBelow
	case !hasTags(&d, req.Zones.AllowedTags):
		a.outcome, a.reason, a.doubted = api.OutcomeSkipped, "its digest has none of the tags that the request asks for", true
	case never:
		a.outcome, a.reason, a.doubted = api.OutcomeSkipped, "its digest says that nothing of this kind ever fits", true
	case !fits:
		a.outcome, a.reason, a.doubted = api.OutcomeSkipped, "its digest says that it is full", true
	case !e.health.mayAsk(l.ID, e.zone.Now()):
		a.outcome, a.reason = api.OutcomePaused, failing
	}
	a.barred = l.State != api.LinkPaused && slices.Contains(req.Zones.Excluded, l.Name)
	return a
}

// failing is why a child is not asked that does not answer.
const failing = "it has failed or was late several times; it will be tried again"

// askDoubted asks the children that only their digests ruled out, and reports
// whether there were any.
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

// hasTags reports whether a digest has one of some tags, if there are any.
func hasTags(d *api.Digest, tags []string) bool {
	return len(tags) == 0 || d.Partial || slices.ContainsFunc(tags, func(t string) bool { return slices.Contains(d.Tags, t) })
}

// pausedBelow is what is told of a child that takes no new work over the link.
const pausedBelow = pausedBy + "its own operator"

// pausedBy begins what is told of a child behind a link that an operator has paused.
const pausedBy = "paused by "

// askOf returns how a child is asked, or why the request itself keeps it out.
func askOf(l *api.Link, req *api.Request, pinned []pin) (buildplan.Ask, string) {
	ask := buildplan.Ask{Inside: slices.Contains(req.Zones.Allowed, l.Name)}
	if slices.Contains(req.Zones.Excluded, l.Name) {
		return ask, "the request excludes it"
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
		return ask, "what the request must lie beside is elsewhere"
	case left < req.Count():
		ask.Counts = counts
	}
	return ask, ""
}

// hasRoom reports whether a digest leaves room for one slot of a request, and if
// not, whether nothing like it could ever fit there.
func hasRoom(d *api.Digest, req *api.Request) (fits, never bool) {
	never = true
	for i := range req.Groups {
		if req.Groups[i].Count == 0 {
			continue
		}
		ok, lacks := mayFit(d, &req.Groups[i], req.Class)
		if ok {
			return true, false
		}
		never = never && lacks
	}
	return false, never
}

// mayFit reports whether a digest leaves room for one slot of a group, and if
// not, whether no host there could ever take one. Totals rule out what no host
// could take; a sketch of the very shape rules out what fragmentation forbids;
// traits and availability zones rule out what nobody there has. A preemptible is
// never ruled out by room: the digest speaks of firm room.
func mayFit(d *api.Digest, g *api.Group, class api.Class) (fits, lacks bool) {
	if d.Partial {
		return true, false
	}
	bare := len(d.Classes) == 0 // a zone without hosts may get some any moment
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

// pin is where the slots of a group may lie for the sake of what is there
// already: nil for anywhere, else some of the children and, as "", this zone.
type pin []api.LinkID

// allowsLink reports whether slots may lie at a child, or with "" here.
func (p pin) allowsLink(l api.LinkID) bool { return p == nil || slices.Contains(p, l) }

// intersect leaves what both allow.
func (p pin) intersect(o pin) pin {
	if p == nil {
		return o
	}
	return slices.DeleteFunc(slices.Clone(p), func(l api.LinkID) bool { return !slices.Contains(o, l) })
}

// pinsOf returns where each group may lie: where the members of its rules of
// affinity are, and where one of the instances is that it asks to be beside. An
// instance that this zone has never heard of is not below it either.
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
