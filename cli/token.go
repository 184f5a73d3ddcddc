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

func tokenCommand(e *env) *cobra.Command {
	c := nounCommand("token", "See, create and delete the tokens of callers (admins)",
		&cobra.Command{
			Use:     "list",
			Short:   "List tokens, without their secrets",
			Example: "  berth token list",
			Args:    exactArgs(),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
				return listAll(ctx, e, "tokens", c.Tokens, tableOf("ID|USER|PROJECT|ROLES|CREATED|EXPIRES", func(t rest.Token) []any {
					return []any{t.ID, t.User, t.Project, showRoles(t.Roles), showInstant(t.Created), showInstant(t.Expires)}
				}))
			}),
		},
		tokenCreate(e), tokenDelete(e),
	)
	c.Aliases = []string{"tokens"}
	return c
}

func showRoles(given []api.UserRole) string {
	var parts []string
	for _, r := range given {
		parts = append(parts, string(r))
	}
	return strings.Join(parts, ", ")
}

func tokenCreate(e *env) *cobra.Command {
	var user, project string
	var given []string
	var ttl time.Duration
	c := &cobra.Command{
		Use:     "create --user USER --project PROJECT",
		Short:   "Create a token; it is shown only once",
		Example: "  berth token create --user ada --project web --role member --ttl 720h",
		Args:    exactArgs(),
	}
	f := c.Flags()
	f.StringVar(&user, "user", "", "user of the token (required)")
	f.StringVar(&project, "project", "", "project of the token (required)")
	f.StringSliceVar(&given, "role", []string{string(api.RoleMember)}, "`ROLE` of the user: reader, member or admin; may be repeated")
	f.DurationVar(&ttl, "ttl", 0, "how long it is valid (default: until it is deleted)")
	choices := []string{string(api.RoleReader), string(api.RoleMember), string(api.RoleAdmin)}
	mustFlag(c.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)))
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		if user == "" || project == "" {
			return usageError(c, "%q needs --user and --project", c.CommandPath())
		}
		s := rest.TokenSpec{User: api.UserID(user), Project: api.ProjectID(project), TTL: rest.Duration(ttl)}
		for _, r := range given {
			s.Roles = append(s.Roles, api.UserRole(r))
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.TokenCreated, error) { return cl.CreateToken(ctx, s) },
			func(t rest.TokenCreated) []table {
				out := table{header: []string{"ID", "TOKEN"}}
				out.addRow(t.ID, t.Token)
				return []table{out}
			})
	})
	return c
}

func tokenDelete(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:     "delete TOKEN-ID",
		Short:   "Delete a token",
		Example: "  berth token delete 0123456789abcdef --yes",
		Args:    exactArgs("a TOKEN-ID"),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		return e.confirmAndDelete(ctx, s, "delete token", args[0], func(ctx context.Context) error {
			return c.DeleteToken(ctx, api.TokenID(args[0]))
		})
	})
	return c
}

func joinTokenCommand(e *env) *cobra.Command {
	var kind, name string
	var ttl time.Duration
	create := &cobra.Command{
		Use:   "create --kind node|agent --name NAME",
		Short: "Create a token for one node or agent to join with",
		Long: `Create and print a token with which one node or agent may join the zone. It is valid
for one use and, without --ttl, for 15 minutes. Give it to the new node or agent as a
file.`,
		Example: "  berth join-token create --kind agent --name rack1 > rack1.token",
		Args:    exactArgs(),
	}
	f := create.Flags()
	f.StringVar(&kind, "kind", "", "node or agent (required)")
	f.StringVar(&name, "name", "", "id of the node or agent (required)")
	f.DurationVar(&ttl, "ttl", 0, "how long it is valid, at most "+api.JoinTokenTTLMax.String())
	choices := []string{string(api.JoinNode), string(api.JoinAgent)}
	mustFlag(create.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)))
	create.RunE = e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		k := api.JoinKind(kind)
		if k != api.JoinNode && k != api.JoinAgent {
			return usageError(create, "--kind must be node or agent, got %q", kind)
		}
		if name == "" {
			return usageError(create, "%q needs --name", create.CommandPath())
		}
		return showAnswer(ctx, e, func(ctx context.Context) (string, error) {
			return c.CreateJoinToken(ctx, rest.JoinTokenSpec{Kind: k, Name: name, TTL: rest.Duration(ttl)})
		}, bareToken)
	})
	return nounCommand("join-token", "Admit nodes and agents to the zone (admins)", create)
}
