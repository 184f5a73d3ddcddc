package main

import (
	"context"
	"fmt"
	"strings"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/backoff"
)

// The preemptible instances of the demonstration: of the flavor large, of which each of the
// 16 hosts has room for two.
const (
	preemptibles   = 32
	preemptedSlots = 2 // of the lease that needs room
)

// showPreemptibles fills all hosts with preemptible instances, has some of them leave for a
// lease, and run again when it has ended.
func (d *demo) showPreemptibles(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, bootWait)
	defer cancel()
	count, yes := preemptibles, rest.Flag(true)
	d.printStep("booting %d large preemptible instances: they fill all hosts as long as nobody needs the room", count)
	id, err := c.Boot(ctx, rest.ServerCreate{
		Name: "spare", FlavorRef: "large", MaxCount: &count, OnPreempt: api.PreemptRequeue,
		GroupWish: rest.GroupWish{Hints: &rest.SchedulerHints{Preemptible: &yes}},
	}, "")
	if err != nil {
		return err
	}
	if _, err = d.followBoot(ctx, c, id); err != nil {
		return err
	}
	amount, vcpus, memory, disk := preemptedSlots, int64(8), int64(16384), int64(0)
	d.printStep("leasing room for %d instances of that size now: as many preemptible ones must leave for it", amount)
	l, err := c.CreateLease(ctx, rest.LeaseCreate{
		Name: "rush", Start: rest.LeaseNow, End: rest.LeaseDateOf(api.InstantOf(readClock().Add(leaseLength))),
		Reservations: []rest.ReservationSpec{{Type: api.ReserveInstances, VCPUs: &vcpus, Memory: &memory, Disk: &disk, Amount: &amount}},
	}, "")
	if err != nil {
		return err
	}
	if l, err = d.followLease(ctx, c, &l); err != nil {
		return err
	}
	if err = d.showEvicted(ctx, c, id, l.Name); err != nil {
		return err
	}
	d.printStep("ending the lease now, so that there is room for them again")
	if l, err = c.UpdateLease(ctx, l.ID, rest.LeaseUpdate{End: rest.LeaseNow}); err != nil {
		return err
	}
	if _, err = d.followLease(ctx, c, &l); err != nil {
		return err
	}
	if err = d.followRequeued(ctx, c, id); err != nil {
		return err
	}
	if _, err = c.Release(ctx, id, bootWait); err != nil {
		return err
	}
	d.printStep("  all preemptible instances are deleted")
	return nil
}

// showEvicted waits until the preemptible instances of a boot have left that are in the way of
// a lease, and shows them.
func (d *demo) showEvicted(ctx context.Context, c *client.Client, id api.ReservationID, name string) error {
	var page client.Page[rest.Server]
	for len(page.Items) < preemptedSlots {
		if !backoff.Sleep(ctx, followEvery) {
			return ctx.Err()
		}
		var err error
		if page, err = c.Servers(ctx, client.ServerQuery{Reservation: id, Status: api.StatusDeleted}, client.ListOptions{}); err != nil {
			return err
		}
	}
	for _, s := range page.Items {
		if e := s.Eviction; e != nil {
			d.printStep("  %s has left %s for the lease %s, and had %s to do so", s.Name, s.Zone, name, e.Deadline.Time().Sub(e.At.Time()))
		}
	}
	b, err := c.Reservation(ctx, id, 0)
	if err == nil && b.Queued != nil {
		d.printStep("  %d of %s wait until there is room for them", b.Queued.Count, id)
	}
	return err
}

// followRequeued waits until the preempted instances of a boot run again, and says where.
func (d *demo) followRequeued(ctx context.Context, c *client.Client, id api.ReservationID) error {
	b, err := d.followBoot(ctx, c, id)
	if err != nil {
		return err
	}
	var places []string
	for _, z := range b.Zones {
		places = append(places, fmt.Sprintf("%s %d", z.Zone, z.Counts[api.StatusActive]))
	}
	d.printStep("  they run again, in %s", strings.Join(places, ", "))
	return nil
}
