package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func zoneUnlink(e *env) *cobra.Command {
	var s sure
	var force, endWork bool
	c := &cobra.Command{
		Use:   "unlink ZONE",
		Short: "Remove the link to a zone on which no instance depends, or to one that is gone for good",
		Long: `Remove the link to a zone. As long as instances or reservations depend on it, that is
refused.

With --force the zone is written off: use that only for a zone that is gone for good.
Pause it first. Of a child, all that it has counts as gone, and whatever it should still
confirm as confirmed. Should it run after all, nobody ends its instances from here. Of the
parent, what it has not decided is aborted; what it has in this zone ends with --end-work,
and refuses the command without. The command says first what would be lost, and asks.`,
		Example:           "  berth zone unlink west --yes\n  berth zone unlink west --force\n  berth zone unlink europe --force --end-work",
		Args:              exactArgs("a ZONE"),
		ValidArgsFunction: e.completeFirst(zoneNames),
	}
	s.addFlag(c)
	c.Flags().BoolVar(&force, "force", false, "write off a zone that is gone for good, with all that depends on it")
	c.Flags().BoolVar(&endWork, "end-work", false, "with --force, end what the parent has in this zone")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		switch {
		case force:
			return e.writeOffZone(ctx, cl, s, args[0], endWork)
		case endWork:
			return usageError(c, "--end-work goes with --force")
		}
		return e.confirmAndDelete(ctx, s, "remove the link to zone", args[0], func(ctx context.Context) error {
			return cl.DeleteZone(ctx, args[0])
		})
	})
	return c
}

// writeOffZone says what would be lost with a zone, and writes it off if that is confirmed.
func (e *env) writeOffZone(ctx context.Context, cl *client.Client, s sure, ref string, endWork bool) error {
	lost, err := cl.WriteOffZone(ctx, ref, rest.WriteOff{EndWork: endWork, DryRun: true})
	if err != nil {
		return err
	}
	e.printNote("%s", describeLosses(&lost))
	if err = e.confirmAction(ctx, s, fmt.Sprintf("write off zone %q", ref)); err != nil {
		return err
	}
	err = showAnswer(ctx, e, func(ctx context.Context) (_ rest.Losses, err error) {
		lost, err = cl.WriteOffZone(ctx, ref, rest.WriteOff{EndWork: endWork})
		return lost, err
	}, lossTables)
	if err == nil && !lost.Unlinked {
		e.printNote("%s must end first; repeat the command when that is done, to remove the link", countThings(int64(lost.Ending), "instance"))
	}
	return err
}

// describeLosses says in a sentence what is lost with a zone.
func describeLosses(l *rest.Losses) string {
	name := stripControls(l.Zone)
	if l.Role == api.LinkChild {
		return fmt.Sprintf("with zone %s are lost: %s there, slots of leases included, and the confirmation of %s",
			name, countThings(int64(l.Instances), "instance"), countThings(int64(l.Parts), "decision"))
	}
	return fmt.Sprintf("with zone %s are lost: %s that it has not decided, and %s of it here, slots of leases included",
		name, countThings(int64(l.Holds), "hold"), countThings(int64(l.Ending), "instance"))
}

// lossTables show what was lost with a zone.
func lossTables(l rest.Losses) []table {
	var t table
	t.addRow("ZONE", l.Zone)
	t.addRow("ROLE", l.Role)
	t.addRow("PARTS GIVEN UP", l.Parts)
	t.addRow("INSTANCES GONE", l.Instances)
	t.addRow("HOLDS ABORTED", l.Holds)
	t.addRow("INSTANCES TO END", l.Ending)
	t.addRow("UNLINKED", showBool(l.Unlinked))
	return []table{t}
}
