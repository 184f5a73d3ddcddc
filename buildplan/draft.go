package buildplan

import (
	"berth/api"
	"berth/capacity"
	"berth/capacity/queue"
	"berth/costs"
)

// findDrawingHosts finds the hosts whose slots may draw from the same providers as slots of
// other hosts: compound hosts, and hosts that share their inventory. The draft computes their
// room. All other hosts are independent of each other, and their room can be divided.
func (p *planner) findDrawingHosts() {
	if !p.view.HasCompounds() {
		return
	}
	p.drawing = p.view.Trait(api.TraitShares)
	p.drawing.And(p.view.Hosts())
	p.drawing.Or(p.view.Compounds())
	p.draft = p.view.Draft(p.window, p.req.ClaimClass())
}

// hasRoomForOne reports whether row still has room for one slot of t, on which none was
// placed so far: other hosts may have taken what it draws on.
func (p *planner) hasRoomForOne(t *task, row int) bool {
	return !p.drawing.Has(row) || p.draftRoom(t, row, 1) > 0
}

// draftRoom returns how many slots of t the draft has room for on row, at most most.
func (p *planner) draftRoom(t *task, row int, most int64) int64 {
	switch {
	case !t.group.Whole:
		return p.draft.Slots(row, t.group.Resources, most)
	case most > 0 && p.draft.HasWhole(row):
		return 1
	}
	return 0
}

// draftTake takes slots of t from the draft on row, at most most, and returns their number.
func draftTake(d *capacity.Draft, g *api.Group, row int, most int64) int64 {
	switch {
	case !g.Whole:
		return d.Take(row, g.Resources, most)
	case most > 0 && d.TakeWhole(row):
		return 1
	}
	return 0
}

// dropDrained removes the hosts from t.pass for which earlier groups have left nothing to
// draw from.
func (p *planner) dropDrained(t *task) {
	if len(p.earlier) == 0 || p.draft == nil {
		return
	}
	t.pass.Keep(func(row int) bool { return p.hasRoomForOne(t, row) })
}

// takeFromDrawingHosts takes slots of t from the hosts that draw, in order of ids, each as many as
// it can give, until the sum is limit; it returns the sum.
func (p *planner) takeFromDrawingHosts(t *task, sum, limit int64) int64 {
	pass := t.pass.Clone()
	pass.And(p.drawing)
	q := cheapestFirst{Queue: queue.New(p.view, 0), pass: pass, prices: &costs.Prices{}, dearest: -1, outside: true}
	for o := q.firstHost(); o != nil && sum < limit; o = q.firstHost() {
		row := int(o.Row)
		sum += draftTake(p.draft, t.group, row, min(p.roomFor(t, row), limit-sum))
		q.Pop()
	}
	return sum
}

// roomBeside returns how many slots of t row has room for, at most most, after it alone has
// taken its supposed slots of some other tasks.
func (p *planner) roomBeside(tasks []*task, t *task, row int, most int64) int64 {
	mark := p.draft.Mark()
	for _, o := range tasks {
		draftTake(p.draft, o.group, row, p.supposed[o.index][row])
	}
	n := p.draftRoom(t, row, most)
	p.draft.Undo(mark)
	return n
}
