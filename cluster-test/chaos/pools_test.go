//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/check"
	"berth/cluster-test/lab"
	"berth/internal/await"
)

// licence is a class that no host has: a pool that all hosts of a zone share has it.
const licence api.ResourceClass = "CUSTOM_LICENCE"

// licensed is a flavor that needs one licence.
const licensed = "licensed"

// seat is a class of which clients claim by the placement API alone.
const seat api.ResourceClass = "CUSTOM_SEAT"

// Sizes of what is claimed of pools.
const (
	licences  = 8 // in each zone
	stocksPer = 2 // providers of seats in each zone
	seatsMin  = 4 // of each of them; it changes
	seatsMax  = 12
	spareMax  = 1 << 20 // seats of a zone's provider that nobody counts
	holdMax   = 4       // claims of one keeper
	claimMost = 3       // seats of one claim

	// keepersPer is how many clients one provider has, and keeperRest the longest that
	// each waits between two calls. A search for an order grows with both.
	keepersPer = 3
	keeperRest = 400 * time.Millisecond
)

// commons is the aggregate of all hosts of a zone, whatever the zone.
const commons = "c0c0c0c0-0000-4000-8000-000000000000"

// share gives each zone a pool of licences that its hosts share, and a flavor that
// needs one.
func (f *fleet) share(t *testing.T) {
	t.Helper()
	for _, z := range f.zones() {
		ensure(t, z, "there are classes", func(ctx context.Context, c *client.Client) error {
			if err := c.CreateResourceClass(ctx, licence); err != nil {
				return err
			}
			return c.CreateResourceClass(ctx, seat)
		})
		pool := newStock(t, z, z.Name+"-licences", licence, licences)
		ensure(t, z, "the pool is shared", func(ctx context.Context, c *client.Client) error {
			old, err := c.Linearizable().ProviderTraits(ctx, pool)
			if err != nil {
				return err
			}
			_, err = c.SetProviderTraits(ctx, pool, client.ProviderTraits{Generation: old.Generation, Traits: []string{api.TraitShares}})
			return err
		})
		shares := []api.ProviderID{pool}
		for _, h := range z.Hosts() {
			shares = append(shares, h.ID)
		}
		for _, id := range shares {
			ensure(t, z, "it is in the aggregate", func(ctx context.Context, c *client.Client) error {
				old, err := c.Linearizable().ProviderAggregates(ctx, id)
				if err != nil {
					return err
				}
				_, err = c.SetProviderAggregates(ctx, id, client.ProviderAggregates{Generation: old.Generation, Aggregates: []string{commons}})
				return err
			})
		}
		s := rest.FlavorSpec{Name: licensed, RAM: new(int64(unitMB)), Resources: api.Resources{licence: 1}}
		if z == f.west {
			s.Command = []string{"/bin/sleep", "36000"}
		}
		z.CreateFlavor(s)
	}
}

// ensure makes calls to some node of a zone until they succeed: a zone may change its
// leader at any time. The calls must be ones that may be made again.
func ensure(t *testing.T, z *lab.Zone, what string, calls func(ctx context.Context, c *client.Client) error) {
	t.Helper()
	await.Until(t, what+" in "+z.Name, func(ctx context.Context) error { return z.Do(ctx, z.Token, calls) })
}

// newProvider makes a provider.
func newProvider(t *testing.T, z *lab.Zone, name string) api.ProviderID {
	t.Helper()
	id := api.ProviderID(api.NewUUID())
	ensure(t, z, "there is "+name, func(ctx context.Context, c *client.Client) error {
		_, err := c.Linearizable().Provider(ctx, id)
		if api.CodeOf(err) == api.CodeNotFound {
			_, err = c.CreateProvider(ctx, client.ProviderSpec{ID: id, Name: name})
		}
		return err
	})
	return id
}

