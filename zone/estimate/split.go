package estimate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"berth/api"
	"berth/buildplan"
	"berth/raftstore/state"
)

// Limits of the search for a split of the groups' minima over zones.
const (
	splitRoundsMax = 6    // rounds of questions
	splitAsksMax   = 16   // questions to one zone in one round
	splitTriesMax  = 4096 // combinations of answers that are examined in one round
	splitMergesMax = 64   // and the number of these that are merged
)

// split searches for offers of this zone and its children that together reach the
// minima of all groups, after the plain plan has failed to. It asks each zone for its
// offers of the other groups if certain numbers of slots of some groups come first. It
// then needs one offer of each zone so that the sum reaches the minima.
type split struct {
	e       *Estimator
	v       *state.State
	req     *api.Request
	w       *Want
	need    []int         // by group: the minimum that is still missing
	answers []childAnswer // of the plain plan
	sources []int         // by source above Own: the index of its answer
	pools   [][]offer     // by source
	refuted [][][]int     // by source: what it was asked for and does not have
	asked   []map[string]bool
}

// offer is one source's answer if least comes first.
type offer struct {
	least  []int
	sizes  []int // by group
	own    buildplan.Plan
	answer childAnswer
}

func newSplit(e *Estimator, v *state.State, w *Want, answers []childAnswer) *split {
	req := w.Request
	s := &split{e: e, v: v, req: req, w: w, answers: answers, need: make([]int, len(req.Groups))}
	for g := range s.need {
		s.need[g] = req.Groups[g].Min
		if w.Held != nil {
			for _, n := range w.Held[g] {
				s.need[g] -= n
			}
		}
		s.need[g] = min(max(s.need[g], 0), req.Groups[g].Count)
	}
	return s
}

// coversMinima reports whether a plan has the minima of all groups, in enough zones.
func (s *split) coversMinima(p *Plan) bool {
	for g, n := range s.need {
		if len(p.Layer.Groups[g].Order) < n {
			return false
		}
	}
	return true
}

// countMinima returns how many slots of each minimum a plan has.
func (s *split) countMinima(p *Plan) []int {
	out := make([]int, len(s.need))
	for g, n := range s.need {
		out[g] = min(n, len(p.Layer.Groups[g].Order))
	}
	return out
}

// findSplit returns a plan that reaches the minima, if it finds one; else one with as
// much as possible of the first group's minimum, then of the second's, and so on. p and
// answers are the plain plan; answers becomes those of the returned plan.
func (s *split) findSplit(ctx context.Context, own buildplan.Plan, p *Plan, answers []childAnswer) *Plan {
	s.pools, s.refuted, s.asked = make([][]offer, 1), make([][][]int, 1), []map[string]bool{{}}
	s.addOffer(buildplan.Own, &offer{own: own})
	for i := range s.answers {
		if s.answers[i].answer == nil {
			continue
		}
		s.sources = append(s.sources, i)
		s.pools, s.refuted, s.asked = append(s.pools, nil), append(s.refuted, nil), append(s.asked, map[string]bool{})
		s.addOffer(len(s.sources), &offer{answer: s.answers[i]})
	}
	before := s.countMinima(p)
	for round := range splitRoundsMax {
		if ctx.Err() != nil || !s.askSources(ctx, s.nextQuestions(round, p)) {
			break
		}
		if better, its := s.combineOffers(); better != nil && slices.Compare(s.countMinima(better), s.countMinima(p)) > 0 {
			p = better
			copy(answers, its)
		}
		if s.coversMinima(p) || round == 0 && s.isHopeless(before) {
			break
		}
	}
	return p
}

// addOffer adds an offer to the pool of a source.
func (s *split) addOffer(source int, o *offer) {
	o.sizes = make([]int, len(s.need))
	for g := range o.sizes {
		if source == buildplan.Own {
			o.sizes[g] = len(o.own.Groups[g].Slots)
		} else {
			o.sizes[g] = len(o.answer.answer.Weights[g])
		}
	}
	s.pools[source] = append(s.pools[source], *o)
	if o.least != nil && !atLeast(o.sizes, o.least) {
		s.refuted[source] = append(s.refuted[source], o.least)
	}
}

// isHopeless reports whether some short group cannot reach its minimum even if it comes
// first everywhere.
func (s *split) isHopeless(before []int) bool {
	for g, n := range s.need {
		if before[g] >= n {
			continue // it did not come first
		}
		for source := range s.pools {
			n -= s.mostOffered(source, g)
		}
		if n > 0 {
			return true
		}
	}
	return false
}

