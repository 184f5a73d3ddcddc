package filters

import (
	"cmp"
	"slices"
	"sort"
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
// no longer free. It is for plans that fell short: it looks at these hosts some forty times.
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
	all := pass.Len()
	if all == 0 {
		return
	}
	r.Promised = l.lastEnd(time.Millisecond, func(w api.Window) bool {
		some := pass.Clone()
		l.keepRoom(&some, w)
		return some.Len() == all
	})
}

// lastEnd returns the last end of a window that opens as l does and for which fits is true, in steps from the
// opening and before the end of l; 0 if there is none. What fits for some end fits for all earlier ones.
func (l *Look) lastEnd(step time.Duration, fits func(api.Window) bool) api.Instant {
	start, unit := l.opening().Start, api.Instant(step.Milliseconds())
	span := min(l.Window.End, start.Add(api.WindowMax)) - start
	if span <= 0 {
		return 0
	}
	n := sort.Search(int(span/unit), func(i int) bool { return !fits(api.Window{Start: start, End: start + api.Instant(i+1)*unit}) })
	if n == 0 {
		return 0
	}
	return start + api.Instant(n)*unit
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
	if !l.hasSlots(fs, pass, l.opening()) || l.hasSlots(fs, pass, l.Window) {
		return nil
	}
	end := l.lastEnd(time.Second, func(w api.Window) bool { return l.hasSlots(fs, pass, w) })
	if end == 0 {
		return nil
	}
	d := roundLifetime(time.Duration(end-l.opening().Start) * time.Millisecond)
	if d < time.Second {
		return nil
	}
	return []api.Advice{{Change: api.AdviceLifetime, Value: int64(d / time.Second)}}
}

// hasSlots reports whether hosts of pass have room for all slots of the group over w.
func (l *Look) hasSlots(fs []Filter, pass capacity.Set, w api.Window) bool {
	pass = pass.Clone()
	l.keepRoom(&pass, w)
	left := int64(l.Group().Count)
	for row := range pass.All() {
		room := l.slotsOver(row, w)
		for i := range fs {
			if fs[i].Room != nil && fs[i].asks(l) {
				room = min(room, fs[i].Room(l, row))
			}
		}
		if left -= room; left <= 0 {
			return true
		}
	}
	return left <= 0
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
