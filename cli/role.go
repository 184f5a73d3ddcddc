package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func roleCommand(e *env) *cobra.Command {
	c := nounCommand("role", "See and set the roles of the zone (admins)", roleList(e), roleSet(e), roleDelete(e))
	c.Aliases = []string{"roles"}
	return c
}

// roleTable returns a table of roles.
func roleTable(all ...rest.Role) []table {
	t := table{header: []string{"ROLE", "ALLOWS", "UPDATED"}}
	for _, r := range all {
		t.addRow(r.Name, joinGroups(r.Allow, ", "), showInstant(r.Updated))
	}
	return []table{t}
}

func joinGroups(list []api.RouteGroup, by string) string {
	var parts []string
	for _, g := range list {
		parts = append(parts, string(g))
	}
	return strings.Join(parts, by)
}

func roleList(e *env) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the roles that operators have made, and what they allow",
		Example: "  berth role list",
		Args:    exactArgs(),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return listAll(ctx, e, "roles", c.Roles, func(all []rest.Role) []table { return roleTable(all...) })
		}),
	}
}

func roleSet(e *env) *cobra.Command {
	var allow []string
	c := &cobra.Command{
		Use:   "set ROLE --allow GROUP,...",
		Short: "Make a role, or replace what it allows",
		Long: `Make a role from groups of calls, or replace it: what its tokens may do changes at once.
Whoever has such a role sees the objects of the project of the token alone, except for
what is of the zone as a whole. Give it with "berth token create --role ROLE".

The groups are: ` + strings.ReplaceAll(wrapped(joinGroups(api.AllRouteGroups(), ", ")), "\n", "\n  "),
		Example: "  berth role set deployer --allow boots:read,boots:write,servers:read\n  berth token create --service ci --project web --role deployer",
		Args:    exactArgs("a ROLE"),
	}
	c.Flags().StringSliceVar(&allow, "allow", nil, "`GROUP` of calls, such as servers:read; may be repeated (required)")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		if len(allow) == 0 {
			return usageError(c, "%q needs --allow", c.CommandPath())
		}
		var s rest.RoleSpec
		for _, g := range allow {
			s.Allow = append(s.Allow, api.RouteGroup(g))
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.Role, error) { return cl.SetRole(ctx, api.UserRole(args[0]), s) },
			func(r rest.Role) []table { return roleTable(r) })
	})
	var names []string
	for _, g := range api.AllRouteGroups() {
		names = append(names, string(g))
	}
	mustFlag(c.RegisterFlagCompletionFunc("allow", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)))
	return c
}

// wrapped returns a list of words in lines of at most 90 columns.
func wrapped(words string) string {
	const most = 90
	var out strings.Builder
	n := 0
	for _, word := range strings.Fields(words) {
		if n > 0 && n+1+len(word) > most {
			out.WriteString("\n")
			n = 0
		} else if n > 0 {
			out.WriteString(" ")
			n++
		}
		out.WriteString(word)
		n += len(word)
	}
	return out.String()
}

func roleDelete(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:     "delete ROLE",
		Short:   "Delete a role that no token has",
		Example: "  berth role delete deployer --yes",
		Args:    exactArgs("a ROLE"),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		return e.confirmAndDelete(ctx, s, "delete role", args[0], func(ctx context.Context) error {
			return c.DeleteRole(ctx, api.UserRole(args[0]))
		})
	})
	return c
}
