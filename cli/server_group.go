package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// policies are the values of --policy of a server group.
var policies = []string{string(api.Affinity), string(api.AntiAffinity), string(api.SoftAffinity), string(api.SoftAntiAffinity)}

func serverGroupCommand(e *env) *cobra.Command {
	c := nounCommand("server-group", "See and change groups that keep instances together or apart", serverGroupList(e), serverGroupShow(e), serverGroupCreate(e), serverGroupDelete(e))
	c.Aliases = []string{"server-groups"}
	return c
}

func serverGroupList(e *env) *cobra.Command {
	var w whose
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the server groups of your project",
		Example: "  berth server-group list\n  berth server-group list --project web\n  berth server-group list --all-projects",
		Args:    exactArgs(),
	}
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		if err := w.checkFlags(c); err != nil {
			return err
		}
		if w.all {
			return listAll(ctx, e, "server_groups", cl.AllServerGroups, serverGroupRows(true))
		}
		return listAll(ctx, e, "server_groups", w.clientFor(cl).ServerGroups, serverGroupRows(false))
	})
	w.addListFlags(c, "server groups")
	return c
}

// serverGroupRows returns the table of server groups, with their projects if there are several.
func serverGroupRows(projects bool) func([]rest.ServerGroup) []table {
	header, project := "NAME|POLICY|MAX PER HOST|MEMBERS|ID|CREATED", func(rest.ServerGroup) []any { return nil }
	if projects {
		header, project = "NAME|PROJECT|POLICY|MAX PER HOST|MEMBERS|ID|CREATED", func(g rest.ServerGroup) []any { return []any{g.Project} }
	}
	return tableOf(header, func(g rest.ServerGroup) []any {
		return slices.Concat([]any{g.Name}, project(g), []any{g.Policy, membersLimit(g), len(g.Members), g.ID, showInstant(g.Created)})
	})
}

// membersLimit returns the limit of members per host, "" for none.
func membersLimit(g rest.ServerGroup) string {
	if g.Max == 0 {
		return ""
	}
	return strconv.Itoa(g.Max)
}

func serverGroupTables(g rest.ServerGroup) []table {
	var t table
	t.addRow("NAME", g.Name)
	t.addRow("ID", g.ID)
	t.addRow("PROJECT", g.Project)
	t.addRow("POLICY", g.Policy)
	if g.Max > 0 {
		t.addRow("MAX PER HOST", g.Max)
	}
	var members []string
	for _, id := range g.Members {
		members = append(members, string(id))
	}
	t.addRow("MEMBERS", strings.Join(members, ", "))
	t.addRow("CREATED", showInstant(g.Created))
	return []table{t}
}

func serverGroupShow(e *env) *cobra.Command {
	var w whose
	c := &cobra.Command{
		Use:               "show GROUP",
		Short:             "Show one server group and its members",
		Example:           "  berth server-group show web",
		Args:              exactArgs("a GROUP"),
		ValidArgsFunction: e.completeFirst(serverGroupNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return showAnswer(ctx, e, func(ctx context.Context) (rest.ServerGroup, error) { return w.clientFor(c).ServerGroup(ctx, args[0]) }, serverGroupTables)
		}),
	}
	w.addFlag(c)
	return c
}

func serverGroupCreate(e *env) *cobra.Command {
	var policy string
	var maxPerHost int
	c := &cobra.Command{
		Use:   "create NAME --policy POLICY",
		Short: "Create a server group",
		Long: `Create a server group, which boots join with "berth boot --group NAME". affinity keeps
all its instances on one host; anti-affinity allows at most --max-per-host of them on
any one host; soft-affinity and soft-anti-affinity are preferences.`,
		Example: "  berth server-group create web --policy anti-affinity\n  berth server-group create web --policy anti-affinity --max-per-host 2",
		Args:    exactArgs("a NAME"),
	}
	c.Flags().StringVar(&policy, "policy", "", strings.Join(policies, ", ")+" (required)")
	c.Flags().IntVar(&maxPerHost, "max-per-host", 0, "largest number on one host, for anti-affinity (default 1)")
	mustFlag(c.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(policies, cobra.ShellCompDirectiveNoFileComp)))
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		p := api.Policy(policy)
		switch {
		case !p.Valid():
			return usageError(c, "--policy must be one of %s, got %q", strings.Join(policies, ", "), policy)
		case c.Flags().Changed("max-per-host") && (p != api.AntiAffinity || maxPerHost < 1):
			return usageError(c, "--max-per-host requires anti-affinity and must be at least 1")
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.ServerGroup, error) {
			return cl.CreateServerGroup(ctx, rest.ServerGroupSpec{Name: args[0], Policy: p, Max: maxPerHost})
		}, serverGroupTables)
	})
	return c
}

func serverGroupDelete(e *env) *cobra.Command {
	var s sure
	var w whose
	c := &cobra.Command{
		Use:               "delete GROUP",
		Short:             "Delete a server group; its members stay where they are, and it binds them no more",
		Example:           "  berth server-group delete web --yes",
		Args:              exactArgs("a GROUP"),
		ValidArgsFunction: e.completeFirst(serverGroupNames),
	}
	s.addFlag(c)
	w.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		return e.confirmAndDelete(ctx, s, "delete server group", args[0], func(ctx context.Context) error {
			return w.clientFor(c).DeleteServerGroup(ctx, args[0])
		})
	})
	return c
}
