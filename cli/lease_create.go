package cli

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/backoff"
)

const leaseCreateHelp = `Create a lease: reserve hosts, or room for instances, for a time. All of it is reserved,
in whichever zones have room, or nothing. The zone has decided that when the command
returns; with --wait it returns when the lease is active.

--hosts and --instances reserve one kind of room each. For more, give --reservation for
each kind, as KEY=VALUE pairs: type=physical:host with min, max, hypervisor-properties,
resource-properties and before-end; type=virtual:instance with vcpus, memory-mb, disk-gb,
amount, affinity (true: all on one host, false: each on another) and
resource-properties; type=flavor:instance with flavor and amount. Each may have
share-idle=true or false in place of what --share-idle says of all.

A time is "now", a distance from now such as +90m or +2d, or a date such as
2030-01-31T12:00Z or 2030-01-31T12:00+01:00; without a zone it is in UTC. Leases start
and end at full minutes.

With --repeat it is a series of leases, all or none of them: by a rule with FREQ=DAILY,
WEEKLY or MONTHLY, with INTERVAL, BYDAY, BYMONTHDAY, and COUNT or UNTIL, on the clock of
--time-zone. The leases of a series: berth lease series show NAME

With --maintenance an operator takes hosts of the zone out of use for the time.

Boot into the lease with: berth boot --within NAME, and the RESERVATION if it has several`

const leaseCreateExamples = `  berth lease create nightly --for 2h --instances 3 --flavor small
  berth lease create training --start +1d --for 8h --hosts 2:4 --zone west --zone east
  berth lease create lab --start 2030-01-31T08:00Z --end 2030-01-31T18:00Z --instances 10 --vcpus 2 --ram 2G --affinity false
  berth lease create gpus --for 1d --hosts 1 --where '["==","$gpu","A"]' --before-end -30m --wait
  berth lease create class --start 2030-09-02T08:00Z --for 2h --instances 20 --flavor small --repeat 'FREQ=WEEKLY;COUNT=15' --time-zone Europe/Berlin
  berth lease create repair --start 2030-01-31T02:00Z --for 4h --maintenance h1 --maintenance h2
  berth lease create mixed --for 1d --reservation type=virtual:instance,vcpus=2,memory-mb=2048,disk-gb=10,amount=3,affinity=false --hosts 1`

func leaseCreate(e *env) *cobra.Command {
	var w leaseWish
	var wait leaseWait
	var repeat repeatFlags
	var key string
	c := &cobra.Command{
		Use: "create NAME --for DURATION", Short: "Reserve hosts, or room for instances, for a time",
		Long: leaseCreateHelp, Example: leaseCreateExamples, Args: exactArgs("a NAME"),
	}
	w.addFlags(e, c)
	wait.addFlags(c)
	repeat.addFlags(c)
	c.Flags().StringVar(&key, "key", "", "idempotency `KEY` of your choice; repeating it returns the first lease")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		if err := wait.checkFlags(c); err != nil {
			return err
		}
		if err := repeat.checkFlags(c); err != nil {
			return err
		}
		s, err := w.leaseCreate(c, args[0], e.now())
		if err != nil {
			return err
		}
		key, named := keyed(key)
		named.fixDates(s)
		if repeat.rule != "" {
			return e.createSeries(ctx, cl, s, repeat, key, named)
		}
		var body []byte
		answered := e.noteWaitingFor(named.name)
		l, err := cl.CreateLease(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }), s, key)
		answered()
		if err != nil {
			return e.hintRepeat(explainLease(err), named)
		}
		if wait.wait {
			if l, body, err = e.followLease(ctx, cl, l, wait); err != nil {
				return err
			}
		}
		return e.printAnswer(body, func() []table { return leaseTables(l) })
	})
	return c
}

// fixDates sets the dates of s, which a repeat at another time would read differently.
func (r *repeatable) fixDates(s rest.LeaseCreate) {
	r.drop = "--for"
	r.set = append(r.set, [2]string{"--start", string(s.Start)}, [2]string{"--end", string(s.End)})
	if s.BeforeEnd != "" {
		r.set = append(r.set, [2]string{"--before-end", string(s.BeforeEnd)})
	}
}

// leaseWait holds the flags about waiting for the start of a lease.
type leaseWait struct {
	wait    bool
	timeout time.Duration
}

// startGrace is how long after its start a lease is waited for by default.
const startGrace = 5 * time.Minute

func (w *leaseWait) addFlags(c *cobra.Command) {
	c.Flags().BoolVar(&w.wait, "wait", false, "wait until the lease is active")
	c.Flags().DurationVar(&w.timeout, "timeout", 0, "how long to wait (default: until 5m after its start)")
}

func (w *leaseWait) checkFlags(c *cobra.Command) error {
	switch given := c.Flags().Changed("timeout"); {
	case given && !w.wait:
		return usageError(c, "--timeout goes with --wait")
	case given && w.timeout <= 0:
		return usageError(c, "--timeout must be more than 0s, got %s", w.timeout)
	}
	return nil
}

// followLease reads a lease until it is active or never will be, and returns it with the
// body of the last answer.
func (e *env) followLease(ctx context.Context, c *client.Client, l rest.Lease, w leaseWait) (rest.Lease, []byte, error) {
	timeout := w.timeout
	if timeout == 0 {
		timeout = max(0, api.Instant(l.Start).Time().Sub(e.now())) + startGrace
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var body []byte
	said := api.LeaseStatus("")
	for {
		now, err := c.Lease(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }), l.ID)
		if err != nil && ctx.Err() == nil {
			return now, nil, err
		}
		if err == nil && now.Status != said {
			said = now.Status
			e.printNote("lease %s is %s", l.Name, said)
		}
		switch {
		case err == nil && now.Status == api.LeaseActive:
			return now, body, nil
		case err == nil && hasEnded(now.Status):
			return now, nil, exitError(exitFailed, "see: berth lease show "+string(l.ID), "lease %s is %s and will not be active", l.Name, now.Status)
		}
		if !backoff.Sleep(ctx, watchStep) {
			return now, nil, exitError(exitTimeout, "it continues; check with: berth lease show "+string(l.ID),
				"lease %s is still %s after %s", l.Name, cmp.Or(said, l.Status), showSpan(timeout))
		}
	}
}

// hasEnded reports whether a lease with this status will not be active again.
func hasEnded(s api.LeaseStatus) bool {
	switch s {
	case api.LeaseTerminating, api.LeaseTerminated, api.LeaseDeleting, api.LeaseError:
		return true
	case api.LeaseCreating, api.LeasePending, api.LeaseStarting, api.LeaseActive, api.LeaseUpdating:
	}
	return false
}
