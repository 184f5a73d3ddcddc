package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
)

// consumerOther is the type of consumers that allocation set makes, if none is given.
const consumerOther = "OTHER"

func providerAllocations(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "allocations PROVIDER",
		Short: "Show who draws from a provider",
		Long: `Allocations shows the consumers of a provider. Instances are consumers too; berth server
show tells of one, berth allocation list of any.`,
		Example:           "  berth provider allocations pool1",
		Args:              takes("a PROVIDER"),
		ValidArgsFunction: e.first(providerNames),
		RunE: e.calls(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := providerID(ctx, c, args[0])
			if err != nil {
				return err
			}
			return show(ctx, e, func(ctx context.Context) (client.ProviderAllocations, error) { return c.ProviderAllocations(ctx, id) },
				func(a client.ProviderAllocations) []table {
					t := table{header: []string{"CONSUMER", "RESOURCES", "GENERATION"}}
					for _, id := range slices.Sorted(maps.Keys(a.Allocations)) {
						t.row(id, a.Allocations[id].Resources, a.Allocations[id].Generation)
					}
					return []table{t}
				})
		}),
	}
}

func allocationCommand(e *env) *cobra.Command {
	c := noun("allocation", "See and change what consumers draw from providers (admins)",
		&cobra.Command{
			Use:     "list CONSUMER",
			Short:   "Show what one consumer holds",
			Example: "  berth allocation list 8d5d5f2c-2f7c-4a76-b2a4-f7a2b5a5d3a1",
			Args:    takes("a CONSUMER"),
			RunE: e.calls(func(ctx context.Context, c *client.Client, args []string) error {
				return e.showAllocations(ctx, c, api.ConsumerID(args[0]))
			}),
		},
		allocationSet(e), allocationDelete(e))
	c.Aliases = []string{"allocations"}
	return c
}

// showAllocations shows what a consumer holds.
func (e *env) showAllocations(ctx context.Context, c *client.Client, id api.ConsumerID) error {
	var called map[api.ProviderID]string
	return show(ctx, e, func(seen context.Context) (client.Allocations, error) {
		a, err := c.Allocations(seen, id)
		if err == nil {
			called, err = e.called(ctx, c, slices.Collect(maps.Keys(a.Allocations))...)
		}
		return a, err
	}, func(a client.Allocations) []table {
		var who table
		if a.Generation != nil {
			who.row("PROJECT", a.Project)
			who.row("USER", a.User)
			who.row("TYPE", a.Type)
			who.row("GENERATION", *a.Generation)
		}
		t := table{header: []string{"PROVIDER", "UUID", "RESOURCES"}}
		for _, id := range slices.Sorted(maps.Keys(a.Allocations)) {
			t.row(called[id], id, a.Allocations[id].Resources)
		}
		if a.Generation == nil {
			e.note("consumer %s holds nothing", id)
			return []table{t}
		}
		return []table{who, t}
	})
}

// claiming is what the flags of allocation set say.
type claiming struct {
	shares              []string
	project, user, kind string
	generation          uint64
}

