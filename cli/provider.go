package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func providerCommand(e *env) *cobra.Command {
	c := nounCommand("provider", "See and change resource providers: hosts, parts of them, shared pools (admins)",
		providerList(e), providerShow(e), providerCreate(e), providerSet(e), providerDelete(e),
		providerInventory(e), providerUsage(e), providerAllocations(e), providerTrait(e), providerAggregate(e),
	)
	c.Aliases = []string{"providers"}
	return c
}

// providerNames completes the name of a provider.
var providerNames = names(func(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	found, err := c.Providers(ctx, client.ProviderQuery{})
	out := make([]string, 0, len(found))
	for _, p := range found {
		out = append(out, p.Name)
	}
	return out, err
})

// asUUID returns the canonical form of a UUID with dashes, in letters of either case.
func asUUID(text string) (string, bool) {
	id := strings.ToLower(text)
	return id, api.ValidUUID(id)
}

// cutAt is how many characters of a wrong argument an error repeats.
const cutAt = 64

// shorten returns the beginning of text.
func shorten(text string) string {
	if r := []rune(text); len(r) > cutAt {
		return string(r[:cutAt]) + "..."
	}
	return text
}

// noneEmpty refuses flags with an empty value, such as from an unset shell variable.
func noneEmpty(c *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if f := c.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return usageError(c, "--%s is empty; leave it out, or give it a value", name)
		}
	}
	return nil
}

// checkName refuses an invalid name of a provider.
func checkName(c *cobra.Command, name string) error {
	if n := utf8.RuneCountInString(name); n < 1 || n > api.ProviderNameMax {
		return usageError(c, "a provider's name must have 1 to %d characters, got %d", api.ProviderNameMax, n)
	}
	return nil
}

// providerID returns the id of the provider that ref names: its UUID, or its name.
func providerID(ctx context.Context, c *client.Client, ref string) (api.ProviderID, error) {
	if id, is := asUUID(ref); is {
		return api.ProviderID(id), nil
	}
	found, err := c.Providers(ctx, client.ProviderQuery{Name: ref})
	if err != nil {
		return "", err
	}
	for _, p := range found {
		if p.Name == ref {
			return p.ID, nil
		}
	}
	return "", exitError(exitNotFound, "list the providers with: berth provider list", "there is no provider named %q", ref)
}

// aggregateID returns the UUID of an aggregate. ref is that UUID, or the name of an
// aggregate of operators.
func aggregateID(ctx context.Context, c *client.Client, ref string) (string, error) {
	if id, is := asUUID(ref); is {
		return id, nil
	}
	if ref == "" {
		return "", exitError(exitUsage, "list the aggregates with: berth aggregate list", "an aggregate must be given by name or UUID, got %q", ref)
	}
	a, err := c.Aggregate(ctx, ref)
	if api.CodeOf(err) == api.CodeNotFound {
		return "", withHint(err, "create one with: berth aggregate create; or give any UUID, which need not exist")
	}
	return string(a.ID), err
}

// memberOf returns conditions on aggregates, such as "rack1" or "!in:rack1,rack2", with
// UUIDs in place of names.
func memberOf(ctx context.Context, c *client.Client, texts []string) ([]string, error) {
	var out []string
	for _, text := range texts {
		rest, not := strings.CutPrefix(text, "!")
		rest, in := strings.CutPrefix(rest, "in:")
		refs := strings.Split(rest, ",")
		for i, ref := range refs {
			id, err := aggregateID(ctx, c, ref)
			if err != nil {
				return nil, err
			}
			refs[i] = id
		}
		demand := strings.Join(refs, ",")
		if in || len(refs) > 1 {
			demand = "in:" + demand
		}
		if not {
			demand = "!" + demand
		}
		out = append(out, demand)
	}
	return out, nil
}

// parseAmounts reads "VCPU=1,MEMORY_MB=512".
func parseAmounts(c *cobra.Command, flag, text string) (api.Resources, error) {
	r := api.Resources{}
	for _, part := range strings.Split(text, ",") {
		class, amount, ok := strings.Cut(part, "=")
		n, whole := parseWhole(amount)
		if !ok || !api.ValidTrait(class) || !whole || n < 1 || n > api.UnitMax {
			return nil, usageError(c, "%s must look like VCPU=1,MEMORY_MB=512, with whole numbers from 1 to %d, got %q", flag, api.UnitMax, text)
		}
		if _, twice := r[api.ResourceClass(class)]; twice {
			return nil, usageError(c, "%s has %s twice", flag, class)
		}
		r[api.ResourceClass(class)] = n
	}
	return r, nil
}

