package recur

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
)

// zoneNames are all zones of the database that comes with Go.
//
//go:embed testdata/zones.txt
var zoneNames string

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	require.NoError(t, err)
	return loc
}

// local reads a time of a zone with its offset, such as 2027-03-01 10:00 +0100.
func local(t *testing.T, text string) api.Instant {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04 -0700", text)
	require.NoError(t, err, text)
	return api.InstantOf(at)
}

func window(t *testing.T, text string) api.Window {
	t.Helper()
	start, end, _ := strings.Cut(text, " to ")
	return api.Window{Start: local(t, start), End: local(t, end)}
}

func TestExpand(t *testing.T) {
	const berlin = "Europe/Berlin" // 2027-03-28 from 02:00 to 03:00, 2027-10-31 from 03:00 to 02:00
	for _, c := range []struct{ name, zone, first, rule, want string }{
		{
			"days across the change in spring", berlin, "2027-03-27 10:00 +0100 to 2027-03-27 12:00 +0100", "FREQ=DAILY;COUNT=3",
			"2027-03-28 10:00 +0200 to 2027-03-28 12:00 +0200, 2027-03-29 10:00 +0200 to 2027-03-29 12:00 +0200",
		},
		{
			"a start that does not exist", berlin, "2027-03-27 02:30 +0100 to 2027-03-27 04:00 +0100", "FREQ=DAILY;COUNT=3",
			"2027-03-28 03:00 +0200 to 2027-03-28 04:00 +0200, 2027-03-29 02:30 +0200 to 2027-03-29 04:00 +0200",
		},
		{
			"an end that does not exist", berlin, "2027-03-27 01:00 +0100 to 2027-03-27 02:30 +0100", "FREQ=DAILY;COUNT=2",
			"2027-03-28 01:00 +0100 to 2027-03-28 03:00 +0200",
		},
		{
			"nothing left of one, which is not counted", berlin, "2027-03-27 02:10 +0100 to 2027-03-27 02:50 +0100", "FREQ=DAILY;COUNT=2",
			"2027-03-29 02:10 +0200 to 2027-03-29 02:50 +0200",
		},
		{
			"a start that exists twice is the first", berlin, "2027-10-30 02:30 +0200 to 2027-10-30 04:00 +0200", "FREQ=DAILY;COUNT=2",
			"2027-10-31 02:30 +0200 to 2027-10-31 04:00 +0100",
		},
		{
			"an end that exists twice is the first", berlin, "2027-10-30 01:00 +0200 to 2027-10-30 02:30 +0200", "FREQ=DAILY;COUNT=2",
			"2027-10-31 01:00 +0200 to 2027-10-31 02:30 +0200",
		},
		{
			"nights end at the same time, whatever they last", berlin, "2027-03-26 22:00 +0100 to 2027-03-27 06:00 +0100", "FREQ=DAILY;COUNT=3",
			"2027-03-27 22:00 +0100 to 2027-03-28 06:00 +0200, 2027-03-28 22:00 +0200 to 2027-03-29 06:00 +0200",
		},
		{
			"whole weeks, one after the other", berlin, "2027-03-22 00:00 +0100 to 2027-03-29 00:00 +0200", "FREQ=WEEKLY;COUNT=3",
			"2027-03-29 00:00 +0200 to 2027-04-05 00:00 +0200, 2027-04-05 00:00 +0200 to 2027-04-12 00:00 +0200",
		},
		{
			"half an hour on Lord Howe", "Australia/Lord_Howe", "2027-10-02 02:00 +1030 to 2027-10-02 02:45 +1030", "FREQ=DAILY;COUNT=2",
			"2027-10-03 02:30 +1100 to 2027-10-03 02:45 +1100",
		},
		{
			"nights around that day", "Pacific/Apia", "2011-12-28 20:00 -1000 to 2011-12-28 22:00 -1000", "FREQ=DAILY;COUNT=3",
			"2011-12-29 20:00 -1000 to 2011-12-29 22:00 -1000, 2011-12-31 20:00 +1400 to 2011-12-31 22:00 +1400",
		},
		{
			"into what is left of it", "Pacific/Apia", "2011-12-28 20:00 -1000 to 2011-12-29 10:00 -1000", "FREQ=DAILY;COUNT=3",
			"2011-12-29 20:00 -1000 to 2011-12-31 00:00 +1400, 2011-12-31 00:00 +1400 to 2011-12-31 10:00 +1400",
		},
		{
			"working days", "UTC", "2027-03-05 09:00 +0000 to 2027-03-05 17:00 +0000", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;COUNT=3",
			"2027-03-08 09:00 +0000 to 2027-03-08 17:00 +0000, 2027-03-09 09:00 +0000 to 2027-03-09 17:00 +0000",
		},
		{
			"every other week", "UTC", "2027-03-03 09:00 +0000 to 2027-03-03 10:00 +0000", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;COUNT=3",
			"2027-03-15 09:00 +0000 to 2027-03-15 10:00 +0000, 2027-03-17 09:00 +0000 to 2027-03-17 10:00 +0000",
		},
		{
			"months that have that day", "UTC", "2027-01-31 09:00 +0000 to 2027-01-31 10:00 +0000", "FREQ=MONTHLY;COUNT=3",
			"2027-03-31 09:00 +0000 to 2027-03-31 10:00 +0000, 2027-05-31 09:00 +0000 to 2027-05-31 10:00 +0000",
		},
		{
			"the last day of each month", "UTC", "2027-12-31 09:00 +0000 to 2027-12-31 10:00 +0000", "FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=4",
			"2028-01-31 09:00 +0000 to 2028-01-31 10:00 +0000, 2028-02-29 09:00 +0000 to 2028-02-29 10:00 +0000, 2028-03-31 09:00 +0000 to 2028-03-31 10:00 +0000",
		},
		{
			"the last Friday of each quarter", "UTC", "2027-03-26 09:00 +0000 to 2027-03-26 10:00 +0000", "FREQ=MONTHLY;INTERVAL=3;BYDAY=-1FR;COUNT=2",
			"2027-06-25 09:00 +0000 to 2027-06-25 10:00 +0000",
		},
		{
			"Fridays the thirteenth", "UTC", "2026-11-13 09:00 +0000 to 2026-11-13 10:00 +0000", "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13;COUNT=2",
			"2027-08-13 09:00 +0000 to 2027-08-13 10:00 +0000",
		},
		{
			"until a day, to its end", berlin, "2027-03-01 23:00 +0100 to 2027-03-01 23:30 +0100", "FREQ=DAILY;UNTIL=20270303",
			"2027-03-02 23:00 +0100 to 2027-03-02 23:30 +0100, 2027-03-03 23:00 +0100 to 2027-03-03 23:30 +0100",
		},
		{
			"until an instant, inclusive", berlin, "2027-03-01 23:00 +0100 to 2027-03-01 23:30 +0100", "FREQ=DAILY;UNTIL=20270302T220000Z",
			"2027-03-02 23:00 +0100 to 2027-03-02 23:30 +0100",
		},
		{"until just before", berlin, "2027-03-01 23:00 +0100 to 2027-03-01 23:30 +0100", "FREQ=DAILY;UNTIL=20270302T215959Z", ""},
		{"once", berlin, "2027-03-01 23:00 +0100 to 2027-03-01 23:30 +0100", "FREQ=DAILY;COUNT=1", ""},
		{
			"the first is as given, even the second of two", berlin, "2027-10-31 02:30 +0100 to 2027-10-31 05:00 +0100", "FREQ=DAILY;COUNT=2",
			"2027-11-01 02:30 +0100 to 2027-11-01 05:00 +0100",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Parse(c.rule)
			require.NoError(t, err)
			want := []api.Window{window(t, c.first)}
			for w := range strings.SplitSeq(c.want, ", ") {
				if w != "" {
					want = append(want, window(t, w))
				}
			}
			got, err := r.Expand(want[0], zone(t, c.zone), api.Forever)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

func TestExpandRefuses(t *testing.T) {
	const night = "2027-03-27 22:00 +0100 to 2027-03-28 06:00 +0200"
	for _, c := range []struct{ name, first, rule, says string }{
		{"no length", "2027-03-27 22:00 +0100 to 2027-03-27 22:00 +0100", "FREQ=DAILY;COUNT=2", "a later end"},
		{"an end that is earlier by the clock", "2027-10-31 02:50 +0200 to 2027-10-31 02:40 +0100", "FREQ=DAILY;COUNT=2", "by the clock of Europe/Berlin"},
		{"a first lease on another day", night, "FREQ=WEEKLY;BYDAY=SU;COUNT=2", "the first lease is on Sat 2027-03-27"},
		{"until before the first", night, "FREQ=DAILY;UNTIL=20270326", "UNTIL is before the first lease"},
		{"overlap by a minute", "2027-03-26 22:00 +0100 to 2027-03-27 22:01 +0100", "FREQ=DAILY;COUNT=2", "the lease of 2027-03-27T21:00:00.000Z would start before the one before it ends"},
		{"overlap at the end alone", "2027-03-01 10:00 +0100 to 2027-03-02 10:00 +0100", "FREQ=WEEKLY;BYDAY=MO,TU;COUNT=3", ""},
		{"overlap of the second and third", "2027-03-02 10:00 +0100 to 2027-03-03 11:00 +0100", "FREQ=WEEKLY;BYDAY=MO,TU;COUNT=3", "2027-03-09"},
		{"count beyond the horizon", night, "FREQ=MONTHLY;COUNT=20", "COUNT=20: only 12 are before"},
		{"never again", "2027-02-28 10:00 +0100 to 2027-02-28 11:00 +0100", "FREQ=MONTHLY;BYMONTHDAY=28;BYDAY=5SU,4SU;INTERVAL=12;COUNT=3", "COUNT=3: only 1"},
		{"until beyond the horizon", night, "FREQ=WEEKLY;UNTIL=20290101", "UNTIL must be before"},
		{"too many until", "2027-03-01 10:00 +0100 to 2027-03-01 11:00 +0100", "FREQ=DAILY;UNTIL=20280601", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Parse(c.rule)
			require.NoError(t, err)
			_, err = r.Expand(window(t, c.first), zone(t, "Europe/Berlin"), local(t, "2028-03-01 00:00 +0000"))
			if c.says == "" {
				if strings.HasPrefix(c.name, "too many") {
					require.Equal(t, api.CodeInvalid, api.CodeOf(err))
					return
				}
				require.NoError(t, err)
				return
			}
			require.Equal(t, api.CodeInvalid, api.CodeOf(err))
			assert.Contains(t, api.MessageOf(err), c.says)
		})
	}
}

func TestExpandIsBounded(t *testing.T) {
	first := api.Window{Start: local(t, "2027-01-01 10:00 +0000")}
	first.End = first.Start.Add(time.Hour)
	rule := func(text string) *Rule {
		r, err := Parse(text)
		require.NoError(t, err)
		return r
	}
	all, err := rule("FREQ=DAILY;UNTIL=20280204").Expand(first, time.UTC, api.Forever)
	require.NoError(t, err)
	assert.Len(t, all, api.OccurrencesMax)
	_, err = rule("FREQ=DAILY;UNTIL=20280205").Expand(first, time.UTC, api.Forever)
	assert.Contains(t, api.MessageOf(err), "at most 400 times")
	_, err = rule("FREQ=MONTHLY;COUNT=400").Expand(first, time.UTC, api.Forever)
	assert.Contains(t, api.MessageOf(err), "only 120 are before 2036-12-29T10:00:00.000Z", "the largest lead of a lease")
	_, err = rule("FREQ=DAILY;COUNT=2").Expand(api.Window{Start: first.Start, End: api.Forever}, time.UTC, api.Forever)
	assert.Contains(t, api.MessageOf(err), "a later end")
}

// shown returns what the clock on the wall shows, by the calendar of package time.
func shown(at time.Time, loc *time.Location) time.Time {
	l := at.In(loc)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC)
}

// watch watches the clock on the wall until it shows a time or a later one: half a minute
// after the other, and then second by second.
func watch(want time.Time, loc *time.Location) api.Instant {
	at := want.Add(-15 * time.Hour)
	for shown(at.Add(30*time.Second), loc).Before(want) {
		at = at.Add(30 * time.Second)
	}
	for shown(at, loc).Before(want) {
		at = at.Add(time.Second)
	}
	return api.InstantOf(at)
}

// change is an instant at which the clock of a zone jumps.
type change struct {
	at            time.Time
	before, after int // offsets in seconds
}

// changes returns when the clock of loc jumped, or will, from 1970 to 2050. Two jumps in one
// week may be missed.
func changes(loc *time.Location) (out []change) {
	const week = 7 * 24 * 60 * 60
	offset := func(at int64) int {
		_, seconds := time.Unix(at, 0).In(loc).Zone()
		return seconds
	}
	end := time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for from := int64(0); from < end; from += week {
		before, after := offset(from), offset(from+week)
		if before == after {
			continue
		}
		low, high := from, from+week
		for high-low > 1 {
			if mid := (low + high) / 2; offset(mid) == before {
				low = mid
			} else {
				high = mid
			}
		}
		out = append(out, change{time.Unix(high, 0), before, offset(high)})
	}
	return out
}

// TestClocksOfAllZones watches the clock of each zone at some of its jumps, the largest
// and smallest among them.
func TestClocksOfAllZones(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	same, looked := map[string]bool{}, 0
	for name := range strings.FieldsSeq(zoneNames) {
		loc := zone(t, name)
		all := changes(loc)
		if key := fmt.Sprint(all); same[key] {
			continue // the same zone by another name
		} else {
			same[key] = true
		}
		some := map[int]change{}
		for _, c := range all {
			some[c.after-c.before] = c
		}
		for range min(1, len(all)) {
			c := all[dice.IntN(len(all))]
			some[dice.Int()] = c
		}
		for _, c := range some {
			low := c.at.UTC().Add(time.Duration(min(c.before, c.after)) * time.Second)
			high := c.at.UTC().Add(time.Duration(max(c.before, c.after)) * time.Second)
			for _, want := range []time.Time{low.Add(-time.Second), low, low.Add(high.Sub(low) / 2).Truncate(time.Second), high.Add(-time.Second), high} {
				looked++
				require.Equal(t, watch(want, loc), clock(want.UnixMilli()).instant(loc), "%s at %s", name, want)
			}
		}
	}
	assert.Greater(t, len(same), 200)
	t.Logf("%d zones, %d times", len(same), looked)
}

// TestExpandAgreesWithACalendar walks through a calendar day by day and watches clocks.
func TestExpandAgreesWithACalendar(t *testing.T) {
	names := strings.Fields(zoneNames)
	rapid.Check(t, func(rt *rapid.T) {
		loc, err := time.LoadLocation(rapid.SampledFrom(names).Draw(rt, "zone"))
		require.NoError(rt, err)
		first := drawFirst(rt, loc)
		r := drawRule(rt)
		got, err := r.Expand(first, loc, api.Forever)
		want, complaint := walk(r, first, loc)
		if complaint != "" {
			require.Error(rt, err)
			assert.Contains(rt, api.MessageOf(err), complaint)
			return
		}
		require.NoError(rt, err)
		assert.Equal(rt, want, got)
	})
}

// drawFirst draws a first lease, near a jump of the clock if there are any.
func drawFirst(rt *rapid.T, loc *time.Location) api.Window {
	day := time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 79*365).Draw(rt, "day"))
	if all := changes(loc); len(all) > 0 && rapid.Bool().Draw(rt, "near a jump") {
		day = rapid.SampledFrom(all).Draw(rt, "jump").at.UTC().Truncate(24*time.Hour).AddDate(0, 0, -rapid.IntRange(0, 8).Draw(rt, "days before"))
	}
	minute := rapid.OneOf(rapid.IntRange(0, 4*60), rapid.IntRange(0, 24*60-1)).Draw(rt, "minute")
	start := watch(day.Add(time.Duration(minute)*time.Minute), loc)
	length := rapid.OneOf(rapid.IntRange(1, 180), rapid.IntRange(1, 30*60)).Draw(rt, "length")
	return api.Window{Start: start, End: start.Add(time.Duration(length) * time.Minute)}
}

