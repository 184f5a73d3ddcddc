package buildplan

import (
	"math"

	"berth/api"
	"berth/capacity"
	"berth/costs"
	"berth/filters"
)

// RefusedRoom is the name under which a refusal counts hosts that passed every
// filter but have no room for a slot: earlier groups of the same request took
// it, or the list of filters has no capacity filter.
const RefusedRoom = "room"

// SpareMax is the largest number of alternates of one group.
const SpareMax = 64

// Slot is room for one instance on a host of this zone.
type Slot struct {
	Host       api.HostID `cbor:"1,keyasint"`
	Generation uint64     `cbor:"2,keyasint,omitempty"` // of the host, in the view that was planned on
	Weight     int64      `cbor:"3,keyasint,omitempty"` // price of the host; lower is better
	// Keeps is the consumer of the slot of an earlier request that this one replaces in place;
	// "" for a slot that is claimed beside all others. Only plans of requests that replace
	// another have it: a zone makes none before all its nodes read their form.
	Keeps api.InstanceID `cbor:"4,keyasint,omitempty"`
}

// GroupPlan is what a zone's own hosts offer for one group, best first.
type GroupPlan struct {
	Slots      []Slot // at most Count; the i-th supposes that slots 0 to i-1 are taken
	Alternates []Slot // in place of a slot that is refused; hosts that have no slot of the group
	// Refusals say why not more is offered; with fewer slots than Count, also what
	// would have worked here. Hosts that could take slots, but not beside the one that
	// rules of affinity want, count under filters.NameServerGroup.
	Refusals api.Refusals
}

// Weights returns the weights of the slots, in order.
func (g *GroupPlan) Weights() []int64 {
	out := make([]int64, len(g.Slots))
	for i := range g.Slots {
		out[i] = g.Slots[i].Weight
	}
	return out
}

// Plan is what a zone's own hosts offer for a request, group by group.
type Plan struct{ Groups []GroupPlan }

// Inputs are the inputs of a plan: one view of the hosts, further knowledge of them, and
// the filters and costs. They may serve many requests, also concurrently.
type Inputs struct {
	View    capacity.View
	World   *filters.World // nil when nothing is known
	Filters []filters.Filter
	Costs   costs.Set
	Spare   int // alternates of each group, at most SpareMax
	// Split, if not nil, runs part for all of 0 to n-1, in parts of its choice, each once, and returns
	// when they have ended. Parts may run at the same time. From filters.SplitHostsMin hosts on they
	// are filtered in parts; the plan is the same.
	Split func(n int, part func(from, to int))
	// Keep are, per group, the slots of the request that req.Replaces names, in the order in
	// which a plan is to keep them; nil for none.
	Keep [][]Keep

	// Beside is where the volumes of a request within a lease go, whose instances get slots of View; nil
	// for other requests.
	Beside *Beside

	kept    []slotsKept // by group, of a planner; nil for none
	pairing bool        // kept are slots of this plan: see selectPairs
}

// groupOrder returns the groups in the order in which they are planned, and in which their
// slots are to be claimed: those of whole hosts first, because others leave few hosts idle.
func groupOrder(req *api.Request) []int {
	out := make([]int, 0, len(req.Groups))
	for _, whole := range [...]bool{true, false} {
		for g := range req.Groups {
			if req.Groups[g].Whole == whole {
				out = append(out, g)
			}
		}
	}
	return out
}

// Select plans req on s. For each group in order, those of whole hosts before all others, and
// for each slot in turn, it takes the cheapest host on which the slot still fits beside everything that it
// has placed before, until Count is reached or nothing fits; of equally cheap
// hosts it takes the lowest id. All slots of groups that rules of affinity bind
// together lie on one host. A slot of a whole host is one that is idle, and no other slot is
// on it. Up to s.Spare further hosts, at
// most SpareMax, are named as alternates: the cheapest that carry no slot of the
// group, and none for a group under a rule of affinity.
//
// If a group comes out with fewer slots than its Min in this way, the minima of all
// groups are placed first, and what has room beside them after that. Min is about the
// hosts of s alone. The minima are tried in that order, then wherever a
// search finds room for all of them at once: that is exact as long as it ends within
// SearchLooksMax. If there is no room for all, the first group has as much of its
// minimum as fits, the second as much as fits beside that, and so on.
//
// It changes nothing and never offers what does not fit, whatever the filters pass. In
// the refusals of each group, Considered == Offering + the sum of Filters; a group of
// which nothing is wanted is not looked at.
// It costs a scan of the columns for each group, as far as bounds do not decide, and a step of a
// heap for each slot.
//
// Slots of an earlier request are kept before anything is placed; see Keep. Groups that share hosts
// pair by pair are placed so; see selectPairs.
func Select(s *Inputs, req *api.Request) Plan {
	if len(s.Keep) > 0 {
		return selectKeeping(s, req)
	}
	if req.HasPairs() {
		return selectPairs(s, req)
	}
	return selectPlaced(s, req)
}

// selectPlaced is Select without slots to keep, but beside those that are kept already.
func selectPlaced(s *Inputs, req *api.Request) Plan {
	p := newPlanner(s, req)
	out := Plan{Groups: make([]GroupPlan, len(req.Groups))}
	for _, i := range groupOrder(req) {
		if req.Groups[i].Count > 0 {
			out.Groups[i] = p.planGroup(i)
		}
	}
	for i := range out.Groups {
		p.recheckAlternates(i, &out.Groups[i])
	}
	if least := leastOf(req); !out.hasSlots(least) && (len(req.Groups) > 1 || p.draft != nil) {
		return selectLeast(s, req, least)
	}
	return out
}

// Sketch returns how many slots like those of one group the hosts have room for, at most limit, and the
// price of the cheapest of these, 0 if there is none: what a digest says of one flavor. The count, the
// rules of affinity and the other groups of req do not
// matter; its window and class do. Hosts that draw from providers beside themselves
// are filled one after another in order of ids, so what several draw from counts once.
func Sketch(s *Inputs, req *api.Request, group int, limit int64) (fits, price int64) {
	p := newPlanner(s, req)
	t, _ := p.findHosts(group)
	if limit = max(limit, 0); t.pass.Empty() || limit == 0 {
		return 0, 0
	}
	prices := p.pricesOf(t)
	price = math.MaxInt64
	for row := range t.pass.All() {
		price = min(price, prices.Of(row, 0))
	}
	for row := range t.pass.All() {
		if p.drawing.Has(row) {
			continue
		}
		if fits += p.roomFor(t, row); fits >= limit {
			return limit, price
		}
	}
	if fits = p.takeFromDrawingHosts(t, fits, limit); fits == 0 {
		return 0, 0
	}
	return fits, price
}
