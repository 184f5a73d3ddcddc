package resources

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// world is a zone with the host host-1.
type world struct {
	store *memstore.Store
	zone  *zone.Zone
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{store: memstore.New()}
	w.serve(w.store)
	w.store.Must(tb, command.Init{Stamp: w.zone.Stamp(), Zone: "zone-root", Name: "root"}, command.HostsPut{
		Stamp: w.zone.Stamp(), Agent: "agent-1", Hosts: []command.HostEntry{{ID: "host-id-1", Host: api.AgentHost{
			Name: "host-1", Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
		}}},
	})
	return w
}

// serve makes the zone use a store.
func (w *world) serve(store zone.Store) {
	now := func() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }
	w.zone = zone.New(zone.Config{Store: store, Now: now, Log: slog.New(slog.DiscardHandler)})
}

// refused checks the code of a refusal.
func refused(tb testing.TB, err error, code api.Code) {
	tb.Helper()
	require.Equal(tb, code, api.CodeOf(err), "%v", err)
}

const theProvider = "11111111-0000-4000-8000-000000000000"

// busy is a store in which another writer moves the generation of a provider on some
// times.
type busy struct {
	*memstore.Store
	tb    testing.TB
	times int
}

func (s *busy) Propose(ctx context.Context, cmds ...command.Command) ([]state.Result, error) {
	if c, ok := cmds[0].(command.ProviderSet); ok && s.times > 0 {
		s.times--
		s.Must(s.tb, command.ProviderSet{Stamp: c.Stamp, ID: c.ID, Aggregates: &[]string{}, Bump: true})
	}
	return s.Store.Propose(ctx, cmds...)
}

func (s *busy) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	return memstore.Each(ctx, s.Propose, lists)
}

func TestProviders(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	require.NoError(t, CreateProvider(ctx, w.zone, theProvider, "disk", ""))
	require.NoError(t, RenameProvider(ctx, w.zone, theProvider, "disks", new(api.ProviderID("host-id-1"))))
	p := func() *api.Provider {
		one, ok := w.store.View().Provider(theProvider)
		require.True(t, ok)
		return one
	}
	assert.Equal(t, []any{"disks", api.ProviderID("host-id-1")}, []any{p().Name, p().Parent})

	require.NoError(t, SetInventories(ctx, w.zone, theProvider, p().Generation, Inventories{api.DiskGB: {Total: 8}}))
	refused(t, SetInventories(ctx, w.zone, theProvider, p().Generation+1, nil), api.CodeStale)
	made, err := PutTrait(ctx, w.zone, "CUSTOM_A")
	require.NoError(t, err)
	assert.True(t, made)
	require.NoError(t, SetTraits(ctx, w.zone, theProvider, nil, []string{"CUSTOM_A"}))
	refused(t, DeleteTrait(ctx, w.zone, "CUSTOM_A"), api.CodeInUse)
	before := p().Generation
	require.NoError(t, SetProviderAggregates(ctx, w.zone, theProvider, nil, []string{theProvider}))
	assert.Equal(t, before, p().Generation)
	require.NoError(t, SetProviderAggregates(ctx, w.zone, theProvider, &before, nil))
	assert.Equal(t, before+1, p().Generation)
	assert.Empty(t, p().Aggregates)

	require.NoError(t, PutConsumers(ctx, w.zone, []Consumer{{
		ID: theProvider, Project: "p", User: "u", Type: new("T"), Shares: []api.Share{{Provider: theProvider, Resources: api.Resources{api.DiskGB: 8}}},
	}}, nil))
	refused(t, DeleteProvider(ctx, w.zone, theProvider), api.CodeInUse)
	require.NoError(t, DeleteConsumer(ctx, w.zone, theProvider))
	refused(t, DeleteConsumer(ctx, w.zone, theProvider), api.CodeNotFound)
	require.NoError(t, DeleteProvider(ctx, w.zone, theProvider))
}

