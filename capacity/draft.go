package capacity

import (
	"maps"

	"berth/api"
)

// Draft is a view on paper: slots of one window and class are taken from it, and
// the view stays as it is. Its answers are those that Table.Place would give. One
// goroutine may use a Draft at a time.
type Draft struct {
	view   View
	window api.Window
	kind   api.Class
	taken  map[cell]int64 // above 0; nil for none
}

// cell is one class of one row.
type cell struct {
	row   int
	class int
}

// Draft returns a draft of v from which nothing is taken.
func (v View) Draft(w api.Window, kind api.Class) *Draft {
	return &Draft{view: v, window: w, kind: kind}
}

// Clone returns a copy that shares nothing with d that changes.
func (d *Draft) Clone() *Draft {
	c := *d
	c.taken = maps.Clone(d.taken)
	return &c
}

// free returns how much of a class row has left beside what is taken.
func (d *Draft) free(row, class int) int64 {
	v := d.view.data()
	c, i := v.at(row)
	free := c.freeOver(i, class, d.window, d.kind, v.now)
	if len(d.taken) > 0 {
		free -= d.taken[cell{row, class}]
	}
	return free
}

// slots returns how many times row can give a.
func (d *Draft) slots(row int, a *amount) int64 {
	n := d.free(row, a.class) / a.n
	if n < 1 {
		return 0
	}
	v := d.view.data()
	if c, i := v.at(row); c.columns[a.class].odd.has(i) && !v.admits(row, a) {
		return 0
	}
	return n
}

// Slots returns how many slots of r, one after another, could be taken from the
// host in row and what it reaches, beside what is taken; at most most, and most
// itself if r asks for nothing. Amounts below 1 ask for nothing. What is no
// compound host gives only of its own, and a window that has passed has no room.
func (d *Draft) Slots(row int, r api.Resources, most int64) int64 {
	v := d.view.data()
	if d.window.End <= v.now {
		return 0
	}
	reach := v.drawn(row)
	for name, n := range r { // in any order: the least of all
		if n < 1 {
			continue
		}
		a := amount{name, v.classes.of(name), n}
		if reach == nil {
			most = min(most, d.slots(row, &a))
			continue
		}
		var sum int64
		for _, list := range [...][]int32{reach.tree, reach.sharers} {
			for _, at := range list {
				if sum >= most {
					break
				}
				sum = addCapped(sum, d.slots(int(at), &a))
			}
		}
		most = min(most, sum)
	}
	return max(most, 0)
}

// Take takes one slot of r from the host in row and what it reaches, from where
// Table.Place would take it, and reports whether there was room; if not, nothing
// changes.
func (d *Draft) Take(row int, r api.Resources) bool {
	v := d.view.data()
	if d.window.End <= v.now {
		return false
	}
	need := v.amounts(r)
	from := v.draw(row, need, func(at int, a *amount) bool { return d.slots(at, a) > 0 })
	for _, at := range from {
		if at == nobody {
			return false
		}
	}
	if d.taken == nil {
		d.taken = map[cell]int64{}
	}
	for i, at := range from {
		d.taken[cell{at, need[i].class}] += need[i].n
	}
	return true
}
