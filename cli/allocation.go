package cli

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
		Short: "Show the allocations from a provider",
		Long: `Show the consumers of a provider and what each holds. Instances are consumers too:
berth server show shows an instance, berth allocation list any consumer.`,
		Example:           "  berth provider allocations pool1",
		Args:              exactArgs("a PROVIDER"),
		ValidArgsFunction: e.completeFirst(providerNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := providerID(ctx, c, args[0])
			if err != nil {
				return err
			}
			return showAnswer(ctx, e, func(ctx context.Context) (client.ProviderAllocations, error) { return c.ProviderAllocations(ctx, id) },
				func(a client.ProviderAllocations) []table {
					t := table{header: []string{"CONSUMER", "RESOURCES", "GENERATION"}}
					for _, id := range slices.Sorted(maps.Keys(a.Allocations)) {
						t.addRow(id, a.Allocations[id].Resources, a.Allocations[id].Generation)
					}
					return []table{t}
				})
		}),
	}
}

func allocationCommand(e *env) *cobra.Command {
	c := nounCommand("allocation", "See and change the allocations of consumers (admins)",
		&cobra.Command{
			Use:     "list CONSUMER",
			Short:   "Show the allocations of one consumer",
			Example: "  berth allocation list 8d5d5f2c-2f7c-4a76-b2a4-f7a2b5a5d3a1",
			Args:    exactArgs("a CONSUMER"),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
				id, err := consumerID(args[0])
				if err != nil {
					return err
				}
				return e.showAllocations(ctx, c, id)
			}),
		},
		allocationSet(e), allocationDelete(e))
	c.Aliases = []string{"allocations"}
	return c
}

// consumerID returns the id of a consumer, which has no other name.
func consumerID(text string) (api.ConsumerID, error) {
	id, is := asUUID(text)
	if !is {
		return "", exitError(exitUsage, "list the consumers of a provider with berth provider allocations; for a new one choose any UUID, such as from uuidgen", "CONSUMER must be a UUID, got %q", shorten(text))
	}
	return api.ConsumerID(id), nil
}

// ofInstance is the hint about the allocations of an instance.
const ofInstance = "only the zone changes the allocations of an instance; see it with berth server show, delete it with: berth server delete "

// showAllocations shows the allocations of a consumer.
func (e *env) showAllocations(ctx context.Context, c *client.Client, id api.ConsumerID) error {
	var called map[api.ProviderID]string
	return showList(ctx, e, "allocations", func(seen context.Context) (client.Allocations, error) {
		a, err := c.Allocations(seen, id)
		if err == nil {
			called, err = e.providerNames(ctx, c, slices.Collect(maps.Keys(a.Allocations))...)
		}
		return a, err
	}, func(a client.Allocations) []table {
		var who table
		if a.Generation != nil {
			who.addRow("PROJECT", a.Project)
			who.addRow("USER", a.User)
			who.addRow("TYPE", a.Type)
			who.addRow("GENERATION", *a.Generation)
		}
		t := table{header: []string{"PROVIDER", "UUID", "RESOURCES"}}
		for _, id := range slices.Sorted(maps.Keys(a.Allocations)) {
			t.addRow(called[id], id, a.Allocations[id].Resources)
		}
		if a.Generation == nil {
			e.printNote("consumer %s holds nothing", id)
			return []table{t}
		}
		return []table{who, t}
	})
}

// claiming holds the flags of allocation set.
type claiming struct {
	shares              []string
	project, user, kind string
	generation          uint64
	refs                map[api.ProviderID]string // how the caller names the providers
}

