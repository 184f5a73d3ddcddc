package candidates

import "berth/capacity"

// queue hands out roots in order of their ids. It is a heap, so that the first few
// of many cost little.
type queue []root

type root struct {
	prefix uint64 // View.IDPrefix
	row    int
}

func (r root) before(o root, v capacity.View) bool {
	if r.prefix != o.prefix {
		return r.prefix < o.prefix
	}
	return v.ID(r.row) < v.ID(o.row)
}

// build makes a heap of q.
func (q queue) build(v capacity.View) {
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.sink(i, v)
	}
}

// pop takes out the row of the first root. The queue is not empty.
func (q *queue) pop(v capacity.View) int {
	h := *q
	row := h[0].row
	h[0] = h[len(h)-1]
	*q = h[:len(h)-1]
	q.sink(0, v)
	return row
}

func (q queue) sink(i int, v capacity.View) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q); child++ {
			if q[child].before(q[least], v) {
				least = child
			}
		}
		if least == i {
			return
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}
