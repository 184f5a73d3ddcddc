package estimate

import (
	"cmp"
	"context"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"berth/api"
	"berth/buildplan"
	"berth/costs"
	"berth/raftstore/state"
)

// Limits of a lean fan-out.
const (
	fanoutRoundsMax = 3 // rounds of questions before all children are asked, or the plan is taken as it is

	// The children that were left out are asked too when one that was chosen is slow: takes fanoutSlow times
	// as long as usual, within these bounds, of which the upper one is for children without a usual time.
	fanoutSlow        = 8
	fanoutPatienceMin = 100 * time.Millisecond
	fanoutPatience    = 300 * time.Millisecond
	// fanoutGiveUp times that patience is for how long a child is waited for that the plan can do without.
	fanoutGiveUp = 3
)

// notNeeded is the reason not to ask a child that a lean fan-out leaves out.
const notNeeded = "not asked: cheaper zones had enough"

// guess is what a child would offer for a request by its digest.
type guess struct {
	fits  []int64 // by group: slots of its shape, at most api.CountMax; 0 for a group that is not asked for
	price []int64 // by group: of the cheapest of them, as the link adjusts it; meaningless without slots
}

// guessOf returns the guess for a child from its digest, nil if the digest does not tell: a group has a
// shape without a sketch, or a price is missing.
func guessOf(d *api.Digest, req *api.Request, l *api.Link) *guess {
	if d.Partial {
		return nil
	}
	out := &guess{fits: make([]int64, len(req.Groups)), price: make([]int64, len(req.Groups))}
	for g := range req.Groups {
		if req.Groups[g].Count == 0 {
			continue
		}
		shape := req.Groups[g].Resources
		i := slices.IndexFunc(d.Sketches, func(s api.FitSketch) bool { return s.StartIn == 0 && s.Resources.Equal(shape) })
		if i < 0 {
			return nil
		}
		if out.fits[g] = min(d.Sketches[i].Fits, api.CountMax); out.fits[g] == 0 {
			continue
		}
		price := priceIn(d, shape, l)
		if price == nil {
			return nil
		}
		out.price[g] = *price
	}
	return out
}

// fanout lays out one request by asking the cheapest children that are enough by their digests, and
// others only if these are not. docs/adr/0046-lean-fanout.md has the reasons.
//
// Whatever the digests say, the plan has as many slots as if all children had been asked: before it is
// left short, all are. No slot of it is dearer than what a child that was not asked would offer by its
// digest, by more than the worth of a slot, unless fanoutRoundsMax rounds are over.
type fanout struct {
	e       *Estimator
	v       *state.State
	w       *Want
	answers []childAnswer
	order   []int   // indices of the answers with a guess, the cheapest first
	worth   []int64 // by group: the difference of prices that counts as none
	active  int64   // groups that are wanted
	slack   int64
}

// newFanout returns a lean fan-out, nil if all children are to be asked at once.
func (e *Estimator) newFanout(v *state.State, w *Want, answers []childAnswer) *fanout {
	if rule := &v.Config.Fanout; rule.Use() == api.FanoutAll || w.Vain >= api.AttemptsMax-1 || !mayBeLean(w) {
		return nil
	}
	f := &fanout{e: e, v: v, w: w, answers: answers, slack: int64(v.Config.Fanout.SlackOf()) << max(w.Vain, 0)}
	for i := range answers {
		if answers[i].outcome == "" && answers[i].guess != nil {
			f.order = append(f.order, i)
		}
	}
	if len(f.order) == 0 {
		return nil
	}
	for g := range w.Request.Groups {
		grp := &w.Request.Groups[g]
		if grp.Count > 0 {
			f.active++
		}
		f.worth = append(f.worth, worthOf(grp.Resources))
	}
	f.sortChildren()
	return f
}

// mayBeLean reports whether digests tell enough of a request. They describe firm room from now on without
// an end. A rule over zones, other than the least number of them, needs all zones.
func mayBeLean(w *Want) bool {
	req := w.Request
	z := &req.Zones
	plain := req.Class == api.Firm && !req.Preempt && !req.Reserves && req.Within == "" && req.Replaces == "" &&
		req.Lifetime == 0 && req.Window.End == api.Forever
	return plain && len(req.Rules) == 0 && len(z.AllowedTags)+len(z.ExcludedTags) == 0 && z.MaxSkew == 0 && !z.Pack && w.bounds.first == nil
}

// worthOf returns the worth of a slot in points: two prices that differ by no more are as good as equal.
// It is at least the step in which weights are rounded.
func worthOf(shape api.Resources) int64 {
	sum := int64(WeightQuantum)
	for class, n := range shape { // in any order
		unit := costs.Points(class)
		sum += unit * min(n, costs.ScaleMax/unit)
	}
	return min(sum, costs.ScaleMax)
}

// sortChildren orders the children by what they fit and by price: those that fit all groups first. Those at
// equal prices are in the order of their seeds.
func (f *fanout) sortChildren() {
	var worth int64
	for g := range f.worth {
		worth = addCapped(worth, f.worth[g])
	}
	slices.SortStableFunc(f.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(f.emptyGroups(a), f.emptyGroups(b)), cmp.Compare(f.priceOf(a), f.priceOf(b)))
	})
	for from := 0; from < len(f.order); {
		to := from + 1
		for to < len(f.order) && f.emptyGroups(f.order[to]) == f.emptyGroups(f.order[from]) && f.priceOf(f.order[to]) <= addCapped(f.priceOf(f.order[from]), worth) {
			to++
		}
		slices.SortFunc(f.order[from:to], func(a, b int) int {
			return cmp.Compare(seedOf(f.w.Request, f.answers[a].link.ID), seedOf(f.w.Request, f.answers[b].link.ID))
		})
		from = to
	}
}

