package estimate

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/filters"
	"berth/raftstore/state"
)

// advicePlansMax bounds the plans that are tried to find advice for one plan that came
// out short. It is divided by the number of groups, because each of them takes time to
// plan, but never goes below advicePlansMin.
const (
	advicePlansMax = 8
	advicePlansMin = 2
)

// Demands that advice may name beside those of filters.
const (
	adviceMinZones = "min_zones" // ZoneRule.MinZones
	adviceMaxSkew  = "max_skew"  // ZoneRule.MaxSkew
	advicePack     = "pack"      // ZoneRule.Pack
)

// advising looks for changes to a request that came out short, after which it would
// have worked.
type advising struct {
	e     *Estimator
	ctx   context.Context //nolint:containedctx // of one plan
	v     *state.State
	w     *Want
	req   *api.Request // of w
	p     *Plan
	plans int
}

// addAdvice adds to the refusals of groups that came out short the changes that would
// have worked, smallest first. It plans each change in all zones first: a change works
// if the group then gets its full count and no other group gets less than before.
// Advice to ask for the offered count needs no plan; nothing else is tried while a zone
// is silent.
func (e *Estimator) addAdvice(ctx context.Context, v *state.State, w *Want, p *Plan, answers []childAnswer) {
	req := w.Request
	a := &advising{e: e, ctx: ctx, v: v, w: w, req: req, p: p}
	heard := !slices.ContainsFunc(answers, func(c childAnswer) bool {
		return c.outcome == api.OutcomeLate || c.outcome == api.OutcomeFailed
	})
	for g := range p.Refusals {
		ideas := slices.DeleteFunc(p.Refusals[g].Advice, func(i api.Advice) bool { return i.Change == api.AdviceCount })
		p.Refusals[g].Advice = nil
		if len(p.Layer.Groups[g].Order) >= req.Groups[g].Count && p.unmet == "" {
			continue
		}
		var works []api.Advice
		for _, idea := range a.findIdeas(g, ideas, answers) {
			if slices.Contains(works, idea) || len(works) == api.AdviceMax || idea.Change == api.AdviceLifetime && hasLifetime(works) {
				continue
			}
			inHand := idea.Change == api.AdviceCount && idea.Value == int64(len(p.Layer.Groups[g].Order)) && p.unmet == ""
			if inHand || heard && a.tryAdvice(g, idea) {
				works = append(works, idea)
			}
		}
		p.Refusals[g].Advice = works
	}
}

// adviseCounts advises the available number of slots of each group, which is all that a
// parent gets.
func (p *Plan) adviseCounts(req *api.Request) {
	for g := range p.Refusals {
		p.Refusals[g].Advice = nil
		if n := len(p.Layer.Groups[g].Order); n > 0 && n < req.Groups[g].Count && p.unmet == "" {
			p.Refusals[g].Advice = []api.Advice{{Change: api.AdviceCount, Value: int64(n)}}
		}
	}
}

// hasLifetime reports whether a lifetime is among some advice.
func hasLifetime(list []api.Advice) bool {
	return slices.ContainsFunc(list, func(i api.Advice) bool { return i.Change == api.AdviceLifetime })
}

// lifetimesTried are tried where hosts that are promised to others later are in zones below, which do not say when that
// is, or are wanted by several groups.
var lifetimesTried = []time.Duration{30 * 24 * time.Hour, 7 * 24 * time.Hour, 24 * time.Hour, time.Hour}

// lifetimes returns the lifetimes that may work for a group, the longest first, if hosts are promised to others later:
// the one among ideas, which this zone's own hosts could do by themselves, shorter ones, and those that zones below
// may do.
func (a *advising) lifetimes(g int, ideas []api.Advice, answers []childAnswer) []api.Advice {
	if a.req.Reserves {
		return nil
	}
	longest := api.WindowMax
	if w := a.req.WindowAt(a.e.zone.Instant()); w.End != api.Forever {
		longest = time.Duration(w.End-w.Start) * time.Millisecond
	}
	below := slices.ContainsFunc(answers, func(c childAnswer) bool {
		return c.answer != nil && g < len(c.answer.Refusals) && filters.PromisedHosts(&c.answer.Refusals[g]) > 0
	})
	var out []api.Advice
	for _, i := range ideas {
		if i.Change == api.AdviceLifetime {
			out = append(out, i)
			if !below {
				longest = time.Duration(i.Value) * time.Second
			}
		}
	}
	for _, d := range lifetimesTried {
		if d < longest && (below || filters.PromisedHosts(&a.p.Refusals[g]) > 0) {
			out = append(out, api.Advice{Change: api.AdviceLifetime, Value: int64(d / time.Second)})
		}
	}
	slices.SortFunc(out, func(a, b api.Advice) int { return cmp.Compare(b.Value, a.Value) })
	return out
}

