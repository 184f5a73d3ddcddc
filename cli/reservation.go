package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func reservationCommand(e *env) *cobra.Command {
	c := nounCommand("reservation", "See and delete the reservations of boots, and see those of leases", reservationList(e), reservationShow(e), reservationDelete(e))
	c.AddCommand(reservationRestart(e))
	c.Aliases = []string{"reservations"}
	return c
}

func reservationList(e *env) *cobra.Command {
	var w whose
	var q client.ReservationQuery
	var in string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the reservations of your project, the newest first",
		Example: "  berth reservation list\n  berth reservation list --state FAILED --limit 10\n  berth reservation list --all-projects -o wide\n  berth reservation list --project web --jq '.boots[].reservation_id'",
		Args:    exactArgs(),
	}
	cmd.RunE = e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		if err := w.checkFlags(cmd); err != nil {
			return err
		}
		q.AllProjects = w.all
		q.State, e.list.usual = api.BootState(strings.ToUpper(in)), "-created"
		return listAll(ctx, e, "boots", func(ctx context.Context, o client.ListOptions) (client.Page[rest.Boot], error) {
			return w.clientFor(c).FindReservations(ctx, q, o)
		}, reservationRows(q.AllProjects))
	})
	w.addListFlags(cmd, "reservations")
	f := cmd.Flags()
	f.StringVar(&in, "state", "", "only reservations in this state, such as ACTIVE or FAILED")
	mustFlag(cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(bootStates(), cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// bootStates returns the states that reservations may have.
func bootStates() []string {
	var out []string
	for _, s := range []api.BootState{
		api.BootAccepted, api.BootHolding, api.BootBuilding, api.BootActive, api.BootDegraded, api.BootError, api.BootReleasing, api.BootReleased, api.BootFailed,
	} {
		out = append(out, string(s))
	}
	return out
}

// reservationRows returns the table of reservations, with their projects if there are several.
func reservationRows(projects bool) func([]rest.Boot) []table {
	header, wide := "RESERVATION|NAME|STATE|ACTIVE|FLAVOR|CREATED", "PROJECT|USER|UPDATED|REQUEST|REASON"
	if projects {
		header, wide = "RESERVATION|PROJECT|NAME|STATE|ACTIVE|FLAVOR|CREATED", strings.TrimPrefix(wide, "PROJECT|")
	}
	return wideTableOf(header, wide, func(b rest.Boot) []any {
		cells := []any{b.Name, string(b.State) + showUnreachable(b.Unreachable), fmt.Sprintf("%d/%d", b.Instances[api.StatusActive], b.MaxCount), b.Flavor, showInstant(b.Created)}
		more := []any{b.User, showInstant(b.Updated), b.Request, b.Reason}
		if projects {
			return slices.Concat([]any{b.Reservation, b.Project}, cells, more)
		}
		return slices.Concat([]any{b.Reservation}, cells, []any{b.Project}, more)
	})
}

func reservationShow(e *env) *cobra.Command {
	var w whose
	cmd := &cobra.Command{
		Use:   "show RESERVATION",
		Short: "Show one reservation: of a boot with its instances by zone, or of a lease",
		Example: "  berth reservation show r-0123456789ab\n  berth reservation show r-0123456789ab --project web\n" +
			"  berth reservation show 1c9b8e6e-0d8f-4c39-9d6b-0f6f5e0f7a11",
		Args:              exactArgs("a RESERVATION"),
		ValidArgsFunction: e.completeFirst(reservationNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			id := api.ReservationID(args[0])
			err := showAnswer(ctx, e, func(ctx context.Context) (rest.Boot, error) { return w.clientFor(c).Reservation(ctx, id, 0) }, bootTables)
			if api.CodeOf(err) != api.CodeNotFound {
				return err
			}
			if found, leaseErr := e.showLeaseReservation(ctx, c, id); found || leaseErr != nil {
				return leaseErr
			}
			return err
		}),
	}
	w.addFlag(cmd)
	return cmd
}

func reservationDelete(e *env) *cobra.Command {
	var s sure
	var p patience
	var w whose
	cmd := &cobra.Command{
		Use:   "delete RESERVATION",
		Short: "Delete all instances of a reservation",
		Long: `Delete all instances of a reservation, in every zone, and free their room. The
command waits until nothing is left.`,
		Example:           "  berth reservation delete r-0123456789ab --yes\n  berth reservation delete r-0123456789ab --project web --no-wait",
		Args:              exactArgs("a RESERVATION"),
		ValidArgsFunction: e.completeFirst(reservationNames),
	}
	s.addFlag(cmd)
	p.addFlags(cmd)
	w.addFlag(cmd)
	cmd.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if err := p.checkFlags(cmd); err != nil {
			return err
		}
		id := api.ReservationID(args[0])
		if err := e.confirmAction(ctx, s, fmt.Sprintf("delete every instance of reservation %q", id)); err != nil {
			return err
		}
		var body []byte
		b, err := w.clientFor(c).Release(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }), id, 0)
		if err != nil {
			return err
		}
		if p.isWaiting() {
			if b, body, err = e.followBoot(ctx, c, w, id, p, isReleased); err != nil {
				return err
			}
		}
		return e.printAnswer(body, func() []table { return bootTables(b) })
	})
	return cmd
}

// isReleased reports whether nothing is left to release.
func isReleased(s api.BootState) bool { return s == api.BootReleased || s == api.BootFailed }