// emptyGroups returns the number of groups of which a child has no slot.
func (f *fanout) emptyGroups(i int) (n int) {
	for g, fits := range f.answers[i].guess.fits {
		if f.w.Request.Groups[g].Count > 0 && fits == 0 {
			n++
		}
	}
	return n
}

// priceOf returns the sum of the prices that a child has for the groups.
func (f *fanout) priceOf(i int) (sum int64) {
	a := f.answers[i].guess
	for g := range a.price {
		if a.fits[g] > 0 {
			sum = addCapped(sum, a.price[g])
		}
	}
	return sum
}

// seedOf returns the place of a child among equal ones, drawn by the reservation: requests at the same time
// spread over them, and one that is planned again finds the same order.
func seedOf(req *api.Request, l api.LinkID) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(req.Reservation)) // never fails
	_, _ = h.Write([]byte{0})               // never fails
	_, _ = h.Write([]byte(l))               // never fails
	x := h.Sum64()                          // its last bytes are not mixed well
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	return x ^ x>>33
}

// addCapped adds numbers; the sum stops at the ends of int64.
func addCapped(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// layOutLean returns the plan of all offers, and of those on this zone's own hosts.
func (f *fanout) layOutLean(ctx context.Context) (*Plan, buildplan.Plan) {
	req := f.w.Request
	own := f.e.planOwn(f.v, req, nil, &f.w.bounds)
	f.spareChildren(f.order)
	f.pickChildren(f.slack, f.least(), func(g int, price int64) int64 {
		return int64(req.Groups[g].Count - countUpTo(own.Groups[g].Slots, price))
	})
	q := &inquiry{e: f.e, v: f.v, w: f.w, answers: f.answers, own: func() buildplan.Plan { return own }}
	q.askLean(ctx)
	p := mergeOffers(f.v, f.w, own, f.answers)
	for round := range fanoutRoundsMax {
		if !f.pickMore(p, round) {
			break
		}
		f.e.askChildren(ctx, f.answers, req, func(a *childAnswer) bool { return a.outcome == "" })
		p = mergeOffers(f.v, f.w, own, f.answers)
	}
	return p, own
}

// least returns how many children with room are asked at the least: more than the zones that the request
// must lie in.
func (f *fanout) least() int {
	if n := f.w.Request.Zones.MinZones; n > 1 {
		return n + 1
	}
	return 0
}

// countUpTo returns how many slots cost no more than a price, in the order in which they are taken: one
// that follows a dearer one has to wait for that.
func countUpTo(slots []buildplan.Slot, price int64) int {
	n := slices.IndexFunc(slots, func(s buildplan.Slot) bool { return s.Weight > price })
	if n < 0 {
		return len(slots)
	}
	return n
}

// spareChildren leaves children out.
func (f *fanout) spareChildren(some []int) {
	for _, i := range some {
		a := &f.answers[i]
		a.outcome, a.reason, a.spare = api.OutcomeSkipped, notNeeded, true
	}
}

// pickChildren picks of the children that are left out, in order, those that are needed: until least of
// them are picked, and as long as those picked have less than slack times what is needed of a group at
// the price of the next one. Groups share their room, so each counts only an equal part of it.
func (f *fanout) pickChildren(slack int64, least int, need func(g int, price int64) int64) {
	have := make([]int64, len(f.worth))
	for _, i := range f.order {
		a := &f.answers[i]
		if !a.spare {
			continue
		}
		needed := least > 0
		for g, fits := range a.guess.fits {
			needed = needed || fits > 0 && have[g] < slack*f.active*need(g, a.guess.price[g])
		}
		if !needed {
			continue
		}
		f.pickChild(i)
		least--
		for g, fits := range a.guess.fits {
			have[g] += fits
		}
	}
}

// pickChild picks a child that was left out.
func (f *fanout) pickChild(i int) {
	a := &f.answers[i]
	a.outcome, a.reason, a.spare = "", "", false
}

// pickMore picks children to ask next, and reports whether there are any: those that may have what a
// plan is missing, or have it cheaper. What is still missing then, it picks all for.
func (f *fanout) pickMore(p *Plan, round int) bool {
	req := f.w.Request
	short := p.Offered() < req.Count()
	switch {
	case p.unmet != "" || short && (round > 0 || f.active > 1):
		for _, i := range f.order {
			if f.answers[i].spare {
				f.pickChild(i)
			}
		}
	case short:
		f.pickChildren(2*f.slack, 0, func(g int, _ int64) int64 {
			return int64(req.Groups[g].Count - len(p.merged[g].Order))
		})
	case round == fanoutRoundsMax-1:
		return false
	default:
		f.pickChildren(f.slack, 0, func(g int, price int64) int64 { return countAbove(p.merged[g].Weights, addCapped(price, f.worth[g])) })
	}
	return slices.ContainsFunc(f.answers, func(a childAnswer) bool { return a.outcome == "" })
}

// countAbove returns how many weights are above a price.
func countAbove(weights []int64, price int64) (n int64) {
	for _, w := range weights {
		if w > price {
			n++
		}
	}
	return n
}
