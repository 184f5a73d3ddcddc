package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func leaseCommand(e *env) *cobra.Command {
	c := nounCommand("lease", "Reserve room ahead: hosts, or room for instances",
		leaseCreate(e), leaseFind(e), leasePlan(e), leaseList(e), leaseShow(e), leaseUpdate(e), leaseDelete(e), leaseCalendar(e), seriesCommand(e))
	c.Aliases = []string{"leases"}
	return c
}

func leaseList(e *env) *cobra.Command {
	var of leaseFilter
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the leases that you may see, the soonest first",
		Example: "  berth lease list\n  berth lease list --status active --status pending -o json",
		Args:    exactArgs(),
	}
	of.addFlags(c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		all, body, err := e.readLeases(ctx, cl, of)
		if err != nil {
			return err
		}
		return e.printList("leases", body, func() []table {
			return tableOf("ID|NAME|STATUS|START|END|RESERVED|PROJECT", func(l rest.Lease) []any {
				return []any{l.ID, l.Name, l.Status, showMinute(l.Start), showMinute(l.End), showReserved(&l), l.Project}
			})(all)
		})
	})
	return c
}

// leaseFilter holds the flags that select leases.
type leaseFilter struct {
	statuses []string
	project  string
}

func (of *leaseFilter) addFlags(c *cobra.Command) {
	c.Flags().StringSliceVar(&of.statuses, "status", nil, "only leases with this `STATUS`, such as active; may be repeated")
	c.Flags().StringVar(&of.project, "project", "", "only leases of this project")
}

// accepts reports whether a lease is one of those that the flags select.
func (of *leaseFilter) accepts(l *rest.Lease) bool {
	return (of.project == "" || l.Project == api.ProjectID(of.project)) &&
		(len(of.statuses) == 0 || slices.ContainsFunc(of.statuses, func(s string) bool { return strings.EqualFold(s, string(l.Status)) }))
}

// readLeases returns the selected leases, the soonest first, and an answer that consists of
// them.
func (e *env) readLeases(ctx context.Context, cl *client.Client, of leaseFilter) ([]rest.Lease, []byte, error) {
	var body []byte
	answered := e.noteWaiting()
	all, err := cl.Leases(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }))
	answered()
	if err != nil {
		return nil, nil, err
	}
	var raw struct {
		Leases []json.RawMessage `json:"leases"`
	}
	if err = json.Unmarshal(body, &raw); err != nil {
		return nil, nil, fmt.Errorf("selecting leases: %w", err)
	}
	order := make([]int, 0, len(all))
	for i := range all {
		if of.accepts(&all[i]) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[a].Start, all[b].Start) })
	out, chosen := make([]rest.Lease, 0, len(order)), make([]json.RawMessage, 0, len(order))
	for _, i := range order {
		out, chosen = append(out, all[i]), append(chosen, raw.Leases[i])
	}
	if body, err = json.Marshal(map[string][]json.RawMessage{"leases": chosen}); err != nil {
		return nil, nil, fmt.Errorf("selecting leases: %w", err)
	}
	return out, body, nil
}

// findLease returns the lease with the id ref, or the only lease with the name ref.
func findLease(ctx context.Context, c *client.Client, ref string) (rest.Lease, error) {
	found, err := c.Lease(ctx, api.LeaseID(ref))
	if api.CodeOf(err) != api.CodeNotFound {
		return found, err
	}
	all, err := c.Leases(ctx)
	if err != nil {
		return found, err
	}
	var ids []string
	for _, l := range all {
		if l.Name == ref {
			ids = append(ids, string(l.ID))
		}
	}
	switch len(ids) {
	case 0:
		return found, exitError(exitNotFound, "list the leases with: berth lease list", "there is no lease %q", ref)
	case 1:
		return c.Lease(ctx, api.LeaseID(ids[0]))
	}
	return found, exitError(exitConflict, "give the id of one: "+strings.Join(ids, ", "), "%d leases are named %q", len(ids), ref)
}