func drawRule(rt *rapid.T) *Rule {
	r := &Rule{
		Freq: rapid.SampledFrom([]Freq{Daily, Weekly, Monthly}).Draw(rt, "freq"), Interval: rapid.IntRange(1, 4).Draw(rt, "interval"),
		Count: rapid.IntRange(1, 12).Draw(rt, "count"),
	}
	if rapid.Bool().Draw(rt, "by day") {
		for _, d := range rapid.SliceOfN(rapid.IntRange(0, 6), 1, 5).Draw(rt, "weekdays") {
			day := Day{Weekday: time.Weekday(d)}
			if r.Freq == Monthly {
				day.Nth = rapid.IntRange(-5, 5).Draw(rt, "nth")
			}
			r.ByDay = append(r.ByDay, day)
		}
	}
	if r.Freq != Weekly && rapid.IntRange(0, 3).Draw(rt, "by month day") == 0 {
		for _, d := range rapid.SliceOfN(rapid.IntRange(1, 31), 1, 12).Draw(rt, "days") {
			r.ByMonthDay = append(r.ByMonthDay, d*rapid.SampledFrom([]int{1, -1}).Draw(rt, "sign"))
		}
	}
	if err := r.check(); err != nil {
		rt.Fatal(err)
	}
	return r
}

