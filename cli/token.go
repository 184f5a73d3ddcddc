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
	c := nounCommand("token", "See and revoke your tokens; create and delete those of others (admins)",
		tokenList(e), tokenRevoke(e), tokenCreate(e), tokenDelete(e))
	c.Aliases = []string{"tokens"}
	return c
}

func tokenList(e *env) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List your tokens, without their secrets",
		Example: `  berth token list
  berth token list --all`,
		Args: exactArgs(),
	}
	c.Flags().BoolVar(&all, "all", false, "list the tokens of everybody (admins)")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		list := cl.OwnTokens
		if all {
			list = cl.Tokens
		}
		return listAll(ctx, e, "tokens", list, tableOf("ID|USER|SERVICE|PROJECT|ROLES|CREATED|EXPIRES|LAST USED", func(t rest.Token) []any {
			return []any{t.ID, t.User, t.Service, t.Project, showRoles(t.Roles), showInstant(t.Created), showInstant(t.Expires), showUse(t.Used)}
		}))
	})
	return c
}

// showUse prints when a token was last used.
func showUse(at api.Instant) string {
	if at == 0 {
		return "-"
	}
	return showInstant(at)
}

func tokenRevoke(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:   "revoke TOKEN-ID",
		Short: "Revoke one of your tokens",
		Long: `Revoke one of your tokens, such as one that was lost. Calls that wait and event streams
that were begun with it end within a second. An admin ends those of others with
"berth token delete".`,
		Example: "  berth token revoke 0123456789abcdef --yes",
		Args:    exactArgs("a TOKEN-ID"),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		return e.confirmAndDelete(ctx, s, "revoke token", args[0], func(ctx context.Context) error {
			return c.RevokeToken(ctx, api.TokenID(args[0]))
		})
	})
	return c
}

// neverExpires is the value of a flag for a token that does not expire.
const neverExpires = "never"

// ParseExpiry reads how long a token is to be valid: a positive duration, or never, for which it
// returns 0.
func ParseExpiry(s string) (time.Duration, error) {
	if s == neverExpires {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, api.Errorf(api.CodeInvalid, "a token expires after a duration such as 720h, or %s; got %q", neverExpires, s)
	}
	return d, nil
}

func showRoles(given []api.UserRole) string {
	var parts []string
	for _, r := range given {
		parts = append(parts, string(r))
	}
	return strings.Join(parts, ", ")
}

func tokenCreate(e *env) *cobra.Command {
	var user, service, project string
	var given []string
	var expires string
	c := &cobra.Command{
		Use:   "create --user USER|--service NAME --project PROJECT",
		Short: "Create a token; it is shown only once",
		Long: `Create a token and print it, alone, ready for a file; it is shown only once. Its id
goes to standard error.`,
		Example: `  berth token create --user ada --project web --role member --expires 720h
  berth token create --user monitor --project ops --role reader --expires never
  berth token create --service ci --project web --role deployer > ci.token`,
		Args: exactArgs(),
	}
	f := c.Flags()
	f.StringVar(&user, "user", "", "user of the token")
	f.StringVar(&service, "service", "", "`NAME` of the service that the token is for, in place of a user")
	f.StringVar(&project, "project", "", "project of the token (required)")
	f.StringSliceVar(&given, "role", []string{string(api.RoleMember)}, "`ROLE`: reader, member, admin or one of \"berth role list\"; may be repeated")
	f.StringVar(&expires, "expires", api.TokenTTLDefault.String(), "after which `TIME` it expires, such as 720h, or never")
	choices := []string{string(api.RoleReader), string(api.RoleMember), string(api.RoleAdmin)}
	mustFlag(c.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)))
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		if (user == "") == (service == "") || project == "" {
			return usageError(c, "%q needs --project, and --user or --service", c.CommandPath())
		}
		ttl, err := ParseExpiry(expires)
		if err != nil {
			return usageError(c, "--expires: %s", api.MessageOf(err))
		}
		s := rest.TokenSpec{User: api.UserID(user), Service: service, Project: api.ProjectID(project), TTL: rest.Duration(ttl), Never: ttl == 0}
		for _, r := range given {
			s.Roles = append(s.Roles, api.UserRole(r))
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.TokenCreated, error) { return cl.CreateToken(ctx, s) },
			func(t rest.TokenCreated) []table {
				if e.format == formatTable {
					e.printNote("token %s was created; \"berth token delete %s\" ends it", t.ID, t.ID)
					return bareToken(t.Token)
				}
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
	var terms rest.AgentTerms
	var capacity string
	create := &cobra.Command{
		Use:   "create --kind node|agent --name NAME",
		Short: "Create a token for one node or agent to join with",
		Long: `Create and print a token with which one node or agent may join the zone. It is valid
for one use and, without --ttl, for 15 minutes. Give it to the new node or agent as a
file.

What an agent may register is bounded by --host-prefix, --hosts-max and --host-capacity for
as long as its certificate is valid. With --disabled its new hosts get no work until you enable them.`,
		Example: `  berth join-token create --kind agent --name rack1 > rack1.token
  berth join-token create --kind agent --name rack1 --host-prefix rack1- --hosts-max 40 --disabled > rack1.token
  berth join-token create --kind agent --name rack1 --host-capacity VCPU=128,MEMORY_MB=524288 > rack1.token`,
		Args: exactArgs(),
	}
	f := create.Flags()
	f.StringVar(&kind, "kind", "", "node or agent (required)")
	f.StringVar(&name, "name", "", "id of the node or agent (required)")
	f.DurationVar(&ttl, "ttl", 0, "how long it is valid, at most "+api.JoinTokenTTLMax.String())
	f.StringVar(&terms.HostPrefix, "host-prefix", "", "`TEXT` that the names of the agent's hosts begin with")
	f.IntVar(&terms.HostsMax, "hosts-max", 0, "how many hosts the agent may register")
	f.StringVar(&capacity, "host-capacity", "", "`AMOUNTS` that one of its hosts may offer at most, such as VCPU=128,MEMORY_MB=524288")
	f.BoolVar(&terms.Disabled, "disabled", false, "start the agent's hosts disabled")
	choices := []string{string(api.JoinNode), string(api.JoinAgent)}
	mustFlag(create.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)))
	create.RunE = e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		k := api.JoinKind(kind)
		if k != api.JoinNode && k != api.JoinAgent {
			return usageError(create, "--kind must be node or agent, got %q", kind)
		}
		if capacity != "" {
			var err error
			if terms.HostCapacity, err = parseAmounts(create, "--host-capacity", capacity); err != nil {
				return err
			}
		}
		if k != api.JoinAgent && !api.AgentTerms(terms).IsZero() {
			return usageError(create, "--host-prefix, --hosts-max, --host-capacity and --disabled go with --kind agent")
		}
		if name == "" {
			return usageError(create, "%q needs --name", create.CommandPath())
		}
		return showAnswer(ctx, e, func(ctx context.Context) (string, error) {
			return c.CreateJoinToken(ctx, rest.JoinTokenSpec{Kind: k, Name: name, TTL: rest.Duration(ttl), AgentTerms: terms})
		}, bareToken)
	})
	return nounCommand("join-token", "Admit nodes and agents to the zone (admins)", create)
}
