package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
	"berth/raftstore/state"
)

// scarce is a class that no host has: what all hosts of a zone share has it, and each
// of its hosts has a part of its own that has a little.
const scarce api.ResourceClass = "CUSTOM_LICENCE"

// pooled is a flavor that needs one of scarce.
const pooled api.FlavorID = "pooled"

const (
	poolTotal = 5 // of scarce, for all hosts of a zone
	partTotal = 1 // of scarce, for one host
	claimMost = 3 // of one claim
)

// commons is the aggregate of all hosts of a zone, whatever the zone.
const commons = "c0c0c0c0-0000-4000-8000-000000000000"

// share gives a zone a pool that its hosts share, and each host a part.
func (z *zone) share() {
	z.insist("share", func(ctx context.Context, c *client.Client) error {
		if err := c.CreateResourceClass(ctx, scarce); err != nil {
			return err
		}
		hosts, err := c.Hosts(ctx, client.ListOptions{})
		if err != nil {
			return err
		}
		for _, h := range hosts.Items {
			if err := z.provide(ctx, c, h.Name+"-part", &h.ID, partTotal); err != nil {
				return err
			}
			old, err := c.Linearizable().ProviderAggregates(ctx, h.ID)
			if err != nil {
				return err
			}
			if _, err := c.SetProviderAggregates(ctx, h.ID, client.ProviderAggregates{
				Generation: old.Generation, Aggregates: []string{commons},
			}); err != nil {
				return err
			}
		}
		return z.provide(ctx, c, "pool", nil, poolTotal)
	})
}

// provide makes a provider of scarce, which is shared if it has no parent.
func (z *zone) provide(ctx context.Context, c *client.Client, name string, parent *api.ProviderID, total int64) error {
	p, err := c.CreateProvider(ctx, client.ProviderSpec{Name: name, Parent: parent})
	if err != nil {
		return err
	}
	stock := map[api.ResourceClass]rest.Inventory{scarce: {Total: total}}
	v, err := c.SetInventories(ctx, p.ID, client.Inventories{Generation: p.Generation, Inventories: stock})
	if err != nil || parent != nil {
		return err
	}
	z.pool = p.ID
	t, err := c.SetProviderTraits(ctx, p.ID, client.ProviderTraits{Generation: v.Generation, Traits: []string{api.TraitShares}})
	if err != nil {
		return err
	}
	_, err = c.SetProviderAggregates(ctx, p.ID, client.ProviderAggregates{Generation: t.Generation, Aggregates: []string{commons}})
	return err
}

// claim takes some of the pool for a new consumer, and gives it back after a while.
// If nobody knows what became of the claim, it asks.
func (z *zone) claim(p, again *process, id api.ConsumerID, amount int64, after time.Duration) {
	z.call("claim", p, func(ctx context.Context, c *client.Client) error {
		err := c.PutAllocations(ctx, id, client.Allocations{
			Project: project, User: "u", Type: "LICENCE",
			Allocations: map[api.ProviderID]client.Allocated{z.pool: {Resources: api.Resources{scarce: amount}}},
		})
		if err != nil {
			return err
		}
		z.note(func(t *told) { t.claimed = append(t.claimed, id) })
		await.Sleep(after)
		z.note(func(t *told) { // from now on nobody knows
			t.claimed = slices.DeleteFunc(t.claimed, func(o api.ConsumerID) bool { return o == id })
		})
		if err = z.client(again).DeleteAllocations(ctx, id); err == nil {
			z.note(func(t *told) { t.freed = append(t.freed, id) })
		}
		return err
	})
}

// consumerOf names the consumer of a step.
func (z *zone) consumerOf(step int) api.ConsumerID {
	return api.ConsumerID(fmt.Sprintf("%08d-0000-4000-8000-%012d", z.number, step))
}

// checkClaims holds that claims that were acknowledged are there, and those that were
// given back are not.
func (z *zone) checkClaims(v *state.State, t told) {
	for _, id := range t.claimed {
		if _, ok := v.Consumer(id); !ok {
			z.w.fail("zone %s: the claim of %s was acknowledged, and is lost", z.name, id)
		}
	}
	for _, id := range t.freed {
		if _, ok := v.Consumer(id); ok {
			z.w.fail("zone %s: the end of the claim of %s was acknowledged, and it lives on", z.name, id)
		}
	}
}

// emptyPools gives back every claim, and holds that nothing is left in use.
func (z *zone) emptyPools() {
	for _, c := range z.view().Consumers() {
		z.insist("free", func(ctx context.Context, cl *client.Client) error {
			err := cl.DeleteAllocations(ctx, c.ID)
			if api.CodeOf(err) == api.CodeNotFound {
				return nil // an earlier try has done it
			}
			return err
		})
	}
	v := z.view()
	for _, p := range v.Providers() {
		assert.Empty(z.w.t, p.Used, "zone %s, provider %s", z.name, p.Name)
	}
	require.NotEmpty(z.w.t, v.Providers())
}