// filtering holds the flags that select providers.
type filtering struct {
	name, inTree, resources string
	memberOf, required      []string
}

func (f *filtering) addFlags(e *env, c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.name, "name", "", "only the provider of this name")
	flags.StringVar(&f.inTree, "in-tree", "", "only providers in the tree of this `PROVIDER`")
	flags.StringVar(&f.resources, "resources", "", "only providers with room for `CLASS=AMOUNT,...`")
	flags.StringArrayVar(&f.memberOf, "member-of", nil, "only providers in this `AGGREGATE`: A,B for one of them, !A for not; may be repeated")
	flags.StringArrayVar(&f.required, "required", nil, "only providers with these `TRAITS`, such as A,!B, or in:A,B for one of them; may be repeated")
	e.flagNames(c, "in-tree", providerNames)
	e.flagNames(c, "member-of", aggregateNames)
}

func (f *filtering) readQuery(ctx context.Context, c *cobra.Command, cl *client.Client) (client.ProviderQuery, error) {
	q := client.ProviderQuery{Name: f.name, Required: f.required}
	err := noneEmpty(c, "name", "in-tree", "resources")
	if err != nil {
		return q, err
	}
	if f.resources != "" {
		if q.Resources, err = parseAmounts(c, "--resources", f.resources); err != nil {
			return q, err
		}
	}
	if f.inTree != "" {
		if q.InTree, err = providerID(ctx, cl, f.inTree); err != nil {
			return q, err
		}
	}
	q.MemberOf, err = memberOf(ctx, cl, f.memberOf)
	return q, err
}

func providerList(e *env) *cobra.Command {
	var f filtering
	var tree bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List providers",
		Example: `  berth provider list --tree
  berth provider list --resources VCPU=4,MEMORY_MB=8192 --required CUSTOM_SSD
  berth provider list --member-of rack1 --member-of '!rack2'`,
		Args: exactArgs(),
	}
	f.addFlags(e, c)
	c.Flags().BoolVar(&tree, "tree", false, "show each provider below its parent")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		q, err := f.readQuery(ctx, c, cl)
		if err != nil {
			return err
		}
		var called map[api.ProviderID]string
		get := func(seen context.Context) ([]client.Provider, error) {
			found, unread := cl.Providers(seen, q)
			if unread == nil {
				called, unread = e.providerNames(ctx, cl, parentsBeside(found)...)
			}
			return found, unread
		}
		err = listAll(ctx, e, "resource_providers", onePage(get), func(found []client.Provider) []table { return providerTable(found, called, tree) })
		return addHint(err, map[api.Code]string{api.CodeInvalid: knownWords})
	})
	return c
}

// parentsBeside returns the parents that are not among the found providers themselves.
func parentsBeside(found []client.Provider) []api.ProviderID {
	here := map[api.ProviderID]bool{}
	for _, p := range found {
		here[p.ID] = true
	}
	var out []api.ProviderID
	for _, p := range found {
		if !here[p.Parent] {
			out = append(out, p.Parent)
		}
	}
	return out
}

