package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"berth/api/client"
	"berth/api/rest"
)

// leasePlanHelp is also that of its two verbs.
const leasePlanHelp = `Plan a lease, or an update of one, without making it: the same checks and the same plan
over all zones, and why hosts are turned away where it comes out short. Nothing is
reserved or changed. The exit code is 5 if it would be refused for lack of room.`

func leasePlan(e *env) *cobra.Command {
	c := nounCommand("plan", "Plan a lease or an update without making it", leasePlanCreate(e), leasePlanUpdate(e))
	c.Long = leasePlanHelp
	return c
}

func leasePlanCreate(e *env) *cobra.Command {
	var w leaseWish
	c := &cobra.Command{
		Use: "create NAME --for DURATION", Short: "Say what would become of berth lease create with these flags",
		Long: leasePlanHelp + "\n\nThe flags are those of berth lease create, except for those about waiting and repeating.",
		Example: `  berth lease plan create nightly --for 2h --instances 3 --flavor small
  berth lease plan create training --start +1d --for 8h --hosts 2:4 --zone west --zone east -o json`,
		Args: exactArgs("a NAME"),
	}
	w.addFlags(e, c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		s, err := w.leaseCreate(c, args[0], e.now())
		if err != nil {
			return err
		}
		return e.showLeasePlan(ctx, func(ctx context.Context) (rest.LeasePlan, error) { return cl.PlanLease(ctx, s) })
	})
	return c
}

func leasePlanUpdate(e *env) *cobra.Command {
	var w leaseChange
	c := &cobra.Command{
		Use: "update LEASE", Short: "Say what would become of berth lease update with these flags",
		Long: leasePlanHelp + "\n\nThe flags are those of berth lease update.",
		Example: `  berth lease plan update nightly --prolong 2h
  berth lease plan update lab --instances 12 -o json`,
		Args:              exactArgs("a LEASE"),
		ValidArgsFunction: e.completeFirst(leaseNames),
	}
	w.addFlags(c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		old, s, err := w.readUpdate(ctx, c, cl, args[0], e.now())
		if err != nil {
			return err
		}
		return e.showLeasePlan(ctx, func(ctx context.Context) (rest.LeasePlan, error) { return cl.PlanLeaseUpdate(ctx, old, s) })
	})
	return c
}

// showLeasePlan prints a dry run, and fails if the lease does not fit.
func (e *env) showLeasePlan(ctx context.Context, call func(context.Context) (rest.LeasePlan, error)) error {
	var p rest.LeasePlan
	err := showAnswer(ctx, e, func(ctx context.Context) (_ rest.LeasePlan, err error) {
		p, err = call(ctx)
		return p, err
	}, leasePlanTables)
	switch {
	case err != nil:
		return err
	case p.Fits:
		e.printNote("it fits; nothing was changed")
		return nil
	case p.Contended:
		return exitError(exitConflict, "try again: requests that are not decided yet hold room", "%s", whyNot(&p))
	}
	hint := "find out when it would fit with: berth lease find"
	if len(p.Reservations) == 0 {
		hint = "choose another window, or other hosts"
	}
	return exitError(exitNoCapacity, hint, "%s", whyNot(&p))
}

// whyNot returns why a lease does not fit.
func whyNot(p *rest.LeasePlan) string {
	if p.Reason == nil {
		return "it does not fit"
	}
	return *p.Reason
}

// leasePlanTables show what each reservation would get, and why there is not more of it.
func leasePlanTables(p rest.LeasePlan) []table {
	var t table
	t.addRow("FITS", showBool(p.Fits))
	if p.Reason != nil {
		t.addRow("REASON", *p.Reason)
	}
	t.addRow("START", showMinute(p.Start))
	t.addRow("END", fmt.Sprintf("%s (%s)", showMinute(p.End), showSpan(time.Duration(p.End-p.Start)*time.Millisecond)))
	if p.Unasked {
		t.addRow("NOT CHECKED", "by the external service of the zone, which may refuse it")
	}
	if p.Unasked {
		t.addRow("NOT CHECKED", "the external service of the zone, which may refuse the lease")
	}
	if p.Held {
		t.addRow("ROOM", "needs no other room than the lease has")
		return []table{t}
	}
	if p.Contended {
		t.addRow("CONTENDED", "requests that are not decided yet hold room")
	}
	if len(p.Reservations) == 0 { // the hosts of a maintenance lease are not free
		return []table{t}
	}
	reserved := table{header: []string{"RESERVATION", "TYPE", "WOULD GET", "NEEDS", "ZONES"}}
	for i, r := range p.Reservations {
		name := string(r.ID)
		if name == "" {
			name = strconv.Itoa(i + 1)
		}
		reserved.addRow(name, r.Type, r.WouldGet, showRange(r.Min, r.Max), showPlaces(r.Places))
	}
	zones := table{header: []string{"ZONE", "OUTCOME", "WOULD GET", "REASON"}}
	for _, z := range p.Zones {
		zones.addRow(z.Zone, z.Outcome, z.WouldGet, z.Reason)
	}
	tables := []table{t, reserved, zones}
	for i, r := range p.Reservations {
		if r.WouldGet < r.Max {
			tables = append(tables, refusalTables("This zone's own hosts"+ofReservation(p, i), "What would have worked", r.Refusals)...)
		}
	}
	for _, z := range p.Zones {
		for i, r := range z.Refusals {
			if i < len(p.Reservations) && p.Reservations[i].WouldGet < p.Reservations[i].Max {
				tables = append(tables, refusalTables("Hosts of "+z.Zone+" and below"+ofReservation(p, i), "What would have worked with "+z.Zone+" alone", r)...)
			}
		}
	}
	return tables
}

// ofReservation names a reservation if there are several.
func ofReservation(p rest.LeasePlan, i int) string {
	switch {
	case len(p.Reservations) < 2:
		return ""
	case p.Reservations[i].ID != "":
		return ", reservation " + string(p.Reservations[i].ID)
	}
	return fmt.Sprintf(", reservation %d", i+1)
}
