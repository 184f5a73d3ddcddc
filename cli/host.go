package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func hostCommand(e *env) *cobra.Command {
	c := nounCommand("host", "See and change the hosts of the zone (admins)",
		hostList(e),
		&cobra.Command{
			Use:               "show HOST",
			Short:             "Show one host",
			Example:           "  berth host show h1",
			Args:              exactArgs("a HOST"),
			ValidArgsFunction: e.completeFirst(hostNames),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
				return showAnswer(ctx, e, func(ctx context.Context) (rest.Host, error) { return c.Host(ctx, args[0]) }, detailTables)
			}),
		},
		hostEnable(e, "enable", "Let a host take new instances", true),
		hostEnable(e, "disable", "Let a host take no new instances; running ones stay", false),
		hostSet(e), hostDrain(e), hostUndrain(e), hostEvacuation(e), hostDelete(e), hostForget(e),
	)
	c.Aliases = []string{"hosts"}
	return c
}

// classesOf returns the classes of an inventory in order.
func classesOf(inventory map[api.ResourceClass]rest.Inventory) []api.ResourceClass {
	r := api.Resources{}
	for c := range inventory {
		r[c] = 1
	}
	return r.Classes()
}

// describeUse returns "VCPU 4/16, MEMORY_MB 512/2048".
func describeUse(h rest.Host) string {
	var parts []string
	for _, c := range classesOf(h.Inventory) {
		parts = append(parts, fmt.Sprintf("%s %d/%d", c, h.Used[c], api.Inventory(h.Inventory[c]).Capacity()))
	}
	return strings.Join(parts, ", ")
}

// describeFullest returns "MEMORY_MB 25%", of the class of which the largest part is used.
func describeFullest(h rest.Host) string {
	text, most := "", -1.0
	for _, c := range classesOf(h.Inventory) {
		if all := api.Inventory(h.Inventory[c]).Capacity(); all > 0 {
			if part := 100 * float64(h.Used[c]) / float64(all); part > most {
				text, most = fmt.Sprintf("%s %d%%", c, int(part)), part
			}
		}
	}
	return text
}

func hostTables(h rest.Host) []table {
	var t table
	t.addRow("NAME", h.Name)
	t.addRow("ID", h.ID)
	t.addRow("AGENT", h.Agent)
	t.addRow("DRIVER", h.Driver)
	if h.Unserved {
		t.addRow("STATE", string(h.State)+": its agent does not serve it")
	} else {
		t.addRow("STATE", h.State)
	}
	t.addRow("ENABLED", showBool(h.Enabled))
	t.addRow("POOL", h.Pool)
	t.addRow("AVAILABILITY ZONE", h.AZ)
	if h.Cleaning != 0 {
		t.addRow("CLEANING TIME", time.Duration(h.Cleaning).String())
	}
	if h.Maintenance != "" {
		t.addRow("MAINTENANCE", h.Maintenance)
	}
	if h.Drain != "" {
		t.addRow("DRAIN", h.Drain)
	}
	t.addRow("ATTRIBUTES", sortedPairs(h.Attributes))
	if len(h.Overrides) > 0 {
		t.addRow("OVERRIDES", sortedPairs(h.Overrides))
	}
	if h.Failures > 0 {
		t.addRow("FAILURES", h.Failures)
	}
	t.addRow("TRAITS", strings.Join(h.Traits, ", "))
	for _, d := range h.MissingTraits {
		t.addRow("MISSING TRAIT", demandText(d))
	}
	t.addRow("INSTANCES", h.Instances-h.Slots)
	if h.Slots > 0 {
		t.addRow("SLOTS OF LEASES", h.Slots)
	}
	t.addRow("GENERATION", h.Generation)
	t.addRow("CREATED", showInstant(h.Created))
	t.addRow("UPDATED", showInstant(h.Updated))
	classes := table{header: []string{"CLASS", "USED", "CAPACITY", "TOTAL", "RESERVED", "RATIO", "MIN", "MAX", "STEP"}}
	for _, c := range classesOf(h.Inventory) {
		v := api.Inventory(h.Inventory[c]).Normal()
		classes.addRow(c, h.Used[c], v.Capacity(), v.Total, v.Reserved,
			float64(v.AllocationRatio)/float64(api.RatioOne), v.MinUnit, v.MaxUnit, v.StepSize)
	}
	if own := overridesTable(h); len(own.rows) > 0 {
		return []table{t, classes, own}
	}
	return []table{t, classes}
}

