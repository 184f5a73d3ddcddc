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
			Short: "Show which filters and costs the zone runs, and which there are",
			Long: `Show lists the filters that drop hosts, in the order in which they run, and the
costs that rank what is left, with their weights; then what else there is, and the
options of filters.`,
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
	others := table{title: "What else there is", header: []string{"KIND", "NAME", "WHAT IT DOES"}}
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
	t := table{title: "Options of filters", header: []string{"FILTER", "OPTION", "NEEDED", "WHAT IT SAYS", "EXAMPLE"}}
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
		Short: "Change which filters run, in which order, and what costs weigh",
		Long: `Set replaces the list of filters if --filter is given, the list of costs if --cost
is given, and keeps the other. Options follow a colon: --filter instances:max=50,
--cost attribute=2:attribute=price,scale=100. With --file both lists are read from a
file in YAML or JSON, as "berth scheduler show" prints it; with --reset the zone runs
what it would run by default.

A list is given as a whole: a filter that --filter does not name is switched off. To
change one thing and keep the rest, change the file. A wish of a caller whose filter
is switched off, such as traits or query, is refused, not passed over: the zone turns
all its hosts away under the name of that filter, as not allowed.`,
		Example: `  berth scheduler show -o yaml > s.yaml && "$EDITOR" s.yaml && berth scheduler set --file s.yaml
  berth scheduler set --cost spread=1 --cost attribute=2:attribute=price
  berth scheduler set --reset`,
		Args: exactArgs(),
	}
	f := c.Flags()
	f.StringArrayVar(&filters, "filter", nil, "`NAME[:OPTION=VALUE,...]` of a filter; may be repeated, in the order in which they run; all others are switched off")
	f.StringArrayVar(&costs, "cost", nil, "`NAME=WEIGHT[:OPTION=VALUE,...]` of a cost; may be repeated; below 0 reverses it")
	f.StringVar(&file, "file", "", "`FILE` in YAML or JSON with both lists; - reads standard input")
	f.BoolVar(&reset, "reset", false, "run what a zone runs by default")
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

// wantedScheduler returns what the flags say that the zone shall run.
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

// schedulerFile reads a file as berth scheduler show prints it. What is known need
// not be in it.
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
		return rest.Scheduler{}, exitError(exitUsage, "make one with: berth scheduler show -o yaml", "%s: %w", path, err)
	}
	if file.Scheduler == nil {
		return rest.Scheduler{}, exitError(exitUsage, "make one with: berth scheduler show -o yaml", "%s holds no scheduler", path)
	}
	return *file.Scheduler, nil
}

// readOptions reads OPTION=VALUE,... and an option's value goes on over commas up to
// the next that has a name.
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

func filterNames(ctx context.Context, c *client.Client) ([]string, error) {
	s, err := c.Scheduler(ctx)
	var out []string
	for _, f := range s.Known.Filters {
		out = append(out, f.Name+"\t"+f.Help)
	}
	return out, err
}

func costNames(ctx context.Context, c *client.Client) ([]string, error) {
	s, err := c.Scheduler(ctx)
	var out []string
	for _, k := range s.Known.Costs {
		out = append(out, fmt.Sprintf("%s=1\t%s", k.Name, k.Help))
	}
	return out, err
}
