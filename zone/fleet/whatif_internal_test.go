package fleet

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/estimate"
)

// TestWhatIfsAtOnce: as many as the limit are answered at once, and one more is refused.
func TestWhatIfsAtOnce(t *testing.T) {
	m := memstore.New()
	z := zone.New(zone.Config{Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	m.Must(t, command.Init{Stamp: z.Stamp(), Zone: "z", Name: "zone"}, command.HostsPut{Stamp: z.Stamp(), Agent: "a", Hosts: []command.HostEntry{
		{ID: "h", Host: api.AgentHost{Name: "h", Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 2}}}},
	}})
	f := New(z, estimate.New(estimate.Config{Zone: z}))
	for range whatIfsMax - 1 {
		f.whatIfs <- struct{}{}
	}
	_, err := f.WhatIf(t.Context(), []string{"h"}, 0)
	require.NoError(t, err)
	f.whatIfs <- struct{}{}
	_, err = f.WhatIf(t.Context(), []string{"h"}, 0)
	assert.Equal(t, api.CodeOverloaded, api.CodeOf(err))
	<-f.whatIfs
	_, err = f.WhatIf(t.Context(), []string{"h"}, 0)
	assert.NoError(t, err, "a question that is answered makes room for another")
}
