package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/check"
	"berth/cluster-test/lab"
)

// Sizes of TestWriters.
const (
	writers     = 64
	writerCalls = 30
	writerStock = 10  // of each provider where there are many
	sharedStock = 200 // of one that all share; fewer than they want
)

// TestWriters has many writers at all nodes of a zone work on one provider and on as
// many as there are writers. What they were told must have an order that explains
// it, nothing may be claimed beyond what there is, and what is in use at the end
// must be what they hold.
func TestWriters(t *testing.T) {
	w := lab.New(t, lab.Options{})
	z := w.Zone("root", 3)
	began := time.Now()
	rec := check.NewRecorder(func() int64 { return int64(time.Since(began)) }, nil)

	one := newStocks(t, z, rec, "one", 1, sharedStock)
	crowd := write(t, z, rec, w.Seed, one, (*writer).swaps)
	many := newStocks(t, z, rec, "many", writers, writerStock)
	crowd = append(crowd, write(t, z, rec, w.Seed+1, many, (*writer).anything)...)

	// Claims without a generation commute, so that no search ends: of these only the
	// sum is looked at.
	unseen := check.NewRecorder(func() int64 { return int64(time.Since(began)) }, nil)
	rush := newStocks(t, z, unseen, "rush", 1, sharedStock)
	crowd = append(crowd, write(t, z, unseen, w.Seed+2, rush, (*writer).claims)...)

	ops, err := rec.Close()
	require.NoError(t, err)
	sum, bad := check.History(ops, check.HistoryOptions{Dir: t.ArtifactDir()})
	assert.Empty(t, bad)
	assert.Equal(t, writers+1, sum.Partitions)
	assert.Zero(t, sum.Unknown, "nothing failed, so every call has an answer")
	assert.Positive(t, sum.Refused)
	t.Logf("%d operations, %d refused", sum.Ops, sum.Refused)

	for _, id := range slices.Concat(one, many, rush) {
		var held int64
		for _, w := range crowd {
			for _, h := range w.held {
				if h.provider == id {
					held++
				}
			}
		}
		u, err := z.Admin().Linearizable().ProviderUsages(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, held, u.Usages[api.VCPU], "what is in use is what writers hold")
	}
}

// newStocks makes providers.
func newStocks(t *testing.T, z *lab.Zone, rec *check.Recorder, name string, n int, total int64) []api.ProviderID {
	t.Helper()
	one := &writer{z: z, rec: rec, c: z.Admin(), n: writers}
	var out []api.ProviderID
	for i := range n {
		p, err := z.Admin().CreateProvider(t.Context(), client.ProviderSpec{Name: fmt.Sprint(name, "-", i)})
		require.NoError(t, err)
		require.NoError(t, one.resize(t.Context(), p.ID, p.Generation, total))
		out = append(out, p.ID)
	}
	return out
}