// walk is Expand, slow and plain: it returns the windows, or some words of the refusal.
func walk(r *Rule, first api.Window, loc *time.Location) (out []api.Window, complaint string) {
	start, end := shown(first.Start.Time(), loc), shown(first.End.Time(), loc)
	if !start.Before(end) {
		return nil, "by the clock of"
	}
	horizon := first.Start.Add(api.WindowMax)
	begin := start.Truncate(24 * time.Hour)
	weeks, months := 0, 0
	for days, day := 0, begin; len(out) < r.Count; days, day = days+1, day.AddDate(0, 0, 1) {
		if days > 0 && day.Weekday() == time.Monday {
			weeks++
		}
		if days > 0 && day.Day() == 1 {
			months++
		}
		turn := map[Freq]int{Daily: days, Weekly: weeks, Monthly: months}[r.Freq] % r.Interval
		if turn != 0 || !listed(r, day, begin) {
			if days == 0 {
				return nil, "which the rule leaves out"
			}
			if api.InstantOf(day) > horizon {
				return nil, fmt.Sprintf("only %d are before", len(out))
			}
			continue
		}
		w := first
		if days > 0 {
			at := start.AddDate(0, 0, days)
			w = api.Window{Start: watch(at, loc), End: watch(at.Add(end.Sub(start)), loc)}
		}
		switch {
		case w.Start > horizon:
			return nil, fmt.Sprintf("only %d are before", len(out))
		case w.Start == w.End:
			continue
		case len(out) > 0 && out[len(out)-1].End > w.Start:
			return nil, "would start before"
		}
		out = append(out, w)
	}
	return out, ""
}

