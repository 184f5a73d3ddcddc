package filters

import (
	"cmp"
	"slices"
	"time"

	"berth/api"
	"berth/capacity"
)

// opening is the first instant of the window of l that has not passed.
func (l *Look) opening() api.Window {
	start := max(l.Window.Start, l.View.Now())
	return api.Window{Start: start, End: start + 1}
}

// keepRoom removes from pass the rows without room for one slot of the group over w.
func (l *Look) keepRoom(pass *capacity.Set, w api.Window) {
	if l.Group().Whole {
		l.View.KeepStocked(pass)
		l.View.KeepIdle(pass, w, l.Req.ClaimClass())
		return
	}
	l.View.KeepFitting(pass, l.Group().Resources, w, l.Req.ClaimClass())
}

// sortPromised divides rows without room over the whole window into those that have it when the window opens,
// and are promised to others from a later time on, and those that do not: name is what these are called.
func (l *Look) sortPromised(dropped capacity.Set, name string) []Part {
	later := dropped.Clone()
	l.keepRoom(&later, l.opening())
	dropped.AndNot(later)
	return []Part{{name, api.TierNotNow, dropped}, {NamePromised, api.TierNotNow, later}}
}

// passesBut returns the hosts that all of fs but the filter capacity keep, and false if that is not among them.
func passesBut(fs []Filter, l *Look) (capacity.Set, bool) {
	pass := l.View.Hosts()
	if !slices.ContainsFunc(fs, func(f Filter) bool { return f.Name == NameCapacity }) {
		return pass, false
	}
	for i := range fs {
		if fs[i].Name != NameCapacity {
			fs[i].Apply(l, &pass)
		}
	}
	return pass, true
}

// PromisedHosts returns how many hosts refusals count that have room at first and are promised to others later.
func PromisedHosts(r *api.Refusals) int {
	n := 0
	for i := range r.Filters {
		if r.Filters[i].Filter == NamePromised {
			n += r.Filters[i].Hosts
		}
	}
	return n
}

// DatePromised sets, beside the counts that Run made of l, when the first of the hosts that others are promised later is
// no longer free. It is for plans that fell short: it looks at all these
// hosts a few times.
func DatePromised(fs []Filter, l *Look, r *api.Refusals) {
	if PromisedHosts(r) == 0 {
		return
	}
	pass := l.View.Hosts()
	for i := range fs {
		if fs[i].Name == NameCapacity {
			break
		}
		fs[i].Apply(l, &pass)
	}
	full := pass.Clone()
	l.keepRoom(&full, l.Window)
	pass.AndNot(full)
	l.keepRoom(&pass, l.opening())
	rows, last := slices.Collect(pass.All()), l.countEnds(time.Millisecond)
	if len(rows) == 0 || last == 0 {
		return
	}
	at := search{rows: rows, want: int64(len(rows)), at: ends{1, last + 1}}
	at.low, at.high = slices.Repeat([]int64{1}, len(rows)), make([]int64, len(rows)) // they have room at first, and not to the end
	if n := at.lastEnd(func(rows []int, n int) []int64 { return l.roomsOver(rows, l.ending(time.Millisecond, n), nil) }); n > 0 {
		r.Promised = l.ending(time.Millisecond, n).End
	}
}

// countEnds returns how many ends of a window that opens as l does are looked at: one after each step, before the end of l.
func (l *Look) countEnds(step time.Duration) int {
	start := l.opening().Start
	return max(0, int((min(l.Window.End, start.Add(api.WindowMax))-start)/api.Instant(step.Milliseconds())))
}

// ending returns the window that opens as l does and ends after so many steps.
func (l *Look) ending(step time.Duration, n int) api.Window {
	start := l.opening().Start
	return api.Window{Start: start, End: start + api.Instant(n)*api.Instant(step.Milliseconds())}
}

// roomsOver returns how much room each of some rows has over w: how many slots, or without a count 1 for a slot.
func (l *Look) roomsOver(rows []int, w api.Window, count func(row int, w api.Window) int64) []int64 {
	pass := capacity.NewSet(l.View.Rows())
	for _, row := range rows {
		pass.Add(row)
	}
	l.keepRoom(&pass, w)
	out := make([]int64, len(rows))
	for n, row := range rows {
		switch {
		case !pass.Has(row):
		case count == nil:
			out[n] = 1
		default:
			out[n] = count(row, w)
		}
	}
	return out
}

// adviseLifetime returns the advice to live no longer than until what others are promised begins: the longest
// lifetime with which the group has all its slots, rounded down. What it says of several groups, or of hosts that
// draw from others, may be too long. Nothing else than a boot that begins at once has a lifetime.
func adviseLifetime(fs []Filter, l *Look) []api.Advice {
	if l.Req.Reserves || l.Window.Start > l.View.Now() {
		return nil
	}
	pass, ok := passesBut(fs, l)
	if !ok {
		return nil
	}
	l.keepRoom(&pass, l.opening())
	rows := slices.Collect(pass.All())
	count := func(row int, w api.Window) int64 { return l.slotsUnder(fs, row, w) }
	if len(rows) == 0 {
		return nil
	}
	at := search{rows: rows, want: int64(l.Group().Count), at: ends{0, l.countEnds(time.Second) + 1}}
	if at.high = l.roomsOver(rows, l.Window, count); sumOf(at.high) >= at.want {
		return nil
	}
	at.low = make([]int64, len(rows))
	for n, row := range rows { // all have room at first
		at.low[n] = count(row, l.opening())
	}
	if sumOf(at.low) < at.want {
		return nil
	}
	n := at.lastEnd(func(rows []int, n int) []int64 { return l.roomsOver(rows, l.ending(time.Second, n), count) })
	if n == 0 {
		return nil
	}
	end := l.ending(time.Second, n).End
	d := roundLifetime(time.Duration(end-l.opening().Start) * time.Millisecond)
	if d < time.Second {
		return nil
	}
	return []api.Advice{{Change: api.AdviceLifetime, Value: int64(d / time.Second)}}
}

// slotsUnder returns how many slots fs and the room of a row allow there over w; the row has room for one.
func (l *Look) slotsUnder(fs []Filter, row int, w api.Window) int64 {
	room := min(l.slotsOver(row, w), int64(l.Group().Count)) // more make no difference
	for i := range fs {
		if fs[i].Room != nil && fs[i].asks(l) {
			room = min(room, fs[i].Room(l, row))
		}
	}
	return room
}

// slotsOver returns how many slots fit on a row over w that has room for one. One that draws from others counts
// once: what these have is not its own.
func (l *Look) slotsOver(row int, w api.Window) int64 {
	if l.Group().Whole || l.View.Compound(row) {
		return 1
	}
	room := int64(api.CountMax)
	for class, n := range l.Group().Resources {
		if n > 0 {
			room = min(room, l.View.FreeOver(row, class, w, l.Req.ClaimClass())/n)
		}
	}
	return max(room, 1)
}

// lifetimeSpare is what is left of a lifetime at most for the time until it is asked for again.
const lifetimeSpare = 10 * time.Minute

// roundLifetime leaves some time to ask again, and rounds down to what a person would write.
func roundLifetime(d time.Duration) time.Duration {
	d -= min(d/64, lifetimeSpare)
	return d.Truncate(cmp.Or(unitOf(d), time.Second))
}

// unitOf returns in what a lifetime is said: hours from a day on, minutes from an hour on, or 0.
func unitOf(d time.Duration) time.Duration {
	switch {
	case d >= 24*time.Hour:
		return time.Hour
	case d >= time.Hour:
		return time.Minute
	}
	return 0
}
