package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"berth/api/client"
	"berth/api/rest"
)

func explainCommand(e *env) *cobra.Command {
	var w whose
	cmd := &cobra.Command{
		Use:   "explain ID",
		Short: "Explain the outcome of a boot, a lease or an estimate",
		Long: `Explain the outcome of a boot, a lease or an estimate: which zones took part and what they
offered, how many hosts were turned away and why, the most final reasons first, and
what would have worked. A host is counted once, at the first filter that turned it
away, so the numbers add up. For hosts that offered some slots, it shows what kept
them from offering more; for a boot, also all attempts and the faults of instances
in ERROR.

ID is a reservation id, the id of a lease, or the request id of an answer or an error: that
of a lease that was refused is in the error. Estimates are kept
for 15 minutes, only on the node that made them.`,
		Example:           "  berth explain r-0123456789ab\n  berth explain r-0123456789ab --project web",
		Args:              exactArgs("an ID"),
		ValidArgsFunction: e.completeFirst(reservationNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return showAnswer(ctx, e, func(ctx context.Context) (rest.Explanation, error) { return w.clientFor(c).Explain(ctx, args[0]) }, explainTables)
		}),
	}
	w.addFlag(cmd)
	return cmd
}

func explainTables(x rest.Explanation) []table {
	var t table
	t.addRow("RESERVATION", x.Reservation)
	t.addRow("REQUEST", x.Request)
	t.addRow("ANSWERED BY", x.Zone)
	if x.State != "" {
		t.addRow("STATE", x.State)
	}
	if x.Reason != "" {
		t.addRow("REASON", x.Reason)
	}
	t.addRow("AT", showInstant(x.At))
	for i, g := range x.Groups {
		label := "INSTANCES"
		if len(x.Groups) > 1 || g.Name != "" {
			label = "GROUP " + g.Name
			if g.Name == "" {
				label += strconv.Itoa(i + 1)
			}
		}
		t.addRow(label, strings.Join(strings.Fields(fmt.Sprintf("%d of %d %s found", g.Offered, g.Wanted, g.Flavor)), " "))
	}
	tables := []table{t}
	if len(x.Attempts) > 1 {
		tries := table{title: "Attempts; the tables below are about the last one", header: []string{"ATTEMPT", "WANTED", "HELD", "REFUSED", "SHORT"}}
		for _, a := range x.Attempts {
			tries.addRow(a.Attempt, a.Wanted, a.Held, a.Refused, a.Short)
		}
		tables = append(tables, tries)
	}
	if len(x.Bindings) > 0 {
		bound := table{title: "Zones that the project is bound to", header: []string{"AVAILABILITY ZONE", "TAGS", "ZONE", "OUTCOME", "WAS", "WHY"}}
		for _, b := range x.Bindings {
			bound.addRow(b.AZ, strings.Join(b.Tags, ","), b.Zone, b.Outcome, b.Was, b.Why)
		}
		tables = append(tables, bound)
	}
	if len(x.Faults) > 0 {
		faults := table{title: "Instances in ERROR", header: []string{"FAULT", "INSTANCES", "EXAMPLE"}}
		for _, f := range x.Faults {
			faults.addRow(f.Fault, f.Instances, f.Example)
		}
		tables = append(tables, faults)
	}
	return append(tables, whyTables(x.Zones, x.Groups)...)
}