// providerTable shows providers by name, or as a tree. called has the names of parents
// that are not among them.
func providerTable(found []client.Provider, called map[api.ProviderID]string, tree bool) []table {
	here := map[api.ProviderID]bool{}
	below := map[api.ProviderID][]client.Provider{} // by parent; "" for the top level
	slices.SortFunc(found, func(a, b client.Provider) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	for _, p := range found {
		called[p.ID], here[p.ID] = p.Name, true
	}
	for _, p := range found {
		above := p.Parent
		if !here[above] || !tree {
			above = ""
		}
		below[above] = append(below[above], p)
	}
	t := table{header: []string{"NAME", "UUID", "PARENT", "GENERATION"}}
	var add func(under api.ProviderID, indent string)
	add = func(under api.ProviderID, indent string) {
		for _, p := range below[under] {
			t.addRow(indent+p.Name, p.ID, cmp.Or(called[p.Parent], string(p.Parent)), p.Generation)
			if tree {
				add(p.ID, indent+"  ")
			}
		}
	}
	add("", "")
	return []table{t}
}

// providerNames fetches the names of providers for a table. A deleted one has none.
func (e *env) providerNames(ctx context.Context, c *client.Client, ids ...api.ProviderID) (map[api.ProviderID]string, error) {
	if e.format != formatTable {
		return map[api.ProviderID]string{}, nil
	}
	return c.ProviderNames(ctx, ids...)
}

// nameAndID returns "name (id)" for one row of a table.
func nameAndID(called map[api.ProviderID]string, id api.ProviderID) string {
	if called[id] == "" {
		return string(id)
	}
	return fmt.Sprintf("%s (%s)", called[id], id)
}

// providerDetail is one provider with all its inventory, usage, traits and aggregates.
type providerDetail struct {
	provider   client.Provider
	called     map[api.ProviderID]string // only for tables
	known      map[string]string         // names of aggregates; only for tables
	stock      client.Inventories
	used       client.ProviderUsages
	traits     client.ProviderTraits
	aggregates client.ProviderAggregates
}

// readProvider reads a provider with all its details.
func (e *env) readProvider(ctx context.Context, c *client.Client, id api.ProviderID) (d providerDetail, err error) {
	if d.provider, err = c.Provider(ctx, id); err != nil {
		return d, err
	}
	if d.called, err = e.providerNames(ctx, c, d.provider.Parent, d.provider.Root); err != nil {
		return d, err
	}
	if d.stock, err = c.Inventories(ctx, id); err != nil {
		return d, err
	}
	if d.used, err = c.ProviderUsages(ctx, id); err != nil {
		return d, err
	}
	if d.traits, err = c.ProviderTraits(ctx, id); err != nil {
		return d, err
	}
	if d.aggregates, err = c.ProviderAggregates(ctx, id); err == nil && len(d.aggregates.Aggregates) > 0 && e.format == formatTable {
		d.known, err = aggregatesCalled(ctx, c)
	}
	return d, err
}

// MarshalJSON implements json.Marshaler with the fields of the placement API.
func (d providerDetail) MarshalJSON() ([]byte, error) {
	above := &d.provider.Parent
	if *above == "" {
		above = nil
	}
	b, err := json.Marshal(struct {
		ID         api.ProviderID                       `json:"uuid"`
		Name       string                               `json:"name"`
		Generation uint64                               `json:"generation"`
		Parent     *api.ProviderID                      `json:"parent_provider_uuid"`
		Root       api.ProviderID                       `json:"root_provider_uuid"`
		Stock      map[api.ResourceClass]rest.Inventory `json:"inventories"`
		Used       api.Resources                        `json:"usages"`
		Traits     []string                             `json:"traits"`
		Aggregates []string                             `json:"aggregates"`
	}{
		d.provider.ID, d.provider.Name, d.provider.Generation, above, d.provider.Root,
		d.stock.Inventories, d.used.Usages, d.traits.Traits, d.aggregates.Aggregates,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding a provider: %w", err)
	}
	return b, nil
}

// tablesOf shows a provider for a person.
func (d providerDetail) tablesOf() []table {
	t := providerRows(d.provider, d.called)
	t.addRow("TRAITS", inOrder(d.traits.Traits))
	var in []string
	for _, id := range d.aggregates.Aggregates {
		if name := d.known[id]; name != "" {
			id = fmt.Sprintf("%s (%s)", name, id)
		}
		in = append(in, id)
	}
	t.addRow("AGGREGATES", inOrder(in))
	return []table{t, stockTable(d.stock, d.used.Usages)}
}

// inOrder returns "a, b".
func inOrder(list []string) string { return strings.Join(slices.Sorted(slices.Values(list)), ", ") }

// providerRows shows a provider itself.
func providerRows(p client.Provider, called map[api.ProviderID]string) table {
	var t table
	t.addRow("NAME", p.Name)
	t.addRow("UUID", p.ID)
	t.addRow("PARENT", nameAndID(called, p.Parent))
	t.addRow("ROOT", nameAndID(called, p.Root))
	t.addRow("GENERATION", p.Generation)
	return t
}

func providerShow(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "show PROVIDER",
		Short:             "Show one provider with its inventory and usage",
		Example:           "  berth provider show pool1",
		Args:              exactArgs("a PROVIDER"),
		ValidArgsFunction: e.completeFirst(providerNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := providerID(ctx, c, args[0])
			if err != nil {
				return err
			}
			answered := e.noteWaiting()
			d, err := e.readProvider(ctx, c, id)
			answered()
			if err != nil {
				return err
			}
			body, err := json.Marshal(d)
			if err != nil {
				return fmt.Errorf("printing JSON: %w", err)
			}
			return e.printAnswer(body, d.tablesOf)
		}),
	}
}

