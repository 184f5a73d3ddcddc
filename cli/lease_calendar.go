package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// The sizes of calendars, in characters.
const (
	calendarWidth    = 80 // default
	calendarWidthMin = 60
	calendarWidthMax = 1000
	leaseNameWidth   = 20 // longer names are cut
)

const day = 24 * time.Hour

// calendar is what leases reserve over a time.
type calendar struct {
	From    api.Instant      `json:"from"`
	To      api.Instant      `json:"to"`
	Column  int64            `json:"column_minutes"` // time of one character of a bar
	Leases  []calendarLease  `json:"leases"`         // those that overlap the time, the soonest first
	Buckets []calendarBucket `json:"buckets"`

	tick      time.Duration // of one bucket
	nameWidth int           // characters of the longest name in the table
}

// calendarLease is one lease of a calendar.
type calendarLease struct {
	ID     api.LeaseID     `json:"id"`
	Name   string          `json:"name"`
	Status api.LeaseStatus `json:"status"`
	Start  api.Instant     `json:"start"`
	End    api.Instant     `json:"end"`
}

// calendarBucket is the most that is reserved at any instant of a part of the time.
type calendarBucket struct {
	Start api.Instant `json:"start"`
	End   api.Instant `json:"end"`
	occupancy
}

// occupancy is what leases reserve at one instant.
type occupancy struct {
	Leases    int   `json:"leases"`
	Hosts     int   `json:"hosts"`
	Instances int   `json:"instances"`
	VCPUs     int64 `json:"vcpus"`     // of the instances
	Memory    int64 `json:"memory_mb"` // of the instances
}

func (o *occupancy) add(p occupancy, times int) {
	o.Leases += p.Leases * times
	o.Hosts += p.Hosts * times
	o.Instances += p.Instances * times
	o.VCPUs += p.VCPUs * int64(times)
	o.Memory += p.Memory * int64(times)
}

// raise makes each figure of o at least that of p.
func (o *occupancy) raise(p occupancy) {
	o.Leases, o.Hosts, o.Instances = max(o.Leases, p.Leases), max(o.Hosts, p.Hosts), max(o.Instances, p.Instances)
	o.VCPUs, o.Memory = max(o.VCPUs, p.VCPUs), max(o.Memory, p.Memory)
}

func leaseCalendar(e *env) *cobra.Command {
	var of leaseFilter
	var from, to, length string
	var width int
	c := &cobra.Command{
		Use:   "calendar",
		Short: "Show the leases that you may see as a calendar",
		Long: `Show the leases that you may see as a calendar: a bar for each lease, and below how many
hosts and instances they reserve at most in each part of the time. Bars are # while the
lease is active, = before that, - after its end, and ! for one in ERROR. All times are
in UTC.`,
		Example: "  berth lease calendar\n  berth lease calendar --from 2030-01-31 --for 1d\n  berth lease calendar --from -7d --for 14d --width 160 -o json",
		Args:    exactArgs(),
	}
	f := c.Flags()
	f.StringVar(&from, "from", "now", "`TIME` at which the calendar begins, as for berth lease create, or a distance back such as -2d")
	f.StringVar(&to, "to", "", "`TIME` at which the calendar ends")
	f.StringVar(&length, "for", "7d", "`DURATION` of the calendar, in place of --to")
	f.IntVar(&width, "width", calendarWidth, "characters of a line")
	of.addFlags(c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		if width < calendarWidthMin || width > calendarWidthMax {
			return usageError(c, "--width must be %d to %d, got %d", calendarWidthMin, calendarWidthMax, width)
		}
		start, end, err := readSpanOf(c, from, to, length, e.now())
		if err != nil {
			return err
		}
		leases, _, err := e.readLeases(ctx, cl, of)
		if err != nil {
			return err
		}
		cal := makeCalendar(leases, start, end, width)
		body, err := json.Marshal(cal)
		if err != nil {
			return fmt.Errorf("writing the calendar: %w", err)
		}
		return e.printAnswer(body, func() []table { return cal.tables(e.now()) })
	})
	return c
}

