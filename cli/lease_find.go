package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api/client"
	"berth/api/rest"
)

const leaseFindHelp = `Find out when a lease would fit: the earliest start, and windows of starts that fit, in
whole minutes. If none does, it shows what would fit in its place: fewer, for a shorter
time, or later. Nothing is reserved, and others may take the room meanwhile.

What to reserve is described as for berth lease create, and times as there. In this zone
alone the answer is exact; what zones below have over time is an estimate, and the lease
is planned in all zones at the earliest start. The exit code is 5 if nothing fits.`

// leaseQuestion holds the flags about when a lease may be.
type leaseQuestion struct {
	earliest, latest, length string
	roomWish
}

func leaseFind(e *env) *cobra.Command {
	var w leaseQuestion
	c := &cobra.Command{
		Use: "find --for DURATION", Short: "Find out when a lease would fit, or what would fit in its place", Long: leaseFindHelp,
		Example: `  berth lease find --for 8h --hosts 2:4
  berth lease find --for 2h --instances 10 --flavor small --earliest +1d --latest +3d --zone west --zone east
  berth lease find --for 1d --reservation type=virtual:instance,vcpus=2,memory-mb=2048,disk-gb=10,amount=3 --hosts 1 -o json`,
		Args: exactArgs(),
	}
	f := c.Flags()
	f.StringVar(&w.length, "for", "", "`DURATION` of the lease, such as 90m, 8h or 2d (required)")
	f.StringVar(&w.earliest, "earliest", "now", "`TIME` before which the lease does not start")
	f.StringVar(&w.latest, "latest", "", "`TIME` by which the lease ends (default: 14 days after --earliest)")
	w.addFlags(e, c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		ask, err := w.leaseQuestion(c, e.now())
		if err != nil {
			return err
		}
		var found rest.Availability
		err = showAnswer(ctx, e, func(ctx context.Context) (a rest.Availability, err error) {
			found, err = cl.FindLease(ctx, ask)
			return found, err
		}, availabilityTables)
		if err == nil && found.Earliest == nil {
			return exitError(exitNoCapacity, hintOfFound(&found), "no lease of %s fits %s", w.length, showLooked(&found))
		}
		return err
	})
	return c
}

// leaseQuestion returns the question in the form of the API.
func (w *leaseQuestion) leaseQuestion(c *cobra.Command, now time.Time) (rest.LeaseQuestion, error) {
	ask := rest.LeaseQuestion{Zones: w.zones}
	if w.length == "" {
		return ask, usageError(c, "%q needs --for", c.CommandPath())
	}
	d, ok := parseSpan(w.length)
	if !ok || d <= 0 {
		return ask, usageError(c, "--for must be whole minutes such as 90m, 8h or 2d, got %q", w.length)
	}
	ask.Minutes = int64(d / time.Minute)
	from, date, err := readTime(c, "earliest", w.earliest, now)
	if err != nil {
		return ask, err
	}
	ask.Earliest = date
	if w.latest != "" {
		var to time.Time
		if to, ask.Latest, err = readTime(c, "latest", w.latest, now); err != nil {
			return ask, err
		}
		if to.Before(from.Add(d)) {
			return ask, usageError(c, "between --earliest, %q, and --latest, %q, there is no time for --for %s", w.earliest, w.latest, w.length)
		}
	}
	if ask.Reservations, err = w.readReservations(c); err == nil && len(ask.Reservations) == 0 {
		err = usageError(c, "give --hosts, --instances or --reservation: what to reserve")
	}
	return ask, err
}

// hintOfFound is the next step after a search that has found nothing.
func hintOfFound(a *rest.Availability) string {
	switch {
	case a.Reason != nil:
		return *a.Reason
	case len(a.Instead) > 0:
		return "take one of those shown"
	case !a.Complete:
		return "ask again for less time: not all starts were looked at, or a zone did not answer"
	}
	return "see which hosts are turned away, and why, with: berth lease plan create"
}

// showLooked says which starts a search has looked at.
func showLooked(a *rest.Availability) string {
	if !a.Complete {
		return "as far as was looked, for starts before " + showMinute(a.Until)
	}
	return "that starts before " + showMinute(a.Until)
}

// availabilityTables show when a lease would fit, and if it never does, what would.
func availabilityTables(a rest.Availability) []table {
	var t table
	if a.Earliest != nil {
		t.addRow("EARLIEST", showMinute(*a.Earliest))
	} else {
		t.addRow("EARLIEST", "none")
	}
	if a.Reason != nil {
		t.addRow("REASON", *a.Reason)
	}
	t.addRow("LOOKED AT", "starts before "+showMinute(a.Until))
	t.addRow("COMPLETE", showBool(a.Complete))
	certain := "exact: only this zone has a part in it"
	if a.Estimate {
		certain = "an estimate: zones below have a part in it"
	}
	t.addRow("ANSWER", certain)
	tables := []table{t}
	if len(a.Windows) > 0 {
		w := table{title: "Starts that fit", header: []string{"FROM", "LAST START"}}
		for _, one := range a.Windows {
			w.addRow(showMinute(one.Start), showMinute(one.End-rest.LeaseTime(time.Minute.Milliseconds())))
		}
		tables = append(tables, w)
	}
	if len(a.Reservations) > 0 {
		r := table{title: "At the earliest start", header: []string{"TYPE", "WOULD GET", "NEEDS", "ZONES"}}
		for _, one := range a.Reservations {
			r.addRow(one.Type, one.WouldGet, showRange(one.Min, one.Max), showPlaces(one.Places))
		}
		tables = append(tables, r)
	}
	if len(a.Instead) > 0 {
		i := table{title: "What would fit in its place", header: []string{"CHANGE", "START", "END", "LENGTH", "AMOUNTS"}}
		for _, one := range a.Instead {
			length := time.Duration(one.End-one.Start) * time.Millisecond
			i.addRow(one.Change, showMinute(one.Start), showMinute(one.End), showSpan(length), showAmounts(one.Amounts))
		}
		tables = append(tables, i)
	}
	z := table{header: []string{"ZONE", "OUTCOME", "LOOKED UNTIL", "REASON"}}
	for _, one := range a.Zones {
		until := ""
		if one.Until != nil {
			until = showMinute(*one.Until)
		}
		z.addRow(one.Zone, one.Outcome, until, one.Reason)
	}
	return append(tables, z)
}

// showAmounts returns how many each reservation would have, such as "2, 0".
func showAmounts(amounts []int) string {
	out := make([]string, len(amounts))
	for i, n := range amounts {
		out[i] = strconv.Itoa(n)
	}
	return strings.Join(out, ", ")
}

// showRange returns how many a reservation needs, such as 2 or 2-4.
func showRange(least, most int) string {
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d-%d", least, most)
}

// showPlaces returns in which zones a reservation would be, such as "west 3, east 2".
func showPlaces(places []rest.ZoneCount) string {
	out := make([]string, len(places))
	for i, p := range places {
		out[i] = fmt.Sprintf("%s %d", p.Zone, p.Count)
	}
	return strings.Join(out, ", ")
}
