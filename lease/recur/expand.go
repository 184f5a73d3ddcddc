package recur

import (
	"slices"
	"sort"
	"time"

	"berth/api"
)

// clock is a time on a wall clock: what it shows, in milliseconds as if it were UTC.
type clock int64

const dayLength = clock(24 * time.Hour / time.Millisecond)

// offsetAt returns how far the wall clock of loc is ahead of UTC, in milliseconds.
func offsetAt(at api.Instant, loc *time.Location) api.Instant {
	_, seconds := at.Time().In(loc).Zone()
	return api.Instant(seconds) * 1000
}

// clockOf returns what the wall clock of loc shows at an instant.
func clockOf(at api.Instant, loc *time.Location) clock { return clock(at + offsetAt(at, loc)) }

const (
	// reach is further from UTC than any zone is.
	reach = api.Instant(26 * time.Hour / time.Millisecond)
	// stride is shorter than the time between two jumps of a clock.
	stride = api.Instant(6 * time.Hour / time.Millisecond)
)

// instant returns the first instant at which the wall clock of loc shows c or later.
//
// It asks only for offsets: the bounds that time.Time.ZoneBounds gives are wrong on the last
// day of a leap year, after the last change that the database lists.
func (c clock) instant(loc *time.Location) api.Instant {
	from := api.Instant(c) - reach
	for offset := offsetAt(from, loc); ; from += stride {
		to := from + stride
		next := offsetAt(to, loc)
		jump := to
		if next != offset {
			jump = findJump(from, to, offset, loc)
		}
		if at := api.Instant(c) - offset; at < jump {
			return at
		}
		if jump+next >= api.Instant(c) { // it is shown then, or the clock has jumped over it
			return jump
		}
		if at := api.Instant(c) - next; at < to {
			return at
		}
		offset = next
	}
}

// findJump returns the first instant after from, and at the latest to, at which the offset is
// another one.
func findJump(from, to, offset api.Instant, loc *time.Location) api.Instant {
	n := sort.Search(int(to-from), func(i int) bool { return offsetAt(from+1+api.Instant(i), loc) != offset })
	return from + 1 + api.Instant(n)
}

// days returns the number of the day that c is in, from 1970-01-01.
func (c clock) days() int {
	n := int(c / dayLength)
	if c%dayLength < 0 {
		n--
	}
	return n
}

// dateOf returns a day by its number.
func dateOf(day int) time.Time { return time.Unix(int64(day)*24*60*60, 0).UTC() }

// Expand returns the windows of all occurrences of a lease that repeats, in order, the first
// of them as given. No start is later than horizon, nor than api.WindowMax after the
// first: a rule that goes on after that is refused, as is one whose occurrences overlap or are more than api.OccurrencesMax.
func (r *Rule) Expand(first api.Window, loc *time.Location, horizon api.Instant) ([]api.Window, error) {
	if !first.Valid() || first.End == api.Forever {
		return nil, api.Errorf(api.CodeInvalid, "a lease that repeats needs a start and a later end")
	}
	start := clockOf(first.Start, loc)
	length := clockOf(first.End, loc) - start
	if length <= 0 {
		return nil, api.Errorf(api.CodeInvalid, "a lease that repeats must end later than it starts, by the clock of %s", loc)
	}
	horizon = min(horizon, first.Start.Add(api.WindowMax))
	x := expansion{rule: r, loc: loc, horizon: horizon, length: length, out: []api.Window{first}}
	if x.last = r.lastStart(loc); x.last < first.Start {
		return nil, api.Errorf(api.CodeInvalid, "recurrence rule: UNTIL is before the first lease")
	}
	day := start.days()
	if !r.has(day, day) {
		return nil, api.Errorf(api.CodeInvalid, "recurrence rule: the first lease is on %s, which the rule leaves out", dateOf(day).Format("Mon 2006-01-02"))
	}
	for d := day + 1; !x.ended; d++ {
		if !r.has(d, day) {
			x.skip(clock(d) * dayLength)
			continue
		}
		if err := x.add(start + clock(d-day)*dayLength); err != nil {
			return nil, err
		}
	}
	if r.Count > len(x.out) {
		return nil, api.Errorf(api.CodeInvalid, "recurrence rule: COUNT=%d: only %d are before %s", r.Count, len(x.out), horizon)
	}
	return x.out, nil
}

