package estimate

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"berth/api"
	"berth/buildplan"
	"berth/filters"
	"berth/internal/crash"
	"berth/internal/requestid"
	"berth/raftstore/state"
	"berth/zone"
)

// WeightQuantum is the step to which weights are rounded down when they leave
// the zone, so that they do not fingerprint a host.
const WeightQuantum = 64

// sparesMax is how many alternates a plan carries per group, at the most.
const sparesMax = 32

// digestAgeMax is how old a digest may be and still rule a child out.
const digestAgeMax = 30 * time.Second

// Want is the input of a plan. Part of the request may be held already.
type Want struct {
	Request *api.Request
	Held    []map[api.LinkID]int // per group: slots held already, by child or "" for this zone; nil for none
	Beside  []map[api.LinkID]int // per group: instances that the boot has already, by child or "" for this zone: its rule for zones is about them too
	Avoid   map[api.LinkID]bool  // children not to ask
	Vain    int                  // attempts before this one in which slots were refused: the more, the more children are asked

	bounds bounds
}

// countAt returns how many instances of a group are at a place, held or there already.
func (w *Want) countAt(g int, at api.LinkID) (n int) {
	if w.Held != nil {
		n += w.Held[g][at]
	}
	if w.Beside != nil {
		n += w.Beside[g][at]
	}
	return n
}

// Plan is a plan before it is sealed, with the details for its explanation.
type Plan struct {
	Layer    buildplan.Layer    // what is sealed
	Zones    []api.ZoneOutcome  // how each zone took part
	Refusals []api.Refusals     // by group
	weights  [][]int64          // per group, after merging
	merged   []buildplan.Merged // by group
	own      buildplan.Plan     // the parts that were merged
	answers  []childAnswer      // and
	unmet    string             // the part of the zone rule that the whole plan violates; "" for none
	heard    []childAnswer      // by source, after this zone: the offering children
	first    []childAnswer      // answers of children to the question for all slots
	offers   [][]int            // by group and source: slots offered
	rivals   *rivals            // room that others hold, if the plan came out short
	bounds   bounds             // it was laid out within
	binder   *binder            // nil if nothing is bound
}

// Offered returns the number of slots of all groups.
func (p *Plan) Offered() int {
	n := 0
	for i := range p.Layer.Groups {
		n += len(p.Layer.Groups[i].Order)
	}
	return n
}

// expiry returns when a plan expires: at until, or earlier with the first child that
// has slots in it.
func (p *Plan) expiry(then api.Instant) api.Instant {
	for i, a := range p.heard {
		used := func(g buildplan.LayerGroup) bool { return slices.Contains(g.Order, uint16(i+1)) } //nolint:gosec // a zone has at most api.LinksMax children
		if slices.ContainsFunc(p.Layer.Groups, used) {
			then = min(then, a.until)
		}
	}
	return then
}

// Select estimates where a request would land and at what weight, and seals the answer
// for the caller: peer is the parent zone, or "" for a caller of this zone. It changes
// nothing, here or below, and any node can answer it.
func (e *Estimator) Select(ctx context.Context, peer api.ZoneID, req *api.Request) (*api.SelectAnswer, error) {
	check := checkRequest
	if peer != "" {
		check = e.CheckForeign
	}
	if err := check(req); err != nil {
		return nil, err
	}
	turn, err := e.takeTurn(ctx, peer)
	if err != nil {
		return nil, err
	}
	defer turn.Leave()
	defer e.measurePhase(PhaseSelect)()
	call := requestid.Of(ctx)
	if call != "" {
		k := string(req.Project) + "\x00" + string(call)
		if !e.asking.beginRequest(k, zone.Depth(ctx)) {
			return nil, api.Errorf(api.CodeConflict, "this zone is working on that request already: it has come back on another way")
		}
		defer e.asking.endRequest(k)
	}
	v := e.zone.View()
	var origin api.LinkID
	if peer != "" {
		if l, ok := v.LinkByZone(peer); ok {
			origin = l.ID
		}
		abroad := *req
		abroad.Origin = origin
		req = &abroad
	}
	var p *Plan
	if peer == "" {
		p = e.planRequest(ctx, v, &Want{Request: req})
	} else {
		p, _ = e.layOutBound(ctx, v, &Want{Request: req})
		p.adviseCounts(req)
	}
	p = e.fitPlan(ctx, v, req, p)
	e.findRivals(v, origin, req, p)
	contended := p.contendedRoom(req)
	short := p.describeShort(req)
	if p.unmet != "" {
		p.dropSlots()
	}
	p.bindPlan()
	a, err := e.sealAnswer(v, peer, req, p)
	if err != nil {
		return nil, err
	}
	e.explanations.keepExplanation(e.explainPlan(v, call, req, p), peer != "")
	a.Request, a.Contended, a.Short = call, contended, short
	return a, nil
}