// findReservation returns the id of a reservation of a lease: ref, or that of the only
// reservation of the lease with the id or name ref. Without a flavor it must be of instances.
func findReservation(ctx context.Context, c *client.Client, ref string, flavored bool) (api.ReservationID, error) {
	find := findLease
	if api.ValidUUID(ref) { // of a lease or of a reservation, and no name
		find = func(ctx context.Context, c *client.Client, ref string) (rest.Lease, error) {
			return c.Lease(ctx, api.LeaseID(ref))
		}
	}
	l, err := find(ctx, c, ref)
	switch {
	case api.CodeOf(err) == api.CodeNotFound && api.ValidUUID(ref):
		return api.ReservationID(ref), nil // the zone knows whether it is one
	case err != nil:
		return "", err
	case l.Status == api.LeasePending:
		return "", exitError(exitConflict, "wait until then, or change it with: berth lease update "+ref+" --start now", "lease %s begins at %s", ref, showMinute(l.Start))
	case len(l.Reservations) == 1 && !flavored && l.Reservations[0].ReservedHosts != nil:
		return "", exitError(exitUsage, "give --flavor", "lease %s reserves hosts, which say nothing about the size of an instance", ref)
	case len(l.Reservations) == 1:
		return l.Reservations[0].ID, nil
	}
	var ids []string
	for i := range l.Reservations {
		ids = append(ids, string(l.Reservations[i].ID))
	}
	return "", exitError(exitUsage, "give one of: "+strings.Join(ids, ", "), "lease %s has %s", ref, countThings(int64(len(ids)), "reservation"))
}

// explainLease returns err with the hint how to learn why there was no room.
func explainLease(err error) error {
	if id := client.RequestIDOf(err); id != "" && api.CodeOf(err) == api.CodeNoCapacity {
		return withHint(err, "see why with: berth explain "+string(id))
	}
	return err
}

// leaseNames completes leases.
func leaseNames(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	all, err := c.Leases(ctx)
	var out []string
	for _, l := range all {
		out = append(out, string(l.ID)+"\t"+l.Name)
	}
	return out, err
}

// leaseReservationNames completes reservations of leases.
func leaseReservationNames(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	all, err := c.Leases(ctx)
	var out []string
	for _, l := range all {
		for i := range l.Reservations {
			out = append(out, string(l.Reservations[i].ID)+"\t"+l.Name)
		}
	}
	return out, err
}

func leaseShow(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "show LEASE",
		Short:             "Show one lease, by its id or name: its reservations, events and slots",
		Example:           "  berth lease show nightly",
		Args:              exactArgs("a LEASE"),
		ValidArgsFunction: e.completeFirst(leaseNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			var body []byte
			l, err := findLease(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }), c, args[0])
			if err != nil {
				return err
			}
			if e.format != formatTable {
				return e.printAnswer(body, nil)
			}
			slots, err := c.LeaseSlots(ctx, l.ID)
			if err != nil {
				return err
			}
			return e.printTables(append(leaseTables(l), slotTables(slots)...)...)
		}),
	}
}

func leaseDelete(e *env) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:   "delete LEASE...",
		Short: "End leases now and delete them, by id or name",
		Long: `End leases now and delete them, by id or name. The instances in them end, and the room
is free once they are gone; the command waits for that up to a minute.`,
		Example:           "  berth lease delete nightly --yes",
		ValidArgsFunction: e.completeFirst(leaseNames),
	}
	s.addFlag(c)
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError(c, "%q needs a LEASE", c.CommandPath())
		}
		return nil
	}
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		what := "lease " + args[0]
		if len(args) > 1 {
			what = "leases " + strings.Join(args, ", ")
		}
		if err := e.confirmAction(ctx, s, "end and delete "+what+", and every instance within"); err != nil {
			return err
		}
		for _, ref := range args {
			if err := e.deleteLease(ctx, cl, ref); err != nil {
				return nameSubject("lease "+ref, err)
			}
		}
		return nil
	})
	return c
}

// deleteLease deletes one lease, and reports whether something of it is still ending.
func (e *env) deleteLease(ctx context.Context, cl *client.Client, ref string) error {
	l, err := findLease(ctx, cl, ref)
	if err != nil {
		return err
	}
	answered := e.noteWaiting()
	err = cl.DeleteLease(ctx, l.ID)
	answered()
	if err != nil {
		return err
	}
	left, err := cl.Lease(ctx, l.ID)
	switch {
	case api.CodeOf(err) == api.CodeNotFound:
		e.printNote("lease %s is deleted", ref)
	case err == nil:
		e.printNote("lease %s is %s: its instances are still ending", ref, left.Status)
	default:
		e.printNote("lease %s is being deleted", ref)
	}
	return nil
}

// showMinute returns the time of a lease or an event, which is a whole minute except for the
// end of a lease that has ended early.
func showMinute(t rest.LeaseTime) string {
	at := api.Instant(t).Time()
	if at.Truncate(time.Minute).Equal(at) {
		return at.Format("2006-01-02T15:04Z")
	}
	return showInstant(api.Instant(t))
}

// showSpan returns a length in days, hours and minutes, such as 2d12h.
func showSpan(d time.Duration) string {
	const day = 24 * time.Hour
	var out string
	if d >= day {
		out = fmt.Sprintf("%dd", d/day)
		d %= day
	}
	if d == 0 && out != "" {
		return out
	}
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return out + text
}