// newStock makes a provider of one class.
func newStock(t *testing.T, z *lab.Zone, name string, class api.ResourceClass, total int64) api.ProviderID {
	t.Helper()
	id := newProvider(t, z, name)
	ensure(t, z, name+" has its inventory", func(ctx context.Context, c *client.Client) error {
		old, err := c.Linearizable().Inventories(ctx, id)
		if err != nil {
			return err
		}
		_, err = c.SetInventories(ctx, id, client.Inventories{
			Generation: old.Generation, Inventories: map[api.ResourceClass]rest.Inventory{class: {Total: total}},
		})
		return err
	})
	return id
}

// keeper is one client that claims seats of one provider, and gives them back. It
// never makes a call again whose answer it lost, unless that is the same call still.
type keeper struct {
	tr    *traffic
	n     int
	z     *lab.Zone
	on    api.ProviderID
	spare api.ProviderID // another provider of seats, of which there are enough
	dice  *rand.Rand
	next  int
	seats []seats // that it holds
}

// seats is one claim of a keeper.
type seats struct {
	id     api.ConsumerID
	amount int64
}

// newKeepers makes the providers of seats of all zones, and their keepers.
func newKeepers(t *testing.T, tr *traffic) []*keeper {
	t.Helper()
	var out []*keeper
	for _, z := range tr.f.zones() {
		spare := newStock(t, z, z.Name+"-spare", seat, spareMax)
		for i := range stocksPer {
			id := newProvider(t, z, fmt.Sprint(z.Name, "-seats-", i))
			for range keepersPer {
				n := clientsAtOnce + len(out)
				out = append(out, &keeper{
					tr: tr, n: n, z: z, on: id, spare: spare, dice: rand.New(rand.NewPCG(tr.f.Seed, uint64(n)+1)),
				})
			}
		}
	}
	return out
}

// run makes calls until ctx ends, and then tells what it holds.
func (k *keeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		switch r := k.dice.IntN(10); {
		case r < 4 && len(k.seats) < holdMax:
			k.claim(ctx)
		case r < 6 && len(k.seats) > 0:
			k.free(ctx)
		case r < 7:
			k.resize(ctx)
		default:
			k.read(ctx)
		}
		k.tr.one()
		lab.Pass(ctx, time.Duration(k.dice.Int64N(int64(keeperRest))))
	}
	for _, s := range k.seats {
		k.tr.note(check.Ack{Kind: check.AckClaim, Zone: k.z.Name, Outcome: check.OK, Consumer: s.id})
	}
}

func (k *keeper) begin(kind check.Kind, in check.Input) *check.Pending {
	in.Provider = k.on
	return k.tr.rec.Begin(check.Op{Client: k.n, Kind: kind, Zone: k.z.Name, In: in})
}

// errUnsent is the error of a call that was never made.
var errUnsent = api.Errorf(api.CodeUnavailable, "no node of the zone runs")

// once makes one call, at one node.
func (k *keeper) once(ctx context.Context, f func(ctx context.Context, c *client.Client) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callMax)
	defer cancel()
	err := error(errUnsent)
	_ = k.z.Do(ctx, k.z.Token, func(ctx context.Context, c *client.Client) error {
		err = f(ctx, c)
		return nil // whatever came of it
	})
	return err
}

// end notes what came of a call. One that was turned away unread is as if it had
// not been made.
func end(p *check.Pending, outcome check.Outcome, out check.Output) {
	if out.Code == api.CodeOverloaded {
		p.Drop()
		return
	}
	p.End(outcome, out)
}

// put claims seats for a consumer that must be new.
func (k *keeper) put(ctx context.Context, of api.ProviderID, s seats) error {
	return k.once(ctx, func(ctx context.Context, c *client.Client) error {
		return c.PutAllocations(ctx, s.id, client.Allocations{
			Project: "web", User: "ada", Type: "SEAT",
			Allocations: map[api.ProviderID]client.Allocated{of: {Resources: api.Resources{seat: s.amount}}},
		})
	})
}