// readSpanOf reads the time that a calendar shows.
func readSpanOf(c *cobra.Command, from, to, length string, now time.Time) (start, end time.Time, err error) {
	if c.Flags().Changed("to") && c.Flags().Changed("for") {
		return start, end, usageError(c, "give --to or --for, not both")
	}
	if text, back := strings.CutPrefix(from, "-"); back {
		d, ok := parseSpan(text)
		if !ok {
			return start, end, usageError(c, "--from must be a time, or whole minutes such as -90m or -2d, got %q", from)
		}
		start = now.UTC().Truncate(time.Minute).Add(-d)
	} else if start, _, err = readTime(c, "from", from, now); err != nil {
		return start, end, err
	}
	if to != "" {
		end, _, err = readTime(c, "to", to, now)
	} else if d, ok := parseSpan(length); ok {
		end = start.Add(d)
	} else {
		err = usageError(c, "--for must be whole minutes such as 90m, 8h or 2d, got %q", length)
	}
	switch {
	case err != nil:
	case !end.After(start):
		err = usageError(c, "the calendar must end after its beginning")
	case end.Sub(start) > api.WindowMax:
		err = usageError(c, "a calendar may show at most %d days", api.WindowMax/day)
	}
	return start, end, err
}

// The lengths of columns and of buckets, from which the shortest that fit are chosen.
var (
	columnLengths = []time.Duration{
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour,
		4 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day, 14 * day, 28 * day, 84 * day, 168 * day,
	}
	tickLengths = []time.Duration{
		10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
		day, 2 * day, 3 * day, 4 * day, 7 * day, 14 * day, 28 * day, 56 * day, 112 * day, 224 * day, 672 * day, 1344 * day,
	}
)

// labelWidth is the least width of a bucket: a label and a space.
func labelWidth(tick time.Duration) time.Duration {
	if tick >= monthly {
		return time.Duration(len("2006-01 "))
	}
	return time.Duration(len("01-02 "))
}

// monthly is the length from which buckets are labelled with their month.
const monthly = 28 * day

// chooseLengths returns the shortest column and its bucket with which the time fits into a
// number of columns, even if it begins with a full bucket or a full day.
func chooseLengths(length time.Duration, columns int) (column, tick time.Duration) {
	for _, column = range columnLengths {
		i := slices.IndexFunc(tickLengths, func(d time.Duration) bool { return d%column == 0 && d/column >= labelWidth(d) })
		if tick = tickLengths[i]; (length+min(tick, day)+column-1)/column <= time.Duration(columns) {
			break
		}
	}
	return column, tick
}

// makeCalendar returns the calendar of leases, which are sorted, for lines of a width. It
// begins with a full bucket, or with a full day if buckets are longer.
func makeCalendar(leases []rest.Lease, start, end time.Time, width int) *calendar {
	nameWidth := len("instances")
	for i := range leases {
		nameWidth = max(nameWidth, utf8.RuneCountInString(cutName(leases[i].Name)))
	}
	column, tick := chooseLengths(end.Sub(start), width-nameWidth-len("  "))
	start = start.UTC().Truncate(min(tick, day))
	end = end.UTC().Add(column - 1)
	end = end.Add(-(end.Sub(start) % column)) // the end of the last column
	cal := &calendar{
		From: api.InstantOf(start), To: api.InstantOf(end), Column: int64(column / time.Minute), Leases: []calendarLease{},
		tick: tick, nameWidth: nameWidth,
	}
	for _, l := range leases {
		if api.Instant(l.Start) < cal.To && api.Instant(l.End) > cal.From {
			cal.Leases = append(cal.Leases, calendarLease{l.ID, l.Name, l.Status, api.Instant(l.Start), api.Instant(l.End)})
		}
	}
	cal.fillBuckets(leases)
	return cal
}

// reservedBy returns what a lease reserves during its window.
func reservedBy(l *rest.Lease) (o occupancy) {
	switch l.Status {
	case api.LeaseCreating, api.LeaseError, api.LeaseDeleting:
		return o
	case api.LeasePending, api.LeaseStarting, api.LeaseActive, api.LeaseUpdating, api.LeaseTerminating, api.LeaseTerminated:
	}
	o.Leases = 1
	for i := range l.Reservations {
		switch r := &l.Reservations[i]; {
		case r.ReservedHosts != nil && r.Allocated > 0:
			o.Hosts += r.Allocated
		case r.ReservedHosts != nil: // nothing is left of it
			o.Hosts += r.Min
		case r.ReservedInstances != nil:
			o.Instances += r.Amount
			o.VCPUs += r.VCPUs * int64(r.Amount)
			o.Memory += r.Memory * int64(r.Amount)
		}
	}
	return o
}