// expansion is the work of Expand.
type expansion struct {
	rule    *Rule
	loc     *time.Location
	horizon api.Instant
	last    api.Instant // the last start by Until
	length  clock
	out     []api.Window
	ended   bool
}

// skip passes a day without an occurrence. One that is two days past what ends the rule is
// past it in every zone.
func (x *expansion) skip(day clock) {
	x.ended = x.complete() || api.Instant(day-2*dayLength) > min(x.horizon, x.last)
}

// complete reports whether there are as many as the rule counts.
func (x *expansion) complete() bool { return x.rule.Count > 0 && len(x.out) >= x.rule.Count }

// add adds the occurrence that starts at a time of the wall clock.
func (x *expansion) add(start clock) error {
	w := api.Window{Start: start.instant(x.loc), End: (start + x.length).instant(x.loc)}
	switch {
	case x.complete() || w.Start > x.last:
		x.ended = true
		return nil
	case w.Start > x.horizon && x.rule.Count > 0: // Expand says how many there are
		x.ended = true
		return nil
	case w.Start > x.horizon:
		return api.Errorf(api.CodeInvalid, "recurrence rule: UNTIL must be before %s", x.horizon)
	case !w.Valid(): // all of it is in a gap
		return nil
	case w.Start < x.out[len(x.out)-1].End:
		return api.Errorf(api.CodeInvalid, "recurrence rule: the lease of %s would start before the one before it ends", w.Start)
	case len(x.out) == api.OccurrencesMax:
		return api.Errorf(api.CodeInvalid, "recurrence rule: a lease may take place at most %d times", api.OccurrencesMax)
	}
	x.out = append(x.out, w)
	return nil
}

// lastStart returns the last instant at which an occurrence may start by Until.
func (r *Rule) lastStart(loc *time.Location) api.Instant {
	if r.Until == "" {
		return api.Forever
	}
	day, instant, _ := r.until() // Parse has read it
	if !instant.IsZero() {
		return api.InstantOf(instant)
	}
	return (clock(day.UnixMilli()) + dayLength).instant(loc) - 1
}

// has reports whether a day has an occurrence, if the first one is on day first or might be.
func (r *Rule) has(day, first int) bool {
	date, begin := dateOf(day), dateOf(first)
	switch r.Freq {
	case Daily:
		return (day-first)%r.Interval == 0 && r.hasWeekday(date) && r.hasMonthDay(date)
	case Weekly:
		week := (monday(day) - monday(first)) / 7
		return week%r.Interval == 0 && (r.hasWeekday(date) && len(r.ByDay) > 0 || len(r.ByDay) == 0 && date.Weekday() == begin.Weekday())
	case Monthly:
		months := 12*(date.Year()-begin.Year()) + int(date.Month()) - int(begin.Month())
		if months%r.Interval != 0 {
			return false
		}
		if len(r.ByDay)+len(r.ByMonthDay) == 0 {
			return date.Day() == begin.Day()
		}
		return r.hasWeekday(date) && r.hasMonthDay(date)
	}
	return false
}

// monday returns the number of the Monday of a day's week.
func monday(day int) int { return day - (int(dateOf(day).Weekday())+6)%7 }

// hasWeekday reports whether BYDAY has a date, or is not there.
func (r *Rule) hasWeekday(date time.Time) bool {
	return len(r.ByDay) == 0 || slices.ContainsFunc(r.ByDay, func(d Day) bool {
		switch {
		case d.Weekday != date.Weekday():
			return false
		case d.Nth > 0:
			return (date.Day()-1)/7+1 == d.Nth
		case d.Nth < 0:
			return (monthLength(date)-date.Day())/7+1 == -d.Nth
		}
		return true
	})
}

// hasMonthDay reports whether BYMONTHDAY has a date, or is not there.
func (r *Rule) hasMonthDay(date time.Time) bool {
	return len(r.ByMonthDay) == 0 || slices.Contains(r.ByMonthDay, date.Day()) ||
		slices.Contains(r.ByMonthDay, date.Day()-monthLength(date)-1)
}

// monthLength returns the number of days of a date's month.
func monthLength(date time.Time) int {
	return time.Date(date.Year(), date.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
