package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
)

func explainCommand(e *env) *cobra.Command {
	var w whose
	cmd := &cobra.Command{
		Use:   "explain RESERVATION",
		Short: "Tell why a boot got what it got",
		Long: `Explain tells, for each attempt of a boot, which zones took part and what they
offered, and how many of this zone's own hosts each filter turned away. A host is
counted once, at the first filter that turned it away, so the numbers add up.`,
		Example:           "  berth explain r-0123456789ab\n  berth explain r-0123456789ab --project web",
		Args:              takes("a RESERVATION"),
		ValidArgsFunction: e.first(reservationNames),
		RunE: e.calls(func(ctx context.Context, c *client.Client, args []string) error {
			return show(ctx, e, func(ctx context.Context) (api.Boot, error) {
				return w.of(c).Reservation(ctx, api.ReservationID(args[0]), 0)
			}, explainTables)
		}),
	}
	w.flag(cmd)
	return cmd
}

func explainTables(b api.Boot) []table {
	tables := bootTables(b)
	for _, a := range b.Attempts {
		t := table{title: fmt.Sprintf("Attempt %d", a.Attempt), header: []string{"WANTED", "HELD", "REFUSED", "SHORT"}}
		t.row(a.Wanted, a.Held, a.Refused, a.Short)
		tables = append(tables, t)
		tables = append(tables, whyTables(a.Zones, a.Refusals)...)
	}
	return tables
}

// whyTables show which zones took part, and of this zone's own hosts how many
// each filter turned away.
func whyTables(zones []api.ZoneOutcome, refusals []api.Refusals) []table {
	var tables []table
	if len(zones) > 0 {
		t := table{header: []string{"ZONE", "OUTCOME", "WANTED", "OFFERED", "SHORT", "REASON"}}
		sum := 0
		for _, z := range zones {
			t.row(z.Zone, z.Outcome, z.Wanted, z.Offered, z.Short, z.Reason)
			sum += z.Offered
		}
		if len(zones) > 1 {
			t.row("in all", "", "", sum, "", "")
		}
		tables = append(tables, t)
	}
	for i, r := range refusals {
		t := table{title: "This zone's own hosts", header: []string{"HOSTS", "COUNT"}}
		if len(refusals) > 1 {
			t.title += fmt.Sprintf(", group %d", i+1)
		}
		for _, f := range r.Filters {
			t.row("turned away by "+f.Filter, f.Hosts)
		}
		t.row("offering", r.Offering)
		t.row("considered, in all", r.Considered)
		tables = append(tables, t)
	}
	return tables
}