// listed reports whether the rule has a day of a week or month that counts.
func listed(r *Rule, day, begin time.Time) bool {
	var month []time.Time // its days
	for d := day.AddDate(0, 0, 1-day.Day()); d.Month() == day.Month(); d = d.AddDate(0, 0, 1) {
		month = append(month, d)
	}
	if len(r.ByDay) == 0 && len(r.ByMonthDay) == 0 {
		return r.Freq == Daily || r.Freq == Weekly && day.Weekday() == begin.Weekday() || r.Freq == Monthly && day.Day() == begin.Day()
	}
	byDay := len(r.ByDay) == 0
	for _, d := range r.ByDay {
		of := slices.DeleteFunc(slices.Clone(month), func(x time.Time) bool { return x.Weekday() != d.Weekday })
		switch {
		case d.Nth == 0:
			byDay = byDay || day.Weekday() == d.Weekday
		case d.Nth > 0 && d.Nth <= len(of):
			byDay = byDay || of[d.Nth-1].Equal(day)
		case d.Nth < 0 && -d.Nth <= len(of):
			byDay = byDay || of[len(of)+d.Nth].Equal(day)
		}
	}
	byMonthDay := len(r.ByMonthDay) == 0
	for _, n := range r.ByMonthDay {
		switch {
		case n > 0 && n <= len(month):
			byMonthDay = byMonthDay || month[n-1].Equal(day)
		case n < 0 && -n <= len(month):
			byMonthDay = byMonthDay || month[len(month)+n].Equal(day)
		}
	}
	return byDay && byMonthDay
}
