package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func reservationCommand(e *env) *cobra.Command {
	c := noun("reservation", "See and give back what boots have made", reservationList(e), reservationShow(e), reservationDelete(e))
	c.Aliases = []string{"reservations"}
	return c
}

func reservationList(e *env) *cobra.Command {
	var w whose
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the reservations of your project",
		Example: "  berth reservation list\n  berth reservation list -o json\n  berth reservation list --project web",
		Args:    takes(),
		RunE: e.calls(func(ctx context.Context, c *client.Client, _ []string) error {
			return list(ctx, e, "boots", w.of(c).Reservations, tableOf("RESERVATION|NAME|STATE|ACTIVE|FLAVOR|CREATED", func(b rest.Boot) []any {
				return []any{b.Reservation, b.Name, b.State, fmt.Sprintf("%d/%d", b.Instances[api.StatusActive], b.MaxCount), b.Flavor, when(b.Created)}
			}))
		}),
	}
	w.flag(cmd)
	return cmd
}

func reservationShow(e *env) *cobra.Command {
	var w whose
	cmd := &cobra.Command{
		Use:               "show RESERVATION",
		Short:             "Show one reservation and what landed where",
		Example:           "  berth reservation show r-0123456789ab\n  berth reservation show r-0123456789ab --project web",
		Args:              takes("a RESERVATION"),
		ValidArgsFunction: e.first(reservationNames),
		RunE: e.calls(func(ctx context.Context, c *client.Client, args []string) error {
			return show(ctx, e, func(ctx context.Context) (rest.Boot, error) {
				return w.of(c).Reservation(ctx, api.ReservationID(args[0]), 0)
			}, bootTables)
		}),
	}
	w.flag(cmd)
	return cmd
}

func reservationDelete(e *env) *cobra.Command {
	var s sure
	var p patience
	var w whose
	cmd := &cobra.Command{
		Use:   "delete RESERVATION",
		Short: "Give back everything that a boot has made",
		Long: `Delete ends every instance of a reservation, in every zone, and gives their room
back. It waits until nothing is left.`,
		Example:           "  berth reservation delete r-0123456789ab --yes\n  berth reservation delete r-0123456789ab --project web --no-wait",
		Args:              takes("a RESERVATION"),
		ValidArgsFunction: e.first(reservationNames),
	}
	s.flag(cmd)
	p.flags(cmd)
	w.flag(cmd)
	cmd.RunE = e.calls(func(ctx context.Context, c *client.Client, args []string) error {
		if err := p.check(cmd); err != nil {
			return err
		}
		id := api.ReservationID(args[0])
		if err := e.confirm(ctx, s, fmt.Sprintf("end every instance of reservation %q", id)); err != nil {
			return err
		}
		var body []byte
		b, err := w.of(c).Release(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }), id, 0)
		if err != nil {
			return err
		}
		if p.waits() {
			if b, body, err = e.follow(ctx, c, w, id, p, released); err != nil {
				return err
			}
		}
		return e.print(body, func() []table { return bootTables(b) })
	})
	return cmd
}

// released reports whether nothing is left to give back.
func released(s api.BootState) bool { return s == api.BootReleased || s == api.BootFailed }
