package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
)

// marks are the traits or the aggregates of a provider at one of its generations.
type marks struct {
	generation uint64
	list       []string
}

// marking describes one kind of marks: how to read, write and name them.
type marking struct {
	noun, short string // such as "trait"
	one, none   string // in usage and help
	names       names  // completes them
	of, example string
	read        func(context.Context, *client.Client, api.ProviderID) (marks, error)
	write       func(context.Context, *client.Client, api.ProviderID, marks) (marks, error)
	resolve     func(context.Context, *client.Client, string) (string, error) // of what a caller wrote
	called      func(context.Context, *client.Client) (map[string]string, error)
}

// aggregatesCalled returns the names of the aggregates of operators, by UUID.
func aggregatesCalled(ctx context.Context, c *client.Client) (map[string]string, error) {
	out := map[string]string{}
	for o := (client.ListOptions{}); ; {
		p, err := c.Aggregates(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, a := range p.Items {
			out[string(a.ID)] = a.Name
		}
		if p.Next == "" {
			return out, nil
		}
		o.Marker = p.Next
	}
}

func providerTrait(e *env) *cobra.Command {
	return e.markCommand(marking{
		noun: "trait", short: "See and change the traits of a provider", one: "a TRAIT", none: "traits", names: traitNames, of: "h1", example: "CUSTOM_SSD",
		read: func(ctx context.Context, c *client.Client, id api.ProviderID) (marks, error) {
			t, err := c.ProviderTraits(ctx, id)
			return marks{t.Generation, t.Traits}, err
		},
		write: func(ctx context.Context, c *client.Client, id api.ProviderID, m marks) (marks, error) {
			t, err := c.SetProviderTraits(ctx, id, client.ProviderTraits{Generation: m.generation, Traits: m.list})
			if api.CodeOf(err) == api.CodeInvalid {
				err = withHint(err, knownTraits)
			}
			return marks{t.Generation, t.Traits}, err
		},
		resolve: func(_ context.Context, _ *client.Client, ref string) (string, error) {
			if !api.ValidTrait(ref) {
				return "", exitError(exitUsage, knownTraits, "a trait must be at most %d upper case letters, digits and _, got %q", api.ExtraSpecMaxBytes, shorten(ref))
			}
			return ref, nil
		},
	})
}

func providerAggregate(e *env) *cobra.Command {
	return e.markCommand(marking{
		noun: "aggregate", short: "See and change which aggregates a provider is in", one: "an AGGREGATE", none: "aggregates", names: aggregateNames, of: "pool1", example: "rack1",
		read: func(ctx context.Context, c *client.Client, id api.ProviderID) (marks, error) {
			a, err := c.ProviderAggregates(ctx, id)
			return marks{a.Generation, a.Aggregates}, err
		},
		write: func(ctx context.Context, c *client.Client, id api.ProviderID, m marks) (marks, error) {
			a, err := c.SetProviderAggregates(ctx, id, client.ProviderAggregates{Generation: m.generation, Aggregates: m.list})
			return marks{a.Generation, a.Aggregates}, err
		},
		resolve: aggregateID,
		called:  aggregatesCalled,
	})
}

// markCommand returns the verbs for marks of one kind.
func (e *env) markCommand(k marking) *cobra.Command {
	return nounCommand(k.noun, k.short,
		&cobra.Command{
			Use:               "list PROVIDER",
			Short:             "Show the " + k.none + " of a provider, and its generation",
			Example:           "  berth provider " + k.noun + " list " + k.of,
			Args:              exactArgs("a PROVIDER"),
			ValidArgsFunction: e.completeFirst(providerNames),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
				id, err := providerID(ctx, c, args[0])
				if err != nil {
					return err
				}
				return e.showMarks(ctx, c, k, func(ctx context.Context) (marks, error) { return k.read(ctx, c, id) })
			}),
		},
		e.marksSet(k), e.marksUnset(k))
}

