package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/rest"
)

// leaseWhen holds the flags about the window of a lease.
type leaseWhen struct{ start, end, length, beforeEnd string }

func (w *leaseWhen) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.start, "start", "now", "`TIME` at which the lease starts")
	f.StringVar(&w.end, "end", "", "`TIME` at which the lease ends")
	f.StringVar(&w.length, "for", "", "`DURATION` of the lease, such as 90m, 8h or 2d, in place of --end")
	f.StringVar(&w.beforeEnd, "before-end", "", "`TIME` of the event before the end, or a distance to the end such as -30m (default: an hour before)")
}

// readNew returns the dates of a new lease.
func (w *leaseWhen) readNew(c *cobra.Command, now time.Time) (start, end, before rest.LeaseDate, err error) {
	if (w.end == "") == (w.length == "") {
		return "", "", "", usageError(c, "%q needs either --for or --end", c.CommandPath())
	}
	from, start, err := readTime(c, "start", w.start, now)
	if err != nil {
		return "", "", "", err
	}
	var to time.Time
	if w.length != "" {
		d, ok := parseSpan(w.length)
		if !ok || d <= 0 {
			return "", "", "", usageError(c, "--for must be whole minutes such as 90m, 8h or 2d, got %q", w.length)
		}
		to, end = from.Add(d), dateOf(from.Add(d))
	} else if to, end, err = readTime(c, "end", w.end, now); err != nil {
		return "", "", "", err
	}
	if !to.After(from) {
		return "", "", "", usageError(c, "--end must be after --start, which is %q, got %q", w.start, w.end)
	}
	before, err = w.readBeforeEnd(c, to, now)
	return start, end, before, err
}

// readBeforeEnd returns the date of the event before the end, "" if none is given.
func (w *leaseWhen) readBeforeEnd(c *cobra.Command, end, now time.Time) (rest.LeaseDate, error) {
	if w.beforeEnd == "" {
		return "", nil
	}
	if text, back := strings.CutPrefix(w.beforeEnd, "-"); back {
		d, ok := parseSpan(text)
		if !ok || d <= 0 {
			return "", usageError(c, "--before-end must be a time, or whole minutes such as -30m, got %q", w.beforeEnd)
		}
		return dateOf(end.Add(-d)), nil
	}
	_, date, err := readTime(c, "before-end", w.beforeEnd, now)
	return date, err
}

func dateOf(t time.Time) rest.LeaseDate { return rest.LeaseDateOf(api.InstantOf(t)) }

// timeForms are the forms of times without a distance. Those without a zone are in UTC.
var timeForms = []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02"}

// readTime reads the time of a flag: "now" and distances are from the beginning of this minute.
func readTime(c *cobra.Command, flag, text string, now time.Time) (time.Time, rest.LeaseDate, error) {
	minute := now.UTC().Truncate(time.Minute)
	if text == string(rest.LeaseNow) {
		return minute, rest.LeaseNow, nil
	}
	if distance, ahead := strings.CutPrefix(text, "+"); ahead {
		d, ok := parseSpan(distance)
		if !ok {
			return now, "", usageError(c, "--%s must be whole minutes such as +90m, +8h or +2d, got %q", flag, text)
		}
		return minute.Add(d), dateOf(minute.Add(d)), nil
	}
	for _, form := range timeForms {
		t, err := time.Parse(form, text)
		if err != nil {
			continue
		}
		if t = t.UTC(); !t.Truncate(time.Minute).Equal(t) {
			return now, "", usageError(c, "--%s must be a full minute, got %q", flag, text)
		}
		return t, dateOf(t), nil
	}
	return now, "", usageError(c, `--%s must be "now", a distance such as +2h, or a date such as 2030-01-31T12:00Z, got %q`, flag, text)
}

// parseSpan reads a duration of whole minutes such as 90m, 8h, 2d or 1w2d12h.
func parseSpan(text string) (time.Duration, bool) {
	var sum time.Duration
	for _, unit := range []struct {
		letter string
		length time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		digits, after, found := strings.Cut(text, unit.letter)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 12) // less than a hundred years
		if err != nil {
			return 0, false
		}
		sum, text = sum+time.Duration(n)*unit.length, after
	}
	if text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || strings.ContainsAny(text, "+-") {
			return 0, false
		}
		sum += d
	} else if sum == 0 {
		return 0, false
	}
	return sum, sum >= 0 && sum%time.Minute == 0
}

// spanValue is a flag with a duration, which may have weeks and days too, such as 6d23h.
type spanValue time.Duration

// Set reads what parseSpan reads, or any other duration.
func (v *spanValue) Set(text string) error {
	if d, ok := parseSpan(text); ok {
		*v = spanValue(d)
		return nil
	}
	d, err := time.ParseDuration(text)
	*v = spanValue(d)
	return err //nolint:wrapcheck // the flag is named around it
}

// String returns the default, which is none.
func (v *spanValue) String() string {
	if *v == 0 {
		return ""
	}
	return time.Duration(*v).String()
}

// Type is what the help of the flag shows.
func (v *spanValue) Type() string { return "duration" }