// mostOffered returns the maximum number of slots of a group that a source has offered.
func (s *split) mostOffered(source, g int) int {
	most := 0
	for i := range s.pools[source] {
		most = max(most, s.pools[source][i].sizes[g])
	}
	return most
}

// nextQuestions returns the questions of a round for each source: first with each short
// group before all others; then with certain numbers of all groups but the last, in
// steps from none to all; then only for the rest that the others leave.
func (s *split) nextQuestions(round int, p *Plan) [][][]int {
	out := make([][][]int, len(s.pools))
	var all [][]int
	switch round {
	case 0:
		had := s.countMinima(p)
		for g, n := range s.need {
			if had[g] < n {
				one := make([]int, len(s.need))
				one[g] = n
				all = append(all, one)
			}
		}
	case 1:
		all = s.minimaSteps()
	}
	for source := range out {
		if out[source] = all; round > 1 {
			out[source] = s.restsFor(source)
		}
	}
	return out
}

// minimaSteps returns minima in steps: all of the last group that needs something,
// combined with a few numbers from none to all for each group before it; with all
// numbers if that makes at most splitAsksMax combinations.
func (s *split) minimaSteps() [][]int {
	var groups []int
	for g, n := range s.need {
		if n > 0 {
			groups = append(groups, g)
		}
	}
	last := len(groups) - 1
	of, product := make([]int, max(last, 0)), 1 // how many steps each group has
	for i := range of {
		of[i] = 1
	}
	for grown := true; grown; {
		grown = false
		for i := range of {
			if more := product / of[i] * (of[i] + 1); of[i] <= s.need[groups[i]] && more <= splitAsksMax {
				of[i], product, grown = of[i]+1, more, true
			}
		}
	}
	out := make([][]int, 0, product)
	for k := range product {
		least := make([]int, len(s.need))
		least[groups[last]] = s.need[groups[last]]
		for i, steps := range of {
			least[groups[i]] = s.need[groups[i]]
			if steps > 1 {
				least[groups[i]] = s.need[groups[i]] * (k % steps) / (steps - 1)
			}
			k /= steps
		}
		out = append(out, least)
	}
	return out
}

// restsFor returns the rests that combined offers of the other sources leave for one
// source, the least first. It leaves out those already asked, and those that the source
// is known not to have.
func (s *split) restsFor(source int) [][]int {
	var out [][]int
	s.eachCombination(source, func(_ []int, sum []int) bool {
		left := make([]int, len(s.need))
		for g, n := range s.need {
			if left[g] = max(n-sum[g], 0); left[g] > s.mostOffered(source, g) {
				return true
			}
		}
		if !s.isRefuted(source, left) {
			out = append(out, left)
		}
		return true
	})
	slices.SortStableFunc(out, func(a, b []int) int { return cmp.Compare(sumOf(a), sumOf(b)) })
	return out
}

// isRefuted reports whether a source has already failed a question for no more than
// this.
func (s *split) isRefuted(source int, least []int) bool {
	return slices.ContainsFunc(s.refuted[source], func(failed []int) bool { return atLeast(least, failed) })
}

// atLeast reports whether no element of a is less than that of b.
func atLeast(a, b []int) bool {
	for g := range b {
		if a[g] < b[g] {
			return false
		}
	}
	return true
}

func sumOf(list []int) int {
	n := 0
	for _, k := range list {
		n += k
	}
	return n
}

// eachCombination visits combinations of one offer of every source but one, as indices
// by source, with their sum; at most splitTriesMax, and until visit returns false.
func (s *split) eachCombination(but int, visit func(picked, sum []int) bool) {
	picked, tries := make([]int, len(s.pools)), 0
	var from func(source int, sum []int) bool
	from = func(source int, sum []int) bool {
		switch {
		case source == len(s.pools):
			tries++
			return visit(picked, sum) && tries < splitTriesMax
		case source == but:
			return from(source+1, sum)
		}
		for i := range s.pools[source] {
			picked[source] = i
			next := slices.Clone(sum)
			for g, n := range s.pools[source][i].sizes {
				next[g] += n
			}
			if !from(source+1, next) {
				return false
			}
		}
		return true
	}
	from(0, make([]int, len(s.need)))
}

