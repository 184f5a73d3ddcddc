package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// parseWhole reads a whole number, 0 to api.AmountMax, in decimal digits.
func parseWhole(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n > api.AmountMax {
		return 0, false
	}
	return int64(n), true
}

// expected is --generation of verbs that write what they have read.
type expected struct{ generation uint64 }

func (x *expected) addFlag(c *cobra.Command) {
	c.Flags().Uint64Var(&x.generation, "generation", 0, "fail if the provider has changed since this generation")
}

// generationFor returns the generation to write at; now is the current one.
func (x *expected) generationFor(c *cobra.Command, now uint64) uint64 {
	if c.Flags().Changed("generation") {
		return x.generation
	}
	return now
}

// readAgain returns err with a hint if the generation has changed.
func readAgain(err error, with string) error {
	if api.CodeOf(err) == api.CodeStale {
		return withHint(err, "it has changed; read it again with "+with+", and repeat")
	}
	return err
}

// stockTable shows the inventory of a provider, and its usage if used is given.
func stockTable(v client.Inventories, used api.Resources) table {
	t := table{header: []string{"CLASS", "USED", "CAPACITY", "TOTAL", "RESERVED", "RATIO", "MIN", "MAX", "STEP"}}
	for _, c := range classesOf(v.Inventories) {
		i := api.Inventory(v.Inventories[c]).Normal()
		t.addRow(c, used[c], i.Capacity(), i.Total, i.Reserved, float64(i.AllocationRatio)/float64(api.RatioOne), i.MinUnit, i.MaxUnit, i.StepSize)
	}
	return t
}

// inventoryTables shows the inventory of a provider.
func inventoryTables(v client.Inventories) []table {
	t := stockTable(v, nil)
	t.header = slices.Delete(t.header, 1, 2) // the usage is not known
	for i := range t.rows {
		t.rows[i] = slices.Delete(t.rows[i], 1, 2)
	}
	return []table{generationTable(v.Generation), t}
}

// generationTable shows a generation.
func generationTable(generation uint64) table {
	var t table
	t.addRow("GENERATION", generation)
	return t
}

func providerInventory(e *env) *cobra.Command {
	return nounCommand("inventory", "See and change the inventory of a provider",
		&cobra.Command{
			Use:               "list PROVIDER",
			Short:             "Show the inventory of a provider, and its generation",
			Example:           "  berth provider inventory list pool1",
			Args:              exactArgs("a PROVIDER"),
			ValidArgsFunction: e.completeFirst(providerNames),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
				id, err := providerID(ctx, c, args[0])
				if err != nil {
					return err
				}
				return showList(ctx, e, "inventories", func(ctx context.Context) (client.Inventories, error) { return c.Inventories(ctx, id) }, inventoryTables)
			}),
		},
		inventorySet(e), inventoryUnset(e))
}

// stockOption is an option that may follow the total of a class.
type stockOption struct {
	least int64                        // the largest is api.UnitMax
	field func(*rest.Inventory) *int64 // the field to set
}

var stockOptions = map[string]stockOption{
	"reserved":  {0, func(v *rest.Inventory) *int64 { return &v.Reserved }},
	"min_unit":  {1, func(v *rest.Inventory) *int64 { return &v.MinUnit }},
	"max_unit":  {1, func(v *rest.Inventory) *int64 { return &v.MaxUnit }},
	"step_size": {1, func(v *rest.Inventory) *int64 { return &v.StepSize }},
}

// stockChange is one argument: a class with its new total, if any, and options.
type stockChange struct {
	class api.ResourceClass
	total bool // it has one
	apply []func(*rest.Inventory)
}

// parseStock reads one of "DISK_GB=1000:reserved=10,allocation_ratio=1.5", of which the total or the
// options may be absent.
func parseStock(c *cobra.Command, text string) (stockChange, error) {
	head, options, more := strings.Cut(text, ":")
	class, total, named := strings.Cut(head, "=")
	n, whole := parseWhole(total)
	if !api.ValidTrait(class) || named && (!whole || n < 1 || n > api.UnitMax) {
		return stockChange{}, usageError(c, "an inventory must look like DISK_GB=1000, with a whole number from 1 to %d, or like DISK_GB:reserved=10, got %q", api.UnitMax, text)
	}
	out := stockChange{class: api.ResourceClass(class), total: named}
	if named {
		out.apply = append(out.apply, func(v *rest.Inventory) { v.Total = n })
	}
	if !more {
		return out, nil
	}
	given := map[string]bool{}
	for _, o := range strings.Split(options, ",") {
		name, value, _ := strings.Cut(o, "=")
		if given[name] {
			return out, usageError(c, "%s of %s is given twice", name, class)
		}
		given[name] = true
		set, err := parseStockOption(c, class, name, value)
		if err != nil {
			return out, err
		}
		out.apply = append(out.apply, set)
	}
	return out, nil
}

