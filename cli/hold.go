package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func holdCommand(e *env) *cobra.Command {
	c := nounCommand("hold", "See and decide the holds of parent zones (admins)", holdList(e), holdResolve(e))
	c.Aliases = []string{"holds"}
	return c
}

func holdList(e *env) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the undecided holds of parent zones",
		Example: "  berth hold list",
		Args:    exactArgs(),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return listAll(ctx, e, "holds", onePage(c.Holds), tableOf("ID|PARENT|RESERVATION|PROJECT|STATE|INSTANCES|CREATED", func(h rest.Hold) []any {
				return []any{h.ID, h.Parent, h.Reservation, h.Project, h.State, h.Held, showInstant(h.Created)}
			}))
		}),
	}
}

func holdResolve(e *env) *cobra.Command {
	var s sure
	var decision string
	c := &cobra.Command{
		Use:   "resolve HOLD --decision commit|abort",
		Short: "Decide a hold by force",
		Long: `Decide a hold in place of a parent zone that will not return. The decision is
recorded, and reported to the parent if it returns after all; the parent may have
decided otherwise.`,
		Example:           "  berth hold resolve 0123456789abcdef0123456789abcdef --decision abort",
		Args:              exactArgs("a HOLD"),
		ValidArgsFunction: e.completeFirst(holdNames),
	}
	s.addFlag(c)
	c.Flags().StringVar(&decision, "decision", "", "commit or abort (required)")
	choices := []string{string(api.DecisionCommit), string(api.DecisionAbort)}
	mustFlag(c.RegisterFlagCompletionFunc("decision", cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)))
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		d := api.Decision(decision)
		if d != api.DecisionCommit && d != api.DecisionAbort {
			return usageError(c, "--decision must be commit or abort, got %q", decision)
		}
		return e.confirmAndDelete(ctx, s, fmt.Sprintf("force %s of hold", d), args[0], func(ctx context.Context) error {
			return cl.ResolveHold(ctx, api.HoldID(args[0]), d)
		})
	})
	return c
}

func holdNames(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	holds, err := c.Holds(ctx)
	var out []string
	for _, h := range holds {
		out = append(out, string(h.ID))
	}
	return out, err
}