// showMarks makes a call that returns marks, and shows them.
func (e *env) showMarks(ctx context.Context, c *client.Client, k marking, call func(context.Context) (marks, error)) error {
	var called map[string]string
	return showList(ctx, e, k.none, func(seen context.Context) (marks, error) {
		m, err := call(seen)
		if err == nil && k.called != nil && len(m.list) > 0 && (e.list.isGiven() || e.printsTables()) {
			called, err = k.called(ctx, c)
		}
		return m, err
	}, func(m marks) []table {
		t := table{header: []string{"NAME"}}
		if k.called != nil {
			t.header = append(t.header, "UUID")
		}
		t.of = countUp(len(m.list))
		slices.SortStableFunc(t.of, func(a, b int) int { return strings.Compare(m.list[a], m.list[b]) })
		for _, one := range permute(m.list, t.of) {
			if k.called == nil {
				t.addRow(one)
			} else {
				t.addRow(called[one], one)
			}
		}
		return []table{generationTable(m.generation), t}
	})
}

// changeMarks changes the marks of a provider, at the generation that is read or expected.
func (e *env) changeMarks(
	ctx context.Context, c *cobra.Command, cl *client.Client, k marking, args []string, x expected, change func(have, named []string) ([]string, error),
) error {
	id, err := providerID(ctx, cl, args[0])
	if err != nil {
		return err
	}
	var named []string
	for _, ref := range args[1:] {
		one, unknown := k.resolve(ctx, cl, ref)
		if unknown != nil {
			return unknown
		}
		named = append(named, one)
	}
	m, err := k.read(ctx, cl, id)
	if err != nil {
		return err
	}
	if m.list, err = change(m.list, named); err != nil {
		return err
	}
	m.list = slices.Compact(slices.Sorted(slices.Values(m.list)))
	m.generation = x.generationFor(c, m.generation)
	err = e.showMarks(ctx, cl, k, func(ctx context.Context) (marks, error) { return k.write(ctx, cl, id, m) })
	if api.CodeOf(err) == api.CodeConflict {
		return withHint(err, "those from its agent or from an aggregate of operators are changed there")
	}
	return readAgain(err, "berth provider "+k.noun+" list "+args[0])
}

func (e *env) marksSet(k marking) *cobra.Command {
	var x expected
	var only bool
	c := &cobra.Command{
		Use:   "set PROVIDER " + strings.ToUpper(k.noun) + "...",
		Short: "Add " + k.none + " to a provider",
		Long: `Add ` + k.none + ` to a provider; with --only, remove all others. They are read and written
back as a whole, at the generation that was read: if another change came first,
nothing is changed.`,
		Example:           "  berth provider " + k.noun + " set " + k.of + " " + k.example + "\n  berth provider " + k.noun + " set " + k.of + " " + k.example + " --only --generation 3",
		Args:              takesMore("a PROVIDER", k.one),
		ValidArgsFunction: e.firstThen(providerNames, k.names),
	}
	x.addFlag(c)
	c.Flags().BoolVar(&only, "only", false, "remove all others")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		return e.changeMarks(ctx, c, cl, k, args, x, func(have, named []string) ([]string, error) {
			if only {
				return named, nil
			}
			return slices.Concat(have, named), nil
		})
	})
	return c
}

func (e *env) marksUnset(k marking) *cobra.Command {
	var x expected
	var all bool
	c := &cobra.Command{
		Use:   "unset PROVIDER [" + strings.ToUpper(k.noun) + "...]",
		Short: "Remove " + k.none + " from a provider",
		Long: `Remove ` + k.none + ` from a provider, or with --all every one. Those from the agent of a
host or from an aggregate of operators stay, and cannot be removed here.`,
		Example:           "  berth provider " + k.noun + " unset " + k.of + " " + k.example + "\n  berth provider " + k.noun + " unset " + k.of + " --all",
		Args:              anyOrAll(&all, "a PROVIDER", k.one),
		ValidArgsFunction: e.firstThen(providerNames, k.names),
	}
	x.addFlag(c)
	c.Flags().BoolVar(&all, "all", false, "remove all of them")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		return e.changeMarks(ctx, c, cl, k, args, x, func(have, named []string) ([]string, error) {
			for i, one := range named {
				if !slices.Contains(have, one) {
					return nil, exitError(exitNotFound, "list them with: berth provider "+k.noun+" list "+args[0],
						"%s has no %s %s; nothing was changed", args[0], k.noun, args[i+1])
				}
			}
			return slices.DeleteFunc(have, func(one string) bool { return all || slices.Contains(named, one) }), nil
		})
	})
	return c
}
