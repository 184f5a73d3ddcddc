package recur

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api"
)

// Freq is how often a rule repeats.
type Freq string

// The frequencies.
const (
	Daily   Freq = "DAILY"
	Weekly  Freq = "WEEKLY"
	Monthly Freq = "MONTHLY"
)

// Limits of rules.
const (
	RuleMaxBytes = 512
	IntervalMax  = 366
)

// Day is a weekday, or with MONTHLY one of those of a month.
type Day struct {
	Nth     int // 1 to 5 from the beginning of the month, -1 to -5 from its end; 0 for each
	Weekday time.Weekday
}

// Rule says which days have an occurrence. Parse makes one that is valid.
type Rule struct {
	Freq       Freq
	Interval   int    // 1 to IntervalMax: each, every other, and so on
	Count      int    // occurrences; 0 if Until ends the rule
	Until      string // YYYYMMDD, a day of the zone, or YYYYMMDDTHHMMSSZ; the last start, inclusive
	ByDay      []Day  // sorted; none for any day
	ByMonthDay []int  // 1 to 31, or -1 to -31 from the end of the month; sorted; none for any day
}

const (
	dateForm    = "20060102"
	instantForm = "20060102T150405Z"
)

// weekdays are the names of weekdays in rules, in the order of package time.
var weekdays = []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}

// given lists the parts that a rule may have elsewhere, but not here, and why.
var given = map[string]string{
	"BYHOUR": "the start gives the time", "BYMINUTE": "the start gives the time", "BYSECOND": "the start gives the time",
	"BYMONTH": "only days are chosen", "BYYEARDAY": "only days are chosen", "BYWEEKNO": "only days are chosen", "BYSETPOS": "only days are chosen",
	"WKST": "weeks begin on Monday",
}

