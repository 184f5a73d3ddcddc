package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/api/client"
	"berth/api/rest"
)

func aggregateCommand(e *env) *cobra.Command {
	c := nounCommand("aggregate", "See and change named sets of hosts (admins)",
		&cobra.Command{
			Use:     "list",
			Short:   "List aggregates",
			Example: "  berth aggregate list",
			Args:    exactArgs(),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
				return listAll(ctx, e, "aggregates", c.Aggregates, tableOf("NAME|HOSTS|METADATA|UPDATED", func(a rest.Aggregate) []any {
					return []any{a.Name, len(a.Hosts), sortedPairs(a.Metadata), showInstant(a.Updated)}
				}))
			}),
		},
		&cobra.Command{
			Use:               "show AGGREGATE",
			Short:             "Show one aggregate and its hosts",
			Example:           "  berth aggregate show rack1",
			Args:              exactArgs("an AGGREGATE"),
			ValidArgsFunction: e.completeFirst(aggregateNames),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
				return showAnswer(ctx, e, func(ctx context.Context) (rest.Aggregate, error) { return c.Aggregate(ctx, args[0]) }, aggregateTables)
			}),
		},
		aggregateCreate(e), aggregateSet(e), aggregateDelete(e),
		aggregateHosts(e, "add-host", "Add hosts to an aggregate", func(have, named []string) []string {
			return slices.Compact(slices.Sorted(slices.Values(slices.Concat(have, named))))
		}),
		aggregateHosts(e, "remove-host", "Remove hosts from an aggregate", func(have, named []string) []string {
			return slices.DeleteFunc(have, func(h string) bool { return slices.Contains(named, h) })
		}),
	)
	c.Aliases = []string{"aggregates"}
	return c
}

func aggregateTables(a rest.Aggregate) []table {
	var t table
	t.addRow("NAME", a.Name)
	t.addRow("ID", a.ID)
	t.addRow("METADATA", sortedPairs(a.Metadata))
	t.addRow("HOSTS", strings.Join(a.Hosts, ", "))
	t.addRow("CREATED", showInstant(a.Created))
	t.addRow("UPDATED", showInstant(a.Updated))
	return []table{t}
}

func aggregateCreate(e *env) *cobra.Command {
	var metadata, hosts []string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create an aggregate",
		Long: `Create an aggregate: a named set of hosts. Filters read this metadata:
availability_zone puts the hosts into an availability zone; filter_project_id, or any
key with that prefix, reserves them for the projects listed, separated by commas.`,
		Example: "  berth aggregate create rack1 --metadata availability_zone=az1 --host h1 --host h2",
		Args:    exactArgs("a NAME"),
	}
	c.Flags().StringArrayVar(&metadata, "metadata", nil, "`KEY=VALUE`; may be repeated")
	c.Flags().StringArrayVar(&hosts, "host", nil, "`HOST` to put into it; may be repeated")
	e.flagNames(c, "host", hostNames)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		m, err := readPairs(c, "metadata", metadata)
		if err != nil {
			return err
		}
		s := rest.AggregateSpec{Name: &args[0], Metadata: m}
		if len(hosts) > 0 {
			s.Hosts = &hosts
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.Aggregate, error) { return cl.CreateAggregate(ctx, s) }, aggregateTables)
	})
	return c
}

func aggregateSet(e *env) *cobra.Command {
	var metadata []string
	var name string
	c := &cobra.Command{
		Use:   "set AGGREGATE",
		Short: "Change the name or metadata of an aggregate",
		Long: `Change the name or metadata of an aggregate; all else stays as it is. An empty
value removes a key. The metadata are read and written back as a whole: of two
concurrent changes the later one wins.`,
		Example:           "  berth aggregate set rack1 --metadata availability_zone=az2 --metadata ssd=",
		Args:              exactArgs("an AGGREGATE"),
		ValidArgsFunction: e.completeFirst(aggregateNames),
	}
	c.Flags().StringVar(&name, "name", "", "new name")
	c.Flags().StringArrayVar(&metadata, "metadata", nil, "`KEY=VALUE`; may be repeated; an empty value removes the key")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		m, err := readPairs(c, "metadata", metadata)
		if err != nil {
			return err
		}
		if name == "" && len(m) == 0 {
			return usageError(c, "%q needs something to set", c.CommandPath())
		}
		var s rest.AggregateSpec
		if name != "" {
			s.Name = &name
		}
		if len(m) > 0 {
			old, err := cl.Aggregate(ctx, args[0])
			if err != nil {
				return err
			}
			if s.Metadata = old.Metadata; s.Metadata == nil {
				s.Metadata = map[string]string{}
			}
			for k, v := range m {
				setOrRemove(s.Metadata, k, v)
			}
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.Aggregate, error) { return cl.UpdateAggregate(ctx, args[0], s) }, aggregateTables)
	})
	return c
}

func aggregateDelete(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:               "delete AGGREGATE",
		Short:             "Delete an aggregate; its hosts stay",
		Example:           "  berth aggregate delete rack1 --yes",
		Args:              exactArgs("an AGGREGATE"),
		ValidArgsFunction: e.completeFirst(aggregateNames),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		return e.confirmAndDelete(ctx, s, "delete aggregate", args[0], func(ctx context.Context) error { return c.DeleteAggregate(ctx, args[0]) })
	})
	return c
}

// aggregateHosts returns a verb that changes the hosts of an aggregate.
func aggregateHosts(e *env, name, short string, change func(have, named []string) []string) *cobra.Command {
	c := &cobra.Command{
		Use:   name + " AGGREGATE HOST...",
		Short: short,
		Long: short + `. The list of hosts is read and written back as a whole:
of two concurrent changes the later one wins.`,
		Example:           "  berth aggregate " + name + " rack1 h1 h2",
		ValidArgsFunction: e.firstThen(aggregateNames, hostNames),
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) < 2 {
			return exactArgs("an AGGREGATE", "a HOST")(c, args)
		}
		return nil
	}
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		old, err := cl.Aggregate(ctx, args[0])
		if err != nil {
			return err
		}
		hosts := append([]string{}, change(old.Hosts, args[1:])...)
		return showAnswer(ctx, e, func(ctx context.Context) (rest.Aggregate, error) {
			return cl.UpdateAggregate(ctx, args[0], rest.AggregateSpec{Hosts: &hosts})
		}, aggregateTables)
	})
	return c
}

func azCommand(e *env) *cobra.Command {
	c := nounCommand("availability-zone", "See which availability zones boots may ask for", &cobra.Command{
		Use:     "list",
		Short:   "List the availability zones of this zone and of those below",
		Example: "  berth availability-zone list",
		Args:    exactArgs(),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return listAll(ctx, e, "availability_zones", c.AvailabilityZones, tableOf("NAME|AVAILABLE|ZONES", func(a rest.AvailabilityZone) []any {
				return []any{a.Name, showBool(a.Available), strings.Join(a.Zones, ", ")}
			}))
		}),
	})
	c.Aliases = []string{"availability-zones", "az"}
	return c
}
