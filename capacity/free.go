package capacity

import (
	"slices"

	"berth/api"
)

// WordRows is the number of rows in one word of a Set: word n has the rows from n*WordRows on.
const WordRows = wordBits

// Free reads what claims of one kind could have of one class over one window, without a pass over
// the table. It belongs to one view. Any number of goroutines may use one.
type Free struct {
	d     *data
	class int
	w     api.Window
	kind  api.Class
	begun bool // it also needs room beside preemptibles
	whole bool // the window has all that is to come, so free is the room of hosts with timelines too
	past  bool // the window has passed
	total bool // capacity, whatever is claimed
}

// Total returns what Capacity reads.
func (v View) Total(class api.ResourceClass) Free {
	f := v.Free(class, api.Window{Start: v.Now(), End: api.Forever}, api.Preempting)
	f.total = true
	return f
}

// Free returns what FreeOver reads.
func (v View) Free(class api.ResourceClass, w api.Window, kind api.Class) Free {
	return v.data().freeOf(v.data().classes.numberOf(class), w, kind)
}

// freeOf is View.Free of an interned class.
func (d *data) freeOf(class int, w api.Window, kind api.Class) Free {
	return Free{
		d: d, class: class, w: w, kind: kind, past: w.End <= d.now,
		begun: w.Start <= d.now && kind == api.Firm, whole: w.Start <= d.now && w.End == api.Forever,
	}
}

// At returns FreeOver of row.
func (f *Free) At(row int) int64 {
	c, i := f.d.chunkOf(row)
	if col := c.column(f.class); f.total && col != nil {
		return col.capacity.at[i]
	}
	if f.kind == api.Preemptible || c.timed.has(i) || c.exclusive.has(i) {
		return c.freeOver(i, f.class, f.w, f.kind, f.d.now)
	}
	col := c.column(f.class)
	switch {
	case col == nil || f.past:
		return 0
	case f.begun:
		return min(col.free.at[i], col.now.at[i])
	}
	return col.free.at[i]
}

// Word returns At for the rows of word n; they are in the view, and must not be written, or in
// room.
func (f *Free) Word(n int, room *[WordRows]int64) *[WordRows]int64 {
	c, at := f.d.chunks[n/len(mask{})], n%len(mask{})
	col := c.column(f.class)
	if col == nil || f.past {
		*room = [WordRows]int64{}
		return room
	}
	if f.total {
		return wordOf(col.capacity, at)
	}
	free, now := wordOf(col.free, at), wordOf(col.now, at)
	slow := c.timed[at] | c.exclusive[at]
	if f.whole {
		slow = c.exclusive[at]
	}
	switch {
	case f.kind == api.Preemptible:
		*room = *now
		slow = c.exclusive[at]
		if col.closed != nil {
			for i, n := range wordOf(col.closed, at) {
				room[i] -= n
			}
		}
	case f.begun && col.soft[at] != 0:
		for i := range room {
			room[i] = min(free[i], now[i])
		}
	case slow == 0:
		return free
	default:
		*room = *free
	}
	for i := range (Set{[]uint64{slow}}).All() {
		room[i] = c.freeOver(at*wordBits+i, f.class, f.w, f.kind, f.d.now)
	}
	return room
}

// Bounds returns a lower and an upper bound of At for the rows of word n. They are exact for some
// words, and cost no look at the rows of most.
func (f *Free) Bounds(n int) (low, high int64) {
	c, at := f.d.chunks[n/len(mask{})], n%len(mask{})
	col := c.column(f.class)
	if col == nil || f.past {
		return 0, 0
	}
	slow := c.exclusive[at]
	if !f.whole {
		slow |= c.timed[at]
	}
	if f.begun {
		slow |= col.soft[at]
	}
	if f.kind != api.Preemptible && slow == 0 && !f.total {
		return col.low[at], col.high[at]
	}
	var room [WordRows]int64
	all := f.Word(n, &room)[:]
	return slices.Min(all), slices.Max(all)
}

// wordOf returns the values of one word of hosts.
func wordOf(b *block[int64], at int) *[wordBits]int64 { return (*[wordBits]int64)(b.at[at*wordBits:]) }
