package buildplan

import (
	"slices"

	"berth/api"
	"berth/capacity"
	"berth/capacity/queue"
	"berth/costs"
	"berth/filters"
)

// planner is the state of one Select.
type planner struct {
	inputs *Inputs
	view   capacity.View
	req    *api.Request
	window api.Window
	rooms  []filters.Filter // those that limit the slots of a row
	// hasRoom says that one of the filters passes only hosts with room for a slot in the view.
	hasRoom bool
	// earlier has the slots of the groups so far; which has the index of each row in
	// it, plus 1. It is nil while earlier is empty.
	earlier []costs.Taken
	which   []int32
	// drawing is the hosts whose slots may take from what other hosts take from too;
	// draft is what this request has taken there so far, nil if there are none.
	drawing capacity.Set
	draft   *capacity.Draft
	// supposed is what slotsTogether tries on top of earlier: slots by group and row.
	supposed [][]int64
	bundles  []int       // by group: see bundles
	chosen   map[int]int // by bundle: the row that all its groups must use
	// quota, if not nil, limits what groups may take: slots by group and row.
	quota []map[int]int64
	again bool // groups are planned more than once
}

func newPlanner(s *Inputs, req *api.Request) *planner {
	p := &planner{
		inputs: s, view: s.View, req: req, window: req.WindowAt(s.View.Now()),
		bundles: bundlesOf(req), chosen: map[int]int{},
	}
	for _, f := range s.Filters {
		if f.Room != nil {
			p.rooms = append(p.rooms, f)
		}
		p.hasRoom = p.hasRoom || f.Name == filters.NameCapacity
	}
	for g, k := range s.kept {
		if s.pairing {
			break // a bundle may have several hosts, one for each pair
		}
		if b := p.bundles[g]; b != none && len(k.slots) > 0 {
			p.chosen[b], _ = p.view.Row(k.slots[0].Host)
		}
	}
	p.findDrawingHosts()
	return p
}

// task is the search for the hosts of one group.
type task struct {
	index int
	group *api.Group
	look  *filters.Look
	need  []amount
	free  []capacity.Free // of the classes in need
	pass  capacity.Set    // hosts that may take a slot
}

// amount is how much of a class one slot takes; above 0.
type amount struct {
	class api.ResourceClass
	n     int64
}

// amountsOf returns what one slot of g takes, in order.
func amountsOf(g *api.Group) []amount {
	var out []amount
	for _, class := range g.Resources.Classes() {
		if n := g.Resources[class]; n > 0 {
			out = append(out, amount{class, n})
		}
	}
	return out
}

// findHosts finds the hosts that may take a slot of a group, beside what is placed.
func (p *planner) findHosts(group int) (*task, api.Refusals) {
	g := &p.req.Groups[group]
	t := &task{index: group, group: g, look: p.filterView(group), need: amountsOf(g)}
	t.free = make([]capacity.Free, len(t.need))
	for i := range t.need {
		t.free[i] = p.view.Free(t.need[i].class, p.window, p.req.ClaimClass())
	}
	pass, why := filters.Run(p.inputs.Filters, t.look)
	t.pass = pass
	p.dropFull(t, &why)
	return t, why
}

// filterView returns the input of filters for a group.
func (p *planner) filterView(group int) *filters.Look {
	l := filters.NewLook(p.view, p.inputs.World, p.req, group)
	l.Split = p.inputs.Split
	if p.which != nil || p.inputs.kept != nil {
		l.Placed = p.placedMembers
	}
	return l
}

// placedMembers is filters.Look.Placed. What is only supposed counts everywhere but
// under affinity: there each row is tried as the one that everything is on.
func (p *planner) placedMembers(row, rule int) int {
	var n int64
	if p.which != nil && p.which[row] > 0 {
		n = p.earlier[p.which[row]-1].Under(p.req, rule)
	}
	if rule >= 0 && p.inputs.kept != nil && !p.req.Rules[rule].Pairs { // with a rule below 0 the view counts them
		for _, g := range p.req.Rules[rule].Groups {
			n += p.inputs.kept[g].on[row]
		}
	}
	if p.supposed == nil || rule >= 0 && p.req.Rules[rule].Policy == api.Affinity {
		return int(n)
	}
	for g, slots := range p.supposed {
		if slots != nil && (rule < 0 || slices.Contains(p.req.Rules[rule].Groups, g)) {
			n += slots[row]
		}
	}
	return int(n)
}

// usedOf returns how much of a class slots of this request take on row.
func (p *planner) usedOf(row int, class api.ResourceClass) int64 {
	var n int64
	if p.which != nil && p.which[row] > 0 {
		n = p.earlier[p.which[row]-1].Of(p.req, class)
	}
	for g, slots := range p.supposed {
		if slots != nil {
			n += slots[row] * p.req.Groups[g].Resources[class]
		}
	}
	return n
}