func providerCreate(e *env) *cobra.Command {
	var id, parent string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a provider that is not a host",
		Long: `Create a provider without an agent: a part of a host such as a NUMA node or a GPU, a
shared pool, or a range of addresses. It starts without inventory. A pool with the
trait ` + api.TraitShares + ` serves every tree of providers that has an aggregate in
common with it.`,
		Example: `  berth provider create pool1
  berth provider create h1-gpu0 --parent h1`,
		Args: exactArgs("a NAME"),
	}
	c.Flags().StringVar(&parent, "parent", "", "parent `PROVIDER`, of which it is a part")
	c.Flags().StringVar(&id, "uuid", "", "UUID of the provider (default: generated)")
	e.flagNames(c, "parent", providerNames)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		if err := cmp.Or(noneEmpty(c, "parent", "uuid"), checkName(c, args[0])); err != nil {
			return err
		}
		s := client.ProviderSpec{Name: args[0]}
		if id != "" {
			full, is := asUUID(id)
			if !is {
				return usageError(c, "--uuid must look like %s, got %q", "4e8e5957-649f-477b-9e5b-f1f75b21c03c", shorten(id))
			}
			s.ID = api.ProviderID(full)
		}
		called := map[api.ProviderID]string{}
		if parent != "" {
			above, err := providerID(ctx, cl, parent)
			if err != nil {
				return err
			}
			s.Parent, called[above] = &above, parent
		}
		return showAnswer(ctx, e, func(ctx context.Context) (client.Provider, error) { return cl.CreateProvider(ctx, s) },
			func(p client.Provider) []table {
				called[p.ID] = p.Name // it may be its own root
				return []table{providerRows(p, called)}
			})
	})
	return c
}

// checkChange refuses flags of provider set that contradict each other.
func checkChange(c *cobra.Command, name, parent string, top bool) error {
	switch {
	case name == "" && parent == "" && !top && noneEmpty(c, "name", "parent") == nil:
		return usageError(c, "%q needs --name, --parent or --no-parent", c.CommandPath())
	case parent != "" && top:
		return usageError(c, "--parent and --no-parent cannot be given together")
	}
	return noneEmpty(c, "name", "parent")
}

func providerSet(e *env) *cobra.Command {
	var name, parent string
	var top bool
	c := &cobra.Command{
		Use:   "set PROVIDER",
		Short: "Change the name or parent of a provider",
		Long: `Change the name or parent of a provider. Its children move with it. Hosts get their
names from their agents and cannot have a parent.`,
		Example:           "  berth provider set pool1 --name pool2\n  berth provider set h1-gpu0 --parent h2\n  berth provider set h1-gpu0 --no-parent",
		Args:              exactArgs("a PROVIDER"),
		ValidArgsFunction: e.completeFirst(providerNames),
	}
	c.Flags().StringVar(&name, "name", "", "new name")
	c.Flags().StringVar(&parent, "parent", "", "new parent `PROVIDER`")
	c.Flags().BoolVar(&top, "no-parent", false, "remove the parent")
	e.flagNames(c, "parent", providerNames)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		if err := checkChange(c, name, parent, top); err != nil {
			return err
		}
		id, err := providerID(ctx, cl, args[0])
		if err != nil {
			return err
		}
		s := client.ProviderSpec{Name: name}
		if name == "" { // the API requires it
			old, unread := cl.Provider(ctx, id)
			if unread != nil {
				return unread
			}
			s.Name = old.Name
		}
		if err = checkName(c, s.Name); err != nil {
			return err
		}
		var above api.ProviderID
		if parent != "" {
			if above, err = providerID(ctx, cl, parent); err != nil {
				return err
			}
		}
		if parent != "" || top {
			s.Parent = &above
		}
		err = showAnswer(ctx, e, func(ctx context.Context) (client.Provider, error) { return cl.UpdateProvider(ctx, id, s) },
			func(p client.Provider) []table {
				return []table{providerRows(p, map[api.ProviderID]string{above: parent, p.ID: p.Name})}
			})
		return addHint(err, map[api.Code]string{api.CodeConflict: "a host gets its name from its agent and cannot have a parent; list the hosts with: berth host list"})
	})
	return c
}

// inUse returns err with a hint if a provider has allocations.
func inUse(err error, provider string) error {
	if api.CodeOf(err) == api.CodeInUse {
		return withHint(err, "see its allocations with: berth provider allocations "+provider)
	}
	return err
}

func providerDelete(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:               "delete PROVIDER",
		Short:             "Delete a provider without allocations",
		Example:           "  berth provider delete pool1 --yes",
		Args:              exactArgs("a PROVIDER"),
		ValidArgsFunction: e.completeFirst(providerNames),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		id, err := providerID(ctx, cl, args[0])
		if err != nil {
			return err
		}
		err = e.confirmAndDelete(ctx, s, "delete provider", args[0], func(ctx context.Context) error { return cl.DeleteProvider(ctx, id) })
		if api.CodeOf(err) == api.CodeHasChildren {
			return withHint(err, "see its children with: berth provider list --tree --in-tree "+args[0])
		}
		return inUse(err, args[0])
	})
	return c
}
