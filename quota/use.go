package quota

import "berth/api"

// Use is what something counts, or is to count, over a window.
type Use struct {
	Window  api.Window
	Amounts Amounts
}

// Max returns the greater of two uses at each instant: what must be counted for something
// that has one and may get the other.
func Max(a, b Use) []Use {
	common := intersect(a.Window, b.Window)
	most := Amounts{}
	for i, n := range a.Amounts {
		most[i] = max(n, b.Amounts[i])
	}
	for i, n := range b.Amounts {
		most[i] = max(n, a.Amounts[i])
	}
	out := append(a.outside(common), b.outside(common)...)
	if common.Valid() {
		out = append(out, Use{common, most})
	}
	return out
}

// Growth returns next where and in what it is more than old.
func Growth(old, next Use) []Use {
	common := intersect(old.Window, next.Window)
	more := Amounts{}
	for i, n := range next.Amounts {
		if n > old.Amounts[i] {
			more[i] = n
		}
	}
	out := next.outside(common)
	if common.Valid() && len(more) > 0 {
		out = append(out, Use{common, more})
	}
	return out
}

// Beyond returns what next has in addition to old, at each instant: what is counted beside old for
// something that has old and may get next.
func Beyond(old, next Use) []Use {
	common := intersect(old.Window, next.Window)
	more := Amounts{}
	for i, n := range next.Amounts {
		if n > old.Amounts[i] {
			more[i] = n - old.Amounts[i]
		}
	}
	out := next.outside(common)
	if common.Valid() && len(more) > 0 {
		out = append(out, Use{common, more})
	}
	return out
}

// intersect returns the window of the instants in both, which is not valid if there are none.
func intersect(a, b api.Window) api.Window {
	return api.Window{Start: max(a.Start, b.Start), End: min(a.End, b.End)}
}

// outside returns u before and after a part of its window.
func (u Use) outside(part api.Window) []Use {
	if !part.Valid() {
		return []Use{u}
	}
	var out []Use
	for _, w := range []api.Window{{Start: u.Window.Start, End: part.Start}, {Start: part.End, End: u.Window.End}} {
		if w.Valid() {
			out = append(out, Use{w, u.Amounts})
		}
	}
	return out
}