// placedOn returns how many slots of this request are on row, and how many of these take the
// whole host.
func (p *planner) placedOn(row int) (taken, whole int64) {
	add := func(g int, n int64) {
		taken += n
		if p.req.Groups[g].Whole {
			whole += n
		}
	}
	if p.which != nil && p.which[row] > 0 {
		for g, n := range p.earlier[p.which[row]-1].Slots {
			add(g, n)
		}
	}
	for g, slots := range p.supposed {
		if slots != nil {
			add(g, slots[row])
		}
	}
	return taken, whole
}

// dropFull removes the hosts without room for one slot from t.pass and counts them.
func (p *planner) dropFull(t *task, why *api.Refusals) {
	switch {
	case p.hasRoom: // a filter has looked
	case t.group.Whole:
		p.view.KeepStocked(&t.pass)
		p.view.KeepIdle(&t.pass, p.window, p.req.ClaimClass())
	default:
		p.view.KeepFitting(&t.pass, t.group.Resources, p.window, p.req.ClaimClass())
	}
	for i := range p.earlier {
		if row := p.earlier[i].Row; t.pass.Has(row) && !p.drawing.Has(row) && p.freeSlots(t, row) < 1 {
			t.pass.Remove(row)
		}
	}
	p.dropDrained(t)
	countRefused(why, RefusedRoom, t.pass.Len())
}

// countRefused counts under name the hosts that are no longer offering.
func countRefused(why *api.Refusals, name string, offering int) {
	n := why.Offering - offering
	if n <= 0 {
		return
	}
	why.Offering = offering
	if i := slices.IndexFunc(why.Filters, func(f api.FilterCount) bool { return f.Filter == name }); i >= 0 {
		why.Filters[i].Hosts += n
		return
	}
	why.Filters = append(why.Filters, api.FilterCount{Filter: name, Hosts: n, Tier: api.TierNotNow})
}

// freeSlots returns the number of slots of t that fit on row besides those placed there, for
// a row that draws from itself only. All claims of one request have one window, so dividing
// the room is exact.
func (p *planner) freeSlots(t *task, row int) int64 {
	room := int64(api.CountMax)
	switch taken, whole := p.placedOn(row); {
	case whole > 0 || t.group.Whole && taken > 0:
		return 0
	case t.group.Whole:
		return 1
	}
	for i := range t.need {
		free := t.free[i].At(row) - p.usedOf(row, t.need[i].class)
		room = min(room, max(free, 0)/t.need[i].n)
	}
	return room
}

// roomFor returns how many slots of t row may take, as far as capacity and every
// filter go; of a row that draws, as far as filters go.
func (p *planner) roomFor(t *task, row int) int64 {
	room := int64(api.CountMax)
	if p.quota != nil {
		room = p.quota[t.index][row]
	}
	if !p.drawing.Has(row) {
		room = min(room, p.freeSlots(t, row))
	}
	for i := range p.rooms {
		room = min(room, max(p.rooms[i].Room(t.look, row), 0))
	}
	return room
}

// planGroup plans one group.
func (p *planner) planGroup(i int) GroupPlan {
	t, why := p.findHosts(i)
	prices := p.pricesOf(t)
	spare := min(max(p.inputs.Spare, 0), SpareMax)
	passed := why.Offering
	if c := p.bundles[i]; c != none {
		p.chooseBundleHost(c, t, &prices)
		if row, ok := p.chosen[c]; ok {
			keepOnly(t.pass, row)
			countRefused(&why, filters.NameServerGroup, t.pass.Len())
		}
	}
	if p.quota != nil {
		t.pass.Keep(func(row int) bool { return p.quota[i][row] > 0 })
	}
	out, hosts := p.placeSlots(t, &prices, spare)
	out.Refusals = why
	if n := len(out.Slots); n < t.group.Count {
		out.Refusals.Advice = p.adviseOn(t, n, why.Offering < passed)
		out.Refusals.Limits = p.explainLimits(t, hosts)
		filters.DatePromised(p.inputs.Filters, t.look, &out.Refusals)
	}
	p.noteTaken(i, hosts)
	return out
}

// explainLimits records why hosts do not give more slots of t: a filter if only its rule is
// in the way, else their capacity.
func (p *planner) explainLimits(t *task, hosts []taking) []api.FilterCount {
	counts := make([]int, len(p.rooms)+1)
	for _, h := range hosts {
		at := len(p.rooms)
		for i := range p.rooms {
			if p.rooms[i].Room(t.look, h.row) <= h.slots && (p.drawing.Has(h.row) || p.freeSlots(t, h.row) > h.slots) {
				at = i
				break
			}
		}
		counts[at]++
	}
	var out []api.FilterCount
	for i, n := range counts {
		name := filters.NameCapacity
		if i < len(p.rooms) {
			name = p.rooms[i].Name
		}
		if n > 0 {
			out = append(out, api.FilterCount{Filter: name, Hosts: n, Tier: api.TierNotNow})
		}
	}
	return out
}

// keepOnly removes every row but one from s.
func keepOnly(s capacity.Set, row int) {
	one := capacity.NewSet(row + 1)
	one.Add(row)
	s.And(one)
}