// sealAnswer returns what is told of a plan, with the plan sealed for whom it is told: see Select.
func (e *Estimator) sealAnswer(v *state.State, peer api.ZoneID, req *api.Request, p *Plan) (*api.SelectAnswer, error) {
	p.Layer.Plan = api.PlanID(api.NewUUID())
	now := e.zone.Instant()
	p.Layer.Expires = p.expiry(now.Add(cmp.Or(v.Config.PlanTTL, api.PlanTTLDefault)))
	p.Layer = p.Layer.Trim()
	blob, err := e.sealPlan(v, peer, req, &p.Layer)
	if err != nil {
		return nil, err
	}
	e.zone.Reach(crash.SelectSealed)
	for _, ws := range p.weights {
		for i := range ws {
			ws[i] = quantiseWeight(ws[i])
		}
	}
	a := &api.SelectAnswer{
		Reservation: req.Reservation, Weights: p.weights, Blob: blob, Expires: time.Duration(p.Layer.Expires-now) * time.Millisecond,
		Zones: p.Zones, Refusals: p.Refusals, Silent: len(p.Silent()) > 0, Soon: e.OutlookOf(p) == Soon, Paused: len(p.Paused()) > 0,
	}
	if peer != "" {
		a.Refusals = foldRefusals(p)
	}
	return a, nil
}

// planSpan is the span of a plan of this zone, with its calls of children.
const planSpan = "estimate plan"

// planRequest lays out a request, and looks for advice if it comes out short.
func (e *Estimator) planRequest(ctx context.Context, v *state.State, w *Want) *Plan {
	ctx, end := e.zone.BeginSpan(ctx, planSpan)
	defer end(nil)
	e.zone.Reach(crash.SelectPlanning)
	p, answers := e.layOutBound(ctx, v, w)
	e.addAdvice(ctx, v, w, p, answers)
	e.zone.Reach(crash.SelectPlanned)
	return p
}

// layOut plans on this zone's hosts and concurrently asks its children, and merges the
// offers. Children that only their digests ruled out are asked as well if the others
// leave the request short, because a digest may be a few seconds old. A lean fan-out asks
// the cheapest children first; see fanout.
func (e *Estimator) layOut(ctx context.Context, v *state.State, w *Want) (*Plan, []childAnswer) {
	req := w.Request
	pinned := w.bounds.narrow(pinsOf(v, req))
	answers := make([]childAnswer, 0, len(v.Children()))
	for _, l := range v.Children() {
		answers = append(answers, e.prepareQuestion(l, req, pinned, w.Avoid[l.ID]))
	}
	var p *Plan
	var own buildplan.Plan
	if f := e.newFanout(v, w, answers); f != nil {
		p, own = f.layOutLean(ctx)
	} else {
		sortBySeed(answers, req)
		plan := sync.OnceValue(func() buildplan.Plan { return e.planOwn(v, req, nil, &w.bounds) })
		q := &inquiry{e: e, v: v, w: w, answers: answers, own: plan}
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			q.askAll(ctx)
		}()
		own = plan()
		<-asked
		p = mergeOffers(v, w, own, answers)
	}
	if (p.unmet != "" || p.Offered() < req.Count()) && e.askDoubted(ctx, answers, req) {
		p = mergeOffers(v, w, own, answers)
	}
	first := slices.Clone(answers)
	p = e.refineAll(ctx, v, w, p, answers, false)
	if s := newSplit(e, v, w, first); !s.coversMinima(p) {
		p = s.findSplit(ctx, own, p, answers)
		p = e.refineAll(ctx, v, w, p, answers, true)
	}
	p.first = first
	return p, answers
}

// sortBySeed puts children into an order that the reservation draws: of equal offers the first one is taken, and
// it is not the same child's for all requests. A lean fan-out draws the children that it asks instead.
func sortBySeed(answers []childAnswer, req *api.Request) {
	slices.SortFunc(answers, func(a, b childAnswer) int {
		return cmp.Or(cmp.Compare(seedOf(req, a.link.ID), seedOf(req, b.link.ID)), cmp.Compare(a.link.ID, b.link.ID))
	})
}

// refineAll refines a plan while groups are short and it helps.
func (e *Estimator) refineAll(ctx context.Context, v *state.State, w *Want, p *Plan, answers []childAnswer, keep bool) *Plan {
	req := w.Request
	for range len(req.Groups) - 1 {
		if p.Offered() == req.Count() {
			break
		}
		before := p.Offered()
		if p = e.refinePlan(ctx, v, w, p, answers, keep); p.Offered() <= before {
			break
		}
	}
	return p
}

