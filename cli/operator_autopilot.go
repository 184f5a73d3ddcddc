package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"berth/api/client"
	"berth/api/rest"
)

func operatorAutopilot(e *env) *cobra.Command {
	return nounCommand("autopilot", "See and change what the zone does about nodes that are dead", autopilotShow(e), autopilotSet(e))
}

func autopilotShow(e *env) *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Show when dead nodes are removed, and how many nodes the zone may lose",
		Example: "  berth operator autopilot show",
		Args:    exactArgs(),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			page, err := c.Members(ctx)
			if err != nil {
				return err
			}
			return showAnswer(ctx, e, c.Config, func(z rest.ZoneConfig) []table { return autopilotTables(z, page) })
		}),
	}
}

// autopilotTables shows the rule of a zone, and how safe its nodes are.
func autopilotTables(z rest.ZoneConfig, nodes []rest.Member) []table {
	voters := 0
	for _, n := range nodes {
		if n.Voter {
			voters++
		}
	}
	var t table
	t.addRow("REMOVE DEAD AFTER", showRemoval(z))
	t.addRow("VOTERS", voters)
	t.addRow("MAY BE LOST", (max(voters, 1)-1)/2)
	if voters > 0 && voters%2 == 0 {
		t.addRow("WARNING", fmt.Sprintf("%d voters may lose no more than %d could: add a node or remove one", voters, voters-1))
	}
	for _, n := range nodes {
		for _, w := range warningsOf(n) {
			t.addRow("WARNING", w)
		}
	}
	return []table{t}
}

// warningsOf returns what is wrong with the clock and the disk of a node.
func warningsOf(n rest.Member) (out []string) {
	if c := n.Clock; c != nil && c.Far {
		out = append(out, fmt.Sprintf("the clock of node %s is %s the leader's: check the time synchronisation of both machines", n.ID, showLead(time.Duration(c.Offset))))
	}
	if d := n.Disk; d != nil && d.FullIn > 0 {
		out = append(out, fmt.Sprintf("the disk of node %s is full in about %s if it goes on to fill as it does", n.ID, showAbout(time.Duration(d.FullIn))))
	}
	return out
}

// showLead shows by how much a clock is ahead of another one, or behind it.
func showLead(d time.Duration) string {
	if d < 0 {
		return (-d).Round(time.Millisecond).String() + " behind"
	}
	return d.Round(time.Millisecond).String() + " ahead of"
}

// showAbout shows a time in whole days or hours.
func showAbout(d time.Duration) string {
	switch hours := int(d.Round(time.Hour).Hours()); {
	case hours >= 48:
		return fmt.Sprintf("%d days", (hours+12)/24)
	case hours > 1:
		return fmt.Sprintf("%d hours", hours)
	}
	return "an hour"
}

func showClock(c *rest.Clock) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%+dms", time.Duration(c.Offset).Milliseconds())
}

func showDisk(d *rest.Disk) string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf("%d GiB", d.FreeBytes>>30)
}

func showRemoval(z rest.ZoneConfig) string {
	if z.RemoveDeadAfter == 0 {
		return "never"
	}
	return time.Duration(z.RemoveDeadAfter).String()
}

func autopilotSet(e *env) *cobra.Command {
	var after time.Duration
	c := &cobra.Command{
		Use:   "set",
		Short: "Change when dead nodes are removed",
		Long: `Change how long a node that votes must be silent before the leader removes it for good, 10m to 720h,
or 0 for never, which is how a zone begins. It is removed only while a majority of the voters answers,
and only if the zone can lose more nodes without the dead ones: 1 of 4, or 2 of 5, but not 1 of 3.
So let a new node join in the place of a dead one. A node that was removed must never come back.`,
		Example: "  berth operator autopilot set --remove-dead-after 24h\n  berth operator autopilot set --remove-dead-after 0",
		Args:    exactArgs(),
	}
	const flag = "remove-dead-after"
	c.Flags().DurationVar(&after, flag, 0, "for how long a node must be silent, 10m to 720h; 0 for never")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		if !anyChanged(c, flag) {
			return usageError(c, "%q needs something to set", c.CommandPath())
		}
		z, err := cl.Config(ctx)
		if err != nil {
			return err
		}
		z.RemoveDeadAfter = rest.Duration(after)
		nodes, err := cl.Members(ctx)
		if err != nil {
			return err
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.ZoneConfig, error) { return cl.SetConfig(ctx, z) }, func(z rest.ZoneConfig) []table {
			return autopilotTables(z, nodes)
		})
	})
	return c
}
