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
		Short: "Show who draws from a provider",
		Long: `Allocations shows the consumers of a provider. Instances are consumers too; berth server
show tells of one, berth allocation list of any.`,
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
	c := nounCommand("allocation", "See and change what consumers draw from providers (admins)",
		&cobra.Command{
			Use:     "list CONSUMER",
			Short:   "Show what one consumer holds",
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
		return "", exitError(exitUsage, "those of a provider are in berth provider allocations; a new one gets any UUID, such as of uuidgen", "CONSUMER must be a UUID, got %q", shorten(text))
	}
	return api.ConsumerID(id), nil
}

// ofInstance is the hint about what an instance holds.
const ofInstance = "its zone alone changes that; see it with berth server show, end it with: berth server delete "

// showAllocations shows what a consumer holds.
func (e *env) showAllocations(ctx context.Context, c *client.Client, id api.ConsumerID) error {
	var called map[api.ProviderID]string
	return showAnswer(ctx, e, func(seen context.Context) (client.Allocations, error) {
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

// claiming is what the flags of allocation set say.
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
		Short: "Replace what a consumer holds",
		Long: `Set gives a consumer, who is named by a UUID of the caller's choice, just what the
flags say, from all of those providers or from none. A new consumer needs --project
and --user; of one that is there they stay. It is changed at the generation that is
read, or at --generation, where 0 means that the consumer must be new. What instances
hold, the zone alone changes. What has room, berth candidates tells.`,
		Example: `  berth allocation set 8d5d5f2c-2f7c-4a76-b2a4-f7a2b5a5d3a1 --project web --user ada --allocation h1:VCPU=1
  berth allocation set 8d5d5f2c-2f7c-4a76-b2a4-f7a2b5a5d3a1 --allocation h1:VCPU=1,MEMORY_MB=512 --allocation pool1:DISK_GB=10`,
		Args: exactArgs("a CONSUMER"),
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.shares, "allocation", nil, "`PROVIDER:CLASS=AMOUNT,...`; may be repeated, once for each provider (needed)")
	flags.StringVar(&f.project, "project", "", "the consumer's project")
	flags.StringVar(&f.user, "user", "", "the consumer's user")
	flags.StringVar(&f.kind, "type", "", "what the consumer is, such as MIGRATION (default "+consumerOther+" for a new one)")
	flags.Uint64Var(&f.generation, "generation", 0, "do it only if the consumer has not changed since this generation; 0: only if it is new")
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
		answered := e.tellWaiting()
		err = cl.PutAllocations(ctx, id, a)
		answered()
		if err == nil {
			return e.showAllocations(ctx, cl.Linearizable(), id) // another node may not know of it yet
		}
		return readAgain(f.hintClaim(err, wanted, args[0]), "berth allocation list "+args[0])
	})
	return c
}

// setConsumer sets who the consumer is: as the flags say, or as it was.
func (f *claiming) setConsumer(a *client.Allocations) {
	a.Project, a.User = api.ProjectID(cmp.Or(f.project, string(a.Project))), api.UserID(cmp.Or(f.user, string(a.User)))
	if a.Type == "unknown" { // nobody has said
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

// noRoom returns the hint about a refusal for want of room: the provider that it
// names, as the caller named it.
func (f *claiming) noRoom(err error, wanted map[api.ProviderID]client.Allocated) string {
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		if strings.Contains(err.Error(), string(id)) {
			return "see what it hands out with berth provider inventory list " + f.refs[id] +
				", what is free with berth provider usage " + f.refs[id] + ", and who has room with: berth candidates"
		}
	}
	return "see who has room with: berth candidates"
}

// readWanted returns what the flags give, by provider.
func (f *claiming) readWanted(ctx context.Context, c *cobra.Command, cl *client.Client) (map[api.ProviderID]client.Allocated, error) {
	if err := noneEmpty(c, "project", "user", "type"); err != nil {
		return nil, err
	}
	if f.kind != "" && !api.ValidTrait(f.kind) {
		return nil, usageError(c, "--type is upper case letters, digits and _, at most %d, got %q", api.CustomMaxBytes, shorten(f.kind))
	}
	if len(f.shares) == 0 {
		return nil, usageError(c, "%q needs --allocation; to free all, use: berth allocation delete", c.CommandPath())
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
		Args:    exactArgs("a CONSUMER"),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		id, err := consumerID(args[0])
		if err != nil {
			return err
		}
		err = e.confirmAndDelete(ctx, s, "free what is held by", args[0], func(ctx context.Context) error { return c.DeleteAllocations(ctx, id) })
		return addHint(err, map[api.Code]string{
			api.CodeNotFound: "there is nothing to free; see who draws from a provider with: berth provider allocations PROVIDER",
			api.CodeConflict: ofInstance + args[0],
		})
	})
	return c
}
