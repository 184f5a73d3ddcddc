package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"berth/api/client"
	"berth/api/rest"
)

func schedulerCommand(e *env) *cobra.Command {
	return nounCommand("scheduler", "See and change how the zone chooses hosts (admins)",
		&cobra.Command{
			Use:   "show",
			Short: "Show the filters and costs of the zone, and all that are available",
			Long: `Show the filters that drop hosts, in the order in which they run, and the costs that
rank the remaining hosts, with their weights; then the filters and costs that are
available but not in use, and the options of filters.`,
			Example: "  berth scheduler show\n  berth scheduler show -o yaml > scheduler.yaml",
			Args:    exactArgs(),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
				return showAnswer(ctx, e, c.Scheduler, schedulerTables)
			}),
		},
		schedulerSet(e),
	)
}

func schedulerTables(s rest.SchedulerAnswer) []table {
	help := map[string]string{}
	runs := map[string]bool{}
	for _, f := range s.Known.Filters {
		help["filter "+f.Name] = f.Help
	}
	for _, c := range s.Known.Costs {
		help["cost "+c.Name] = c.Help
	}
	filters := table{header: []string{"FILTER", "OPTIONS", "WHAT IT DOES"}}
	for _, f := range s.Scheduler.Filters {
		filters.addRow(f.Name, sortedPairs(f.Options), help["filter "+f.Name])
		runs["filter "+f.Name] = true
	}
	costs := table{header: []string{"COST", "WEIGHT", "OPTIONS", "WHAT IT COUNTS"}}
	for _, c := range s.Scheduler.Costs {
		costs.addRow(c.Name, c.Weight, sortedPairs(c.Options), help["cost "+c.Name])
		runs["cost "+c.Name] = true
	}
	others := table{title: "Available, but not in use", header: []string{"KIND", "NAME", "WHAT IT DOES"}}
	for _, f := range s.Known.Filters {
		if !runs["filter "+f.Name] {
			others.addRow("filter", f.Name, f.Help)
		}
	}
	for _, c := range s.Known.Costs {
		if !runs["cost "+c.Name] {
			others.addRow("cost", c.Name, c.Help)
		}
	}
	out := []table{filters, costs}
	for _, t := range []table{others, optionTable(s.Known.Filters)} {
		if len(t.rows) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// optionTable shows the options that filters take.
func optionTable(known []rest.FilterInfo) table {
	t := table{title: "Options of filters", header: []string{"FILTER", "OPTION", "REQUIRED", "MEANING", "EXAMPLE"}}
	for _, f := range known {
		for _, o := range f.Options {
			t.addRow(f.Name, o.Name, showBool(o.Required), o.Help, exampleOf(f.Example))
		}
	}
	return t
}

// exampleOf returns a filter as --filter takes it.
func exampleOf(f rest.FilterSpec) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(f.Options)) {
		parts = append(parts, name+"="+f.Options[name])
	}
	return "--filter " + f.Name + ":" + strings.Join(parts, ",")
}

func schedulerSet(e *env) *cobra.Command {
	var filters, costs []string
	var file string
	var reset bool
	c := &cobra.Command{
		Use:   "set",
		Short: "Change the filters, their order, and the weights of costs",
		Long: `Replace the list of filters with --filter, the list of costs with --cost, or both; a
list without a flag stays. Options follow a colon: --filter instances:max=50,
--cost attribute=2:attribute=price,scale=100. --file reads both lists from a file in
YAML or JSON, as printed by "berth scheduler show"; --reset restores the defaults.

A list is replaced as a whole: a filter not given with --filter is switched off. To
change one entry and keep the rest, edit the file. A request that needs a filter that
is switched off, such as traits or query, is refused, not served without it: all hosts
of the zone count as turned away by that filter, as not allowed.`,
		Example: `  berth scheduler show -o yaml > s.yaml && "$EDITOR" s.yaml && berth scheduler set --file s.yaml
  berth scheduler set --cost spread=1 --cost attribute=2:attribute=price
  berth scheduler set --reset`,
		Args: exactArgs(),
	}
	f := c.Flags()
	f.StringArrayVar(&filters, "filter", nil, "filter as `NAME[:OPTION=VALUE,...]`; may be repeated, in the order to run them; all others are switched off")
	f.StringArrayVar(&costs, "cost", nil, "cost as `NAME=WEIGHT[:OPTION=VALUE,...]`; may be repeated; a weight below 0 reverses it")
	f.StringVar(&file, "file", "", "`FILE` in YAML or JSON with both lists, - for standard input")
	f.BoolVar(&reset, "reset", false, "restore the default filters and costs")
	e.flagNames(c, "filter", filterNames)
	e.flagNames(c, "cost", costNames)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		s, err := wantedScheduler(ctx, e, cl, c, filters, costs, file, reset)
		if err != nil {
			return err
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.SchedulerAnswer, error) { return cl.SetScheduler(ctx, s) }, schedulerTables)
	})
	return c
}

