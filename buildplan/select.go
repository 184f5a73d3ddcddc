package buildplan

import (
	"math"
	"math/bits"

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
}

// GroupPlan is what a zone's own hosts offer for one group, best first.
type GroupPlan struct {
	Slots      []Slot // at most Count; the i-th supposes that slots 0 to i-1 are taken
	Alternates []Slot // in place of a slot that is refused; hosts that have no slot of the group
	Refusals   api.Refusals
}

// Plan is what a zone's own hosts offer for a request, group by group.
type Plan struct{ Groups []GroupPlan }

// Scene is what a request is planned on: one view of the hosts, what else is
// known of them, and how to choose. A scene may serve many requests, also
// concurrently.
type Scene struct {
	View    capacity.View
	World   *filters.World // nil when nothing is known
	Filters []filters.Filter
	Costs   costs.Set
	Spare   int // alternates of each group, at most SpareMax
}

// Select plans req on s. For each group in order, and for each slot in turn, it
// takes the cheapest host on which the slot still fits beside everything that it
// has placed before, until Count is reached or nothing fits; of equally cheap
// hosts it takes the lowest id. Up to s.Spare further hosts, at most SpareMax, are
// named as alternates: the cheapest that carry no slot of the group.
//
// It changes nothing and never offers what does not fit, whatever the filters pass. In
// the refusals of each group, Considered == Offering + the sum of Filters.
// It costs a scan of the columns for each group, and a step of a heap for each slot.
func Select(s *Scene, req *api.Request) Plan {
	v, fs, spare := s.View, s.Filters, s.Spare
	p := planner{view: v, req: req, costs: s.Costs, window: req.WindowAt(v.Now())}
	out := Plan{Groups: make([]GroupPlan, len(req.Groups))}
	for i := range req.Groups {
		g := &req.Groups[i]
		pass, why := filters.Run(fs, filters.NewLook(v, s.World, req, i))
		p.dropFull(g, pass, &why)
		out.Groups[i] = p.place(g, pass, min(max(spare, 0), SpareMax))
		out.Groups[i].Refusals = why
	}
	return out
}

// planner is the state of one Select: what earlier groups have taken, by row.
type planner struct {
	view   capacity.View
	req    *api.Request
	window api.Window
	costs  costs.Set
	taken  map[int]api.Resources
}

// dropFull takes out of pass the hosts without room for one slot of g and
// counts them.
func (p *planner) dropFull(g *api.Group, pass capacity.Set, why *api.Refusals) {
	p.view.KeepFitting(&pass, g.Resources, p.window, p.req.Class)
	need := amounts(g)
	for row := range p.taken { // in any order: each is looked at alone
		if pass.Has(row) && p.room(row, need) < 1 {
			pass.Remove(row)
		}
	}
	if left := pass.Len(); left < why.Offering {
		why.Filters = append(why.Filters, api.FilterCount{Filter: RefusedRoom, Hosts: why.Offering - left})
		why.Offering = left
	}
}

// amount is how much of a class one slot takes; above 0.
type amount struct {
	class api.ResourceClass
	n     int64
}

// amounts returns what one slot of g takes, in order.
func amounts(g *api.Group) []amount {
	var out []amount
	for _, class := range g.Resources.Classes() {
		if n := g.Resources[class]; n > 0 {
			out = append(out, amount{class, n})
		}
	}
	return out
}

// room returns how many slots of need fit on row beside what is taken there. All
// claims of one request have one window, so room divides.
func (p *planner) room(row int, need []amount) int64 {
	room := int64(api.CountMax)
	for _, a := range need {
		free := p.view.FreeOver(row, a.class, p.window, p.req.Class)
		if p.taken != nil {
			free -= p.taken[row][a.class]
		}
		room = min(room, max(free, 0)/a.n)
	}
	return room
}

