package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
)

func hostCommand(e *env) *cobra.Command {
	c := noun("host", "See and change the hosts of the zone (admins)",
		&cobra.Command{
			Use:     "list",
			Short:   "List hosts",
			Example: "  berth host list",
			Args:    takes(),
			RunE: e.calls(func(ctx context.Context, c *client.Client, _ []string) error {
				return list(ctx, e, "hosts", c.Hosts, tableOf("NAME|STATE|ENABLED|POOL|INSTANCES|USED|GENERATION", func(h api.Host) []any {
					return []any{h.Name, h.State, yes(h.Enabled), h.Pool, h.Instances, used(h), h.Generation}
				}))
			}),
		},
		&cobra.Command{
			Use:               "show HOST",
			Short:             "Show one host",
			Example:           "  berth host show h1",
			Args:              takes("a HOST"),
			ValidArgsFunction: e.first(hostNames),
			RunE: e.calls(func(ctx context.Context, c *client.Client, args []string) error {
				return show(ctx, e, func(ctx context.Context) (api.Host, error) { return c.Host(ctx, args[0]) }, hostTables)
			}),
		},
		hostEnable(e, "enable", "Let a host take new instances", true),
		hostEnable(e, "disable", "Let a host take no new instances; what runs goes on", false),
		hostSet(e), hostDelete(e),
	)
	c.Aliases = []string{"hosts"}
	return c
}

// classesOf returns the classes of an inventory in order.
func classesOf(inventory map[api.ResourceClass]api.Inventory) []api.ResourceClass {
	r := api.Resources{}
	for c := range inventory {
		r[c] = 1
	}
	return r.Classes()
}

// used returns "VCPU 4/16, MEMORY_MB 512/2048".
func used(h api.Host) string {
	var parts []string
	for _, c := range classesOf(h.Inventory) {
		parts = append(parts, fmt.Sprintf("%s %d/%d", c, h.Used[c], h.Inventory[c].Capacity()))
	}
	return strings.Join(parts, ", ")
}

func hostTables(h api.Host) []table {
	var t table
	t.row("NAME", h.Name)
	t.row("ID", h.ID)
	t.row("AGENT", h.Agent)
	t.row("DRIVER", h.Driver)
	t.row("STATE", h.State)
	t.row("ENABLED", yes(h.Enabled))
	t.row("POOL", h.Pool)
	t.row("TRAITS", strings.Join(h.Traits, ", "))
	t.row("INSTANCES", h.Instances)
	t.row("GENERATION", h.Generation)
	t.row("CREATED", when(h.Created))
	t.row("UPDATED", when(h.Updated))
	classes := table{header: []string{"CLASS", "USED", "CAPACITY", "TOTAL", "RESERVED", "RATIO", "MIN", "MAX", "STEP"}}
	for _, c := range classesOf(h.Inventory) {
		v := h.Inventory[c].Normal()
		classes.row(c, h.Used[c], v.Capacity(), v.Total, v.Reserved,
			float64(v.AllocationRatio)/float64(api.RatioOne), v.MinUnit, v.MaxUnit, v.StepSize)
	}
	return []table{t, classes}
}

func hostEnable(e *env, name, short string, enabled bool) *cobra.Command {
	return &cobra.Command{
		Use:               name + " HOST",
		Short:             short,
		Example:           fmt.Sprintf("  berth host %s h1", name),
		Args:              takes("a HOST"),
		ValidArgsFunction: e.first(hostNames),
		RunE: e.calls(func(ctx context.Context, c *client.Client, args []string) error {
			return show(ctx, e, func(ctx context.Context) (api.Host, error) {
				return c.UpdateHost(ctx, args[0], client.HostSpec{Enabled: &enabled})
			}, hostTables)
		}),
	}
}

func hostSet(e *env) *cobra.Command {
	var pool string
	var generation uint64
	c := &cobra.Command{
		Use:               "set HOST --pool POOL",
		Short:             "Change which work a host takes",
		Example:           "  berth host set h1 --pool shared\n  berth host set h1 --pool reservable --generation 7",
		Args:              takes("a HOST"),
		ValidArgsFunction: e.first(hostNames),
	}
	c.Flags().StringVar(&pool, "pool", "", "on_demand, reservable or shared (needed)")
	c.Flags().Uint64Var(&generation, "generation", 0, "do it only if the host has not changed since this generation")
	pools := []string{string(api.PoolOnDemand), string(api.PoolReservable), string(api.PoolShared)}
	check(c.RegisterFlagCompletionFunc("pool", cobra.FixedCompletions(pools, cobra.ShellCompDirectiveNoFileComp)))
	c.RunE = e.calls(func(ctx context.Context, cl *client.Client, args []string) error {
		p := api.Pool(pool)
		if !p.Valid() {
			return usage(c, "--pool must be one of %s, got %q", strings.Join(pools, ", "), pool)
		}
		return show(ctx, e, func(ctx context.Context) (api.Host, error) {
			return cl.UpdateHost(ctx, args[0], client.HostSpec{Pool: &p, Generation: generation})
		}, hostTables)
	})
	return c
}

func hostDelete(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:               "delete HOST",
		Short:             "Forget a host that runs nothing",
		Example:           "  berth host delete h1 --yes",
		Args:              takes("a HOST"),
		ValidArgsFunction: e.first(hostNames),
	}
	s.flag(c)
	c.RunE = e.calls(func(ctx context.Context, c *client.Client, args []string) error {
		return e.destroy(ctx, s, "forget host", args[0], func(ctx context.Context) error { return c.DeleteHost(ctx, args[0]) })
	})
	return c
}
