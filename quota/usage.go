package quota

import (
	"cmp"
	"slices"

	"berth/api"
)

// Usage is what a project has over time. It is immutable: copies may be used by any number
// of goroutines. The zero Usage is nothing at any time.
type Usage struct {
	lines []line // sorted by item, each with at least one change
}

// line is the use of one item over time.
type line struct {
	item Item
	tree *node
}

// tree returns the changes of an item.
func (u Usage) tree(i Item) *node {
	if at, found := u.find(i); found {
		return u.lines[at].tree
	}
	return nil
}

func (u Usage) find(i Item) (at int, found bool) {
	return slices.BinarySearchFunc(u.lines, i, func(l line, i Item) int { return cmp.Compare(l.item, i) })
}

// Add returns the usage with more amounts over w.
func (u Usage) Add(w api.Window, amounts Amounts) Usage { return u.change(w, amounts, 1) }

// Remove returns the usage without amounts over w that have been added.
func (u Usage) Remove(w api.Window, amounts Amounts) Usage { return u.change(w, amounts, -1) }

func (u Usage) change(w api.Window, amounts Amounts, sign int64) Usage {
	if !w.Valid() {
		return u
	}
	out := Usage{slices.Clone(u.lines)}
	for i, n := range amounts { // in any order: items have nothing in common
		tree := out.tree(i).add(w.Start, sign*n)
		if w.End != api.Forever {
			tree = tree.add(w.End, -sign*n)
		}
		at, found := out.find(i)
		switch {
		case found && tree == nil:
			out.lines = slices.Delete(out.lines, at, at+1)
		case found:
			out.lines[at].tree = tree
		case tree != nil:
			out.lines = slices.Insert(out.lines, at, line{i, tree})
		}
	}
	if len(out.lines) == 0 {
		return Usage{}
	}
	return out
}

// Empty reports whether nothing is used at any time.
func (u Usage) Empty() bool { return len(u.lines) == 0 }

// Items returns the items that are used at any time, sorted.
func (u Usage) Items() []Item {
	out := make([]Item, len(u.lines))
	for n := range u.lines {
		out[n] = u.lines[n].item
	}
	return out
}

// At returns the use of every item at an instant. Items that are not used are absent.
func (u Usage) At(at api.Instant) Amounts {
	out := Amounts{}
	for _, l := range u.lines {
		if n := l.tree.useAt(at); n != 0 {
			out[l.item] = n
		}
	}
	return out
}

// Peak returns the highest use of an item over w, and the first instant of it.
func (u Usage) Peak(i Item, w api.Window) (use int64, at api.Instant) { return u.tree(i).peak(w) }
