package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func bindingCommand(e *env) *cobra.Command {
	c := nounCommand("binding", "See and change which child zone the new work of a project goes to (admins)",
		bindingList(e), bindingShow(e), bindingSet(e), bindingMove(e), bindingEnd(e), bindingHistory(e))
	c.Aliases = []string{"bindings"}
	return c
}

// bindingIDs completes the id of an active binding.
var bindingIDs = namesOf(
	func(c *client.Client, ctx context.Context, o client.ListOptions) (client.Page[rest.Binding], error) {
		return c.Bindings(ctx, client.BindingQuery{}, o)
	},
	func(b rest.Binding) string { return string(b.ID) + "\t" + string(b.Project) + " in " + b.Zone })

// addBindingFilters adds the flags that select bindings.
func (e *env) addBindingFilters(c *cobra.Command, q *client.BindingQuery) {
	f := c.Flags()
	f.StringVar(&q.Zone, "zone", "", "only bindings to this child `ZONE`")
	f.StringVar(&q.AZ, "az", "", "only bindings for work that asks for this availability zone")
	f.StringVar(&q.Tag, "tag", "", "only bindings with this affinity tag, as `KEY=VALUE`")
	e.flagNames(c, "zone", childNames)
	e.flagNames(c, "az", azNames)
}

func bindingList(e *env) *cobra.Command {
	var q client.BindingQuery
	var project string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List active bindings, the newest first",
		Example: "  berth binding list\n  berth binding list --zone west --tag gpu=cad\n  berth binding list --project web -o json",
		Args:    exactArgs(),
	}
	c.Flags().StringVar(&project, "project", "", "only bindings of this project")
	e.addBindingFilters(c, &q)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		q.Project = api.ProjectID(project)
		return listAll(ctx, e, "bindings", func(ctx context.Context, o client.ListOptions) (client.Page[rest.Binding], error) {
			return c.Bindings(ctx, q, o)
		}, tableOf("ID|PROJECT|ZONE|AZ|TAGS|SINCE|WHY", func(b rest.Binding) []any {
			return []any{b.ID, bindingProject(&b), b.Zone, b.AZ, strings.Join(b.Tags, ", "), showInstant(b.Start), b.Why}
		}))
	})
	return c
}

// bindingProject returns whose binding it is.
func bindingProject(b *rest.Binding) string {
	if b.Parent != "" {
		return string(b.Project) + " of zone " + b.Parent
	}
	return string(b.Project)
}

func bindingHistory(e *env) *cobra.Command {
	var q client.BindingQuery
	var after, before string
	c := &cobra.Command{
		Use:   "history [PROJECT]",
		Short: "List where a project was and is bound, the newest first",
		Long: `List active and past bindings, of one project or of all. A zone keeps the last 1000 past
bindings of each project.`,
		Example: "  berth binding history web\n  berth binding history --zone west --after 2030-01-31T12:00Z --before 2030-02-01T12:00Z",
		Args:    atMost(1),
	}
	e.addBindingFilters(c, &q)
	c.Flags().StringVar(&after, "after", "", "only bindings that were active after this `TIME`, as for berth lease create")
	c.Flags().StringVar(&before, "before", "", "only bindings that began before this `TIME`")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		for _, one := range []struct {
			flag, text string
			to         *string
		}{{"after", after, &q.After}, {"before", before, &q.Before}} {
			if one.text == "" {
				continue
			}
			when, _, err := readTime(c, one.flag, one.text, e.now())
			if err != nil {
				return err
			}
			*one.to = when.UTC().Format(time.RFC3339)
		}
		q.Project, q.Active = api.ProjectID(optionalArg(args)), "all"
		return listAll(ctx, e, "bindings", func(ctx context.Context, o client.ListOptions) (client.Page[rest.Binding], error) {
			return cl.Bindings(ctx, q, o)
		}, tableOf("ID|PROJECT|ZONE|AZ|TAGS|START|END|WHY|ENDED", func(b rest.Binding) []any {
			return []any{b.ID, bindingProject(&b), b.Zone, b.AZ, strings.Join(b.Tags, ", "), showInstant(b.Start), bindingEndText(&b), b.Why, b.Ended}
		}))
	})
	return c
}

// bindingEndText returns when a binding ended.
func bindingEndText(b *rest.Binding) string {
	if b.Active {
		return "active"
	}
	return showInstant(b.End)
}

