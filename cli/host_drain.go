package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/backoff"
)

// drainStep is the interval between looks at a drain or an evacuation.
const drainStep = time.Second

// drains are the values of --policy of a drain.
var drains = []string{string(api.DrainWait), string(api.DrainEnd), string(api.DrainMove)}

func hostList(e *env) *cobra.Command {
	var q client.HostQuery
	var state, pool string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List hosts",
		Example: "  berth host list\n  berth host list --state down\n  berth host list --az az1 --aggregate rack1",
		Args:    exactArgs(),
	}
	f := c.Flags()
	f.StringVar(&state, "state", "", "only hosts in this state, up or down")
	f.StringVar(&pool, "pool", "", "only hosts of this pool")
	f.StringVar(&q.AZ, "az", "", "only hosts of this availability zone")
	f.StringVar(&q.Aggregate, "aggregate", "", "only hosts in this aggregate")
	states := []string{string(api.HostUp), string(api.HostDown)}
	mustFlag(c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp)))
	mustFlag(c.RegisterFlagCompletionFunc("pool", cobra.FixedCompletions(pools, cobra.ShellCompDirectiveNoFileComp)))
	e.flagNames(c, "az", azNames)
	e.flagNames(c, "aggregate", aggregateNames)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		q.State, q.Pool = api.HostState(state), api.Pool(pool)
		return listAll(ctx, e, "hosts", func(ctx context.Context, o client.ListOptions) (client.Page[rest.Host], error) {
			return c.HostsWhere(ctx, q, o)
		}, wideTableOf("NAME|STATE|TAKES WORK|AZ|INSTANCES|FULLEST", "POOL|SLOTS|USED|GENERATION", func(h rest.Host) []any {
			return []any{h.Name, h.State, takesWork(h), h.AZ, h.Instances - h.Slots, describeFullest(h), h.Pool, h.Slots, describeUse(h), h.Generation}
		}))
	})
	return c
}

// takesWork describes whether a host may get new instances, and if not, why.
func takesWork(h rest.Host) string {
	switch {
	case h.Drain != "":
		return "no: draining, " + string(h.Drain)
	case h.Maintenance != "":
		return "no: " + h.Maintenance
	case !h.Enabled:
		return "no: disabled"
	case h.State != api.HostUp:
		return "no: " + string(h.State)
	}
	return showBool(true)
}

// detailTables shows a host and the progress of its drain.
func detailTables(d rest.Host) []table {
	tables := hostTables(d)
	if d.Leaving != nil {
		tables[0].addRow("STILL TO LEAVE", leavingText(d.Leaving))
	}
	return tables
}

func leavingText(l *rest.Leaving) string {
	text := fmt.Sprintf("%d left, %d of them ending, %d moving", l.Left, l.Ending, l.Moving)
	if l.Slots > 0 {
		text += ", and " + countThings(int64(l.Slots), "slot") + " of leases"
	}
	for _, t := range l.Traits {
		text += "; no other host has " + demandText(t)
	}
	return text
}

// demandText describes traits that are not there, and who was asked for with them.
func demandText(d rest.TraitDemand) string {
	var by []string
	for _, id := range d.Reservations {
		by = append(by, "reservation "+string(id))
	}
	for _, id := range d.Servers {
		by = append(by, "server "+string(id))
	}
	text := strings.Join(d.Traits, " or ") + ", needed by " + strings.Join(by, ", ")
	if len(d.Servers) == rest.DemandersMax || len(d.Reservations) == rest.DemandersMax {
		text += " and others: " + strconv.Itoa(d.Count) + " in all"
	}
	return text
}

func hostDrain(e *env) *cobra.Command {
	var policy, reason string
	var wait bool
	var timeout time.Duration
	var s sure
	var q drainQuestion
	c := &cobra.Command{
		Use:   "drain HOST --policy POLICY",
		Short: "Drain a host of its instances",
		Long: `Drain a host: it takes no new instances, and its own leave as the policy says. With
wait they stay until they end by themselves; with end they are deleted, after a
confirmation; with move each is stopped and started on another host of the zone, as
soon as one has room, and so are slots of leases in which nothing runs; otherwise slots
stay. With --wait the command shows progress and returns when the host is empty of what
is to leave. Without --reason the host keeps the reason it has.

With --what-if nothing is drained: it shows what would become of every lease and boot on
the HOSTs, of which there may be several, if all were drained with move now or at a time:
which would move and where to, and which would break because no other host takes them.
The exit code is 5 if any would break.`,
		Example: `  berth host drain h1 --policy move --wait --timeout 10m
  berth host drain h1 --policy end --yes
  berth host drain h1 --policy wait --reason disk
  berth host drain h1 h2 h3 --what-if --at 2030-01-31T02:00Z`,
		Args:              q.checkArgs,
		ValidArgsFunction: e.completeFirst(hostNames),
	}
	f := c.Flags()
	f.StringVar(&policy, "policy", "", "what to do with its instances: wait, end or move (required)")
	f.StringVar(&reason, "reason", "", "reason, shown with the host")
	f.BoolVar(&wait, "wait", false, "wait until the host is empty")
	f.DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait; the drain continues afterwards")
	s.addFlag(c)
	q.addFlags(c)
	mustFlag(c.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(drains, cobra.ShellCompDirectiveNoFileComp)))
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		p := api.DrainPolicy(policy)
		if q.whatIf {
			return e.planDrain(ctx, cl, c, q, args)
		}
		switch {
		case !p.Valid():
			return usageError(c, "--policy must be one of %s, got %q", strings.Join(drains, ", "), policy)
		case timeout <= 0:
			return usageError(c, "--timeout must be more than 0s, got %s", timeout)
		}
		if err := e.confirmDrain(ctx, cl, s, args[0], p); err != nil {
			return err
		}
		if !wait {
			return showAnswer(ctx, e, func(ctx context.Context) (rest.Host, error) {
				return cl.DrainHost(ctx, args[0], p, reason)
			}, detailTables)
		}
		if _, err := cl.DrainHost(ctx, args[0], p, reason); err != nil {
			return err
		}
		return e.followDrain(ctx, cl, args[0], timeout)
	})
	return c
}