// parseStockOption reads the value of one option of a class.
func parseStockOption(c *cobra.Command, class, name, value string) (func(*rest.Inventory), error) {
	if name == "allocation_ratio" {
		var ratio api.Ratio
		if ratio.UnmarshalJSON([]byte(value)) != nil || ratio <= 0 {
			return nil, usageError(c, "%s of %s must be a number from 0.0001 to %d, got %q", name, class, api.RatioMax/api.RatioOne, value)
		}
		return func(v *rest.Inventory) { v.AllocationRatio = ratio }, nil
	}
	o, known := stockOptions[name]
	if !known {
		return nil, usageError(c, "an inventory has no option %q; it has allocation_ratio, %s", name, strings.Join(slices.Sorted(maps.Keys(stockOptions)), ", "))
	}
	n, whole := parseWhole(value)
	if !whole || n < o.least || n > api.UnitMax {
		return nil, usageError(c, "%s of %s must be a whole number from %d to %d, got %q", name, class, o.least, api.UnitMax, value)
	}
	return func(v *rest.Inventory) { *o.field(v) = n }, nil
}

// stockFlags are --reserved and --ratio, which are for every class that is named.
type stockFlags struct {
	reserved int64
	ratio    string
}

func (f *stockFlags) add(c *cobra.Command) {
	c.Flags().Int64Var(&f.reserved, "reserved", 0, "reserve this amount of each given class")
	c.Flags().StringVar(&f.ratio, "ratio", "", "set the allocation ratio of each given class")
}

// changesOf returns what the flags change of a class.
func (f *stockFlags) changesOf(c *cobra.Command, class string) ([]func(*rest.Inventory), error) {
	var out []func(*rest.Inventory)
	for _, o := range []struct{ flag, name, value string }{
		{"reserved", "reserved", strconv.FormatInt(f.reserved, 10)}, {"ratio", "allocation_ratio", f.ratio},
	} {
		if !c.Flags().Changed(o.flag) {
			continue
		}
		set, err := parseStockOption(c, class, o.name, o.value)
		if err != nil {
			return nil, err
		}
		out = append(out, set)
	}
	return out, nil
}

// parseStocks reads args, each for another class.
func parseStocks(c *cobra.Command, args []string, flags *stockFlags) ([]stockChange, error) {
	var out []stockChange
	given := map[api.ResourceClass]bool{}
	for _, text := range args {
		s, err := parseStock(c, text)
		if err != nil {
			return nil, err
		}
		if given[s.class] {
			return nil, usageError(c, "%s is given twice", s.class)
		}
		given[s.class] = true
		more, err := flags.changesOf(c, string(s.class))
		if err != nil {
			return nil, err
		}
		if s.apply = append(more, s.apply...); len(s.apply) == 0 {
			return nil, usageError(c, "%q changes nothing: give a total, such as %s=1000, or an option, such as %s:reserved=10", text, text, text)
		}
		out = append(out, s)
	}
	return out, nil
}

// several arguments after the first.
func takesMore(first, more string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < 2 {
			return exactArgs(first, more)(c, args)
		}
		return nil
	}
}

func inventorySet(e *env) *cobra.Command {
	var x expected
	var only bool
	var flags stockFlags
	c := &cobra.Command{
		Use:   "set PROVIDER CLASS[=TOTAL][:OPTION=VALUE,...]...",
		Short: "Change the inventory of a provider",
		Long: `Change the given classes of a provider's inventory; other classes, and options that
are not given, stay as they are. With --only, all other classes are removed and every
option starts at its default. Options: reserved, allocation_ratio, min_unit, max_unit
and step_size; the default of min_unit is the step. Capacity is (total - reserved) x
allocation_ratio. The inventory is read and written back as a whole, at the generation
that was read: if another change came first, nothing is changed.

Of a class that the agent of a host reports, what is not set follows the agent: set the
reserve or the ratio without a total, and the total goes on with the machine. A value
that the agent reports, such as its total, is not set, and follows it again.`,
		Example: `  berth provider inventory set pool1 DISK_GB=1000:min_unit=5,step_size=10
  berth provider inventory set h1 MEMORY_MB --reserved 4096
  berth provider inventory set h1 VCPU --ratio 4
  berth provider inventory set h1-gpu0 PGPU=1 --only --generation 3`,
		Args:              takesMore("a PROVIDER", "a CLASS"),
		ValidArgsFunction: e.completeFirst(providerNames),
	}
	x.addFlag(c)
	flags.add(c)
	c.Flags().BoolVar(&only, "only", false, "remove all other classes, and start from the defaults")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		changes, err := parseStocks(c, args[1:], &flags)
		if err != nil {
			return err
		}
		err = e.changeInventories(ctx, c, cl, args[0], x, func(v map[api.ResourceClass]rest.Inventory) error {
			had := maps.Clone(v)
			if only {
				clear(v)
			}
			for _, s := range changes {
				now, has := v[s.class]
				if !has {
					now = rest.Inventory{Total: had[s.class].Total, Reserved: -1}
				}
				if now.Total == 0 && !s.total {
					return exitError(exitNotFound, "give its total too, such as "+string(s.class)+"=1000", "%s has no %s; nothing was changed", args[0], s.class)
				}
				for _, set := range s.apply {
					set(&now)
				}
				v[s.class] = now
			}
			return nil
		})
		if api.CodeOf(err) == api.CodeInvalid {
			return withHint(err, knownClasses)
		}
		return err
	})
	return c
}