// overridesTable shows where the inventory of a host is not what its agent reports.
func overridesTable(h rest.Host) table {
	t := table{header: []string{"SET BY OPERATORS", "FIELD", "VALUE", "THE AGENT REPORTS"}}
	for _, c := range classesOf(h.ReportedInventory) {
		is, reported := h.Inventory[c], h.ReportedInventory[c]
		for _, f := range []struct {
			name         string
			is, reported int64
		}{
			{"total", is.Total, reported.Total},
			{"reserved", is.Reserved, reported.Reserved},
			{"min_unit", is.MinUnit, reported.MinUnit},
			{"max_unit", is.MaxUnit, reported.MaxUnit},
			{"step_size", is.StepSize, reported.StepSize},
		} {
			if f.is != f.reported {
				t.addRow(c, f.name, f.is, f.reported)
			}
		}
		if is.AllocationRatio != reported.AllocationRatio {
			t.addRow(c, "allocation_ratio", float64(is.AllocationRatio)/float64(api.RatioOne), float64(reported.AllocationRatio)/float64(api.RatioOne))
		}
	}
	return t
}

func hostEnable(e *env, name, short string, enabled bool) *cobra.Command {
	return &cobra.Command{
		Use:               name + " HOST",
		Short:             short,
		Example:           fmt.Sprintf("  berth host %s h1", name),
		Args:              exactArgs("a HOST"),
		ValidArgsFunction: e.completeFirst(hostNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return showAnswer(ctx, e, func(ctx context.Context) (rest.Host, error) {
				return c.UpdateHost(ctx, args[0], rest.HostSpec{Enabled: &enabled})
			}, hostTables)
		}),
	}
}

// pools are the values of --pool of a host.
var pools = []string{string(api.PoolOnDemand), string(api.PoolReservable), string(api.PoolShared)}

func hostSet(e *env) *cobra.Command {
	var pool, maintenance string
	var attributes []string
	var generation uint64
	c := &cobra.Command{
		Use:   "set HOST",
		Short: "Change the pool, attributes or maintenance of a host",
		Long: `Change the pool, attributes or maintenance of a host; all else stays as it is. An
attribute set here overrides what the agent reports, until an empty value removes it.
A host in maintenance takes no new instances; running ones stay. An empty reason ends
the maintenance.`,
		Example: `  berth host set h1 --pool shared
  berth host set h1 --attribute price=3 --attribute rack=
  berth host set h1 --maintenance disk --generation 7`,
		Args:              exactArgs("a HOST"),
		ValidArgsFunction: e.completeFirst(hostNames),
	}
	f := c.Flags()
	f.StringVar(&pool, "pool", "", "pool of the host: on_demand, reservable or shared")
	f.StringArrayVar(&attributes, "attribute", nil, "`KEY=VALUE` that overrides what the agent reports; may be repeated; an empty value removes it")
	f.StringVar(&maintenance, "maintenance", "", "start maintenance for this reason; empty ends it")
	f.Uint64Var(&generation, "generation", 0, "fail if the host has changed since this generation")
	mustFlag(c.RegisterFlagCompletionFunc("pool", cobra.FixedCompletions(pools, cobra.ShellCompDirectiveNoFileComp)))
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		s := rest.HostSpec{Generation: generation}
		var err error
		if s.Attributes, err = readPairs(c, "attribute", attributes); err != nil {
			return err
		}
		if c.Flags().Changed("pool") {
			p := api.Pool(pool)
			if s.Pool = &p; !p.Valid() {
				return usageError(c, "--pool must be one of %s, got %q", strings.Join(pools, ", "), pool)
			}
		}
		if c.Flags().Changed("maintenance") {
			s.Maintenance = &maintenance
		}
		if s.Pool == nil && s.Maintenance == nil && s.Attributes == nil {
			return usageError(c, "%q needs something to set", c.CommandPath())
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.Host, error) { return cl.UpdateHost(ctx, args[0], s) }, hostTables)
	})
	return c
}

func hostDelete(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:               "delete HOST",
		Short:             "Delete a host without instances",
		Example:           "  berth host delete h1 --yes",
		Args:              exactArgs("a HOST"),
		ValidArgsFunction: e.completeFirst(hostNames),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		return e.confirmAndDelete(ctx, s, "delete host", args[0], func(ctx context.Context) error { return c.DeleteHost(ctx, args[0]) })
	})
	return c
}
