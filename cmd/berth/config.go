package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
)

func configShow(e *env) *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Show the settings of the zone",
		Example: "  berth operator config show",
		Args:    takes(),
		RunE: e.calls(func(ctx context.Context, c *client.Client, _ []string) error {
			return show(ctx, e, c.Config, configTables)
		}),
	}
}

func configTables(z client.ZoneConfig) []table {
	var t table
	t.row("PLAN TTL", time.Duration(z.PlanTTL))
	t.row("HOST GRACE", time.Duration(z.HostGrace))
	t.row("TAGS", strings.Join(z.Tags, ", "))
	costs := tableOf("COST|WEIGHT", func(w api.CostWeight) []any { return []any{w.Name, w.Weight} })(z.Costs)
	return append([]table{t}, costs...)
}

func configSet(e *env) *cobra.Command {
	var costs, tags []string
	var planTTL, hostGrace time.Duration
	var noTags bool
	c := &cobra.Command{
		Use:   "set",
		Short: "Change settings of the zone",
		Long: `Set changes what the flags name and keeps the rest. It reads the settings and
writes them back as a whole, so of two changes at one time the later one counts.`,
		Example: "  berth operator config set --cost spread=2 --plan-ttl 90s\n  berth operator config set --tag ssd --tag gpu",
		Args:    takes(),
	}
	f := c.Flags()
	f.StringArrayVar(&costs, "cost", nil, "`NAME=WEIGHT` of a cost; may be repeated; 0 switches it off")
	f.DurationVar(&planTTL, "plan-ttl", 0, "how long an offer may be taken up")
	f.DurationVar(&hostGrace, "host-grace", 0, "how long a host may be silent before it counts as down")
	f.StringArrayVar(&tags, "tag", nil, "affinity `TAG` of the zone, in place of those it has; may be repeated")
	f.BoolVar(&noTags, "no-tags", false, "the zone has no affinity tags")
	c.RunE = e.calls(func(ctx context.Context, cl *client.Client, _ []string) error {
		switch {
		case len(costs) == 0 && len(tags) == 0 && !noTags && planTTL == 0 && hostGrace == 0:
			return usage(c, "%q needs something to set", c.CommandPath())
		case len(tags) > 0 && noTags:
			return usage(c, "give --tag or --no-tags, not both")
		}
		weights, err := costWeights(c, costs)
		if err != nil {
			return err
		}
		z, err := cl.Config(ctx)
		if err != nil {
			return err
		}
		if planTTL != 0 {
			z.PlanTTL = client.Duration(planTTL)
		}
		if hostGrace != 0 {
			z.HostGrace = client.Duration(hostGrace)
		}
		if len(tags) > 0 || noTags {
			z.Tags = append([]string{}, tags...)
		}
		for _, w := range weights {
			z.Costs = weigh(z.Costs, w)
		}
		return show(ctx, e, func(ctx context.Context) (client.ZoneConfig, error) { return cl.SetConfig(ctx, z) }, configTables)
	})
	return c
}

// costWeights reads flags of the form NAME=WEIGHT, in their order.
func costWeights(c *cobra.Command, given []string) ([]api.CostWeight, error) {
	var out []api.CostWeight
	for _, g := range given {
		name, text, _ := strings.Cut(g, "=")
		n, err := strconv.ParseInt(text, 10, 64)
		if name == "" || err != nil {
			return nil, usage(c, "--cost must look like spread=2, got %q", g)
		}
		out = append(out, api.CostWeight{Name: name, Weight: n})
	}
	return out, nil
}

// weigh returns costs with w in place of the weight of that name, or at the end.
func weigh(costs []api.CostWeight, w api.CostWeight) []api.CostWeight {
	if i := slices.IndexFunc(costs, func(c api.CostWeight) bool { return c.Name == w.Name }); i >= 0 {
		costs[i] = w
		return costs
	}
	return append(costs, w)
}
