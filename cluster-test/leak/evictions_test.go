package leak

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
)

// evictions fills zones with preemptible instances of the highest and of one below it, and has
// those of each leave for the other: for a boot and a lease of the zone below, and for a boot of
// the highest. What the zone below has of its own for that is nobody else's business.
func evictions(t *testing.T, answers map[*place]told, root, below *place) {
	t.Helper()
	softly(t, below, "canary-own-soft", 4)
	softly(t, root, "soft", 16)
	firmly(t, below, "canary-own-firm", 8)
	assert.Empty(t, evictedFor(t, root, "soft", rest.EvictedForBoot).Reservation, "whose boot it is is not said")
	release(t, below, "canary-own-soft", "canary-own-firm")
	release(t, root, "soft")

	softly(t, root, "soft-2", 16)
	answers[below].ask(t, below, "POST", "/reservation/v1/leases", leaseOf(below.words()[0], 8))
	below.noteOwn()
	e := evictedFor(t, root, "soft-2", rest.EvictedForLease)
	assert.Empty(t, e.Reservation, "whose lease it is is not said")
	assert.Empty(t, e.Lease)
	below.clear(t)
	release(t, root, "soft-2")

	softly(t, below, "canary-own-soft-2", 8)
	firmly(t, root, "firm", 16)
	evictedFor(t, below, "canary-own-soft-2", rest.EvictedForBoot)
	for p, boots := range map[*place][]string{root: {"soft", "soft-2", "firm"}, below: {"canary-own-soft", "canary-own-soft-2"}} {
		for _, path := range []string{"/servers/detail?preemptible=true&changes_since=2020-01-01T00:00:00Z", "/events?follow=false", "/zones/boot"} {
			answers[p].ask(t, p, "GET", path, nil)
		}
		for _, b := range boots {
			answers[p].ask(t, p, "GET", "/zones/boot/"+b, nil)
		}
	}
	release(t, below, "canary-own-soft-2")
	release(t, root, "firm")
}

// softly boots up to n preemptible instances at a zone.
func softly(t *testing.T, p *place, name string, n int) {
	t.Helper()
	yes := rest.Flag(true)
	p.boots(t, rest.ServerCreate{
		Name: name, FlavorRef: "small", Reservation: name, MinCount: count(1), MaxCount: count(n), GroupWish: rest.GroupWish{Hints: &rest.SchedulerHints{Preemptible: &yes}},
	})
}

// firmly boots n instances at a zone that preemptible ones make room for.
func firmly(t *testing.T, p *place, name string, n int) {
	t.Helper()
	p.boots(t, rest.ServerCreate{Name: name, FlavorRef: "small", Reservation: name, MinCount: count(n), MaxCount: count(n), Preempt: true})
}

// boots boots at a zone, waits until the instances run, and notes what is its own.
func (p *place) boots(t *testing.T, s rest.ServerCreate) {
	t.Helper()
	id, err := p.client().Boot(t.Context(), s, "")
	require.NoError(t, err)
	b := outcome(t, p.client(), id)
	require.Equal(t, api.BootActive, b.State, "%s: %s", s.Name, b.Reason)
	p.noteOwn()
}

// noteOwn notes the ids of what a zone without zones below has for its own callers: they leave
// it for nobody.
func (p *place) noteOwn() {
	v := p.node.Store().View()
	if slices.ContainsFunc(v.Links(), func(l *api.Link) bool { return l.Role == api.LinkChild }) {
		return
	}
	for _, h := range v.AllHosts() {
		for _, i := range v.OnHost(h.ID) {
			if i.Origin == "" {
				p.own = append(p.own, idCanaries("instance id", string(i.ID))...)
				p.own = append(p.own, idCanaries("reservation id", string(i.Reservation))...)
			}
		}
	}
}

// evictedFor waits until instances of a boot must leave or have left, and returns why one must.
func evictedFor(t *testing.T, p *place, boot, what string) (e *rest.Eviction) {
	t.Helper()
	await.Until(t, fmt.Sprintf("%s of %s leave for a %s", boot, p.name, what), func(context.Context) error {
		page, err := p.client().Servers(t.Context(), client.ServerQuery{Reservation: api.ReservationID(boot), Since: time.Unix(1, 0)}, client.ListOptions{})
		for _, s := range page.Items {
			if s.Eviction != nil && s.Eviction.For == what {
				e = s.Eviction
			}
		}
		if err == nil && e == nil {
			err = fmt.Errorf("none of %d must", len(page.Items))
		}
		return err
	})
	return e
}

// release releases boots, and waits until nothing of them is left.
func release(t *testing.T, p *place, boots ...api.ReservationID) {
	t.Helper()
	for _, id := range boots {
		giveBack(t, p.client(), id)
	}
}

func giveBack(t *testing.T, c *client.Client, id api.ReservationID) {
	t.Helper()
	await.Until(t, string(id)+" is released", func(ctx context.Context) error {
		b, err := c.Release(ctx, id, lookWait)
		if err == nil && b.State != api.BootReleased && b.State != api.BootFailed {
			err = fmt.Errorf("it is %s: %v", b.State, b.Instances)
		}
		return err
	})
}

// lookWait is how long the zone may wait with an answer to one look at a boot.
const lookWait = 200 * time.Millisecond

// outcome waits until a boot has one.
func outcome(t *testing.T, c *client.Client, id api.ReservationID) (b rest.Boot) {
	t.Helper()
	await.Until(t, string(id)+" has an outcome", func(ctx context.Context) (err error) {
		if b, err = c.Reservation(ctx, id, lookWait); err == nil && !b.State.Outcome() {
			err = fmt.Errorf("it is %s", b.State)
		}
		return err
	})
	return b
}