// refinePlan asks all sources again after groups came out short. A source's offer for a
// later group assumes that its whole offer for earlier groups is taken; now each is
// asked only for the slots of complete groups that will be taken. With keep, each first
// gets the slots that it has in the plan.
func (e *Estimator) refinePlan(ctx context.Context, v *state.State, w *Want, p *Plan, answers []childAnswer, keep bool) *Plan {
	req := w.Request
	again := slices.Clone(answers)
	source := buildplan.Own
	for i := range again {
		if again[i].answer != nil {
			source++
			again[i].narrowQuestion(req, p.shareOf(req, source), p.keptSlots(source, keep))
		}
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		e.askChildren(ctx, again, req, func(a *childAnswer) bool { return a.narrowed })
	}()
	its := *req
	its.Groups = slices.Clone(req.Groups)
	for g, n := range p.shareOf(req, buildplan.Own) {
		its.Groups[g].Count = n
	}
	own := e.planOwn(v, &its, p.keptSlots(buildplan.Own, keep), &w.bounds)
	<-asked
	better := mergeOffers(v, w, own, again)
	if better.Offered() <= p.Offered() || keep && better.hasFewer(p) {
		return p
	}
	for g := range better.Refusals {
		if its.Groups[g].Count == 0 { // not planned this time
			better.Refusals[g] = p.Refusals[g]
		}
	}
	copy(answers, again)
	return better
}

// shareOf returns, by group, the number of slots to ask a source for when p is refined.
func (p *Plan) shareOf(req *api.Request, source int) []int {
	out := make([]int, len(req.Groups))
	for g := range out {
		out[g] = p.merged[g].Taken[source]
		if len(p.merged[g].Order) < req.Groups[g].Count {
			out[g] = req.Groups[g].Count
		}
	}
	return out
}

// keptSlots returns, by group, how many slots of a plan a source has; nil if they need
// not be kept.
func (p *Plan) keptSlots(source int, keep bool) []int {
	if !keep {
		return nil
	}
	out := make([]int, len(p.merged))
	for g := range out {
		out[g] = p.merged[g].Taken[source]
	}
	return out
}

// hasFewer reports whether p has fewer slots of a group than o.
func (p *Plan) hasFewer(o *Plan) bool {
	for g := range p.merged {
		if len(p.merged[g].Order) < len(o.merged[g].Order) {
			return true
		}
	}
	return false
}

// narrowQuestion prepares a second request to a child that has answered, capped at most[g]
// slots of group g, with the first least[g] of them first. A child capped at zero is not
// asked again and contributes nothing.
func (a *childAnswer) narrowQuestion(req *api.Request, most, least []int) {
	ask := a.ask
	ask.Counts, ask.Least = most, least
	for g := range a.ask.Counts {
		ask.Counts[g] = min(most[g], a.ask.Counts[g])
	}
	if ask.Request(req).Count() > 0 {
		a.ask, a.narrowed = ask, true
		return
	}
	a.answer = a.emptyAnswer(req)
}

// emptyAnswer returns the answer of a child without its offers.
func (a *childAnswer) emptyAnswer(req *api.Request) *api.SelectAnswer {
	nothing := *a.answer
	nothing.Weights = make([][]int64, len(req.Groups))
	return &nothing
}

// planOwn plans on this zone's own hosts, unless the request excludes them. Minima
// apply to all zones together; least is the number of slots by group that these hosts
// must place first, nil for none. Groups that are bound elsewhere have none.
func (e *Estimator) planOwn(v *state.State, req *api.Request, least []int, b *bounds) buildplan.Plan {
	defer e.measurePhase(PhaseOwn)()
	if allowsOwnHosts(v, &req.Zones) {
		its := *req
		its.Groups = slices.Clone(req.Groups)
		for g := range its.Groups {
			its.Groups[g].Min = 0
			if !b.allowsOwn(g) {
				its.Groups[g].Count = 0
			}
			if least != nil {
				its.Groups[g].Min = min(least[g], its.Groups[g].Count)
			}
		}
		p := buildplan.Select(e.Inputs(v, req), &its)
		keepWithinShare(v, &its, &p)
		e.addLent(v, &its, &p)
		explainHidden(v, &its, &p)
		return p
	}
	out := buildplan.Plan{Groups: make([]buildplan.GroupPlan, len(req.Groups))}
	for g := range out.Groups {
		n := hostsFor(v, req).Len()
		out.Groups[g].Refusals = api.Refusals{Considered: n}
		if n > 0 {
			out.Groups[g].Refusals.Filters = []api.FilterCount{{Filter: refusedZone, Hosts: n, Tier: api.TierNotAsked}}
		}
	}
	return out
}

