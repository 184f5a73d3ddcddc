package buildplan

import (
	"cmp"

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

// Select plans req on v. For each group in order, and for each slot in turn, it
// takes the cheapest host on which the slot still fits beside everything that it
// has placed before, until Count is reached or nothing fits; of equally cheap
// hosts it takes the lowest id. Up to spare further hosts, at most SpareMax, are
// named as alternates: the cheapest that carry no slot of the group.
//
// It changes nothing and never offers what does not fit, whatever fs passes. In
// the refusals of each group, Considered == Offering + the sum of Filters.
// It costs a scan of the columns for each group, and a step of a heap for each slot.
func Select(v capacity.View, req *api.Request, fs []filters.Filter, cs costs.Set, spare int) Plan {
	p := planner{view: v, req: req, costs: cs}
	out := Plan{Groups: make([]GroupPlan, len(req.Groups))}
	for i := range req.Groups {
		g := &req.Groups[i]
		pass, why := filters.Run(fs, v, req, g)
		p.dropFull(g, pass, &why)
		out.Groups[i] = p.place(g, pass, min(max(spare, 0), SpareMax))
		out.Groups[i].Refusals = why
	}
	return out
}

// planner is the state of one Select: what earlier groups have taken, by row.
type planner struct {
	view  capacity.View
	req   *api.Request
	costs costs.Set
	taken map[int]api.Resources
	rows  capacity.Set // the keys of taken
}

// dropFull takes out of pass the hosts without room for one slot of g and
// counts them.
func (p *planner) dropFull(g *api.Group, pass capacity.Set, why *api.Refusals) {
	p.view.KeepFitting(&pass, g.Resources, p.req.Window, p.req.Class)
	for row := range p.taken { // in any order: each is looked at alone
		if pass.Has(row) && p.room(row, g) < 1 {
			pass.Remove(row)
		}
	}
	if left := pass.Len(); left < why.Offering {
		why.Filters = append(why.Filters, api.FilterCount{Filter: RefusedRoom, Hosts: why.Offering - left})
		why.Offering = left
	}
}

// room returns how many slots of g fit on row beside what is taken there. All
// claims of one request have one window, so room divides.
func (p *planner) room(row int, g *api.Group) int64 {
	room := int64(api.CountMax)
	for class, amount := range g.Resources {
		if amount > 0 {
			free := p.view.FreeOver(row, class, p.req.Window, p.req.Class) - p.taken[row][class]
			room = min(room, max(free, 0)/amount)
		}
	}
	return room
}

// place takes slots of g from pass, all of which have room for one at least.
func (p *planner) place(g *api.Group, pass capacity.Set, spare int) GroupPlan {
	q := p.price(pass, max(g.Count+spare, 1))
	memory := g.Resources[api.MemoryMB]
	var out GroupPlan
	for len(q.offers) > 0 && len(out.Slots) < g.Count {
		o := &q.offers[0]
		out.Slots = append(out.Slots, p.slot(o))
		if o.left == roomUnknown {
			o.left = p.room(o.row, g)
		}
		o.left--
		o.used++
		if o.left <= 0 {
			q.used = append(q.used, *o)
			q.pop()
			continue
		}
		o.free -= memory
		o.cost = p.costs.Of(costs.Host{FreeMemoryMB: o.free})
		q.down(0)
	}
	p.take(g, q.used)
	p.take(g, q.offers)
	for len(q.offers) > 0 && len(out.Alternates) < spare {
		if o := &q.offers[0]; o.used == 0 {
			out.Alternates = append(out.Alternates, p.slot(o))
		}
		q.pop()
	}
	return out
}

func (p *planner) slot(o *offer) Slot {
	return Slot{Host: p.view.ID(o.row), Generation: p.view.Generation(o.row), Weight: o.cost}
}

// take notes, for the groups that follow, what the slots of g use.
func (p *planner) take(g *api.Group, offers []offer) {
	if len(p.req.Groups) == 1 {
		return // nobody will ask
	}
	if p.taken == nil {
		p.taken, p.rows = map[int]api.Resources{}, capacity.NewSet(p.view.Rows())
	}
	for _, o := range offers {
		if o.used == 0 {
			continue
		}
		sum := p.taken[o.row]
		if sum == nil {
			sum = api.Resources{}
			p.taken[o.row] = sum
			p.rows.Add(o.row)
		}
		for class, amount := range g.Resources {
			sum[class] += amount * o.used
		}
	}
}

// price puts a price on every row of pass and returns the cheapest most of them
// as a heap. No other can be reached: a host gives its place to the next only by
// taking a slot, so most slots and alternates need most hosts at the most.
func (p *planner) price(pass capacity.Set, most int) queue {
	q := queue{view: p.view}
	memory := p.view.FreeColumn(api.MemoryMB, p.req.Window, p.req.Class)
	n := pass.Len()
	few := most < n/fewFactor
	if few {
		n = most
	}
	q.offers = make([]offer, 0, n)
	q.worst = few
	for row := range pass.All() {
		free := memory[row]
		if p.rows.Has(row) {
			free -= p.taken[row][api.MemoryMB]
		}
		o := offer{
			cost: p.costs.Of(costs.Host{FreeMemoryMB: free}), prefix: p.view.IDPrefix(row),
			row: row, free: free, left: roomUnknown,
		}
		switch {
		case len(q.offers) < n:
			q.offers = append(q.offers, o)
			if few && len(q.offers) == n {
				q.order()
			}
		case q.compare(&o, &q.offers[0]) < 0: // few: the heap is worst first
			q.offers[0] = o
			q.down(0)
		}
	}
	q.worst = false
	q.order()
	return q
}

// fewFactor is when it pays to keep only the cheapest while scanning: when they
// are less than one in fewFactor of the hosts. Below it, one heap of all is as good.
const fewFactor = 16

const roomUnknown = -1

// offer is a host in the heap. Room is counted when the host is first taken:
// most hosts never are.
type offer struct {
	cost   int64
	prefix uint64 // of the host id
	row    int
	free   int64 // memory left over the window, in MiB
	left   int64 // slots that still fit, or roomUnknown
	used   int64 // slots taken
}

// queue is a binary heap of offers with the best first, or the worst while the
// best few are being kept. Unlike container/heap it compares without a call
// through an interface, which is most of what Select does.
type queue struct {
	view   capacity.View
	offers []offer
	used   []offer // taken out, because they are full
	worst  bool
}

// compare is the total order of offers: cost, then host id to break ties.
func (q *queue) compare(a, b *offer) int {
	if a.cost != b.cost {
		return cmp.Compare(a.cost, b.cost)
	}
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	return cmp.Compare(q.view.ID(a.row), q.view.ID(b.row))
}

func (q *queue) before(a, b *offer) bool { return q.compare(a, b) < 0 != q.worst }

func (q *queue) order() {
	for i := len(q.offers)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

func (q *queue) pop() {
	last := len(q.offers) - 1
	q.offers[0] = q.offers[last]
	q.offers = q.offers[:last]
	q.down(0)
}

// down moves the offer at i to its place among those below it.
func (q *queue) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(q.offers) {
			return
		}
		if child+1 < len(q.offers) && q.before(&q.offers[child+1], &q.offers[child]) {
			child++
		}
		if !q.before(&q.offers[child], &q.offers[i]) {
			return
		}
		q.offers[i], q.offers[child] = q.offers[child], q.offers[i]
		i = child
	}
}

// Fits returns how many slots like g v has room for, at most limit: what a
// digest says of one flavor. The count and the other groups of req do not
// matter; its window and class do.
func Fits(v capacity.View, req *api.Request, fs []filters.Filter, g *api.Group, limit int64) int64 {
	pass, _ := filters.Run(fs, v, req, g)
	v.KeepFitting(&pass, g.Resources, req.Window, req.Class)
	p := planner{view: v, req: req}
	var sum int64
	for row := range pass.All() {
		if sum += p.room(row, g); sum >= limit {
			return max(limit, 0)
		}
	}
	return sum
}