func allocationSet(e *env) *cobra.Command {
	var f claiming
	c := &cobra.Command{
		Use:   "set CONSUMER",
		Short: "Replace the allocations of a consumer",
		Long: `Replace all allocations of a consumer by those that the flags give, or change
nothing. CONSUMER is a UUID of your choice. A new consumer needs --project and --user;
an existing one keeps its own. The change applies to the generation just read, or to
--generation, where 0 means that the consumer must be new. Allocations of instances
are managed by the zone and cannot be changed here. Use berth candidates to find
providers with room.`,
		Example: `  berth allocation set 8d5d5f2c-2f7c-4a76-b2a4-f7a2b5a5d3a1 --project web --user ada --allocation h1:VCPU=1
  berth allocation set 8d5d5f2c-2f7c-4a76-b2a4-f7a2b5a5d3a1 --allocation h1:VCPU=1,MEMORY_MB=512 --allocation pool1:DISK_GB=10`,
		Args: exactArgs("a CONSUMER"),
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.shares, "allocation", nil, "`PROVIDER:CLASS=AMOUNT,...`; may be repeated, once for each provider (required)")
	flags.StringVar(&f.project, "project", "", "the consumer's project")
	flags.StringVar(&f.user, "user", "", "the consumer's user")
	flags.StringVar(&f.kind, "type", "", "type of the consumer, such as MIGRATION (default "+consumerOther+" for a new one)")
	flags.Uint64Var(&f.generation, "generation", 0, "fail if the consumer has changed since this generation; 0: fail unless it is new")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		wanted, err := f.readWanted(ctx, c, cl)
		if err != nil {
			return err
		}
		id, err := consumerID(args[0])
		if err != nil {
			return err
		}
		a, err := cl.Allocations(ctx, id)
		if err != nil {
			return err
		}
		a.Allocations = wanted
		f.setConsumer(&a)
		if a.Project == "" || a.User == "" {
			return usageError(c, "a new consumer needs --project and --user")
		}
		if c.Flags().Changed("generation") {
			if a.Generation = &f.generation; f.generation == 0 {
				a.Generation = nil
			}
		}
		answered := e.noteWaiting()
		err = cl.PutAllocations(ctx, id, a)
		answered()
		if err == nil {
			return e.showAllocations(ctx, cl.Linearizable(), id) // another node may not have it yet
		}
		return readAgain(f.hintClaim(err, wanted, args[0]), "berth allocation list "+args[0])
	})
	return c
}

// setConsumer sets project, user and type of the consumer: from the flags, else as before.
func (f *claiming) setConsumer(a *client.Allocations) {
	a.Project, a.User = api.ProjectID(cmp.Or(f.project, string(a.Project))), api.UserID(cmp.Or(f.user, string(a.User)))
	if a.Type == "unknown" { // none was given
		a.Type = ""
	}
	a.Type = cmp.Or(f.kind, a.Type, consumerOther)
}

// hintClaim returns err with a hint about a claim of wanted for a consumer.
func (f *claiming) hintClaim(err error, wanted map[api.ProviderID]client.Allocated, consumer string) error {
	if err == nil {
		return nil
	}
	return addHint(err, map[api.Code]string{
		api.CodeNoCapacity: f.noRoom(err, wanted),
		api.CodeConflict:   ofInstance + consumer,
		api.CodeInvalid:    knownWords,
	})
}

// noRoom returns the hint for a refusal for lack of room. It names the provider as the
// caller did.
func (f *claiming) noRoom(err error, wanted map[api.ProviderID]client.Allocated) string {
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		if strings.Contains(err.Error(), string(id)) {
			return "see its inventory with berth provider inventory list " + f.refs[id] +
				", its usage with berth provider usage " + f.refs[id] + ", and providers with room with: berth candidates"
		}
	}
	return "find providers with room with: berth candidates"
}

// readWanted returns the allocations that the flags ask for, by provider.
func (f *claiming) readWanted(ctx context.Context, c *cobra.Command, cl *client.Client) (map[api.ProviderID]client.Allocated, error) {
	if err := noneEmpty(c, "project", "user", "type"); err != nil {
		return nil, err
	}
	if f.kind != "" && !api.ValidTrait(f.kind) {
		return nil, usageError(c, "--type must be at most %d upper case letters, digits and _, got %q", api.CustomMaxBytes, shorten(f.kind))
	}
	if len(f.shares) == 0 {
		return nil, usageError(c, "%q needs --allocation; to free all of them, use: berth allocation delete", c.CommandPath())
	}
	out := map[api.ProviderID]client.Allocated{}
	f.refs = map[api.ProviderID]string{}
	for _, text := range f.shares {
		ref, amounts, ok := cutLast(text, ":")
		if !ok || ref == "" {
			return nil, usageError(c, "--allocation must look like h1:VCPU=1,MEMORY_MB=512, got %q", text)
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
			return nil, usageError(c, "--allocation names %q twice", ref)
		}
		out[id], f.refs[id] = client.Allocated{Resources: r}, ref
	}
	return out, nil
}

// cutLast cuts text around its last sep: a provider's name may contain it too.
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
		Short:   "Delete the allocations of a consumer",
		Example: "  berth allocation delete 8d5d5f2c-2f7c-4a76-b2a4-f7a2b5a5d3a1 --yes",
		Args:    exactArgs("a CONSUMER"),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		id, err := consumerID(args[0])
		if err != nil {
			return err
		}
		err = e.confirmAndDelete(ctx, s, "delete the allocations of consumer", args[0], func(ctx context.Context) error { return c.DeleteAllocations(ctx, id) })
		return addHint(err, map[api.Code]string{
			api.CodeNotFound: "the consumer holds nothing; list the consumers of a provider with: berth provider allocations PROVIDER",
			api.CodeConflict: ofInstance + args[0],
		})
	})
	return c
}