// fillBuckets sets the most that leases reserve in each bucket. At one instant what ends
// goes before what starts.
func (cal *calendar) fillBuckets(leases []rest.Lease) {
	type edge struct {
		at    api.Instant
		times int
		of    occupancy
	}
	var edges []edge
	for i := range leases {
		l := &leases[i]
		if o := reservedBy(l); o.Leases > 0 && l.Start < l.End {
			edges = append(edges, edge{api.Instant(l.Start), 1, o}, edge{api.Instant(l.End), -1, o})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.times, b.times)) })
	var now occupancy
	next := 0
	for at := cal.From; at < cal.To; at = at.Add(cal.tick) {
		b := calendarBucket{Start: at, End: min(at.Add(cal.tick), cal.To)}
		for ; next < len(edges) && edges[next].at <= at; next++ {
			now.add(edges[next].of, edges[next].times)
		}
		b.occupancy = now
		for ; next < len(edges) && edges[next].at < b.End; next++ {
			now.add(edges[next].of, edges[next].times)
			b.raise(now)
		}
		cal.Buckets = append(cal.Buckets, b)
	}
}

// columnOf returns the column of an instant.
func (cal *calendar) columnOf(at api.Instant) int {
	return int((at - cal.From) / api.Instant(cal.Column*time.Minute.Milliseconds()))
}

// tables shows the calendar.
func (cal *calendar) tables(now time.Time) []table {
	t := table{
		title: fmt.Sprintf("%s to %s, %s for each column", showMinute(rest.LeaseTime(cal.From)), showMinute(rest.LeaseTime(cal.To)),
			showSpan(time.Duration(cal.Column)*time.Minute)),
		header: []string{"LEASE", cal.line(func(b calendarBucket) string { return cal.label(b.Start) })},
	}
	if at := api.InstantOf(now); cal.From <= at && at < cal.To {
		t.rows = append(t.rows, []string{"now", strings.Repeat(" ", cal.columnOf(at)) + "v"})
	}
	for i := range cal.Leases {
		t.rows = append(t.rows, []string{cutName(cal.Leases[i].Name), cal.bar(&cal.Leases[i])})
	}
	if len(cal.Leases) == 0 {
		t.rows = append(t.rows, []string{"no leases", ""})
	}
	t.rows = append(t.rows, []string{"", ""})
	for _, row := range []struct {
		name  string
		value func(calendarBucket) int
	}{
		{"hosts", func(b calendarBucket) int { return b.Hosts }},
		{"instances", func(b calendarBucket) int { return b.Instances }},
	} {
		t.rows = append(t.rows, []string{row.name, cal.line(func(b calendarBucket) string { return strconv.Itoa(row.value(b)) })})
	}
	return []table{t}
}

// cutName returns the name of a lease in the space for names.
func cutName(name string) string {
	runes := []rune(stripControls(name))
	if len(runes) > leaseNameWidth {
		runes = append(runes[:leaseNameWidth-1], '~')
	}
	return string(runes)
}

// bar returns the bar of a lease.
func (cal *calendar) bar(l *calendarLease) string {
	last := cal.columnOf(cal.To)
	first := max(0, cal.columnOf(l.Start))
	if l.Start < cal.From {
		first = 0
	}
	length := min(last, cal.columnOf(l.End-1)+1) - first
	return strings.Repeat(".", first) + strings.Repeat(barOf(l.Status), length) + strings.Repeat(".", last-first-length)
}

func barOf(s api.LeaseStatus) string {
	switch s {
	case api.LeaseStarting, api.LeaseActive, api.LeaseTerminating:
		return "#"
	case api.LeaseTerminated, api.LeaseDeleting:
		return "-"
	case api.LeaseError:
		return "!"
	case api.LeaseCreating, api.LeasePending, api.LeaseUpdating:
	}
	return "="
}

// line returns a text for each bucket, at the column where it begins.
func (cal *calendar) line(text func(calendarBucket) string) string {
	var b strings.Builder
	width := int(cal.tick / (time.Duration(cal.Column) * time.Minute))
	for _, bucket := range cal.Buckets {
		fmt.Fprintf(&b, "%-*s", width, text(bucket))
	}
	return strings.TrimRight(b.String(), " ")
}

// label returns the label of a bucket: its date, or its time where that changes more often.
func (cal *calendar) label(at api.Instant) string {
	t := at.Time()
	switch {
	case cal.tick >= monthly:
		return t.Format("2006-01")
	case cal.tick >= day, t.Equal(t.Truncate(day)):
		return t.Format("01-02")
	}
	return t.Format("15:04")
}