func TestAnEditOfInventoriesIsRepeatedSomeTimes(t *testing.T) {
	for _, c := range []struct {
		times int
		want  api.Code
	}{{0, ""}, {repeatMax - 1, ""}, {repeatMax, api.CodeStale}} {
		w := newWorld(t)
		require.NoError(t, CreateProvider(t.Context(), w.zone, theProvider, "disk", ""))
		s := &busy{w.store, t, c.times}
		w.serve(s)
		edits := 0
		err := EditInventories(t.Context(), w.zone, theProvider, func(_ *state.State, _ *api.Provider, all Inventories) error {
			edits++
			all[api.DiskGB] = api.Inventory{Total: 8}
			return nil
		})
		if c.want == "" {
			require.NoError(t, err)
		} else {
			require.Equal(t, c.want, api.CodeOf(err))
		}
		assert.Equal(t, min(c.times+1, repeatMax), edits)
		assert.Zero(t, s.times)
	}
	w := newWorld(t)
	refused(t, EditInventories(t.Context(), w.zone, "none", nil), api.CodeNotFound)
}

func TestWhatIsThereIsMadeOnce(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	for _, want := range []bool{true, false} {
		made, err := PutTrait(ctx, w.zone, "CUSTOM_A")
		require.NoError(t, err)
		assert.Equal(t, want, made)
		made, err = PutClass(ctx, w.zone, "CUSTOM_B")
		require.NoError(t, err)
		assert.Equal(t, want, made)
	}
	refused(t, CreateClass(ctx, w.zone, "CUSTOM_B"), api.CodeExists)
	require.NoError(t, RenameClass(ctx, w.zone, "CUSTOM_B", "CUSTOM_C"))
	require.NoError(t, DeleteClass(ctx, w.zone, "CUSTOM_C"))
	w.serve(memstore.NewPast(w.store, w.store.View(), true))
	_, err := PutTrait(ctx, w.zone, "CUSTOM_A")
	refused(t, err, api.CodeUnavailable) // whoever led once cannot say that it is there
}

// TestTraitsInUseStay: operators take no trait from a host that what stands there was asked for with, whichever call
// would take it.
func TestTraitsInUseStay(t *testing.T) {
	w := newWorld(t)
	ctx, at, disk := t.Context(), w.zone.Stamp(), api.ProviderID(theProvider)
	w.store.Must(t, command.TraitPut{Stamp: at, Name: "CUSTOM_SSD"})
	require.NoError(t, CreateProvider(ctx, w.zone, disk, "disk", "host-id-1"))
	require.NoError(t, SetTraits(ctx, w.zone, disk, nil, []string{"CUSTOM_SSD"}))
	req := api.Request{
		Reservation: "r-1", Project: "p1", User: "somebody", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Flavor: "small", Resources: api.Resources{api.VCPU: 1}, Traits: api.Traits{Required: []string{"CUSTOM_SSD"}}}},
	}
	one := api.InstanceSpec{ID: "id-1", Name: "one"}
	w.store.Must(
		t, command.BootCreate{Stamp: at, BootTerms: command.BootTerms{Digest: []byte("one"), Name: "one", Request: req, Min: 1, Instances: []api.InstanceSpec{one}}},
		command.Hold{
			Stamp: at, ID: "hold-1", Attempt: 1, Request: req, Expires: api.Forever, Commit: true,
			Slots: []command.Slot{{Instance: one, Host: "host-id-1"}},
		},
	)
	root := api.ProviderID("")
	before := w.store.View().Index()
	takes := map[string]func() error{
		"its traits are others": func() error { return SetTraits(ctx, w.zone, disk, nil, []string{}) },
		"it is deleted":         func() error { return DeleteProvider(ctx, w.zone, disk) },
		"it leaves the host":    func() error { return RenameProvider(ctx, w.zone, disk, "disk", &root) },
	}
	for name, take := range takes {
		err := take()
		require.Equal(t, api.CodeInUse, api.CodeOf(err), "%s: %v", name, err)
		assert.ErrorContains(t, err, "CUSTOM_SSD: server id-1 was asked for with it", name)
	}
	assert.Equal(t, before, w.store.View().Index(), "a refusal writes nothing")
	same := api.ProviderID("host-id-1")
	require.NoError(t, RenameProvider(ctx, w.zone, disk, "ssd", &same))
	require.NoError(t, RenameProvider(ctx, w.zone, disk, "disk", nil))
	w.store.Must(t, command.InstanceDelete{Stamp: w.zone.Stamp(), ID: "id-1"})
	for _, name := range []string{"its traits are others", "it leaves the host", "it is deleted"} {
		require.NoError(t, takes[name](), name)
	}
}