// place takes slots of g from pass, all of which have room for one at least.
func (p *planner) place(g *api.Group, pass capacity.Set, spare int) GroupPlan {
	memory := p.freeMemory(pass)
	q := p.price(pass, memory, max(g.Count+spare, 1))
	var out GroupPlan
	var hosts []taking
	need := amounts(g)
	for len(q.offers) > 0 && len(out.Slots) < g.Count {
		o := &q.offers[0]
		out.Slots = append(out.Slots, p.slot(o))
		if o.taking == none {
			o.taking = int32(len(hosts))
			hosts = append(hosts, taking{row: int(o.row), free: memory[o.row], room: p.room(int(o.row), need)})
		}
		h := &hosts[o.taking]
		h.slots++
		if h.slots >= h.room {
			q.pop()
			continue
		}
		h.free -= g.Resources[api.MemoryMB]
		o.cost = p.costs.Of(costs.Host{FreeMemoryMB: h.free})
		q.down(0)
	}
	p.take(g, hosts)
	for len(q.offers) > 0 && len(out.Alternates) < spare {
		if o := &q.offers[0]; o.taking == none {
			out.Alternates = append(out.Alternates, p.slot(o))
		}
		q.pop()
	}
	return out
}

// taking is what one group has taken of one host.
type taking struct {
	row   int
	free  int64 // memory left over the window, in MiB
	room  int64 // slots that fitted at first
	slots int64 // slots taken
}

func (p *planner) slot(o *offer) Slot {
	row := int(o.row)
	return Slot{Host: p.view.ID(row), Generation: p.view.Generation(row), Weight: o.cost}
}

// take notes, for the groups that follow, what the slots of g use.
func (p *planner) take(g *api.Group, hosts []taking) {
	if len(p.req.Groups) == 1 {
		return // nobody will ask
	}
	if p.taken == nil {
		p.taken = map[int]api.Resources{}
	}
	for _, h := range hosts {
		sum := p.taken[h.row]
		if sum == nil {
			sum = api.Resources{}
			p.taken[h.row] = sum
		}
		for class, amount := range g.Resources {
			sum[class] += amount * h.slots
		}
	}
}

// freeMemory returns the memory that is left on each row over the window.
func (p *planner) freeMemory(pass capacity.Set) []int64 {
	free := p.view.FreeColumn(api.MemoryMB, p.window, p.req.Class)
	for row, r := range p.taken { // in any order: each is changed alone
		if pass.Has(row) {
			free[row] -= r[api.MemoryMB]
		}
	}
	return free
}

// price puts a price on every row of pass and returns the cheapest of them, most
// or more, as a heap. No other can be reached: a host gives its place to the next
// only by taking a slot, so most slots and alternates need most hosts at the most.
func (p *planner) price(pass capacity.Set, memory []int64, most int) queue {
	prices := make([]int64, len(memory))
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for row := range pass.All() {
		price := p.costs.Of(costs.Host{FreeMemoryMB: memory[row]})
		prices[row] = price
		low, high = min(low, price), max(high, price)
	}
	dearest := high
	if most < pass.Len() {
		dearest = bound(pass, prices, low, high, most)
	}
	q := queue{view: p.view, offers: make([]offer, 0, min(most, pass.Len()))}
	for row := range pass.All() {
		if prices[row] <= dearest {
			q.offers = append(q.offers, offer{prices[row], p.view.IDPrefix(row), int32(row), none})
		}
	}
	q.order()
	return q
}

// bound returns a price that at least most rows of pass do not exceed, and few
// more if prices are spread evenly: the end of one of about buckets equal parts
// of [low, high], found by counting.
func bound(pass capacity.Set, prices []int64, low, high int64, most int) int64 {
	const buckets = 1 << 10
	var counts [buckets]int
	shift := max(0, bits.Len64(uint64(high)-uint64(low))-bits.Len(buckets-1))
	for row := range pass.All() {
		counts[(uint64(prices[row])-uint64(low))>>shift]++
	}
	for i, n := range counts {
		if most -= n; most <= 0 {
			width := uint64(i+1)<<shift - 1 // of all parts up to i
			return int64(uint64(low) + min(width, uint64(high)-uint64(low)))
		}
	}
	return high
}

// Fits returns how many slots like those of one group the hosts have room for, at most limit: what a
// digest says of one flavor. The count and the other groups of req do not
// matter; its window and class do.
func Fits(s *Scene, req *api.Request, group int, limit int64) int64 {
	v, g := s.View, &req.Groups[group]
	l := filters.NewLook(v, s.World, req, group)
	pass, _ := filters.Run(s.Filters, l)
	v.KeepFitting(&pass, g.Resources, l.Window, req.Class)
	p := planner{view: v, req: req, window: l.Window}
	var sum int64
	need := amounts(g)
	for row := range pass.All() {
		if sum += p.room(row, need); sum >= limit {
			return max(limit, 0)
		}
	}
	return sum
}
