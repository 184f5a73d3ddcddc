package saga

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan/seal"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/estimate"
)

// ring is estimate.Keys with one key for ever.
type ring struct{}

func (ring) Ring(*state.State) (seal.Keyring, error) { return seal.Keyring{{Epoch: [4]byte{1}}}, nil }

// silence is zone.Digests of a zone that has heard nobody.
type silence struct{}

func (silence) Digest(api.ZoneID) (api.Digest, time.Duration, bool) { return api.Digest{}, 0, false }

// newSaga returns the saga of a zone with one host that has room for two, and its store.
// It stands on over, which is put on that store.
func newSaga(t *testing.T, over func(zone.Store) zone.Store) (*Saga, *memstore.Store) {
	t.Helper()
	store := memstore.New()
	store.Must(t,
		command.Init{Stamp: command.Stamp{At: 1}, Zone: "z", Name: "zone"},
		command.HostsPut{Agent: "a", Hosts: []command.HostEntry{{ID: "h", Host: api.AgentHost{
			Name: "h", Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 2}},
		}}}},
	)
	z := zone.New(zone.Config{Store: over(store), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	e := estimate.New(estimate.Config{Zone: z, Keys: ring{}, Digests: silence{}})
	return New(Config{Zone: z, Estimator: e, Digests: silence{}}), store
}

// gate is a store whose proposals wait until the gate opens.
type gate struct {
	zone.Store
	waiting *sync.WaitGroup
	open    chan struct{}
}

func (g gate) Propose(ctx context.Context, cs ...command.Command) ([]state.Result, error) {
	g.waiting.Done()
	<-g.open
	return g.Store.Propose(ctx, cs...)
}

func (g gate) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	return memstore.Each(ctx, g.Propose, lists)
}

// TestPlanUsedAtOnce has several calls take up one plan at the same instant: one
// is recorded, and the plan that it brought is still there for the leader's loop,
// and nothing else is.
func TestPlanUsedAtOnce(t *testing.T) {
	for _, key := range []string{"", "key"} {
		for range 20 {
			synctest.Test(t, func(t *testing.T) { usePlanAtOnce(t, key, 6) })
		}
	}
}

func usePlanAtOnce(t *testing.T, key string, calls int) {
	t.Helper()
	var waiting sync.WaitGroup
	waiting.Add(calls)
	g := gate{nil, &waiting, make(chan struct{})}
	s, store := newSaga(t, func(s zone.Store) zone.Store { g.Store = s; return g })
	req := api.Request{
		Reservation: "b", Project: "p", User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 2, Min: 2, Flavor: "f", Resources: api.Resources{api.VCPU: 1}}},
	}
	a, err := s.estimator.Select(t.Context(), "", &req)
	require.NoError(t, err)
	require.Len(t, a.Weights[0], 2)
	var done sync.WaitGroup
	errs := make([]error, calls)
	for i := range calls {
		c := command.BootCreate{
			Stamp: s.zone.Stamp(), BootTerms: command.BootTerms{
				Key: key, Digest: []byte("d"), Name: "b", Request: req, Min: 2, Fixed: true,
				Instances: []api.InstanceSpec{{ID: api.InstanceID(api.NewUUID()), Name: "b-1"}, {ID: api.InstanceID(api.NewUUID()), Name: "b-2"}},
			},
		}
		done.Go(func() { _, errs[i] = s.Boot(t.Context(), c, a.Blob) })
	}
	waiting.Wait()
	close(g.open)
	done.Wait()
	accepted := 0
	for _, err := range errs {
		if err == nil {
			accepted++
		} else {
			assert.Equal(t, api.CodePlanRefused, api.CodeOf(err))
		}
	}
	if key == "" {
		assert.Equal(t, 1, accepted)
	} else {
		assert.Equal(t, calls, accepted, "repeats get the first answer")
	}
	b, ok := store.View().Boot("p", "b")
	require.True(t, ok)
	assert.Len(t, s.plans.of, 1)
	_, ok = s.plans.takePlan(planKey(&b.Request, b.Instances))
	assert.True(t, ok, "the plan of the call that was recorded is there")
}