func inventoryUnset(e *env) *cobra.Command {
	var x expected
	var all bool
	c := &cobra.Command{
		Use:   "unset PROVIDER [CLASS...]",
		Short: "Remove classes from the inventory of a provider",
		Long: `Remove classes from the inventory of a provider, or with --all every one. If one of
them has allocations, nothing is changed. Inventory that the agent of a host reports
cannot be removed.`,
		Example:           "  berth provider inventory unset pool1 DISK_GB\n  berth provider inventory unset pool1 --all",
		ValidArgsFunction: e.completeFirst(providerNames),
	}
	c.Args = anyOrAll(&all, "a PROVIDER", "a CLASS")
	x.addFlag(c)
	c.Flags().BoolVar(&all, "all", false, "remove all of them")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		err := e.changeInventories(ctx, c, cl, args[0], x, func(v map[api.ResourceClass]rest.Inventory) error {
			if all {
				clear(v)
			}
			for _, class := range args[1:] {
				if _, has := v[api.ResourceClass(class)]; !has {
					return exitError(exitNotFound, "list its inventory with: berth provider inventory list "+args[0], "%s has no %s; nothing was changed", args[0], class)
				}
			}
			for _, class := range args[1:] {
				delete(v, api.ResourceClass(class))
			}
			return nil
		})
		if api.CodeOf(err) == api.CodeConflict {
			return withHint(err, agentsWord)
		}
		return err
	})
	return c
}

// anyOrAll returns a check for one argument followed by others or by --all.
func anyOrAll(all *bool, first, more string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return exactArgs(first)(c, args)
		case *all && len(args) > 1:
			return usageError(c, "%q takes either --all or %q", c.CommandPath(), args[1])
		case !*all && len(args) == 1:
			return usageError(c, "%q needs %s, or --all", c.CommandPath(), more)
		}
		return nil
	}
}

// Hints about inventories, traits and classes.
const (
	knownClasses = "list the classes with berth resource-class list, and create others with: berth resource-class create"
	knownTraits  = "list the traits with berth trait list, and create others with: berth trait create"
	knownWords   = "see the valid names with: berth resource-class list, berth trait list"
	agentsWord   = "the agent reports it: change it there, or override it with: berth provider inventory set"
)

// changeInventories changes the inventory of a provider, at the generation that was read
// or is expected.
func (e *env) changeInventories(
	ctx context.Context, c *cobra.Command, cl *client.Client, ref string, x expected, change func(map[api.ResourceClass]rest.Inventory) error,
) error {
	id, err := providerID(ctx, cl, ref)
	if err != nil {
		return err
	}
	v, err := cl.Inventories(ctx, id)
	if err != nil {
		return err
	}
	if v.Inventories == nil {
		v.Inventories = map[api.ResourceClass]rest.Inventory{}
	}
	if err = change(v.Inventories); err != nil {
		return err
	}
	v.Generation = x.generationFor(c, v.Generation)
	err = showAnswer(ctx, e, func(ctx context.Context) (client.Inventories, error) { return cl.SetInventories(ctx, id, v) }, inventoryTables)
	return readAgain(inUse(err, ref), "berth provider inventory list "+ref)
}

func providerUsage(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "usage PROVIDER",
		Short:             "Show the usage of a provider",
		Example:           "  berth provider usage pool1",
		Args:              exactArgs("a PROVIDER"),
		ValidArgsFunction: e.completeFirst(providerNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := providerID(ctx, c, args[0])
			if err != nil {
				return err
			}
			var stock client.Inventories
			return showAnswer(ctx, e, func(seen context.Context) (client.ProviderUsages, error) {
				used, err := c.ProviderUsages(seen, id)
				if err == nil && e.format == formatTable {
					stock, err = c.Inventories(ctx, id)
				}
				return used, err
			}, func(u client.ProviderUsages) []table {
				t := table{header: []string{"CLASS", "USED", "CAPACITY", "FREE", "FULL"}}
				for _, class := range u.Usages.Classes() {
					used, all := u.Usages[class], api.Inventory(stock.Inventories[class]).Capacity()
					t.addRow(class, used, all, all-used, percentOf(used, all))
				}
				return []table{t}
			})
		}),
	}
}

// percentOf returns used as a percentage of all, "" if all is 0.
func percentOf(used, all int64) string {
	if all <= 0 {
		return ""
	}
	return fmt.Sprintf("%d%%", used*100/all)
}
