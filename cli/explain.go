package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"berth/api/client"
	"berth/api/rest"
)

func explainCommand(e *env) *cobra.Command {
	var w whose
	cmd := &cobra.Command{
		Use:   "explain ID",
		Short: "Tell why a boot, or an estimate, got what it got",
		Long: `Explain tells which zones took part and what they offered, how many hosts were
turned away and why, the most final reasons first, and what would have worked. A
host is counted once, at the first filter that turned it away, so the numbers add
up; of hosts that offered some it tells what kept them from offering more. Of a
boot it also shows all attempts, and the faults of instances in ERROR.
ID is a reservation id, or the request id that an answer or an error came with.
Of an estimate only the node knows that made it, for a quarter of an hour.`,
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
	t.addRow("TOLD BY", x.Zone)
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
		t.addRow(label, fmt.Sprintf("%d of %d %s found", g.Offered, g.Wanted, g.Flavor))
	}
	tables := []table{t}
	if len(x.Attempts) > 1 {
		tries := table{title: "Attempts; what follows is of the last", header: []string{"ATTEMPT", "WANTED", "HELD", "REFUSED", "SHORT"}}
		for _, a := range x.Attempts {
			tries.addRow(a.Attempt, a.Wanted, a.Held, a.Refused, a.Short)
		}
		tables = append(tables, tries)
	}
	if len(x.Faults) > 0 {
		faults := table{title: "Instances in ERROR", header: []string{"FAULT", "INSTANCES", "ONE OF THEM"}}
		for _, f := range x.Faults {
			faults.addRow(f.Fault, f.Instances, f.Example)
		}
		tables = append(tables, faults)
	}
	return append(tables, whyTables(x.Zones, x.Groups)...)
}