// askSources concurrently asks the sources, each only what it was not asked before, and
// reports whether any question was new.
func (s *split) askSources(ctx context.Context, questions [][][]int) bool {
	var queries []childAnswer
	var from []int // by query: the source
	var mine [][]int
	for source := range questions {
		n := 0
		for _, least := range questions[source] {
			k := fmt.Sprint(least)
			if s.asked[source][k] || n == splitAsksMax || sumOf(least) == 0 {
				continue
			}
			s.asked[source][k] = true
			n++
			if source == buildplan.Own {
				if allowsOwnHosts(s.v, &s.req.Zones) {
					mine = append(mine, least)
				}
				continue
			}
			a := s.answers[s.sources[source-1]]
			a.ask.Least = least
			queries, from = append(queries, a), append(from, source)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.e.askChildren(ctx, queries, s.req, func(*childAnswer) bool { return true })
	}()
	for _, least := range mine {
		if ctx.Err() == nil {
			s.addOffer(buildplan.Own, &offer{least: least, own: s.e.planOwn(s.v, s.req, least, &s.w.bounds)})
		}
	}
	<-done
	for i := range queries {
		if queries[i].answer != nil {
			s.addOffer(from[i], &offer{least: queries[i].ask.Least, answer: queries[i]})
		}
	}
	return len(queries)+len(mine) > 0
}

// combineOffers returns the best plan from combinations of one offer of each source,
// with its answers. Groups that must have one source are tried with each.
func (s *split) combineOffers() (best *Plan, answers []childAnswer) {
	s.pruneOffers()
	alone := s.singleSourceGroups()
	merges, most := 0, make([]int, len(s.need))
	s.eachCombination(-1, func(picked, sum []int) bool {
		for only := range s.pools {
			if had := s.sumPicked(picked, sum, alone, only); best == nil || slices.Compare(had, most) > 0 {
				p, its := s.mergePicked(picked, alone, only)
				merges++
				if had = s.countMinima(p); best == nil || slices.Compare(had, most) > 0 {
					best, answers, most = p, its, had
				}
			}
			if len(alone) == 0 {
				break
			}
		}
		return !s.coversMinima(best) && merges < splitMergesMax
	})
	return best, answers
}

// singleSourceGroups returns the groups that must have one source.
func (s *split) singleSourceGroups() []int {
	var out []int
	for g := range s.need {
		if s.req.Zones.Pack || s.req.Together(g) {
			out = append(out, g)
		}
	}
	return out
}

// sumPicked returns how many slots of each minimum the picked offers have, if some
// groups have one source only.
func (s *split) sumPicked(picked, sum, alone []int, only int) []int {
	out := slices.Clone(sum)
	for _, g := range alone {
		out[g] = s.pools[only][picked[only]].sizes[g]
	}
	for g, n := range s.need {
		out[g] = min(out[g], n)
	}
	return out
}

// mergePicked merges the picked offers, for some groups those of one source only.
func (s *split) mergePicked(picked, alone []int, only int) (*Plan, []childAnswer) {
	own, its := s.pools[buildplan.Own][picked[buildplan.Own]].own, slices.Clone(s.answers)
	if len(alone) > 0 && only != buildplan.Own {
		own.Groups = slices.Clone(own.Groups)
		for _, g := range alone {
			own.Groups[g].Slots = nil
		}
	}
	for source := 1; source < len(s.pools); source++ {
		a := s.pools[source][picked[source]].answer
		if len(alone) > 0 && only != source {
			less := *a.answer
			less.Weights = slices.Clone(less.Weights)
			for _, g := range alone {
				less.Weights[g] = nil
			}
			a.answer = &less
		}
		its[s.sources[source-1]] = a
	}
	return mergeOffers(s.v, s.w, own, its), its
}

// pruneOffers removes offers that are no better for the minima than another offer of
// the same source.
func (s *split) pruneOffers() {
	cut := func(o *offer) []int {
		out := slices.Clone(o.sizes)
		for g, n := range s.need {
			out[g] = min(out[g], n)
		}
		return out
	}
	for source, pool := range s.pools {
		var kept []offer
		for i := range pool {
			worse := slices.ContainsFunc(kept, func(o offer) bool { return atLeast(cut(&o), cut(&pool[i])) })
			if !worse {
				kept = append(kept, pool[i])
			}
		}
		s.pools[source] = kept
	}
}