// Parse reads a rule, such as FREQ=WEEKLY;BYDAY=MO,WE;COUNT=10. An error names the part.
func Parse(text string) (*Rule, error) {
	if len(text) > RuleMaxBytes {
		return nil, api.Errorf(api.CodeInvalid, "a recurrence rule has at most %d bytes", RuleMaxBytes)
	}
	r := &Rule{Interval: 1}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(strings.TrimPrefix(strings.ToUpper(text), "RRULE:"), ";") {
		name, value, ok := strings.Cut(part, "=")
		switch {
		case !ok || value == "":
			return nil, api.Errorf(api.CodeInvalid, "recurrence rule: %q must be NAME=VALUE", part)
		case seen[name]:
			return nil, api.Errorf(api.CodeInvalid, "recurrence rule: %s is there twice", name)
		}
		seen[name] = true
		if err := r.readPart(name, value); err != nil {
			return nil, err
		}
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Rule) readPart(name, value string) (err error) {
	switch name {
	case "FREQ":
		r.Freq = Freq(value)
	case "INTERVAL":
		r.Interval, err = readNumber(name, value)
	case "COUNT":
		r.Count, err = readNumber(name, value)
	case "UNTIL":
		r.Until = value
	case "BYDAY":
		r.ByDay, err = readList(value, readDay)
	case "BYMONTHDAY":
		r.ByMonthDay, err = readList(value, readMonthDay)
	default:
		why, known := given[name]
		if !known {
			why = "it is not known"
		}
		return api.Errorf(api.CodeInvalid, "recurrence rule: %q is not possible: %s", name, why)
	}
	return err
}

// readList reads values between commas.
func readList[T any](text string, read func(string) (T, error)) ([]T, error) {
	var out []T
	for value := range strings.SplitSeq(text, ",") {
		v, err := read(value)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// readMonthDay reads 31 or -1.
func readMonthDay(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n == 0 || n < -31 || n > 31 {
		return 0, api.Errorf(api.CodeInvalid, "recurrence rule: BYMONTHDAY: %q must be 1 to 31, or -1 to -31 from the end of the month", text)
	}
	return n, nil
}

func readNumber(name, value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0, api.Errorf(api.CodeInvalid, "recurrence rule: %s must be a number from 1, got %q", name, value)
	}
	return n, nil
}

// readDay reads MO, 2MO or -1FR.
func readDay(text string) (Day, error) {
	bad := api.Errorf(api.CodeInvalid, "recurrence rule: BYDAY: %q must be a weekday such as MO, or one of a month such as 2MO or -1FR", text)
	if len(text) < 2 {
		return Day{}, bad
	}
	nth, name := text[:len(text)-2], text[len(text)-2:]
	d := Day{Weekday: time.Weekday(slices.Index(weekdays, name))}
	if d.Weekday < 0 {
		return Day{}, bad
	}
	if nth != "" {
		n, err := strconv.Atoi(nth)
		if err != nil || n == 0 || n < -5 || n > 5 {
			return Day{}, bad
		}
		d.Nth = n
	}
	return d, nil
}

// check refuses a rule whose parts do not go together, and sorts its days.
func (r *Rule) check() error {
	if err := r.checkDays(); err != nil {
		return err
	}
	switch {
	case r.Interval > IntervalMax:
		return api.Errorf(api.CodeInvalid, "recurrence rule: INTERVAL must be at most %d, got %d", IntervalMax, r.Interval)
	case r.Count > api.OccurrencesMax:
		return api.Errorf(api.CodeInvalid, "recurrence rule: COUNT must be at most %d, got %d", api.OccurrencesMax, r.Count)
	case (r.Count > 0) == (r.Until != ""):
		return api.Errorf(api.CodeInvalid, "recurrence rule: it needs an end, either COUNT or UNTIL")
	}
	if r.Until != "" {
		if _, _, err := r.until(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rule) checkDays() error {
	slices.SortFunc(r.ByDay, func(a, b Day) int {
		return cmp.Or(cmp.Compare(a.Nth, b.Nth), cmp.Compare((a.Weekday+6)%7, (b.Weekday+6)%7))
	})
	slices.Sort(r.ByMonthDay)
	r.ByDay, r.ByMonthDay = slices.Compact(r.ByDay), slices.Compact(r.ByMonthDay)
	numbered := slices.ContainsFunc(r.ByDay, func(d Day) bool { return d.Nth != 0 })
	switch r.Freq {
	case Daily, Weekly:
		if numbered {
			return api.Errorf(api.CodeInvalid, "recurrence rule: BYDAY with numbers needs FREQ=%s", Monthly)
		}
		if r.Freq == Weekly && len(r.ByMonthDay) > 0 {
			return api.Errorf(api.CodeInvalid, "recurrence rule: BYMONTHDAY does not go with FREQ=%s", Weekly)
		}
	case Monthly:
	default:
		return api.Errorf(api.CodeInvalid, "recurrence rule: FREQ must be %s, %s or %s", Daily, Weekly, Monthly)
	}
	return nil
}

// until reads Until: as the wall clock of a day that is the last one, or as an instant.
func (r *Rule) until() (day, instant time.Time, err error) {
	if day, err = time.Parse(dateForm, r.Until); err == nil {
		return day, time.Time{}, nil
	}
	if instant, err = time.Parse(instantForm, r.Until); err == nil {
		return time.Time{}, instant, nil
	}
	return time.Time{}, time.Time{}, api.Errorf(api.CodeInvalid, "recurrence rule: UNTIL must be a day such as 20270301, or an instant such as 20270301T100000Z, got %q", r.Until)
}

// String returns the rule in the form that Parse reads, its parts in one order.
func (r *Rule) String() string {
	parts := []string{"FREQ=" + string(r.Freq)}
	if r.Interval != 1 {
		parts = append(parts, fmt.Sprintf("INTERVAL=%d", r.Interval))
	}
	if r.Count > 0 {
		parts = append(parts, fmt.Sprintf("COUNT=%d", r.Count))
	}
	if r.Until != "" {
		parts = append(parts, "UNTIL="+r.Until)
	}
	var list []string
	for _, d := range r.ByDay {
		name := weekdays[d.Weekday]
		if d.Nth != 0 {
			name = strconv.Itoa(d.Nth) + name
		}
		list = append(list, name)
	}
	if len(list) > 0 {
		parts = append(parts, "BYDAY="+strings.Join(list, ","))
	}
	list = nil
	for _, n := range r.ByMonthDay {
		list = append(list, strconv.Itoa(n))
	}
	if len(list) > 0 {
		parts = append(parts, "BYMONTHDAY="+strings.Join(list, ","))
	}
	return strings.Join(parts, ";")
}