// write has all writers work at once until each has made its calls.
func write(
	t *testing.T, z *lab.Zone, rec *check.Recorder, seed uint64, on []api.ProviderID, call func(*writer, context.Context) error,
) []*writer {
	t.Helper()
	nodes := z.Running()
	var out []*writer
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for n := range writers {
		w := &writer{
			z: z, rec: rec, c: nodes[n%len(nodes)].Client(z.Token), n: n, on: on, dice: rand.New(rand.NewPCG(seed, uint64(n))),
		}
		out = append(out, w)
		wg.Go(func() {
			for range writerCalls {
				if errs[n] = call(w, t.Context()); errs[n] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	return out
}

// writer is one client, and what it holds. Its calls return errors that no writer
// may be told.
type writer struct {
	z    *lab.Zone
	rec  *check.Recorder
	c    *client.Client
	n    int
	on   []api.ProviderID
	dice *rand.Rand
	held []holding
}

// holding is one unit of one provider.
type holding struct {
	consumer api.ConsumerID
	provider api.ProviderID
}

func (w *writer) any() api.ProviderID { return w.on[w.dice.IntN(len(w.on))] }

// anything claims, frees, reads or resizes.
func (w *writer) anything(ctx context.Context) error {
	switch r := w.dice.IntN(20); {
	case r < 15:
		return w.claims(ctx)
	case r < 19:
		_, err := w.read(ctx, w.any())
		return err
	}
	id := w.any()
	u, err := w.read(ctx, id)
	if err != nil {
		return err
	}
	return w.resize(ctx, id, u.Generation, writerStock+w.dice.Int64N(4))
}

// claims claims or frees.
func (w *writer) claims(ctx context.Context) error {
	if len(w.held) > 0 && w.dice.IntN(4) == 0 {
		return w.free(ctx)
	}
	return w.claim(ctx)
}

// told ends an operation, and returns err unless it is one of those that are expected.
func told(p *check.Pending, err error, out check.Output, expected ...api.Code) error {
	out.Code = api.CodeOf(err)
	p.End(check.OutcomeOf(err), out)
	if slices.Contains(expected, out.Code) {
		return nil
	}
	return err
}

func (w *writer) begin(k check.Kind, in check.Input) *check.Pending {
	return w.rec.Begin(check.Op{Client: w.n, Kind: k, Zone: w.z.Name, In: in})
}

// take returns what takes one unit of a provider, or with no provider nothing.
func take(id api.ProviderID) client.Allocations {
	a := client.Allocations{Project: "p", User: "u", Type: "TEST"}
	if id != "" {
		a.Allocations = map[api.ProviderID]client.Allocated{id: {Resources: api.Resources{api.VCPU: 1}}}
	}
	return a
}

func (w *writer) claim(ctx context.Context) error {
	h := holding{api.ConsumerID(api.NewUUID()), w.any()}
	p := w.begin(check.ProviderClaim, check.Input{Provider: h.provider, Amount: 1})
	err := w.c.PutAllocations(ctx, h.consumer, take(h.provider))
	if err == nil {
		w.held = append(w.held, h)
	}
	return told(p, err, check.Output{}, api.CodeNoCapacity)
}

func (w *writer) free(ctx context.Context) error {
	h := w.held[0]
	w.held = w.held[1:]
	p := w.begin(check.ProviderFree, check.Input{Provider: h.provider, Amount: 1})
	return told(p, w.c.DeleteAllocations(ctx, h.consumer), check.Output{})
}

// swaps reads, and then claims or frees if nobody else was faster.
func (w *writer) swaps(ctx context.Context) error {
	id := w.any()
	u, err := w.read(ctx, id)
	if err != nil {
		return err
	}
	v, err := w.c.Inventories(ctx, id)
	if err != nil || v.Generation != u.Generation {
		return err // another one was faster
	}
	h, by, first := holding{api.ConsumerID(api.NewUUID()), id}, int64(1), uint64(1)
	put := take(id)
	if len(w.held) > 0 && w.dice.IntN(3) == 0 {
		h, by, put = w.held[0], -1, take("")
		put.Generation = &first
	}
	p := w.begin(check.ProviderSwap, check.Input{Provider: id, Generation: u.Generation, Amount: by})
	err = w.c.Reshape(ctx, client.Reshape{
		Inventories: map[api.ProviderID]client.Inventories{id: v},
		Allocations: map[api.ConsumerID]client.Allocations{h.consumer: put},
	})
	switch {
	case err == nil && by > 0:
		w.held = append(w.held, h)
	case err == nil:
		w.held = w.held[1:]
	}
	return told(p, err, check.Output{}, api.CodeNoCapacity, api.CodeStale)
}

func (w *writer) read(ctx context.Context, id api.ProviderID) (client.ProviderUsages, error) {
	p := w.begin(check.ProviderRead, check.Input{Provider: id})
	u, err := w.c.Linearizable().ProviderUsages(ctx, id)
	return u, told(p, err, check.Output{Generation: u.Generation, Amount: u.Usages[api.VCPU]})
}

func (w *writer) resize(ctx context.Context, id api.ProviderID, generation uint64, total int64) error {
	p := w.begin(check.ProviderSet, check.Input{Provider: id, Generation: generation, Amount: total})
	_, err := w.c.SetInventories(ctx, id, client.Inventories{
		Generation: generation, Inventories: map[api.ResourceClass]rest.Inventory{api.VCPU: {Total: total}},
	})
	return told(p, err, check.Output{}, api.CodeStale)
}