func allocationSet(e *env) *cobra.Command {
	var f claiming
	c := &cobra.Command{
		Use:   "set CONSUMER",
		Short: "Replace what a consumer holds",
		Long: `Set gives a consumer, who is named by a UUID of the caller's choice, just what the
flags say, from all of those providers or from none. A new consumer needs --project
and --user; of one that is there they stay. It is changed at the generation that is
read, or at --generation, where 0 means that the consumer must be new. What instances
hold, the zone alone changes. What has room, berth candidates tells.`,
		Example: `  berth allocation set 8d5d5f2c-2f7c-4a76-b2a4-f7a2b5a5d3a1 --project web --user ada --allocation h1:VCPU=1
  berth allocation set 8d5d5f2c-2f7c-4a76-b2a4-f7a2b5a5d3a1 --allocation h1:VCPU=1,MEMORY_MB=512 --allocation pool1:DISK_GB=10`,
		Args: takes("a CONSUMER"),
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.shares, "allocation", nil, "`PROVIDER:CLASS=AMOUNT,...`; may be repeated, once for each provider (needed)")
	flags.StringVar(&f.project, "project", "", "the consumer's project")
	flags.StringVar(&f.user, "user", "", "the consumer's user")
	flags.StringVar(&f.kind, "type", "", "what the consumer is, such as MIGRATION (default "+consumerOther+" for a new one)")
	flags.Uint64Var(&f.generation, "generation", 0, "do it only if the consumer has not changed since this generation; 0: only if it is new")
	c.RunE = e.calls(func(ctx context.Context, cl *client.Client, args []string) error {
		wanted, err := f.wanted(ctx, c, cl)
		if err != nil {
			return err
		}
		id := api.ConsumerID(args[0])
		if !api.ValidUUID(args[0]) {
			return usage(c, "CONSUMER must be a UUID, got %q", args[0])
		}
		a, err := cl.Allocations(ctx, id)
		if err != nil {
			return err
		}
		a.Allocations = wanted
		a.Project, a.User = api.ProjectID(cmp.Or(f.project, string(a.Project))), api.UserID(cmp.Or(f.user, string(a.User)))
		if a.Type == "unknown" { // nobody has said
			a.Type = ""
		}
		a.Type = cmp.Or(f.kind, a.Type, consumerOther)
		if a.Project == "" || a.User == "" {
			return usage(c, "a new consumer needs --project and --user")
		}
		if c.Flags().Changed("generation") {
			if a.Generation = &f.generation; f.generation == 0 {
				a.Generation = nil
			}
		}
		answered := e.waiting()
		err = cl.PutAllocations(ctx, id, a)
		answered()
		if err == nil {
			return e.showAllocations(ctx, cl, id)
		}
		if api.CodeOf(err) == api.CodeNoCapacity {
			return withHint(err, "see what is free with: berth provider usage PROVIDER; or what has room with: berth candidates")
		}
		return readAgain(err, "berth allocation list "+args[0])
	})
	return c
}

// wanted returns what the flags give, by provider.
func (f *claiming) wanted(ctx context.Context, c *cobra.Command, cl *client.Client) (map[api.ProviderID]client.Allocated, error) {
	if len(f.shares) == 0 {
		return nil, usage(c, "%q needs --allocation; to free all, use: berth allocation delete", c.CommandPath())
	}
	out := map[api.ProviderID]client.Allocated{}
	for _, text := range f.shares {
		ref, amounts, ok := cutLast(text, ":")
		if !ok || ref == "" {
			return nil, usage(c, "--allocation must look like h1:VCPU=1,MEMORY_MB=512, got %q", text)
		}
		r, err := parseAmounts(c, "--allocation", amounts)
		if err != nil {
			return nil, err
		}
		id, err := providerID(ctx, cl, ref)
		if err != nil {
			return nil, err
		}
		if _, twice := out[id]; twice {
			return nil, usage(c, "--allocation names %q twice", ref)
		}
		out[id] = client.Allocated{Resources: r}
	}
	return out, nil
}

// cutLast cuts text around its last sep: names of providers may hold it too.
func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

func allocationDelete(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:     "delete CONSUMER",
		Short:   "Free what a consumer holds",
		Example: "  berth allocation delete 8d5d5f2c-2f7c-4a76-b2a4-f7a2b5a5d3a1 --yes",
		Args:    takes("a CONSUMER"),
	}
	s.flag(c)
	c.RunE = e.calls(func(ctx context.Context, c *client.Client, args []string) error {
		return e.destroy(ctx, s, "free what is held by", args[0], func(ctx context.Context) error {
			return c.DeleteAllocations(ctx, api.ConsumerID(args[0]))
		})
	})
	return c
}