// adviseOn says what would have worked, when only n slots did: first to ask for so
// many, then what filters say. alone says that other hosts were left out for the
// sake of affinity.
func (p *planner) adviseOn(t *task, n int, alone bool) []api.Advice {
	var out []api.Advice
	if n > 0 {
		out = append(out, api.Advice{Change: api.AdviceCount, Value: int64(n)})
	}
	out = append(out, filters.Advise(p.inputs.Filters, t.look)...)
	drop := api.Advice{Change: api.AdviceDrop, Name: filters.NameServerGroup}
	if alone && !slices.Contains(out, drop) {
		out = append(out, drop)
	}
	return out[:min(len(out), api.AdviceMax)]
}

func (p *planner) pricesOf(t *task) costs.Prices {
	l := &costs.Look{
		View: p.view, Pass: t.pass, Req: p.req, Index: t.index, Window: p.window, Earlier: p.earlier,
	}
	if p.bundles[t.index] != none {
		l.Pass = p.view.Hosts() // the bundle may choose a host that this task alone would not fit on
	}
	if t.look.World.Census != nil {
		l.Census = t.look.World.Census
	}
	return p.inputs.Costs.For(l)
}

// placeSlots takes slots of t from its hosts, which all have room for at least one, and
// returns the number for each host.
func (p *planner) placeSlots(t *task, prices *costs.Prices, spare int) (GroupPlan, []taking) {
	q := p.cheapestHosts(t.pass, prices, t.group.Count+spare)
	var out GroupPlan
	hosts := make([]taking, 0, min(t.group.Count, q.Len()))
	for len(out.Slots) < t.group.Count {
		o := q.firstHost()
		if o == nil {
			break
		}
		if o.Mark == none {
			o.Mark = int32(len(hosts))
			hosts = append(hosts, taking{row: int(o.Row), room: 1})
		}
		h := &hosts[o.Mark]
		if h.slots == 1 { // there was room for one; most hosts never get a second
			h.room = p.roomFor(t, h.row)
		}
		if h.slots >= h.room || p.drawing.Has(h.row) && draftTake(p.draft, t.group, h.row, 1) < 1 {
			q.Pop() // for good: room only falls
			continue
		}
		if out.Slots == nil {
			out.Slots = make([]Slot, 0, cap(hosts))
		}
		out.Slots = append(out.Slots, p.slotOf(o))
		h.slots++
		o.Cost = prices.Of(h.row, h.slots)
		q.Fix()
	}
	for len(out.Alternates) < spare {
		o := q.firstHost()
		if o == nil {
			break
		}
		if o.Mark == none && p.hasRoomForOne(t, int(o.Row)) {
			out.Alternates = append(out.Alternates, p.slotOf(o))
		}
		q.Pop()
	}
	return out, hosts
}

// taking is the slots that one group has taken on one host.
type taking struct {
	row   int
	room  int64 // slots that fitted at first; of a row that draws, that filters allow; 1 until a second is tried
	slots int64 // slots taken
}

func (p *planner) slotOf(o *queue.Item) Slot {
	row := int(o.Row)
	return Slot{Host: p.view.ID(row), Generation: p.view.Generation(row), Weight: o.Cost}
}

// noteTaken records where a group has slots, for the groups that follow.
func (p *planner) noteTaken(group int, hosts []taking) {
	if len(p.req.Groups) == 1 && !p.again {
		return // nobody will ask
	}
	each := len(p.req.Groups)
	slots := make([]int64, each*len(hosts))
	for i, h := range hosts {
		p.addSlots(group, h.row, h.slots, slots[i*each:][:each])
	}
}

// putSlots adds n, which may be negative, to the slots of a group on row.
func (p *planner) putSlots(group, row int, n int64) {
	if n == 0 {
		return
	}
	var slots []int64
	if p.which == nil || p.which[row] == 0 {
		slots = make([]int64, len(p.req.Groups))
	}
	p.addSlots(group, row, n, slots)
}

// addSlots is putSlots, and sets up the counts of a row without slots.
func (p *planner) addSlots(group, row int, n int64, slots []int64) {
	if p.which == nil {
		p.which = make([]int32, p.view.Rows())
	}
	if p.which[row] == 0 {
		p.earlier = append(p.earlier, costs.Taken{Row: row, Slots: slots})
		p.which[row] = int32(len(p.earlier))
	}
	p.earlier[p.which[row]-1].Slots[group] += n
}

// recheckAlternates removes the alternates of a group that a rule or a limit forbids once the
// groups after it have their slots.
func (p *planner) recheckAlternates(group int, g *GroupPlan) {
	order := groupOrder(p.req)
	if len(g.Alternates) == 0 || len(p.rooms) == 0 || group == order[len(order)-1] {
		return
	}
	pass := capacity.NewSet(p.view.Rows())
	for i := range g.Alternates {
		row, _ := p.view.Row(g.Alternates[i].Host) // it comes from the view
		pass.Add(row)
	}
	for l, i := p.filterView(group), 0; i < len(p.rooms); i++ {
		p.rooms[i].Apply(l, &pass)
	}
	g.Alternates = slices.DeleteFunc(g.Alternates, func(s Slot) bool {
		row, _ := p.view.Row(s.Host)
		return !pass.Has(row)
	})
}
