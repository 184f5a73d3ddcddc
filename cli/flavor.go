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

func flavorCommand(e *env) *cobra.Command {
	c := nounCommand("flavor", "See and change the shapes that instances can have",
		&cobra.Command{
			Use:     "list",
			Short:   "List flavors",
			Example: "  berth flavor list",
			Args:    exactArgs(),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
				return listAll(ctx, e, "flavors", c.Flavors, tableOf("NAME|RESOURCES|PROPERTIES", func(f rest.Flavor) []any {
					return []any{f.Name, f.Resources, sortedPairs(f.ExtraSpecs)}
				}))
			}),
		},
		&cobra.Command{
			Use:               "show FLAVOR",
			Short:             "Show one flavor",
			Example:           "  berth flavor show small",
			Args:              exactArgs("a FLAVOR"),
			ValidArgsFunction: e.completeFirst(flavorNames),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
				return showAnswer(ctx, e, func(ctx context.Context) (rest.Flavor, error) {
					return c.Flavor(ctx, api.FlavorID(args[0]))
				}, flavorTables)
			}),
		},
		flavorCreate(e), flavorUpdate(e), flavorDelete(e),
	)
	c.Aliases = []string{"flavors"}
	return c
}

func flavorTables(f rest.Flavor) []table {
	var t table
	t.addRow("NAME", f.Name)
	t.addRow("RESOURCES", f.Resources)
	t.addRow("PROPERTIES", sortedPairs(f.ExtraSpecs))
	if len(f.Command) > 0 {
		t.addRow("COMMAND", fmt.Sprintf("%q", f.Command))
	}
	t.addRow("CREATED", showInstant(f.Created))
	return []table{t}
}

// shape holds the flags about a flavor.
type shape struct {
	vcpus                int64
	ram, disk            string
	resource, properties []string
	command              bool
}

func (s *shape) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.Int64Var(&s.vcpus, "vcpus", 0, "virtual processors")
	f.StringVar(&s.ram, "ram", "", "memory, such as 512M or 0.5G; without a unit MiB")
	f.StringVar(&s.disk, "disk", "", "local disk, such as 10G or 1T; without a unit GiB")
	f.StringArrayVar(&s.resource, "resource", nil, "`CLASS=AMOUNT` of another resource class; may be repeated; 0 removes it")
	f.StringArrayVar(&s.properties, "property", nil, "extra spec `KEY=VALUE`; may be repeated; an empty value removes it")
	f.BoolVar(&s.command, "command", false, "take the program that the process driver runs, and its arguments, from after --")
}

// applyFlags changes spec as the flags require.
func (s *shape) applyFlags(c *cobra.Command, spec *rest.FlavorSpec, rest []string) error {
	spec.Resources = maps.Clone(spec.Resources)
	if spec.Resources == nil {
		spec.Resources = api.Resources{}
	}
	if err := s.setStandard(c, spec.Resources); err != nil {
		return err
	}
	amounts, err := readPairs(c, "resource", s.resource)
	if err != nil {
		return err
	}
	for class, text := range amounts {
		n, bad := strconv.ParseInt(text, 10, 64)
		if bad != nil || n < 0 {
			return usageError(c, "--resource %s needs a whole number, got %q", class, text)
		}
		setOrRemove(spec.Resources, api.ResourceClass(class), n)
	}
	properties, err := readPairs(c, "property", s.properties)
	if err != nil {
		return err
	}
	spec.ExtraSpecs = maps.Clone(spec.ExtraSpecs)
	if spec.ExtraSpecs == nil {
		spec.ExtraSpecs = map[string]string{}
	}
	for k, v := range properties {
		setOrRemove(spec.ExtraSpecs, k, v)
	}
	switch {
	case s.command:
		spec.Command = rest
	case len(rest) > 0:
		return usageError(c, "words after -- need --command")
	}
	return nil
}

// setStandard sets the amounts that have a flag of their own.
func (s *shape) setStandard(c *cobra.Command, r api.Resources) error {
	if c.Flags().Changed("vcpus") {
		if s.vcpus < 0 || s.vcpus > api.AmountMax {
			return usageError(c, "--vcpus must be 0 to %d, got %d", int64(api.AmountMax), s.vcpus)
		}
		setOrRemove(r, api.VCPU, s.vcpus)
	}
	for _, size := range []struct {
		flag, text, unit string
		class            api.ResourceClass
		mib              float64
	}{{"ram", s.ram, "MiB", api.MemoryMB, 1}, {"disk", s.disk, "GiB", api.DiskGB, 1 << 10}} {
		if !c.Flags().Changed(size.flag) {
			continue
		}
		n, ok := ParseSize(size.text, size.mib)
		if !ok && size.text != "0" {
			return usageError(c, "--%s must be a whole number of %s, such as 2G, got %q", size.flag, size.unit, size.text)
		}
		setOrRemove(r, size.class, n)
	}
	return nil
}

