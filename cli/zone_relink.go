package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func zoneRelink(e *env) *cobra.Command {
	var s sure
	var gateways []string
	c := &cobra.Command{
		Use:   "relink ZONE",
		Short: "Accept that a linked zone was brought back from a backup",
		Long: `Accept that a linked zone was brought back from a backup ("berth init --from-backup"), and has
forgotten what it agreed with this zone since. Until then the two exchange nothing.

The command asks that zone when it was brought back, says so, and asks. Compare that with what its
operator tells you: somebody with a stolen backup and its key could do the same.

Afterwards the parent of the two compares what both have: what it does not know ends in the child,
and what the child does not know is gone, with a fault that says so.`,
		Example:           "  berth zone relink west\n  berth zone relink west --gateway 10.0.0.9:7601 --yes",
		Args:              exactArgs("a ZONE"),
		ValidArgsFunction: e.completeFirst(zoneNames),
	}
	s.addFlag(c)
	c.Flags().StringSliceVar(&gateways, "gateway", nil, "`HOST:PORT` of a gateway of the zone, if it has others than before; may be repeated")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		now, err := cl.RelinkZone(ctx, args[0], rest.Relink{Gateways: gateways, DryRun: true})
		if err != nil {
			return err
		}
		e.printNote("%s", describeReturn(&now))
		if err = e.confirmAction(ctx, s, fmt.Sprintf("accept incarnation %d of zone %q", now.Incarnation, args[0])); err != nil {
			return err
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.Relinked, error) {
			return cl.RelinkZone(ctx, args[0], rest.Relink{Gateways: gateways, Incarnation: now.Incarnation})
		}, relinkTables)
	})
	return c
}

// describeReturn says in a sentence when a zone was brought back.
func describeReturn(r *rest.Relinked) string {
	text := fmt.Sprintf("zone %s was brought back from a backup at %s, as incarnation %d", stripControls(r.Zone), showInstant(r.At), r.Incarnation)
	if r.Role == api.LinkChild {
		text += fmt.Sprintf("; %s of this zone there will be compared with what it has", countThings(int64(r.Instances), "instance"))
	}
	return text
}

// relinkTables show a zone that was accepted.
func relinkTables(r rest.Relinked) []table {
	var t table
	t.addRow("ZONE", r.Zone)
	t.addRow("ROLE", r.Role)
	t.addRow("INCARNATION", r.Incarnation)
	t.addRow("BROUGHT BACK", showInstant(r.At))
	t.addRow("INSTANCES COMPARED", r.Instances)
	return []table{t}
}
