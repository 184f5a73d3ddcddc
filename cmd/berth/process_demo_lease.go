package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/backoff"
)

// The lease of the demonstration: more slots, each on another host, than any child of the
// root has hosts.
const (
	leaseSlots  = 10
	leaseLength = 2 * time.Hour
)

// showLease reserves room in two zones, boots into it, and ends it.
func (d *demo) showLease(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, bootWait)
	defer cancel()
	amount, vcpus, memory, disk := leaseSlots, int64(2), int64(4096), int64(0)
	d.printStep("leasing room for %d instances, each on another host, in west and east: all or nothing", amount)
	l, err := c.CreateLease(ctx, rest.LeaseCreate{
		Name: "lab", Start: rest.LeaseNow, End: rest.LeaseDateOf(api.InstantOf(readClock().Add(leaseLength))), Zones: []string{"west", "east"},
		Reservations: []rest.ReservationSpec{{Type: api.ReserveInstances, VCPUs: &vcpus, Memory: &memory, Disk: &disk, Amount: &amount, Affinity: "false"}},
	}, "lab")
	if err != nil {
		return err
	}
	if l, err = d.followLease(ctx, c, &l); err != nil {
		return err
	}
	within := l.Reservations[0].ID
	d.printStep("booting %d instances into the lease", amount)
	b, err := d.bootWithin(ctx, c, within, amount)
	if err != nil {
		return err
	}
	var places []string
	for _, z := range b.Zones {
		places = append(places, fmt.Sprintf("%s %d", z.Zone, z.Counts[api.StatusActive]))
	}
	d.printStep("  in %s; one more:", strings.Join(places, ", "))
	if _, err = d.bootWithin(ctx, c, within, 1); err != nil {
		return err
	}
	d.printStep("ending the lease now, and its instances with it")
	if l, err = c.UpdateLease(ctx, l.ID, rest.LeaseUpdate{End: rest.LeaseNow}); err != nil {
		return err
	}
	_, err = d.followLease(ctx, c, &l)
	return err
}

// bootWithin boots instances into a reservation of a lease, in its size.
func (d *demo) bootWithin(ctx context.Context, c *client.Client, id api.ReservationID, count int) (*rest.Boot, error) {
	boot, err := c.Boot(ctx, rest.ServerCreate{Name: "lab", FlavorRef: string(id), MaxCount: &count}, "")
	if err != nil {
		return nil, err
	}
	return d.followBoot(ctx, c, boot)
}

// followLease prints each status of a lease until a stable one.
func (d *demo) followLease(ctx context.Context, c *client.Client, l *rest.Lease) (rest.Lease, error) {
	stable := []api.LeaseStatus{api.LeasePending, api.LeaseActive, api.LeaseTerminated, api.LeaseError}
	told := api.LeaseStatus("")
	for now := *l; ; {
		if now.Status != told {
			r := &now.Reservations[0]
			d.printStep("  lease %s %s  has %d of %d slots", now.Name, now.Status, r.Allocated, r.Amount)
			told = now.Status
		}
		if slices.Contains(stable, now.Status) {
			return now, nil
		}
		if !backoff.Sleep(ctx, followEvery) {
			return now, ctx.Err()
		}
		var err error
		if now, err = c.Lease(ctx, l.ID); err != nil {
			return now, err
		}
	}
}