func bindingTables(b rest.Binding) []table {
	var t table
	t.addRow("ID", b.ID)
	t.addRow("PROJECT", bindingProject(&b))
	t.addRow("ZONE", b.Zone)
	t.addRow("LINK", b.Link)
	t.addRow("AZ", b.AZ)
	t.addRow("TAGS", strings.Join(b.Tags, ", "))
	t.addRow("ACTIVE", showBool(b.Active))
	t.addRow("START", showInstant(b.Start))
	t.addRow("END", bindingEndText(&b))
	t.addRow("WHY", b.Why)
	t.addRow("ENDED", b.Ended)
	t.addRow("RESERVATION", b.Reservation)
	t.addRow("USER", b.User)
	return []table{t}
}

func bindingShow(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "show ID",
		Short:             "Show one binding, active or past",
		Example:           "  berth binding show 5d9c3f3a-33b1-4f0e-9c0b-0d5f3a5e8a11",
		Args:              exactArgs("an ID"),
		ValidArgsFunction: e.completeFirst(bindingIDs),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return showAnswer(ctx, e, func(ctx context.Context) (rest.Binding, error) { return c.Binding(ctx, api.BindingID(args[0])) }, bindingTables)
		}),
	}
}

func bindingSet(e *env) *cobra.Command {
	var s rest.BindingSpec
	c := &cobra.Command{
		Use:   "set PROJECT ZONE",
		Short: "Bind new work of a project to a child",
		Long: `Bind new work of a project to a child, and end the binding that it has for the same work:
general work, or with --tag work whose flavor has exactly these affinity tags as extra
specs, or with --az work that asks for that availability zone. What runs stays where it
is. The binding holds only as long as the child fits, and has no effect while bindings
are off: see docs/bindings.md.`,
		Example:           "  berth binding set web west\n  berth binding set web north --tag gpu=cad --az az1",
		Args:              exactArgs("a PROJECT", "a ZONE"),
		ValidArgsFunction: e.firstThen(noNames, childNames),
	}
	f := c.Flags()
	f.StringVar(&s.AZ, "az", "", "only work that asks for this availability zone")
	f.StringArrayVar(&s.Tags, "tag", nil, "affinity tag of the work, as `KEY=VALUE`; may be repeated")
	f.StringVar(&s.Parent, "parent", "", "`ZONE` that is the parent whose project it is (default: a project of this zone)")
	e.flagNames(c, "az", azNames)
	e.flagNames(c, "parent", zoneNames)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		s.Project, s.Zone = api.ProjectID(args[0]), args[1]
		err := showAnswer(ctx, e, func(ctx context.Context) (rest.Binding, error) { return c.SetBinding(ctx, s) }, bindingTables)
		if err == nil {
			e.noteBindingsOff(ctx, c)
		}
		return err
	})
	return c
}

// noteBindingsOff says that a binding has no effect while the zone binds no projects.
func (e *env) noteBindingsOff(ctx context.Context, cl *client.Client) {
	config, err := cl.Config(ctx)
	if err != nil { // the binding is made, and this is a hint
		return
	}
	if m := config.Bindings.Mode; m == "" || m == api.BindingOff {
		e.printNote("bindings are off in this zone, so this has no effect; to use them: berth operator config set --binding-mode prefer (or strict)")
	}
}

// noNames completes nothing.
func noNames(context.Context, *client.Client, string) ([]string, error) { return nil, nil }

func bindingMove(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "move ID ZONE",
		Short: "Bind the project of an active binding to another child",
		Long: `End an active binding and bind its project to another child, for the same work. It is a
conflict if the binding is not active any more. What runs stays where it is.`,
		Example:           "  berth binding move 5d9c3f3a-33b1-4f0e-9c0b-0d5f3a5e8a11 east",
		Args:              exactArgs("an ID", "a ZONE"),
		ValidArgsFunction: e.firstThen(bindingIDs, childNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			err := showAnswer(ctx, e, func(ctx context.Context) (rest.Binding, error) {
				return c.MoveBinding(ctx, api.BindingID(args[0]), args[1])
			}, bindingTables)
			if err == nil {
				e.noteBindingsOff(ctx, c)
			}
			return err
		}),
	}
}

func bindingEnd(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:               "end ID",
		Short:             "End a binding; the next work of its project chooses a child anew",
		Example:           "  berth binding end 5d9c3f3a-33b1-4f0e-9c0b-0d5f3a5e8a11 --yes",
		Args:              exactArgs("an ID"),
		ValidArgsFunction: e.completeFirst(bindingIDs),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		return e.confirmAndDelete(ctx, s, "end binding", args[0], func(ctx context.Context) error {
			return c.EndBinding(ctx, api.BindingID(args[0]))
		})
	})
	return c
}