func (k *keeper) claim(ctx context.Context) {
	k.next++
	s := seats{api.ConsumerID(fmt.Sprintf("%08d-0000-4000-8000-%012d", k.n, k.next)), 1 + k.dice.Int64N(claimMost)}
	p := k.begin(check.ProviderClaim, check.Input{Amount: s.amount})
	err := k.put(ctx, k.on, s)
	outcome, code := check.OutcomeOf(err), api.CodeOf(err)
	if outcome == check.Unknown {
		outcome, code = k.settle(ctx, s), ""
		if outcome == check.Refused {
			p.Drop()
			return
		}
	}
	end(p, outcome, check.Output{Code: code})
	if outcome == check.OK {
		k.seats = append(k.seats, s)
	}
}

// settle finds out what came of a claim whose answer was lost. If it was not granted
// it claims elsewhere for the same consumer: that is new only once, so that the lost
// claim can never be granted after that.
func (k *keeper) settle(ctx context.Context, s seats) check.Outcome {
	outcome := check.Unknown
	_ = await.Wait(context.WithoutCancel(ctx), func(ctx context.Context) error { // else it stays unknown
		var held client.Allocations
		err := k.z.Do(ctx, k.z.Token, func(ctx context.Context, c *client.Client) (err error) {
			held, err = c.Linearizable().Allocations(ctx, s.id)
			return err
		})
		if err != nil {
			return err
		}
		_, granted := held.Allocations[k.on]
		_, elsewhere := held.Allocations[k.spare]
		switch {
		case granted:
			outcome = check.OK
			return nil
		case elsewhere:
			outcome = check.Refused
			return nil
		}
		return errors.Join(errors.New("nobody knows yet"), k.put(ctx, k.spare, s))
	})
	return outcome
}

// free gives one claim back. The call is repeated until it has an answer: what is
// gone stays gone, so a repeat that finds nothing has done it, or comes after the
// one that has.
func (k *keeper) free(ctx context.Context) {
	i := k.dice.IntN(len(k.seats))
	s := k.seats[i]
	k.seats = append(k.seats[:i], k.seats[i+1:]...)
	p := k.begin(check.ProviderFree, check.Input{Amount: s.amount})
	tries := 0
	err := k.z.Do(context.WithoutCancel(ctx), k.z.Token, func(ctx context.Context, c *client.Client) error {
		tries++
		err := c.DeleteAllocations(ctx, s.id)
		if tries > 1 && api.CodeOf(err) == api.CodeNotFound {
			return nil
		}
		return err
	})
	outcome := check.OutcomeOf(err)
	p.End(outcome, check.Output{Code: api.CodeOf(err)})
	if outcome == check.OK {
		k.tr.note(check.Ack{Kind: check.AckFree, Zone: k.z.Name, Outcome: outcome, Consumer: s.id})
	}
}

// read returns the generation of the provider, if it was told.
func (k *keeper) read(ctx context.Context) (uint64, bool) {
	p := k.begin(check.ProviderRead, check.Input{})
	var got client.ProviderUsages
	err := k.z.Do(context.WithoutCancel(ctx), k.z.Token, func(ctx context.Context, c *client.Client) (err error) {
		got, err = c.Linearizable().ProviderUsages(ctx, k.on)
		return err
	})
	end(p, check.OutcomeOf(err), check.Output{Code: api.CodeOf(err), Generation: got.Generation, Amount: got.Usages[seat]})
	return got.Generation, err == nil
}

// resize sets how many seats there are, if nobody has claimed or set any since it
// looked.
func (k *keeper) resize(ctx context.Context) {
	generation, ok := k.read(ctx)
	if !ok {
		return
	}
	total := seatsMin + k.dice.Int64N(seatsMax-seatsMin+1)
	p := k.begin(check.ProviderSet, check.Input{Generation: generation, Amount: total})
	err := k.once(ctx, func(ctx context.Context, c *client.Client) error {
		_, err := c.SetInventories(ctx, k.on, client.Inventories{
			Generation: generation, Inventories: map[api.ResourceClass]rest.Inventory{seat: {Total: total}},
		})
		return err
	})
	end(p, check.OutcomeOf(err), check.Output{Code: api.CodeOf(err)})
}
