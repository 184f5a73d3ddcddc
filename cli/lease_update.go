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

const leaseUpdateHelp = `Change a lease, by its id or name: by all that the flags ask for, or by nothing. Longer
and larger leases need room, which the zone has found or not when the command returns.
A lease that has started keeps the room that it has.

--hosts and --instances change the only reservation of that kind. Where there are
several, name each with --reservation id=RESERVATION,... and the keys to change: min,
max, hypervisor-properties, resource-properties and before-end of hosts; vcpus,
memory-mb, disk-gb, amount, affinity and resource-properties of instances.

--end now ends the lease at once. docs/leases.md says what may change when.`

// leaseChange holds the flags about a change of a lease.
type leaseChange struct {
	name, start, end, prolong, beforeEnd string
	shared                               []string
	unshare, shareIdle                   bool
	grace                                time.Duration
	hosts                                string
	instances                            int
	reservations                         []string
}

func leaseUpdate(e *env) *cobra.Command {
	var w leaseChange
	c := &cobra.Command{
		Use:   "update LEASE",
		Short: "Change the name, the window, the sizes or the projects of a lease",
		Long:  leaseUpdateHelp,
		Example: `  berth lease update nightly --prolong 2h
  berth lease update nightly --end now
  berth lease update nightly --name weekly --shared-with shop
  berth lease update lab --instances 12
  berth lease update mixed --reservation id=1c9b8e6e-0d8f-4c39-9d6b-0f6f5e0f7a11,amount=5,memory-mb=4096`,
		Args:              exactArgs("a LEASE"),
		ValidArgsFunction: e.completeFirst(leaseNames),
	}
	w.addFlags(c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		id, s, err := w.readUpdate(ctx, c, cl, args[0], e.now())
		if err != nil {
			return err
		}
		return explainLease(showAnswer(ctx, e, func(ctx context.Context) (rest.Lease, error) { return cl.UpdateLease(ctx, id, s) }, leaseTables))
	})
	return c
}

// readUpdate returns the id of a lease, and its change in the form of the API.
func (w *leaseChange) readUpdate(ctx context.Context, c *cobra.Command, cl *client.Client, ref string, now time.Time) (api.LeaseID, rest.LeaseUpdate, error) {
	if err := w.checkFlags(c); err != nil {
		return "", rest.LeaseUpdate{}, err
	}
	old, err := findLease(ctx, cl, ref)
	if err != nil {
		return "", rest.LeaseUpdate{}, err
	}
	s, err := w.leaseUpdate(c, &old, now)
	return old.ID, s, err
}

func (w *leaseChange) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.name, "name", "", "new name")
	f.StringVar(&w.start, "start", "", "new start, a `TIME` as for berth lease create")
	f.StringVar(&w.end, "end", "", "new end, a `TIME` as for berth lease create")
	f.StringVar(&w.prolong, "prolong", "", "`DURATION` by which the lease ends later, such as 90m or 2d; or earlier, such as -90m")
	f.StringVar(&w.beforeEnd, "before-end", "", "`TIME` of the event before the end, or a distance to the end such as -30m")
	f.StringSliceVar(&w.shared, "shared-with", nil, "all `PROJECT`s that may use the lease too; may be repeated")
	f.BoolVar(&w.unshare, "no-sharing", false, "only its own project may use the lease")
	addGraceFlags(c, &w.grace, &w.shareIdle)
	f.StringVar(&w.hosts, "hosts", "", "number of hosts of the only reservation of hosts: `MIN[:MAX]`")
	f.IntVar(&w.instances, "instances", 0, "amount of the only reservation of instances: `N`")
	f.StringArrayVar(&w.reservations, "reservation", nil, "change of one reservation as `id=RESERVATION,KEY=VALUE,...`; may be repeated")
}