// refusedZone is the name under which a refusal counts the hosts of an excluded zone.
const refusedZone = "zones"

// allowsOwnHosts reports whether a rule lets slots lie on this zone's own hosts.
func allowsOwnHosts(v *state.State, r *api.ZoneRule) bool {
	tagged := func(t string) bool { return slices.Contains(v.Config.Tags, t) }
	return !slices.Contains(r.Excluded, v.Name) && !slices.ContainsFunc(r.ExcludedTags, tagged) &&
		(len(r.Allowed) == 0 || slices.Contains(r.Allowed, v.Name)) &&
		(len(r.AllowedTags) == 0 || slices.ContainsFunc(r.AllowedTags, tagged))
}

// Inputs returns the inputs of a plan on this zone's own hosts.
func (e *Estimator) Inputs(v *state.State, req *api.Request) *buildplan.Inputs {
	in := &buildplan.Inputs{
		View: hostsFor(v, req), World: worldOf(v, req), Filters: e.zoneFilters(v), Costs: e.zoneCosts(v, req), Spare: sparesMax, Split: runParts,
	}
	if req.Within != "" {
		if req.HasVolumes() {
			in.Beside = besideOf(v, in)
		}
		in.View = insideOf(v, req)
		in.World.Census = slotCensus{v, v.FreeSlots(req.Origin, req.Within, req.Project)}
	}
	if req.Replaces != "" {
		in.Keep = slotsToKeep(v, req)
	}
	return in
}

// zoneFilters returns the filters of the zone.
func (e *Estimator) zoneFilters(v *state.State) []filters.Filter {
	if len(v.Config.Filters) == 0 {
		return filters.Default()
	}
	fs, err := filters.New(v.Config.Filters)
	if err != nil { // checked when it was set, so this node is older than the configuration
		e.noteUnknown("filters", err)
		return filters.Default()
	}
	return filters.Guard(fs)
}

// worldOf returns what a zone knows beside its host table. Commands of flavors are this
// zone's own: a group whose flavor is undefined here, or differs, has none, whatever
// another zone sends.
func worldOf(v *state.State, req *api.Request) *filters.World {
	return &filters.World{
		Census: v, Aggregates: v.Aggregates(), Public: v.Config.PublicAttributes,
		HasCommand: func(id api.FlavorID) bool {
			f, ok := v.Flavor(id)
			return ok && len(f.Command) > 0 && !slices.ContainsFunc(req.Groups, func(g api.Group) bool {
				return g.Flavor == id && !g.Resources.Equal(f.Resources)
			})
		},
	}
}

// mergeOffers merges own slots and the children's into one plan: for each group by
// weight, after adjusting each child's weights by its link. Groups bound by an affinity
// rule come from one source.
func mergeOffers(v *state.State, w *Want, own buildplan.Plan, answers []childAnswer) *Plan {
	req := w.Request
	p := &Plan{bounds: w.bounds, weights: make([][]int64, len(req.Groups)), offers: make([][]int, len(req.Groups)), own: own, answers: slices.Clone(answers)}
	var heard []childAnswer
	for _, a := range answers {
		if a.answer != nil {
			heard = append(heard, a)
			p.Layer.Children = append(p.Layer.Children, buildplan.Child{Link: a.link.ID, Blob: a.answer.Blob, Ask: a.ask})
		}
	}
	offers, held := make([][][]int64, len(req.Groups)), make([][]int, len(req.Groups))
	for g := range offers {
		offers[g] = [][]int64{own.Groups[g].Weights()}
		held[g] = make([]int, 1+len(heard))
		for i, a := range heard {
			offers[g] = append(offers[g], buildplan.Adjust(a.answer.Weights[g], a.link.Offset, a.link.Scale))
			held[g][1+i] = w.countAt(g, a.link.ID)
		}
		held[g][buildplan.Own] = w.countAt(g, "")
		for _, ws := range offers[g] {
			p.offers[g] = append(p.offers[g], len(ws))
		}
	}
	p.heard = heard
	merged := buildplan.Merge(req, offers, held, w.bounds.sourcesFirst(heard))
	for g, m := range merged {
		gp := own.Groups[g]
		p.weights[g] = m.Weights
		p.Layer.Groups = append(p.Layer.Groups, buildplan.LayerGroup{Slots: gp.Slots, Alternates: gp.Alternates, Order: m.Order})
		p.Refusals = append(p.Refusals, gp.Refusals)
	}
	p.merged = merged
	if used := inUse(merged, held); used < req.Zones.MinZones {
		p.unmet = adviceMinZones
	}
	p.Zones = zoneOutcomes(v.Name, req.Count(), merged, offers, answers)
	return p
}

