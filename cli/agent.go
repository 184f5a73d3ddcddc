package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// withAgents returns the commands that run processes, with the verbs that manage agents under the one
// that runs an agent.
func withAgents(e *env, processes []*cobra.Command) []*cobra.Command {
	verbs := callerCommands(e, agentList(e), agentRevoke(e))
	i := slices.IndexFunc(processes, func(c *cobra.Command) bool { return c.Name() == "agent" })
	if i < 0 {
		return append(processes, nounCommand("agent", "See and revoke the agents of the zone (admins)", verbs...))
	}
	processes[i].AddCommand(verbs...)
	return processes
}

func agentList(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the agents of the zone (admins)",
		Long: `List the agents of the zone by their certificates, with the number of their hosts. LAST SEEN is empty
for an agent that has not called since the zone has its leader, and EXPIRES for one that
joined in a release before agents were recorded. CLOCK is by how much the clock of its
machine is ahead of the leader's.`,
		Example: "  berth agent list\n  berth agent list -o json",
		Args:    exactArgs(),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return listAll(ctx, e, "agents", c.Agents, tableOf("ID|VERSION|HOSTS|FIRST SEEN|LAST SEEN|EXPIRES|CLOCK|REVOKED|NAMES|MOST|OF EACH|START", func(a rest.Agent) []any {
				return []any{a.ID, a.Version, a.Hosts, showInstant(a.First), showKnown(a.Seen), showKnown(a.Expires), showClock(a.Clock), showBool(a.Revoked), showPrefix(a.AgentTerms), mostOf(a.AgentTerms), a.HostCapacity.String(), startOf(a.AgentTerms)}
			}))
		}),
	}
}

// showKnown shows a time, "" for one that is not known.
func showKnown(t api.Instant) string {
	if t == 0 {
		return ""
	}
	return showInstant(t)
}

func showPrefix(t rest.AgentTerms) string {
	if t.HostPrefix == "" {
		return ""
	}
	return t.HostPrefix + "*"
}

func mostOf(t rest.AgentTerms) any {
	if t.HostsMax == 0 {
		return ""
	}
	return t.HostsMax
}

func startOf(t rest.AgentTerms) string {
	if t.Disabled {
		return "disabled"
	}
	return "enabled"
}

func agentRevoke(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:   "revoke AGENT",
		Short: "End an agent: refuse its certificate, take its hosts down (admins)",
		Long: `End an agent. Its certificate is refused from now on, its connections are closed, and its hosts
are down and disabled: what runs there is treated as on hosts that fell silent. To admit the
agent again, give it a new join token, and enable its hosts.`,
		Example: "  berth agent revoke rack1 --yes",
		Args:    exactArgs("an AGENT"),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		return e.confirmAndDelete(ctx, s, "revoke agent", args[0], func(ctx context.Context) error {
			return c.RevokeAgent(ctx, api.AgentID(args[0]))
		})
	})
	return c
}
