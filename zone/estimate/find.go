package estimate

import (
	"context"
	"slices"

	"berth/api"
	"berth/lease"
	"berth/raftstore/state"
)

// roomChecksMax bounds the starts that are planned in all zones in one search: those at which
// what the zones have does not show whether it fits.
const roomChecksMax = 64

// FreeRoom is when a request that reserves would fit. Nothing is held for it.
type FreeRoom struct {
	Windows  []api.Window // of starts that fit, in order: those that are multiples of api.RoomUnit
	Until    api.Instant  // all starts before it were looked at, in all zones that answered
	Silent   bool         // a zone did not answer, or one below it
	Estimate bool         // zones below have a part in it: each knows only what it has itself
	Best     api.Instant  // the first start at which most of the request would fit; 0 if nothing ever does
	Zones    []ZoneRoom   // this zone first, then its children
}

// ZoneRoom is the part of one zone in a search for room.
type ZoneRoom struct {
	Zone    string // name of the link, or this zone's own name
	Outcome string // see api.OutcomeAnswered
	Reason  string
	Until   api.Instant // all starts before it were looked at there and below; 0 if it did not answer
}

// FindRoom looks for starts of a request of this zone that reserves, in this zone and in all
// below: from the start of its window, and before until. The windows are as long as that of
// the request. It stops after a number of windows of starts, and when the budget of ctx is used
// up. Within this zone alone it is exact: a start is in one of the windows if and only if a
// lease would be made there now. It changes nothing, here or below.
func (e *Estimator) FindRoom(ctx context.Context, v *state.State, req *api.Request, until api.Instant, windows int) (*FreeRoom, error) {
	if err := checkRequest(req); err != nil {
		return nil, err
	}
	q := &api.RoomQuestion{Request: *req, Until: until}
	if err := q.Validate(e.zone.Instant()); err != nil {
		return nil, err
	}
	q.Request.Groups = slices.Clone(req.Groups)
	for g := range q.Request.Groups {
		q.Request.Groups[g].Count = max(q.Request.Groups[g].Min, 1)
	}
	s, err := e.searchRoom(ctx, v, q)
	if err != nil {
		return nil, err
	}
	f := s.findStarts(ctx, req, windows)
	if len(f.Windows) == 0 && s.askNever(ctx) {
		f = s.findStarts(ctx, req, windows)
	}
	f.Zones = s.listZones()
	return f, nil
}

// findStarts finds the starts at which what the zones have is enough for a request.
func (s *roomSearch) findStarts(ctx context.Context, req *api.Request, windows int) *FreeRoom {
	sum, checks, unsure := s.sumRoom(), roomChecksMax, api.Forever
	f := &FreeRoom{Silent: sum.Silent, Estimate: s.hasChildren()}
	search := &lease.Search{Over: s.q.Starts(), Need: 1, Unit: api.Instant(api.RoomUnit.Milliseconds()), Windows: windows}
	search.Turns = turnsOf([]*api.RoomAnswer{sum})
	if s.dependsOnZones() {
		search.Turns = turnsOf(s.answers()) // also those at which the sum stays, and other zones have it
	}
	found := lease.Free(search, func(at api.Instant) int {
		fits, sure := s.fitsIn(stepAt(sum.Steps, at))
		switch {
		case sure:
		case checks == 0 || s.e.isLate(ctx):
			unsure = min(unsure, at)
		default:
			checks--
			fits = s.e.fitsAt(ctx, s.v, req, at)
		}
		if fits {
			return 1
		}
		return 0
	})
	f.Windows, f.Until = found.Windows, min(found.Until, sum.Until, unsure)
	most := 0
	for i := range sum.Steps {
		if n := sumOf(sum.Steps[i].Together); n > most {
			most, f.Best = n, sum.Steps[i].At
		}
	}
	return f
}

// hasChildren reports whether zones below have a part in a search.
func (s *roomSearch) hasChildren() bool {
	return slices.ContainsFunc(s.children, func(c childRoom) bool { return c.room != nil })
}

// stepAt returns what there is at an instant.
func stepAt(steps []api.RoomStep, at api.Instant) *api.RoomStep {
	i, _ := slices.BinarySearchFunc(steps, at+1, func(s api.RoomStep, at api.Instant) int { return int(s.At - at) })
	if i == 0 {
		return &api.RoomStep{}
	}
	return &steps[i-1]
}

// fitsIn reports whether what the zones have is enough, and whether that is sure. What they have
// together is room for all, and what each group could have alone is not exceeded in any way. Which of
// the zones a group goes to that must be in one is not known here.
func (s *roomSearch) fitsIn(step *api.RoomStep) (fits, sure bool) {
	need := countsOf(&s.q.Request)
	if step.Together == nil || !atLeast(step.Bound(), need) {
		return false, true
	}
	if s.dependsOnZones() {
		return false, false
	}
	fits = atLeast(step.Together, need)
	return fits, fits || !s.hasChildren()
}

// dependsOnZones reports whether it matters to the request which zones have room, beside how much all of them have.
func (s *roomSearch) dependsOnZones() bool {
	z := &s.q.Request.Zones
	return s.binder != nil && s.binder.strict || z.Pack || z.MinZones > 1 || z.MaxSkew > 0 ||
		slices.ContainsFunc(s.q.Request.Rules, func(r api.Rule) bool { return len(r.Groups) > 1 })
}

// fitsAt plans a request in all zones as if it started at an instant, and reports whether every
// group has its minimum.
func (e *Estimator) fitsAt(ctx context.Context, v *state.State, req *api.Request, at api.Instant) bool {
	w := &Want{Request: requestAt(req, at)}
	p, answers := e.layOutBound(ctx, v, w)
	return p.unmet == "" && newSplit(e, v, w, answers).coversMinima(p)
}

// listZones returns the parts of all zones in a search.
func (s *roomSearch) listZones() []ZoneRoom {
	out := []ZoneRoom{{Zone: s.v.Name, Outcome: api.OutcomeAnswered, Until: s.own.Until}}
	for i := range s.children {
		c := &s.children[i]
		z := ZoneRoom{Zone: c.link.Name, Outcome: c.outcome, Reason: c.reason}
		if c.room != nil {
			z.Until = c.room.Until
		}
		out = append(out, z)
	}
	return out
}
