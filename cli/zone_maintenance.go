package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func zoneMaintenance(e *env) *cobra.Command {
	var s sure
	var dry bool
	c := &cobra.Command{
		Use:   "maintenance ZONE on|off",
		Short: "Keep new work away from a child, and show who would move before",
		Long: `Put a child into maintenance, or end that. In maintenance it gets no new work; what runs
there stays, and leases keep what they have. Projects that are bound to it are bound to
another child by their next work, and stay there afterwards: nobody is moved back.

Before anything is changed the command shows which projects would be bound elsewhere and
where to, by what is known now, and asks for confirmation. With --dry-run it only shows
that. Which child a project really gets is decided when it asks: by then another may be
full, or have more room.`,
		Example:           "  berth zone maintenance west on --dry-run\n  berth zone maintenance west on --yes\n  berth zone maintenance west off",
		Args:              exactArgs("a ZONE", "on or off"),
		ValidArgsFunction: e.firstThen(zoneNames, func(context.Context, *client.Client, string) ([]string, error) { return []string{"on", "off"}, nil }),
	}
	s.addFlag(c)
	c.Flags().BoolVar(&dry, "dry-run", false, "change nothing, and show who would move")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		on := args[1] == "on"
		if !on && args[1] != "off" {
			return usageError(c, "%q needs on or off, got %q", c.CommandPath(), args[1])
		}
		if dry {
			return showAnswer(ctx, e, func(ctx context.Context) (rest.MaintenancePlan, error) { return cl.PlanMaintenance(ctx, args[0], on) }, maintenanceTables)
		}
		p, err := cl.PlanMaintenance(ctx, args[0], on)
		if err != nil {
			return err
		}
		if err = e.noteTables(maintenanceTables(p)...); err != nil {
			return err
		}
		if on {
			what := fmt.Sprintf("send no new work to zone %q", args[0])
			if len(p.Moves) > 0 {
				what += ", and move " + countThings(int64(p.Bindings), "binding")
			}
			if err = e.confirmAction(ctx, s, what); err != nil {
				return err
			}
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.Zone, error) {
			return cl.UpdateZone(ctx, args[0], rest.ZoneSpec{Maintenance: &on})
		}, zoneTables)
	})
	return c
}

// maintenanceTables show who would move.
func maintenanceTables(p rest.MaintenancePlan) []table {
	var t table
	t.addRow("ZONE", p.Zone)
	t.addRow("MAINTENANCE NOW", showBool(p.Now))
	t.addRow("BINDINGS", p.Mode)
	t.addRow("BOUND THERE", p.Bindings)
	t.addRow("EFFECT", maintenanceEffect(&p))
	if len(p.Moves) == 0 {
		return []table{t}
	}
	to := table{header: []string{"TO", "BINDINGS"}}
	left := p.Bindings
	for _, g := range p.To {
		to.addRow(g.Zone, g.Bindings)
		left -= g.Bindings
	}
	if left > 0 {
		to.addRow("nowhere", left)
	}
	moves := table{header: []string{"PROJECT", "AZ", "TAGS", "TO", "BINDING"}}
	for n := range p.Moves {
		m := &p.Moves[n]
		project := string(m.Project)
		if m.Parent != "" {
			project += " of zone " + m.Parent
		}
		goal := m.To
		if goal == "" {
			goal = "nowhere, " + m.Reason
		}
		moves.addRow(project, m.AZ, strings.Join(m.Tags, ", "), goal, m.Binding)
	}
	return []table{t, to, moves}
}

// maintenanceEffect says in a sentence what would change.
func maintenanceEffect(p *rest.MaintenancePlan) string {
	switch {
	case !p.Maintenance:
		return "it gets new work again; nobody is moved back"
	case p.Mode == api.BindingOff:
		return "new work of all projects goes elsewhere; none is bound to a zone, as bindings are off"
	}
	return "new work goes elsewhere, and the next work of a project that is bound there binds it elsewhere"
}