// checkFlags refuses flags that are wrong for every lease.
func (w *leaseChange) checkFlags(c *cobra.Command) error {
	f := c.Flags()
	changes := false
	for _, flag := range []string{
		"name", "start", "end", "prolong", "before-end", "shared-with", "no-sharing", "hosts", "instances", "reservation", flagGrace, flagShareIdle,
	} {
		changes = changes || f.Changed(flag)
	}
	switch {
	case !changes:
		return usageError(c, "give what to change")
	case f.Changed("end") && f.Changed("prolong"):
		return usageError(c, "give --end or --prolong, not both")
	case f.Changed("shared-with") && w.unshare:
		return usageError(c, "give --shared-with or --no-sharing, not both")
	case f.Changed("instances") && (w.instances < 1 || w.instances > api.CountMax):
		return usageError(c, "--instances must be 1 to %d, got %d", api.CountMax, w.instances)
	}
	return nil
}

// leaseUpdate returns the change of a lease in the form of the API.
func (w *leaseChange) leaseUpdate(c *cobra.Command, old *rest.Lease, now time.Time) (rest.LeaseUpdate, error) {
	var s rest.LeaseUpdate
	f := c.Flags()
	if f.Changed("name") {
		s.Name = &w.name
	}
	if f.Changed("shared-with") || w.unshare {
		shared := projectsOf(w.shared)
		s.Shared = &shared
	}
	s.Grace, s.ShareIdle = readGrace(c, w.grace, w.shareIdle)
	if err := w.setDates(c, &s, old, now); err != nil {
		return s, err
	}
	for _, text := range w.reservations {
		r, err := readReservation(c, text)
		if err != nil {
			return s, err
		}
		if r.ID == "" {
			return s, usageError(c, "--reservation needs id=RESERVATION, got %q", text)
		}
		s.Reservations = append(s.Reservations, r)
	}
	if f.Changed("hosts") {
		least, most, ok := parseRange(w.hosts)
		if !ok {
			return s, usageError(c, "--hosts must look like 2 or 2:4, got %q", w.hosts)
		}
		id, err := onlyReservation(c, old, "hosts", func(r *rest.LeaseReservation) bool { return r.ReservedHosts != nil })
		if err != nil {
			return s, err
		}
		s.Reservations = append(s.Reservations, rest.ReservationSpec{ID: id, Min: &least, Max: &most})
	}
	if f.Changed("instances") {
		id, err := onlyReservation(c, old, "instances", func(r *rest.LeaseReservation) bool { return r.ReservedInstances != nil })
		if err != nil {
			return s, err
		}
		s.Reservations = append(s.Reservations, rest.ReservationSpec{ID: id, Amount: &w.instances})
	}
	return s, nil
}

// onlyReservation returns the id of the only reservation of a lease that fits a flag.
func onlyReservation(c *cobra.Command, l *rest.Lease, flag string, fits func(*rest.LeaseReservation) bool) (api.ReservationID, error) {
	var found []api.ReservationID
	for i := range l.Reservations {
		if fits(&l.Reservations[i]) {
			found = append(found, l.Reservations[i].ID)
		}
	}
	if len(found) != 1 {
		return "", usageError(c, "--%s is for a lease with one reservation of %s, and this one has %d; give --reservation id=...", flag, flag, len(found))
	}
	return found[0], nil
}

// setDates sets the dates that change.
func (w *leaseChange) setDates(c *cobra.Command, s *rest.LeaseUpdate, old *rest.Lease, now time.Time) error {
	end := api.Instant(old.End).Time()
	var err error
	if w.start != "" {
		if _, s.Start, err = readTime(c, "start", w.start, now); err != nil {
			return err
		}
	}
	if w.end != "" {
		if end, s.End, err = readTime(c, "end", w.end, now); err != nil {
			return err
		}
	}
	if w.prolong != "" {
		text, back := strings.CutPrefix(w.prolong, "-")
		d, ok := parseSpan(strings.TrimPrefix(text, "+"))
		if !ok || d <= 0 {
			return usageError(c, "--prolong must be whole minutes such as 90m, 2d or -90m, got %q", w.prolong)
		}
		if back {
			d = -d
		}
		end = end.Add(d)
		s.End = dateOf(end)
	}
	when := leaseWhen{beforeEnd: w.beforeEnd}
	s.BeforeEnd, err = when.readBeforeEnd(c, end, now)
	return err
}
