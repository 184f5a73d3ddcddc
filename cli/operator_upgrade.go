package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func operatorUpgrade(e *env) *cobra.Command {
	return nounCommand("upgrade", "See and finish the upgrade of the zone's nodes to another release", upgradeStatus(e), upgradeFinish(e))
}

func upgradeStatus(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show which release each node runs, and whether the upgrade can be finished",
		Long: `Show which release each node runs, the form in which the zone writes, and the newest form
that each node reads:

  rolling   the nodes run several releases; each may still go back
  ready     all nodes read a newer form than the zone writes; each may still go back
  finished  the zone writes the newest form that its nodes read`,
		Example: "  berth operator upgrade status\n  berth operator upgrade status -o json",
		Args:    exactArgs(),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			var up rest.Upgrade
			err := showAnswer(ctx, e, func(ctx context.Context) (_ rest.Upgrade, err error) {
				up, err = c.Upgrade(ctx)
				return up, err
			}, upgradeTables)
			if err == nil {
				e.printNote("%s", nextOfUpgrade(&up))
			}
			return err
		}),
	}
}

// upgradeTables show how far an upgrade is.
func upgradeTables(up rest.Upgrade) []table {
	var head table
	head.addRow("PHASE", up.Phase)
	head.addRow("WRITES FORM", up.Form)
	head.addRow("ALL NODES READ", up.Next)
	tables := append([]table{head}, tableOf("NODE|VERSION|READS FORM|VOTER|ALIVE", func(n rest.UpgradeNode) []any {
		return []any{n.ID, n.Version, showForm(n.Form), showBool(n.Voter), n.Alive}
	})(up.Nodes)...)
	if len(up.Links) > 0 {
		tables = append(tables, tableOf("LINKED ZONE|ROLE|WRITES FORM", func(l rest.UpgradeLink) []any {
			return []any{l.Name, l.Role, showForm(l.Form)}
		})(up.Links)...)
	}
	return tables
}

// showForm shows a form; nothing is known of the form 0.
func showForm(f api.Form) string {
	if f == 0 {
		return "unknown"
	}
	return f.String()
}

// nextOfUpgrade says what to do next.
func nextOfUpgrade(up *rest.Upgrade) string {
	switch up.Phase {
	case rest.UpgradeRolling:
		return "next: start the other nodes with the same release, one after the other"
	case rest.UpgradeReady:
		return "next, when you are sure that you will not go back: berth operator upgrade finish"
	case rest.UpgradeFinished:
	}
	return "nothing is to be done"
}

func upgradeFinish(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:   "finish",
		Short: "Let the zone write the newest form that all its nodes read",
		Long: `Let the zone write the newest form that all its nodes read. What the new release can do
more works from then on. No node can go back to an older release: it refuses to start.

It is refused while a node reads no newer form. Linked zones and agents may be older or
newer; they are asked which form they read.`,
		Example: "  berth operator upgrade finish\n  berth operator upgrade finish --yes",
		Args:    exactArgs(),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		up, err := cl.Upgrade(ctx)
		if err != nil {
			return err
		}
		if up.Next > up.Form {
			what := fmt.Sprintf("write form %d instead of %d: no node can go back to a release that does not read it", up.Next, up.Form)
			if err = e.confirmAction(ctx, s, what); err != nil {
				return err
			}
		}
		if err = cl.FinishUpgrade(ctx); err != nil {
			return err
		}
		e.printNote("the zone writes form %d", up.Next)
		return nil
	})
	return c
}