// findIdeas returns the changes that may work for a group: the available count, a shorter
// lifetime, a weaker zone rule, and each zone that the rule excludes.
// Then come those of filters.
func (a *advising) findIdeas(g int, ideas []api.Advice, answers []childAnswer) []api.Advice {
	var out []api.Advice
	if n := len(a.p.Layer.Groups[g].Order); n > 0 && a.p.unmet == "" {
		out = append(out, api.Advice{Change: api.AdviceCount, Value: int64(n)})
	}
	out = append(out, a.lifetimes(g, ideas, answers)...)
	if passedOverForRule(a.p.Refusals[g]) {
		out = append(out, api.Advice{Change: api.AdviceZone, Name: a.v.Name})
	}
	for i := range answers {
		if c := &answers[i]; c.barred || c.answer != nil && g < len(c.answer.Refusals) && passedOverForRule(c.answer.Refusals[g]) {
			out = append(out, api.Advice{Change: api.AdviceZone, Name: c.link.Name})
		}
	}
	var drops []string
	for name, set := range map[string]bool{ // in any order
		adviceMinZones: a.p.unmet != "", adviceMaxSkew: a.req.Zones.MaxSkew > 0, advicePack: a.req.Zones.Pack && !a.req.HasVolumes(),
		filters.NameServerGroup: hasHardRule(a.req, g),
	} {
		if set {
			drops = append(drops, name)
		}
	}
	if len(answers) > 0 { // what excludes other zones
		h := &a.req.Groups[g].Hints
		for name, set := range map[string]bool{
			filters.NameSameHost: len(h.SameHost) > 0, filters.NameForcedHosts: len(h.ForceHosts) > 0,
			filters.NameNear: h.Near != "",
		} {
			if set {
				drops = append(drops, name)
			}
		}
	}
	slices.SortFunc(drops, strings.Compare)
	for _, name := range drops {
		out = append(out, api.Advice{Change: api.AdviceDrop, Name: name})
	}
	return append(out, slices.DeleteFunc(ideas, func(i api.Advice) bool { return i.Change == api.AdviceLifetime })...)
}

// hasHardRule reports whether a rule of affinity or anti-affinity binds a group.
func hasHardRule(req *api.Request, g int) bool {
	return slices.ContainsFunc(req.RulesOf(g), func(n int) bool {
		return req.Rules[n].Policy == api.Affinity || req.Rules[n].Policy == api.AntiAffinity
	})
}

// tryAdvice plans a request with one change, if there is time, and reports whether the
// group then gets its full count and all others keep theirs.
func (a *advising) tryAdvice(g int, idea api.Advice) bool {
	deadline, ok := a.ctx.Deadline()
	if a.ctx.Err() != nil || ok && deadline.Sub(a.e.zone.Now()) < 2*api.HopReserve || a.plans >= max(advicePlansMax/len(a.req.Groups), advicePlansMin) {
		return false
	}
	req, ok := applyAdvice(a.req, g, idea)
	if !ok || checkPart(req) != nil {
		return false
	}
	a.plans++
	p, _ := a.e.layOutBound(a.ctx, a.v, &Want{Request: req, Held: a.w.Held, Beside: a.w.Beside, Avoid: a.w.Avoid})
	for i := range p.Layer.Groups {
		want := len(a.p.Layer.Groups[i].Order)
		if i == g {
			want = req.Groups[g].Count
		}
		if len(p.Layer.Groups[i].Order) < want {
			return false
		}
	}
	return p.unmet == ""
}

// checkPart checks what is left of a request: its rule for zones is about what the rest has, too.
func checkPart(req *api.Request) error {
	part := *req
	part.Zones.MinZones = min(part.Zones.MinZones, part.Count())
	return part.Validate()
}

// applyAdvice returns a request with one change to a group, or to the whole.
func applyAdvice(req *api.Request, g int, idea api.Advice) (*api.Request, bool) {
	out := *req
	out.Groups, out.Rules = slices.Clone(req.Groups), slices.Clone(req.Rules)
	grp := &out.Groups[g]
	switch idea.Change {
	case api.AdviceCount:
		grp.Count = int(idea.Value)
		grp.Min = min(grp.Min, grp.Count)
	case api.AdviceLifetime:
		out.Lifetime, out.Window.End = time.Duration(idea.Value)*time.Second, api.Forever
	case api.AdviceAmount:
		r := api.Resources{}
		for class, n := range grp.Resources {
			r[class] = n
		}
		r[idea.Class] = idea.Value
		grp.Resources = r
	case api.AdviceZone:
		if len(out.Zones.Allowed) > 0 {
			out.Zones.Allowed = append(slices.Clone(out.Zones.Allowed), idea.Name)
		}
		out.Zones.Excluded = slices.DeleteFunc(slices.Clone(out.Zones.Excluded), func(n string) bool { return n == idea.Name })
	case api.AdviceDrop:
		switch idea.Name {
		case adviceMinZones:
			out.Zones.MinZones = 0
		case adviceMaxSkew:
			out.Zones.MaxSkew = 0
		case advicePack:
			out.Zones.Pack = false
		default:
			return &out, filters.DropDemand(&out, g, idea.Name)
		}
	default:
		return nil, false
	}
	return &out, true
}
