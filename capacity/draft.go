package capacity

import (
	"slices"

	"berth/api"
)

// Draft is a trial copy of a view: slots of one window and class are taken from it, and the
// view stays as it is. Its answers are those of Table.Place. One goroutine may use a Draft at
// a time.
type Draft struct {
	view   View
	window api.Window
	kind   api.Class
	taken  map[int]int64 // by cell, above 0
	wholes int           // rows that are taken whole
	log    []taking      // what was taken, in order
	need   []amount      // room for those of Take, and so is from
	from   []int
}

// taking is what was taken of one cell.
type taking struct {
	cell int
	n    int64
}

// cellOf returns the number of one class of one row.
func (d *Draft) cellOf(row, class int) int { return row*len(d.view.data().classes.list) + class }

// Cells below 0 are of rows: how many slots were placed on one, and whether it is taken whole.
func hostedCell(row int) int { return -1 - 2*row }
func wholeCell(row int) int  { return -2 - 2*row }

// Draft returns a draft of v from which nothing is taken.
func (v View) Draft(w api.Window, kind api.Class) *Draft {
	return &Draft{view: v, window: w, kind: kind, taken: map[int]int64{}}
}

// Mark returns a mark of the present state, for Undo.
func (d *Draft) Mark() int { return len(d.log) }

// Undo returns everything taken since Mark returned mark: d answers as it did then. Later
// marks are void.
func (d *Draft) Undo(mark int) {
	for _, p := range d.log[mark:] {
		if d.taken[p.cell] -= p.n; d.taken[p.cell] == 0 {
			delete(d.taken, p.cell)
		}
		if p.cell < 0 && p.cell%2 == 0 {
			d.wholes--
		}
	}
	d.log = d.log[:mark]
}

// take notes that n of a cell are taken.
func (d *Draft) take(cell int, n int64) {
	d.taken[cell] += n
	d.log = append(d.log, taking{cell, n})
}

// isWhole reports whether the whole host in row is claimed or taken.
func (d *Draft) isWhole(row int) bool {
	v := d.view.data()
	c, i := v.chunkOf(row)
	return d.wholes > 0 && d.taken[wholeCell(row)] > 0 || c.isWhole(i, d.window, d.kind, v.now)
}

// HasWhole reports whether the whole host in row could be taken: Table.PlaceWhole would claim
// it, and nothing of its tree is taken.
func (d *Draft) HasWhole(row int) bool {
	v := d.view.data()
	if d.window.End <= v.now || d.kind == api.Preemptible || d.taken[hostedCell(row)] > 0 || !v.isTreeIdle(row, d.window, d.kind) {
		return false
	}
	for _, at := range d.view.Tree(row) {
		if d.taken[wholeCell(int(at))] > 0 {
			return false
		}
		for class := range v.classes.list {
			if d.taken[d.cellOf(int(at), class)] > 0 {
				return false
			}
		}
	}
	return true
}

// TakeWhole takes the whole host in row, as Table.PlaceWhole would, and reports whether it
// could.
func (d *Draft) TakeWhole(row int) bool {
	if !d.HasWhole(row) {
		return false
	}
	for _, at := range d.view.Tree(row) {
		d.take(wholeCell(int(at)), 1)
		d.wholes++
	}
	return true
}

// countSlots returns how many times row can give a, besides what is taken.
func (d *Draft) countSlots(row int, a *amount) int64 {
	v := d.view.data()
	c, i := v.chunkOf(row)
	free := c.freeOver(i, a.class, d.window, d.kind, v.now)
	if free >= a.n && len(d.taken) > 0 {
		free -= d.taken[d.cellOf(row, a.class)]
	}
	if d.wholes > 0 && d.taken[wholeCell(row)] > 0 {
		return 0
	}
	if free < a.n || c.columns[a.class].odd.has(i) && !v.admitsAmount(row, a) {
		return 0
	}
	return free / a.n
}

// Slots returns how many slots of r, one after another, could be taken from the
// host in row and what it reaches, beside what is taken; at most most, and most
// itself if r asks for nothing. Amounts below 1 ask for nothing. What is no
// compound host gives only of its own, and a window that has passed has no room.
func (d *Draft) Slots(row int, r api.Resources, most int64) int64 {
	v := d.view.data()
	if d.window.End <= v.now || d.isWhole(row) {
		return 0
	}
	reach := v.sourcesOf(row)
	for name, n := range r { // in any order: the least of all
		if n < 1 {
			continue
		}
		a := amount{name, v.classes.numberOf(name), n}
		if reach == nil {
			most = min(most, d.countSlots(row, &a))
			continue
		}
		var sum int64
		for _, list := range [...][]int32{reach.tree, reach.sharers} {
			for _, at := range list {
				if sum >= most {
					break
				}
				sum = addCapped(sum, d.countSlots(int(at), &a))
			}
		}
		most = min(most, sum)
	}
	return max(most, 0)
}

// Take takes slots of r, one after another, from the host in row and what it
// reaches, each from where Table.Place would take it, until there is no room for
// one more or most are taken; it returns how many. A slot of nothing takes nothing
// and has room wherever the window has not passed. It costs a look at what the host
// reaches for each change of who gives, not for each slot.
func (d *Draft) Take(row int, r api.Resources, most int64) int64 {
	v := d.view.data()
	if most < 1 || d.window.End <= v.now || d.isWhole(row) {
		return 0
	}
	d.need = v.appendAmounts(d.need[:0], r)
	d.from = slices.Grow(d.from[:0], len(d.need))[:len(d.need)]
	var sum int64
	for sum < most && v.chooseSources(row, d.need, d.from, func(at int, a *amount) bool { return d.countSlots(at, a) > 0 }) {
		sum += d.takeSlots(most - sum)
	}
	if sum > 0 {
		d.take(hostedCell(row), sum)
	}
	return sum
}

// takeSlots takes slots of d.need from d.from, where there is room for one, until there
// is no room for one more or most are taken. All others keep what they can give, so
// each of these slots would be drawn from the same rows.
func (d *Draft) takeSlots(most int64) int64 {
	n := most
	for i, at := range d.from {
		n = min(n, d.countSlots(at, &d.need[i]))
	}
	for i, at := range d.from {
		a := &d.need[i]
		d.take(d.cellOf(at, a.class), n*a.n)
	}
	return n
}