// confirmDrain asks for confirmation of a drain that ends instances, and shows how many.
func (e *env) confirmDrain(ctx context.Context, cl *client.Client, s sure, ref string, p api.DrainPolicy) error {
	if p != api.DrainEnd || s.yes {
		return nil
	}
	d, err := cl.Host(ctx, ref)
	if err != nil {
		return err
	}
	return e.confirmAction(ctx, s, fmt.Sprintf("end %s on host %q", countThings(int64(d.Instances-d.Slots), "instance"), ref))
}

// followDrain waits until a host is empty, and reports each change of progress.
func (e *env) followDrain(ctx context.Context, cl *client.Client, ref string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var body []byte
	told := ""
	for {
		d, err := cl.Host(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }), ref)
		switch {
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return exitError(exitTimeout, "the drain continues; check with: berth host show "+ref, "host %s is not empty after %s: %s", ref, timeout, told)
		case err != nil:
			return err
		case d.Leaving == nil:
			return exitError(exitConflict, "", "the drain of host %s was ended by another call", ref)
		}
		if text := leavingText(d.Leaving); text != told {
			e.printNote("host %s: %s", ref, text)
			told = text
		}
		if hasLeft(&d) {
			return e.printAnswer(body, func() []table { return detailTables(d) })
		}
		backoff.Sleep(ctx, drainStep) // the next look sees the end of ctx
	}
}

// hasLeft reports whether all has left a draining host that is to leave. Only a drain by moving
// moves slots of leases too.
func hasLeft(d *rest.Host) bool {
	return d.Leaving.Left == 0 && (d.Leaving.Slots == 0 || d.Drain != api.DrainMove)
}

func hostUndrain(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "undrain HOST",
		Short:             "End the drain of a host; moved instances do not return",
		Example:           "  berth host undrain h1",
		Args:              exactArgs("a HOST"),
		ValidArgsFunction: e.completeFirst(hostNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return showAnswer(ctx, e, func(ctx context.Context) (rest.Host, error) { return c.UndrainHost(ctx, args[0]) }, detailTables)
		}),
	}
}

func hostEvacuation(e *env) *cobra.Command {
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "evacuation HOST",
		Short: "Show the progress of evacuating a lost host",
		Long: `Show the progress of evacuating a host that is down. The zone evacuates by itself:
instances whose flavor allows it are started on other hosts once the host's agent must
have stopped them; the others stay, and may still run there. The command changes
nothing. With --wait it returns when no instance is left to move.`,
		Example:           "  berth host evacuation h1 --wait",
		Args:              exactArgs("a HOST"),
		ValidArgsFunction: e.completeFirst(hostNames),
	}
	c.Flags().BoolVar(&wait, "wait", false, "wait until no instance is left to move")
	c.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait; the evacuation continues afterwards")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		if timeout <= 0 {
			return usageError(c, "--timeout must be more than 0s, got %s", timeout)
		}
		if wait {
			return e.followEvacuation(ctx, cl, args[0], timeout)
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.Evacuation, error) { return cl.HostEvacuation(ctx, args[0]) }, evacuationTables)
	})
	return c
}

func evacuationTables(v rest.Evacuation) []table {
	var t table
	t.addRow("LEFT TO MOVE", v.Movable)
	t.addRow("MOVABLE STOPPED", describeStop(v))
	staying := strconv.Itoa(v.Staying)
	if v.Staying > 0 {
		staying += ", may still run there"
	}
	t.addRow("STAYING", staying)
	return []table{t}
}

// describeStop describes when the agent of a lost host has surely stopped the movable
// instances. The others keep running.
func describeStop(v rest.Evacuation) string {
	if v.WaitMS == 0 {
		return "yes"
	}
	return "in " + (time.Duration(v.WaitMS) * time.Millisecond).String()
}

// followEvacuation waits until no instance is left to move from a lost host, and reports
// each change of progress.
func (e *env) followEvacuation(ctx context.Context, cl *client.Client, ref string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var body []byte
	told := ""
	for {
		v, err := cl.HostEvacuation(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }), ref)
		switch {
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return exitError(exitTimeout, "the evacuation continues; check with: berth host evacuation "+ref, "host %s is not empty after %s: %s", ref, timeout, told)
		case err != nil:
			return err
		}
		if text := fmt.Sprintf("%d left to move, %d staying", v.Movable, v.Staying); text != told {
			e.printNote("host %s: %s", ref, text)
			told = text
		}
		if v.Movable == 0 {
			return e.printAnswer(body, func() []table { return evacuationTables(v) })
		}
		backoff.Sleep(ctx, drainStep) // the next look sees the end of ctx
	}
}