// wantedScheduler returns the filters and costs that the flags ask for.
func wantedScheduler(
	ctx context.Context, e *env, cl *client.Client, c *cobra.Command, filters, costs []string, file string, reset bool,
) (rest.Scheduler, error) {
	var s rest.Scheduler
	ways := 0
	for _, given := range []bool{len(filters)+len(costs) > 0, file != "", reset} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		return s, usageError(c, "%q needs --filter or --cost, or --file, or --reset", c.CommandPath())
	case reset:
		return rest.Scheduler{Filters: []rest.FilterSpec{}, Costs: []rest.CostWeight{}}, nil
	case file != "":
		return schedulerFile(e, file)
	}
	wantFilters, err := filterSpecs(c, filters)
	if err != nil {
		return s, err
	}
	weights, err := costWeights(c, costs)
	if err != nil {
		return s, err
	}
	old, err := cl.Scheduler(ctx)
	if err != nil {
		return s, err
	}
	s = old.Scheduler
	if len(filters) > 0 {
		s.Filters = wantFilters
	}
	if len(costs) > 0 {
		s.Costs = weights
	}
	return s, nil
}

// schedulerFile reads a file as berth scheduler show prints it. The field known is
// optional.
func schedulerFile(e *env, path string) (rest.Scheduler, error) {
	b, err := ReadYAML(e.in, path)
	if err != nil {
		return rest.Scheduler{}, exitError(exitUsage, "", "reading the scheduler: %w", err)
	}
	var file struct {
		Scheduler *rest.Scheduler `json:"scheduler"`
		Known     any             `json:"known"`
	}
	if err := strictYAML(b, &file); err != nil {
		return rest.Scheduler{}, exitError(exitUsage, "create one with: berth scheduler show -o yaml", "%s: %w", path, err)
	}
	if file.Scheduler == nil {
		return rest.Scheduler{}, exitError(exitUsage, "create one with: berth scheduler show -o yaml", "%s holds no scheduler", path)
	}
	return *file.Scheduler, nil
}

// readOptions reads OPTION=VALUE,... where a value may contain commas: a part without =
// continues the value before it.
func readOptions(c *cobra.Command, flag, text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	var given []string
	for _, part := range strings.Split(text, ",") {
		if !strings.Contains(part, "=") && len(given) > 0 {
			given[len(given)-1] += "," + part
			continue
		}
		given = append(given, part)
	}
	return readPairs(c, flag, given)
}

// filterSpecs reads flags of the form NAME[:OPTION=VALUE,...], in their order.
func filterSpecs(c *cobra.Command, given []string) ([]rest.FilterSpec, error) {
	var out []rest.FilterSpec
	for _, g := range given {
		name, text, _ := strings.Cut(g, ":")
		o, err := readOptions(c, "filter", text)
		if err != nil {
			return nil, err
		}
		out = append(out, rest.FilterSpec{Name: name, Options: o})
	}
	return out, nil
}

// costWeights reads flags of the form NAME=WEIGHT[:OPTION=VALUE,...], in their order.
func costWeights(c *cobra.Command, given []string) ([]rest.CostWeight, error) {
	var out []rest.CostWeight
	for _, g := range given {
		name, value, _ := strings.Cut(g, "=")
		number, text, _ := strings.Cut(value, ":")
		n, err := strconv.ParseInt(number, 10, 64)
		if name == "" || err != nil {
			return nil, usageError(c, "--cost must look like spread=2, got %q", g)
		}
		o, err := readOptions(c, "cost", text)
		if err != nil {
			return nil, err
		}
		out = append(out, rest.CostWeight{Name: name, Weight: n, Options: o})
	}
	return out, nil
}

func filterNames(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	s, err := c.Scheduler(ctx)
	var out []string
	for _, f := range s.Known.Filters {
		out = append(out, f.Name+"\t"+f.Help)
	}
	return out, err
}

func costNames(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	s, err := c.Scheduler(ctx)
	var out []string
	for _, k := range s.Known.Costs {
		out = append(out, fmt.Sprintf("%s=1\t%s", k.Name, k.Help))
	}
	return out, err
}
