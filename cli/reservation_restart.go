package cli

import (
	"context"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
)

func reservationRestart(e *env) *cobra.Command {
	var p patience
	var every bool
	c := &cobra.Command{
		Use:   "restart RESERVATION",
		Short: "Restart the servers of a reservation that are in ERROR",
		Long: `Restart the servers of a reservation that are in ERROR, in every zone, or with --all every one
that is not being deleted. Each keeps its room, its files and its volumes. See also: berth server
restart.`,
		Example:           "  berth reservation restart r-0123456789ab\n  berth reservation restart r-0123456789ab --all --timeout 5m",
		Args:              exactArgs("a RESERVATION"),
		ValidArgsFunction: e.completeFirst(reservationNames),
	}
	p.addFlags(c)
	c.Flags().BoolVar(&every, "all", false, "restart also those that are not in ERROR")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		if err := p.checkFlags(c); err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(ctx, p.timeout)
		defer stop()
		id := api.ReservationID(args[0])
		if _, err := cl.Reservation(ctx, id, 0); err != nil {
			return err
		}
		all, err := membersToRestart(ctx, cl, id, every)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			e.printNote("nothing to restart: no server of reservation %s is in ERROR", id)
		}
		return e.orderServers(ctx, cl, api.PowerRestart, p, all)
	})
	return c
}

// membersToRestart returns the servers of a reservation that are in ERROR, or all that are to stay.
func membersToRestart(ctx context.Context, cl *client.Client, id api.ReservationID, every bool) (all []ordered, err error) {
	q := client.ServerQuery{Reservation: id, Status: api.StatusError}
	if every {
		q.Status = ""
	}
	for o := (client.ListOptions{}); ; {
		page, err := cl.Servers(ctx, q, o)
		if err != nil {
			return nil, err
		}
		for _, s := range page.Items {
			if s.Status != api.StatusDeleting {
				all = append(all, ordered{server: s, ref: string(s.ID)})
			}
		}
		if o.Marker = page.Next; o.Marker == "" {
			return all, nil
		}
	}
}
