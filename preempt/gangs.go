package preempt

import (
	"cmp"
	"container/heap"
	"slices"
)

// pickGangs returns gangs that free what is needed, which all of them together do: one if one is
// enough.
func pickGangs(need amounts, gangs []*unit) []*unit {
	var picked []*unit
	nothing, left := make(amounts, len(need)), slices.Clone(need)
	q := newQueue(need, gangs)
	for !nothing.cover(left) {
		if last := q.popLast(left); last != nil {
			return append(picked, last)
		}
		g := q.pop(left)
		picked = append(picked, g)
		for i := range left {
			left[i] -= min(left[i], g.frees[i])
		}
	}
	return picked
}

// queue hands out gangs, those that free the largest part first. Its parts may be out of date,
// which is never too small: what is left to free only falls.
type queue struct {
	need  amounts
	gangs []*unit // a heap
}

func newQueue(need amounts, gangs []*unit) *queue {
	q := &queue{need, slices.Clone(gangs)}
	for _, g := range q.gangs {
		g.part = g.frees.partOf(need, need)
	}
	heap.Init(q)
	return q
}

// first returns the gang that frees the largest part of what is left, nil if there is none.
func (q *queue) first(left amounts) *unit {
	for len(q.gangs) > 0 {
		g := q.gangs[0]
		part := g.frees.partOf(q.need, left)
		if part == g.part {
			return g
		}
		g.part = part
		heap.Fix(q, 0)
	}
	return nil
}

// pop takes out the gang that frees the largest part of what is left.
func (q *queue) pop(left amounts) *unit {
	q.first(left)
	return heap.Pop(q).(*unit)
}

// popLast takes out the gang that frees all that is left with the least loss, nil if none can.
func (q *queue) popLast(left amounts) *unit {
	all := left.partOf(q.need, left)
	var best, loss *unit // the gang, and those of it that would leave
	var others []*unit
	for g := q.first(left); g != nil && g.part == all; g = q.first(left) {
		heap.Pop(q)
		if !g.frees.cover(left) { // its part was rounded up
			others = append(others, g)
			continue
		}
		if l := sum(g.name, dropUnneeded(left, g.members), len(left)); best == nil || compare(l, loss) < 0 {
			best, loss = g, l
		}
	}
	for _, g := range others {
		heap.Push(q, g)
	}
	return best
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (q *queue) Len() int { return len(q.gangs) }

func (q *queue) Less(i, j int) bool {
	a, b := q.gangs[i], q.gangs[j]
	return cmp.Or(cmp.Compare(b.part, a.part), compare(a, b)) < 0
}

func (q *queue) Swap(i, j int) { q.gangs[i], q.gangs[j] = q.gangs[j], q.gangs[i] }

func (q *queue) Push(x any) { q.gangs = append(q.gangs, x.(*unit)) }

func (q *queue) Pop() any {
	n := len(q.gangs) - 1
	g := q.gangs[n]
	q.gangs = q.gangs[:n]
	return g
}