// setOrRemove sets m[k], or removes it for the zero value.
func setOrRemove[K, V comparable](m map[K]V, k K, v V) {
	var zero V
	if v == zero {
		delete(m, k)
		return
	}
	m[k] = v
}

// oneThenCommand checks arguments: one name and then, after --, a command.
func oneThenCommand(c *cobra.Command, args []string) error {
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		args = args[:dash]
	}
	return exactArgs("a FLAVOR")(c, args)
}

func flavorCreate(e *env) *cobra.Command {
	var s shape
	c := &cobra.Command{
		Use:   "create FLAVOR [--command -- PROGRAM ARGS...]",
		Short: "Create a flavor",
		Example: `  berth flavor create small --vcpus 1 --ram 512M --disk 10G
  berth flavor create gpu --vcpus 8 --ram 64G --resource CUSTOM_GPU=1 --property trait:CUSTOM_NVLINK=required
  berth flavor create sleeper --vcpus 1 --ram 64M --command -- /bin/sleep 3600`,
		Args: oneThenCommand,
	}
	s.addFlags(c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		spec := rest.FlavorSpec{Name: args[0]}
		if err := s.applyFlags(c, &spec, args[1:]); err != nil {
			return err
		}
		err := showAnswer(ctx, e, func(ctx context.Context) (rest.Flavor, error) { return cl.CreateFlavor(ctx, spec) }, flavorTables)
		if err == nil {
			e.noteMissingClasses(ctx, cl, spec.Resources)
		}
		return err
	})
	return c
}

// noteMissingClasses says which classes no host has, as far as the zone knows: a name may be mistyped, or its hosts
// yet to come.
func (e *env) noteMissingClasses(ctx context.Context, cl *client.Client, want api.Resources) {
	special := slices.ContainsFunc(want.Classes(), func(c api.ResourceClass) bool {
		return c != api.VCPU && c != api.MemoryMB && c != api.DiskGB
	})
	if !special {
		return
	}
	info, err := cl.ZoneInfo(ctx)
	if err != nil || info.Digest == nil || info.Digest.Partial {
		return // the flavor is made, and this is a hint
	}
	for _, c := range want.Classes() {
		if _, ok := info.Digest.Classes[c]; !ok {
			e.printNote("no host here or below has %s: until one has, nothing of this flavor can be booted", c)
		}
	}
}

func flavorUpdate(e *env) *cobra.Command {
	var s shape
	c := &cobra.Command{
		Use:   "update FLAVOR [--command -- PROGRAM ARGS...]",
		Short: "Change a flavor; running instances are not affected",
		Long: `Change a flavor; fields without a flag stay as they are, and running instances are not
affected. The flavor is read and written back as a whole: of two concurrent changes
the later one wins.`,
		Example:           "  berth flavor update small --ram 1G --property trait:CUSTOM_NVLINK=",
		Args:              oneThenCommand,
		ValidArgsFunction: e.completeFirst(flavorNames),
	}
	s.addFlags(c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		id := api.FlavorID(args[0])
		old, err := cl.Flavor(ctx, id)
		if err != nil {
			return err
		}
		spec := rest.FlavorSpec{Name: old.Name, Resources: old.Resources, ExtraSpecs: old.ExtraSpecs, Command: old.Command}
		if err := s.applyFlags(c, &spec, args[1:]); err != nil {
			return err
		}
		err = showAnswer(ctx, e, func(ctx context.Context) (rest.Flavor, error) { return cl.UpdateFlavor(ctx, id, spec) }, flavorTables)
		if err == nil {
			e.noteMissingClasses(ctx, cl, spec.Resources)
		}
		return err
	})
	return c
}

func flavorDelete(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:               "delete FLAVOR",
		Short:             "Delete a flavor; running instances are not affected",
		Example:           "  berth flavor delete small --yes",
		Args:              exactArgs("a FLAVOR"),
		ValidArgsFunction: e.completeFirst(flavorNames),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		return e.confirmAndDelete(ctx, s, "delete flavor", args[0], func(ctx context.Context) error {
			return cl.DeleteFlavor(ctx, api.FlavorID(args[0]))
		})
	})
	return c
}

// confirmAndDelete asks for confirmation, calls do and reports success. What is an
// action, such as "delete flavor".
func (e *env) confirmAndDelete(ctx context.Context, s sure, what, name string, do func(context.Context) error) error {
	if err := e.confirmAction(ctx, s, fmt.Sprintf("%s %q", what, name)); err != nil {
		return err
	}
	answered := e.noteWaiting()
	err := do(ctx)
	answered()
	if err != nil {
		return err
	}
	e.printNote("done: %s %s", what, stripControls(strings.TrimSpace(name)))
	return nil
}