// inUse returns how many sources have slots, in a merge or from before.
func inUse(merged []buildplan.Merged, held [][]int) int {
	used := map[int]bool{}
	for g := range merged {
		for s, n := range merged[g].Taken {
			if n > 0 || held[g][s] > 0 {
				used[s] = true
			}
		}
	}
	return len(used)
}

// dropSlots removes all slots from a plan that cannot be used as a whole.
func (p *Plan) dropSlots() {
	for g := range p.Layer.Groups {
		p.Layer.Groups[g] = buildplan.LayerGroup{}
		p.weights[g] = nil
	}
	p.Layer.Children = nil
	for i := range p.Zones {
		p.Zones[i].Taken, p.Zones[i].Cost = 0, 0
	}
}

// zoneOutcomes returns how each zone took part: this one first, then the children in
// the order of links.
func zoneOutcomes(name string, wanted int, merged []buildplan.Merged, offers [][][]int64, answers []childAnswer) []api.ZoneOutcome {
	offered := func(o *api.ZoneOutcome, source int) {
		for g := range offers {
			o.Offered += len(offers[g][source])
			o.Taken += merged[g].Taken[source]
			o.Cost += merged[g].Costs[source]
		}
	}
	out := []api.ZoneOutcome{{Zone: name, Outcome: api.OutcomeAnswered, Wanted: wanted}}
	offered(&out[0], buildplan.Own)
	source := buildplan.Own
	for _, a := range answers {
		o := api.ZoneOutcome{Zone: a.link.Name, Link: a.link.ID, Outcome: a.outcome, Reason: a.reason, Wanted: wanted}
		if a.answer != nil {
			source++
			offered(&o, source)
			o.Refusals = a.answer.Refusals
		}
		out = append(out, o)
	}
	for i := range out {
		out[i].Short = wanted - out[i].Offered
	}
	slices.SortFunc(out[1:], func(a, b api.ZoneOutcome) int { return cmp.Compare(a.Link, b.Link) })
	return out
}

// passedOverForRule reports whether hosts were passed over because of a zone rule.
func passedOverForRule(r api.Refusals) bool {
	return slices.ContainsFunc(r.Filters, func(f api.FilterCount) bool { return f.Filter == refusedZone })
}

// foldRefusals returns, per group, the combined refusals of this zone and all zones
// below, for a parent. Advice stays, except names of zones below.
func foldRefusals(p *Plan) []api.Refusals {
	out := make([]api.Refusals, len(p.Refusals))
	for g := range out {
		addRefusals(&out[g], &p.Refusals[g])
		for _, a := range p.Refusals[g].Advice {
			if a.Change != api.AdviceZone {
				out[g].Advice = append(out[g].Advice, a)
			}
		}
		for _, z := range p.Zones {
			if g < len(z.Refusals) {
				addRefusals(&out[g], &z.Refusals[g])
			}
		}
		roundCounts(&out[g])
	}
	return out
}

// roundCounts rounds counts of hosts up to powers of two. They still add up.
func roundCounts(r *api.Refusals) {
	r.Offering = int(api.RoundUpToPower(int64(r.Offering)))
	r.Considered = r.Offering
	for i := range r.Filters {
		r.Filters[i].Hosts = int(api.RoundUpToPower(int64(r.Filters[i].Hosts)))
		r.Considered += r.Filters[i].Hosts
	}
	for i := range r.Limits {
		r.Limits[i].Hosts = int(api.RoundUpToPower(int64(r.Limits[i].Hosts)))
	}
}

// addRefusals adds one zone's counts to another's, filter by filter.
func addRefusals(to, from *api.Refusals) {
	to.Considered += from.Considered
	to.Offering += from.Offering
	to.Filters, to.Limits = foldCounts(to.Filters, from.Filters), foldCounts(to.Limits, from.Limits)
}

func foldCounts(to, from []api.FilterCount) []api.FilterCount {
	for _, f := range from {
		i := slices.IndexFunc(to, func(o api.FilterCount) bool { return o.Filter == f.Filter && o.Tier == f.Tier })
		if i < 0 {
			to = append(to, api.FilterCount{Filter: f.Filter, Tier: f.Tier})
			i = len(to) - 1
		}
		to[i].Hosts += f.Hosts
	}
	return to
}
